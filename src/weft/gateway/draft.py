"""A draft: a workflow document that somebody sends, read, with what a request says instead of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ParamSpec, TypeVar

from weft.errors import DocumentInvalid, InputError, Loc, Problem, errors_in, json_pointer, shown
from weft.expr.schemas import compile_schema
from weft.gateway.asked import InputUnfit, Options
from weft.ir.document import ToolDef
from weft.ir.normalise import Parsed, is_workflow, parse
from weft.ir.read import read
from weft.patterns.workflow import Workflow
from weft.patterns.workflow_names import MORE, MOST_WRONG
from weft.plan.typeflow import declared_input, declared_output
from weft.ports import Schema, is_array

MAX_BYTES = 256 * 1024
MOST_STEPS_AT_ONCE = 50
MOST_BYTES_AT_ONCE = 16 * 1024
"""A document of more is read, checked and compiled beside the event loop: that may take seconds."""
A = ParamSpec("A")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Draft:
    """A workflow document, read; `at` is where it stands in what was sent."""

    parsed: Parsed
    tool: ToolDef
    workflow: Workflow
    at: Loc

    @property
    def large(self) -> bool:
        """Whether it takes long enough for others to have their turn meanwhile."""
        many = len(self.workflow.steps) > MOST_STEPS_AT_ONCE
        return many or len(self.parsed.source.text) > MOST_BYTES_AT_ONCE

    def changed(self, **fields: Any) -> Draft:
        """Return the draft with other settings than its document has."""
        workflow = self.workflow.model_copy(update=fields)
        return replace(self, workflow=workflow, tool=self.tool.model_copy(update={"spec": workflow}))

    def located(self, problem: Problem) -> Problem:
        """Return a problem at its place in what was sent."""
        return _here(self.parsed.located(problem), self.at)


def read_draft(composition: Any, at: Loc = ()) -> Draft:
    """Return a workflow document.

    Raises:
        DocumentInvalid: with everything that is wrong with its form.
    """
    if not is_workflow(composition):
        told = f"{shown(composition)} is not a workflow document"
        wrong = Problem(code="WrongType", message=told, value=shown(composition), expected="an object with steps")
        raise DocumentInvalid([_here(wrong, at)])
    text = json.dumps(composition)
    if len(text) > MAX_BYTES and (size := _bytes_of(composition)) > MAX_BYTES:
        told = f"the document has {size} bytes (limit {MAX_BYTES})"
        raise InputError(told, code="DocumentTooLarge")
    parsed = parse(read(text, format="json"))
    if errors_in(parsed.problems) or not parsed.document.tools:
        raise DocumentInvalid([_here(one, at) for one in few(parsed.problems)])
    tool = parsed.resolved.tools[0]
    assert isinstance(tool.spec, Workflow)
    return Draft(parsed, tool, tool.spec, at)


async def read_beside(composition: Any, at: Loc = ()) -> Draft:
    """Return a workflow document as `read_draft` does, with others having their turn meanwhile."""
    return await beside(_is_large(composition), read_draft, composition, at)


async def beside(large: bool, work: Callable[A, T], *args: A.args, **given: A.kwargs) -> T:
    """Return what work gives; of what is large, with others having their turn meanwhile."""
    return await asyncio.to_thread(work, *args, **given) if large else work(*args, **given)


def _is_large(composition: Any) -> bool:
    if not is_workflow(composition):
        return False
    steps = composition["steps"]
    many = is_array(steps) and len(steps) > MOST_STEPS_AT_ONCE
    return many or len(json.dumps(composition)) > MOST_BYTES_AT_ONCE


def _bytes_of(composition: Any) -> int:
    """Return how many bytes a document has, as those who do not escape would send it."""
    text = json.dumps(composition, ensure_ascii=False, separators=(",", ":"))
    return len(text.encode("utf-8", "surrogatepass"))


def few(problems: Sequence[Problem]) -> list[Problem]:
    """Return the first problems, errors before warnings, and of the others how many they are."""
    ordered = sorted(problems, key=lambda one: one.severity != "error")
    rest = ordered[MOST_WRONG:]
    if not rest or [one.code for one in rest] == [MORE]:
        return ordered
    count = sum(int(one.value or 1) if one.code == MORE else 1 for one in rest)
    told = f"{count} more problems are not shown"
    more = Problem(code=MORE, message=told, value=str(count), expected="none", severity=rest[0].severity)
    return [*ordered[:MOST_WRONG], more]


def _here(problem: Problem, at: Loc) -> Problem:
    loc = (*at, *problem.loc)
    return replace(problem, loc=loc, pointer=json_pointer(loc), file=None, line=None, column=None)


def overridden(draft: Draft, options: Options) -> Draft:
    """Return a draft with what a request says instead of its document."""
    handling = draft.workflow.error_handling
    changes: dict[str, Any] = {}
    if options.max_concurrency is not None:
        changes["max_concurrency"] = options.max_concurrency
    if options.error_strategy is not None:
        changes["error_handling"] = handling.model_copy(update={"failure_strategy": options.error_strategy})
    if options.timeout is not None and draft.workflow.store is not None:
        # The run outlives its call, so that its own time has to end it.
        most = max(round(options.timeout * 1000), 1)
        changes["timeout_ms"] = min(most, draft.workflow.timeout_ms or most)
    return draft.changed(**changes) if changes else draft


def promised(draft: Draft) -> Schema | None:
    """Return the schema of what a document says that it gives; None where it says nothing."""
    return declared_output(draft.tool) or None


def check_input(draft: Draft, input: Mapping[str, Any]) -> None:
    """Make sure that a draft takes an input.

    Raises:
        InputUnfit: it does not.
    """
    found = compile_schema(declared_input(draft.tool)).problems(input)
    if found:
        raise InputUnfit(found)
