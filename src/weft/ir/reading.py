"""Reading one node: what its model refuses, as problems at the place where a person wrote it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, TypeVar

from pydantic import ValidationError

from weft.errors import DocumentInvalid, Loc, Problem, json_pointer, nearest, shown
from weft.ir.nodes import Node, Unknown
from weft.ir.read import Source
from weft.ir.written import value_at, written

N = TypeVar("N", bound=Node)


def placed(problem: Problem, source: Source) -> Problem:
    """Return a problem with the pointer, the file and the line of its `loc`."""
    line, column = source.position(problem.loc) or (None, None)
    return replace(problem, pointer=json_pointer(problem.loc), file=source.name, line=line, column=column)


def read_node(model: type[N], value: Any) -> N | list[Problem]:
    """Return a node, or the problems that keep it from being one."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        return [problem_of(one, value) for one in error.errors(include_url=False)]


def made(model: type[N], body: Any) -> N:
    """Return the node that a builder describes.

    Raises:
        DocumentInvalid: with every problem of it.
    """
    result = read_node(model, body)
    if isinstance(result, list):
        raise DocumentInvalid([replace(one, pointer=json_pointer(one.loc)) for one in result])
    return result


def problem_of(error: Any, value: Any) -> Problem:
    """Return what pydantic refuses in a value as a problem, at the place where a person wrote it."""
    context: dict[str, Any] = error.get("ctx", {})
    loc: Loc = (*error["loc"], *context.get("at", ()))
    kind: str = error["type"]
    place = written(value, loc)
    if kind == "extra_forbidden":
        unknown: Unknown = error["input"]
        spellings = unknown.known
        known = sorted(set(spellings.values()))
        meant = nearest(loc[-1], spellings)
        return Problem(
            code="UnknownKey", message=f"unknown key {shown(loc[-1])}", loc=place, value=shown(loc[-1]),
            expected=f"one of {', '.join(known)}", suggestion=spellings.get(meant or "", meant),
        )  # fmt: skip
    if kind == "missing":
        message, wanted = f"missing key {shown(loc[-1])}", f"an object with {shown(loc[-1])}"
        return Problem(
            code="MissingKey", message=message, loc=place, value=shown(value_at(value, place)), expected=wanted
        )
    if "sentence" in context:
        return Problem(
            code=kind, message=context["sentence"], loc=place, value=context.get("value"),
            expected=context.get("expected"), suggestion=context.get("suggestion"),
        )  # fmt: skip
    message = _sentence(str(error["msg"]))
    given = error.get("input")
    return Problem(
        code="WrongType" if kind.endswith("_type") else "WrongValue", message=message, loc=place, value=shown(given),
        expected=_EXPECTED.sub("", message),
        suggestion=nearest(given, _QUOTED.findall(context["expected"])) if kind == "literal_error" else None,
    )  # fmt: skip


_EXPECTED = re.compile(
    r"^(input|list|string|dictionary|value) should (be|have) (a valid )?| after validation, not \d+$"
)
_QUOTED = re.compile(r"'([^']*)'")


def _sentence(message: str) -> str:
    # What a person writes is a list, whatever holds it here.
    return (message[:1].lower() + message[1:]).replace("valid tuple", "valid list")
