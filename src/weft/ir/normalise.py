"""From what was read to a canonical document: every spelling taken, every problem reported with its place.

The models do the work; this module feeds them one tool at a time, so that one broken tool hides no problem of another,
and translates what they refuse into problems that point into the text as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic.alias_generators import to_snake

from weft.errors import DocumentInvalid, Loc, Problem, json_pointer, nearest, shown
from weft.ir.document import Document, ToolDef
from weft.ir.loading import no_collection
from weft.ir.nodes import Node, Unknown
from weft.ir.operations import kinds
from weft.ir.read import Source
from weft.ports import is_array, is_object

N = TypeVar("N", bound=Node)

MAX_PATTERN_DEPTH = 30
TOP = ("schemaVersion", "tools", "compositions")
WRAPPERS = ("pattern", "composition")
CONSTANT = frozenset({"literal", "constant", "value"})
BESIDE = frozenset({"defaults", "hideFields", "vars", "separator", "path"})
"""Keys that some spellings put beside what they belong into."""


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
            value, rest = value_at(value, place), rest[2:]
        return placed(replace(problem, loc=(*place, *written(value, rest))), self.source)


def placed(problem: Problem, source: Source) -> Problem:
    """Return a problem with the pointer, the file and the line of its `loc`."""
    line, column = source.position(problem.loc) or (None, None)
    return replace(problem, pointer=json_pointer(problem.loc), file=source.name, line=line, column=column)


@no_collection()
def parse(source: Source) -> Parsed:
    """Return the canonical document, as far as it can be read, and every problem."""
    value: dict[str, Any] = source.value
    problems = [*_top(value)]
    tools: list[ToolDef] = []
    places: list[Loc] = []
    broken = set[str]()
    seen = dict[tuple[str, str | None], Loc]()
    for place, entry in _entries(value, problems):
        name = entry.get("name") if is_object(entry) else None
        result = _tool(entry, composed=place[0] == "compositions")
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
    told = tuple(placed(problem, source) for problem in problems)
    return Parsed(source, document, tuple(places), told, frozenset(broken))


def _duplicate(tool: ToolDef, place: Loc, first: Loc) -> Problem:
    return Problem(
        code="DuplicateName",
        message=f"two tools are named {tool.name!r}; the first is at {json_pointer(first)}",
        loc=(*place, "name"),
        value=shown(tool.name),
        expected="a name of its own, or another version",
    )


def _top(value: dict[str, Any]) -> Iterator[Problem]:
    spelt = [key for key in ("schemaVersion", "schema_version") if value.get(key) is not None]
    if len(spelt) > 1:
        yield Problem(
            code="SpeltTwice", message="'schema_version' is another spelling of 'schemaVersion', given too",
            loc=("schema_version",), value=shown("schema_version"), expected="one of them",
        )  # fmt: skip
    for key in spelt:
        version = value[key]
        if isinstance(version, float | int) and not isinstance(version, bool):
            yield Problem(
                code="WrongType", message=f"{key} is a number: quote it", loc=(key,), value=shown(version),
                expected='"1.0"',
            )  # fmt: skip
        elif version != "1.0":
            yield Problem(
                code="UnknownVersion", message=f"unknown schemaVersion {shown(version)}", loc=(key,),
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
        if is_array(entries):
            for index, entry in enumerate(entries):
                yield (key, index), entry
        elif entries is not None:
            problems.append(
                Problem(
                    code="WrongType", message=f"{key} is not a list", loc=(key,), value=shown(entries),
                    expected="a list",
                )
            )  # fmt: skip


def _tool(entry: Any, *, composed: bool) -> ToolDef | list[Problem]:
    """Read one tool; the problems are placed relative to it, as it was written."""
    if too_deep := _too_deep(entry):
        return [too_deep]
    result = read_node(ToolDef, entry)
    if composed and isinstance(result, ToolDef) and result.spec is None:
        expected = "a pattern under 'spec'; what an upstream has stands in tools"
        return [Problem(code="MissingKey", message="missing key 'spec'", expected=expected)]
    return result


def _too_deep(entry: Any) -> Problem | None:
    depth, loc = pattern_depth(entry)
    if depth <= MAX_PATTERN_DEPTH:
        return None
    return Problem(
        code="MaxPatternDepth", message=f"patterns are nested {depth} deep", loc=loc, value=f"{depth} deep",
        expected=f"at most {MAX_PATTERN_DEPTH}; give inner ones a name of their own",
    )  # fmt: skip


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
    return message[:1].lower() + message[1:]


def written(value: Any, loc: Sequence[str | int]) -> Loc:
    """Translate a place in the canonical form into the place where a person wrote it.

    Other spellings leave keys out, rename them, wrap them or put beside a value what belongs into it; a key that is
    nowhere to be found leaves the place as it is.
    """
    out: list[str | int] = []
    parent: Any = None
    for key in loc:
        if steps := _steps(value, key):
            parent = value
        elif key in BESIDE and (steps := _steps(parent, key)):
            value = parent
            del out[-1:]
        for step in steps:
            value = value[step]
            out.append(step)
    return tuple(out)


def _steps(value: Any, key: str | int) -> list[str | int]:
    if is_array(value):
        return [key] if isinstance(key, int) and key < len(value) else []
    if not is_object(value) or not isinstance(key, str):
        return []
    if key in value:
        return [key]
    for spelling in (_snake(key), *_other_spellings().get(key, ())):
        if spelling in value:
            return [spelling]
    for wrapper in WRAPPERS:
        if is_object(inner := value.get(wrapper)) and (steps := _steps(inner, key)):
            return [wrapper, *steps]
    return []


_snake = lru_cache(maxsize=1024)(to_snake)


@lru_cache(maxsize=1)
def _other_spellings() -> dict[str, tuple[str, ...]]:
    found: dict[str, set[str]] = {
        "predicate": {"when", "condition"},
        # What v1 documents say in an output schema.
        "outputTransform": {"outputSchema", "output_schema"},
        "mappings": {"properties"},
        "path": {"sourceField", "source_field"},
    }
    pending = [Node]
    while pending:
        model = pending.pop()
        pending += model.__subclasses__()
        for spelling, canonical in model.spellings().items():
            if spelling != canonical:
                found.setdefault(canonical, set()).add(spelling)
    return {canonical: tuple(sorted(spellings)) for canonical, spellings in found.items()}


def value_at(value: Any, loc: Loc) -> Any:
    """Return what stands at a place."""
    for key in loc:
        value = value[key]
    return value


def pattern_depth(entry: Any) -> tuple[int, Loc]:
    """Return how many patterns of a tool are nested in each other, and where the deepest that is allowed stands.

    This looks at the text as it was written, so that what is too deep is never read any further.
    """
    names = {*kinds(), *(to_snake(kind) for kind in kinds())} - {"tool", "composition", "agent"}
    deepest, place = 0, ()
    top = entry if is_object(entry) else {}
    pending: list[tuple[Any, int, Any]] = [
        (top.get(key), 0, (None, key)) for key in ("spec", "outputTransform", "output_transform")
    ]
    while pending:
        item, depth, trail = pending.pop()
        if is_object(item):
            if isinstance(item.get("pattern"), str):
                depth += 1
            if depth > deepest:
                deepest, place = depth, trail if depth <= MAX_PATTERN_DEPTH + 1 else place
            pending += [
                (inner, depth + (key in names and isinstance(inner, dict)), (trail, key))
                for key, inner in item.items()
                if key not in CONSTANT
            ]
        elif is_array(item):
            pending += [(inner, depth, (trail, index)) for index, inner in enumerate(item)]
    return deepest, _loc(place)


def _loc(trail: Any) -> Loc:
    out: list[str | int] = []
    while trail:
        trail, key = trail
        out.append(key)
    return tuple(reversed(out))
