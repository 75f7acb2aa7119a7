"""Case files (`*.weft-test.yaml`): tool, input, canned answers and what is expected, for `weft test`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field, model_validator

from weft.app import Registry, Upstreams, callable_in, groups_of, open_registry
from weft.dsl.local import LocalTools
from weft.dsl.modules import read_module
from weft.errors import DocumentInvalid, Loc, NotFound, Problem, errors_in, shown
from weft.ir.document import Document
from weft.ir.nodes import AnyJson, Node, refuse
from weft.ir.normalise import placed, read_node
from weft.ir.read import Source, read_file
from weft.ports import Upstream, is_array, is_object
from weft.testing.answers import read_answers
from weft.testing.canned import Answer, Canned


class Expect(Node):
    """What a case expects; what is not named is not looked at, but an error must be expected to be well."""

    keeps_null: ClassVar[frozenset[str]] = frozenset({"value", "contains"})

    value: AnyJson = None
    contains: AnyJson = None
    error: str | None = None
    warnings: AnyJson = None
    calls: AnyJson = None

    @classmethod
    def spell(cls, value: Any) -> Any:
        """Refuse what is no object in the words of a case file."""
        return _object(value, f"an object with some of {', '.join(cls.model_fields)}")

    @model_validator(mode="after")
    def _sensible(self) -> Expect:
        if not self.model_fields_set:
            raise refuse(
                "ExpectsNothing", "nothing is expected", expected=f"one of {', '.join(type(self).model_fields)}"
            )
        if self.error is not None and self.model_fields_set & {"value", "contains"}:
            raise refuse("Impossible", "a case that ends with an error has no value", expected="error, or a value")
        if self.warnings is not None and not (_is_count(self.warnings) or _are_names(self.warnings)):
            raise refuse("WrongType", "warnings are a list of texts, or how many", value=shown(self.warnings))
        if self.calls is not None and not (_are_names(self.calls) or _are_counts(self.calls)):
            raise refuse("WrongType", "calls are a list of tools, or tools with counts", value=shown(self.calls))
        return self


def _object(value: Any, expected: str) -> Any:
    if not is_object(value):
        raise refuse("WrongType", f"{shown(value)} is not an object", value=shown(value), expected=expected)
    return value


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _are_names(value: Any) -> bool:
    return is_array(value) and all(isinstance(one, str) for one in value)


def _are_counts(value: Any) -> bool:
    return is_object(value) and all(_is_count(one) for one in value.values())


class _WrittenCase(Node):
    """One case as it is written."""

    keeps_null: ClassVar[frozenset[str]] = frozenset({"input"})

    name: str = Field(min_length=1)
    tool: str
    input: AnyJson = None
    mocks: AnyJson = None
    expect: Expect

    @classmethod
    def spell(cls, value: Any) -> Any:
        """Refuse what is no object in the words of a case file."""
        return _object(value, "a case: an object with name, tool, input and expect")


class _WrittenFile(Node):
    """A case file as it is written."""

    registry: str
    tools: str | None = None
    mocks: AnyJson = None
    cases: list[_WrittenCase] = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class Case:
    """One case, ready to run."""

    name: str
    tool: str
    input: Any
    answers: Mapping[str, Answer]
    document: Document
    expect: Expect


@dataclass(frozen=True, slots=True)
class CaseFile:
    """The cases of a file and the Python tools that they share."""

    path: Path
    tools: tuple[Upstream, ...]
    cases: tuple[Case, ...]


def read_case_file(path: Path) -> CaseFile:
    """Read a case file and the registry and tools that it names.

    Raises:
        DocumentInvalid: with every problem of any of them.
    """
    source = read_file(path)
    written = read_node(_WrittenFile, source.value)
    if isinstance(written, list):
        raise DocumentInvalid([placed(problem, source) for problem in written])
    problems: list[Problem] = []
    shared = {} if written.mocks is None else read_answers(written.mocks, ("mocks",), problems)
    answers = [
        {**shared, **({} if case.mocks is None else read_answers(case.mocks, ("cases", index, "mocks"), problems))}
        for index, case in enumerate(written.cases)
    ]
    registry, tools, elsewhere = _opened(written, path, source)
    upstreams = () if registry is None else (*tools, registry.tools)
    cases: list[Case] = []
    for index, (case, canned) in enumerate(zip(written.cases, answers, strict=True)):
        if registry is None:
            break
        try:
            document = callable_in(registry.document, case.tool, Upstreams([Canned(canned), *upstreams]))
        except NotFound as error:
            problems.append(_unknown_tool(error, ("cases", index, "tool"), case.tool))
            continue
        cases.append(Case(case.name, case.tool, case.input, canned, document, case.expect))
    found = [*(placed(problem, source) for problem in problems), *elsewhere]
    if found:
        raise DocumentInvalid(found)
    return CaseFile(path, upstreams, tuple(cases))


def _opened(
    written: _WrittenFile, path: Path, source: Source
) -> tuple[Registry | None, tuple[Upstream, ...], list[Problem]]:
    """Open what a case file names; a file that cannot be opened is a problem of the line that names it."""
    problems: list[Problem] = []
    registry: Registry | None = None
    tools: tuple[Upstream, ...] = ()
    try:
        registry = open_registry(path.parent / written.registry).valid()
    except DocumentInvalid as error:
        problems += _told(error, ("registry",), written.registry, source)
    try:
        if written.tools is not None:
            module = read_module(path.parent / written.tools)
            tools = (LocalTools(module.tools), groups_of(module))
    except DocumentInvalid as error:
        problems += _told(error, ("tools",), written.tools or "", source)
    return registry, tools, problems


def _told(error: DocumentInvalid, loc: Loc, name: str, source: Source) -> list[Problem]:
    wrong = errors_in(error.problems)
    if wrong[0].code != "UnreadableFile":
        return wrong
    missing = Problem(code="UnreadableFile", message=wrong[0].message, loc=loc, value=shown(name))
    return [placed(missing, source)]


def _unknown_tool(error: NotFound, loc: Loc, name: str) -> Problem:
    message = error.message + (f"; {error.hint}" if error.hint else "")
    return Problem(code="UnknownName", message=message, loc=loc, value=shown(name))
