"""From what was read to a canonical document: every spelling taken, every problem reported with its place.

The models do the work; this module feeds them one tool at a time, so that one broken tool hides no problem of another,
and translates what they refuse into problems that point into the text as it was written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeAlias, cast

from pydantic import ValidationError
from pydantic.alias_generators import to_snake

from weft.errors import Problem, nearest, shown
from weft.ir.document import Document, ToolDef
from weft.ir.nodes import Node
from weft.ir.operations import kinds
from weft.ir.read import Source, pointer

Loc: TypeAlias = "tuple[str | int, ...]"

MAX_PATTERN_DEPTH = 30
TOP = ("schemaVersion", "tools", "compositions")
WRAPPERS = ("pattern", "composition", "operation", "function")


@dataclass(frozen=True, slots=True)
class Parsed:
    """A document with the tools that are well-formed, where each was written, and what is wrong with the others."""

    source: Source
    document: Document
    places: tuple[Loc, ...]
    problems: tuple[Problem, ...]
    broken: frozenset[str]
    """Names of tools that could not be read: they exist, whatever is wrong with them."""

    def located(self, problem: Problem) -> Problem:
        """Return a problem of the canonical document with its place in the text."""
        place, value, rest = (), self.source.value, problem.loc
        if len(rest) > 1 and rest[0] == "tools" and isinstance(rest[1], int):
            place = self.places[rest[1]]
            value, rest = _at(value, place), rest[2:]
        return at(replace(problem, loc=(*place, *written(value, rest))), self.source)


def at(problem: Problem, source: Source) -> Problem:
    """Return a problem with the pointer, the file and the line of its `loc`."""
    line, column = source.position(problem.loc) or (None, None)
    return replace(problem, pointer=pointer(problem.loc), file=source.name, line=line, column=column)


def parse(source: Source) -> Parsed:
    """Return the canonical document, as far as it can be read, and every problem."""
    value: dict[str, Any] = source.value
    problems = [*_top(value)]
    tools: list[ToolDef] = []
    places: list[Loc] = []
    broken = set[str]()
    seen = dict[tuple[str, str | None], Loc]()
    for place, entry in _entries(value, problems):
        name = cast("dict[str, Any]", entry).get("name") if isinstance(entry, dict) else None
        result = _tool(entry)
        if isinstance(result, list):
            problems += [one.moved(*place) for one in result]
            broken.update([name] if isinstance(name, str) else [])
            continue
        identity = (result.name, result.version)
        if identity in seen:
            problems.append(_duplicate(result, place, seen[identity]))
            continue
        seen[identity] = place
        tools.append(result)
        places.append(place)
    document = Document(tools=tools) if tools else Document()
    told = tuple(at(problem, source) for problem in problems)
    return Parsed(source, document, tuple(places), told, frozenset(broken))


def _duplicate(tool: ToolDef, place: Loc, first: Loc) -> Problem:
    return Problem(
        code="DuplicateName",
        message=f"two tools are named {tool.name!r}; the first is at {pointer(first)}",
        loc=(*place, "name"),
        value=shown(tool.name),
        expected="a name of its own, or another version",
    )


def _top(value: dict[str, Any]) -> Iterator[Problem]:
    version = value.get("schemaVersion", value.get("schema_version"))
    if isinstance(version, float | int):
        yield Problem(
            code="WrongType", message="schemaVersion is a number: quote it", loc=("schemaVersion",),
            value=shown(version), expected='"1.0"',
        )  # fmt: skip
    elif version not in (None, "1.0"):
        yield Problem(
            code="UnknownVersion", message=f"unknown schemaVersion {shown(version)}", loc=("schemaVersion",),
            value=shown(version), expected='"1.0"',
        )  # fmt: skip
    for key in value:
        if key not in (*TOP, "schema_version") and not key.startswith("$"):
            yield Problem(
                code="UnknownKey", message=f"unknown key {shown(key)}", loc=(key,), value=shown(key),
                expected=f"one of {', '.join(TOP)}", suggestion=nearest(key, TOP),
            )  # fmt: skip


def _entries(value: dict[str, Any], problems: list[Problem]) -> Iterator[tuple[Loc, Any]]:
    for key in ("tools", "compositions"):
        entries = value.get(key)
        if isinstance(entries, list):
            for index, entry in enumerate(cast("list[Any]", entries)):
                yield (key, index), entry
        elif entries is not None:
            problems.append(Problem(code="WrongType", message=f"{key} is not a list", loc=(key,), expected="a list"))


def _tool(entry: Any) -> ToolDef | list[Problem]:
    """Read one tool; the problems are placed relative to it, as it was written."""
    if (depth := pattern_depth(entry)) > MAX_PATTERN_DEPTH:
        return [
            Problem(
                code="MaxPatternDepth", message=f"patterns are nested {depth} deep",
                expected=f"at most {MAX_PATTERN_DEPTH}; give inner ones a name of their own",
            )
        ]  # fmt: skip
    return read_node(ToolDef, entry)


def read_node(model: type[Node], value: Any) -> Any:
    """Return a node, or the problems that keep it from being one."""
    unknown: dict[str, set[str]] = {}
    try:
        return model.model_validate(value, context=unknown)
    except ValidationError as error:
        return [_problem(one, value, unknown) for one in error.errors(include_url=False)]


def _problem(error: Any, value: Any, unknown: dict[str, set[str]]) -> Problem:
    loc: Loc = error["loc"]
    context: dict[str, Any] = error.get("ctx", {})
    kind: str = error["type"]
    place = written(value, loc)
    if kind == "extra_forbidden":
        known = sorted(unknown.get(str(loc[-1]), ()))
        return Problem(
            code="UnknownKey", message=f"unknown key {shown(loc[-1])}", loc=place, value=shown(loc[-1]),
            expected=f"one of {', '.join(known)}" if known else None, suggestion=nearest(loc[-1], known),
        )  # fmt: skip
    if kind == "missing":
        return Problem(code="MissingKey", message=f"missing key {shown(loc[-1])}", loc=place)
    if "sentence" in context:
        told = {key: context.get(key) for key in ("value", "expected", "suggestion")}
        return Problem(code=kind, message=context["sentence"], loc=place, **told)
    expected = context.get("expected")
    return Problem(
        code="WrongType" if kind.endswith("_type") else "WrongValue",
        message=_sentence(str(error["msg"])),
        loc=place,
        value=shown(error.get("input")),
        expected=str(expected) if expected is not None else None,
    )


def _sentence(message: str) -> str:
    return message[:1].lower() + message[1:]


def written(value: Any, loc: Sequence[str | int]) -> Loc:
    """Translate a place in the canonical form into the place where a person wrote it.

    Other spellings leave keys out, rename them or wrap them; a key that is nowhere to be found leaves the place as it is.
    """
    out: list[str | int] = []
    for key in loc:
        for step in _steps(value, key):
            value = value[step]
            out.append(step)
    return tuple(out)


def _steps(value: Any, key: str | int) -> list[str | int]:
    if isinstance(value, list):
        return [key] if isinstance(key, int) and key < len(cast("list[Any]", value)) else []
    if not isinstance(value, dict) or not isinstance(key, str):
        return []
    given = cast("dict[str, Any]", value)
    for spelling in (key, to_snake(key), *_other_spellings().get(key, ())):
        if spelling in given:
            return [spelling]
    for wrapper in WRAPPERS:
        if isinstance(inner := given.get(wrapper), dict) and (steps := _steps(inner, key)):
            return [wrapper, *steps]
    return []


@lru_cache(maxsize=1)
def _other_spellings() -> dict[str, tuple[str, ...]]:
    found: dict[str, set[str]] = {"predicate": {"when", "condition"}, "path": {"sourceField"}}
    pending = [Node]
    while pending:
        model = pending.pop()
        pending += model.__subclasses__()
        for spelling, canonical in model.spellings().items():
            if spelling != canonical:
                found.setdefault(canonical, set()).add(spelling)
    return {canonical: tuple(sorted(spellings)) for canonical, spellings in found.items()}


def _at(value: Any, loc: Loc) -> Any:
    for key in loc:
        value = value[key]
    return value


def pattern_depth(value: Any) -> int:
    """Return how many patterns are nested in each other, looking at the text as it was written."""
    names = {*kinds(), *(to_snake(kind) for kind in kinds()), "pattern"} - {"tool", "composition", "agent"}
    deepest, pending = 0, [(value, 0)]
    while pending:
        item, depth = pending.pop()
        deepest = max(deepest, depth)
        if isinstance(item, dict):
            given = cast("dict[str, Any]", item)
            for key, inner in given.items():
                nested = key in names and (isinstance(inner, dict) or key == "pattern") and key != "pattern"
                tagged = key == "pattern" and isinstance(inner, str)
                pending.append((inner, depth + (1 if nested or tagged else 0)))
        elif isinstance(item, list):
            pending += [(inner, depth) for inner in cast("list[Any]", item)]
    return deepest
