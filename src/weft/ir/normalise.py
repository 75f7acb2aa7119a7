"""From what was read to a canonical document: every spelling taken, every problem reported with its place.

The models do the work; this module feeds them one entity at a time, so that one broken tool hides no problem of
another, and translates what they refuse into problems that point into the text as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any

from weft.errors import Loc, Problem, json_pointer, nearest, shown
from weft.ir.document import LISTS, SECTIONS, Document, ToolDef
from weft.ir.entities import AgentEntity, SchemaEntity, ServerEntity
from weft.ir.fields import NAME_EXPECTED, Entity, Kind, why_not_a_name
from weft.ir.groups import GroupDef
from weft.ir.including import INCLUDE, files_of
from weft.ir.loading import no_collection
from weft.ir.nodes import Node
from weft.ir.read import Source
from weft.ir.reading import made, placed, problem_of, read_node
from weft.ir.resolve import resolve
from weft.ir.versions import is_exact, refused
from weft.ir.written import MAX_PATTERN_DEPTH, pattern_depth, value_at, written
from weft.ports import is_array, is_object

__all__ = [
    "MAX_PATTERN_DEPTH",
    "Parsed",
    "Written",
    "made",
    "parse",
    "parse_alone",
    "pattern_depth",
    "placed",
    "problem_of",
    "read_node",
    "value_at",
    "written",
]

TOP = ("schemaVersion", *LISTS, "compositions")
KINDS: Mapping[str, tuple[Kind, type[Entity]]] = {
    "schemas": ("schema", SchemaEntity),
    "servers": ("server", ServerEntity),
    "tools": ("tool", ToolDef),
    "compositions": ("tool", ToolDef),
    "agents": ("agent", AgentEntity),
}
MODELS: Mapping[str, type[Node]] = {**{key: model for key, (_, model) in KINDS.items()}, "groups": GroupDef}
"""What stands under each key that holds a list."""


@dataclass(frozen=True, slots=True)
class Written:
    """Where an entity was written: the file, and the place in it."""

    source: Source
    loc: Loc


@dataclass(frozen=True, slots=True)
class Parsed:
    """A document with the entities that are well-formed, where each was written, and what is wrong with the others."""

    source: Source
    document: Document
    """As it was written: references between schemas are references."""
    resolved: Document
    """The same with plain schemas: nothing in them refers to another entity."""
    places: Mapping[str, tuple[Written, ...]]
    """Of each section, where its entities were written."""
    problems: tuple[Problem, ...]
    broken: frozenset[str]
    """Names of tools that could not be read: they exist, whatever is wrong with them."""
    unread: frozenset[tuple[Kind, str]]
    """The same of every kind of entity."""

    def located(self, problem: Problem) -> Problem:
        """Return a problem of the canonical document with its place in the text."""
        source, place, value, rest = self.source, (), self.source.value, problem.loc
        if len(rest) > 1 and rest[0] in self.places and isinstance(rest[1], int):
            entity = self.places[str(rest[0])][rest[1]]
            source, place = entity.source, entity.loc
            value, rest = value_at(source.value, place), rest[2:]
        return placed(replace(problem, loc=(*place, *written(value, rest))), source)


@no_collection()
def parse(source: Source, *, folder: Path | None = None) -> Parsed:
    """Return the canonical document, as far as it can be read, and every problem.

    `folder` is where the files are that the document may include; without one it may include none.
    """
    files, problems = files_of(source, folder)
    version = "2.0" if _version(source.value) == "2.0" else "1.0"
    reading = _Reading(version == "2.0", problems)
    for file in files:
        if not is_workflow(file.value):
            reading.problems += [placed(one, file) for one in _top(file.value, version, included=file is not source)]
        reading.read(file)
    held = {key: listed for key, listed in reading.held.items() if listed}
    document = Document.model_validate({**({"schemaVersion": version} if version != "1.0" else {}), **held})
    resolved, wrong = resolve(document)
    places = {section: tuple(several) for section, several in reading.places.items()}
    unread = frozenset(reading.unread)
    broken = frozenset(name for kind, name in unread if kind == "tool")
    parsed = Parsed(source, document, resolved, places, (), broken, unread)
    told = (*reading.problems, *(parsed.located(one) for one in wrong))
    return replace(parsed, problems=told)


def parse_alone(source: Source) -> Parsed:
    """Return one file of a document, whatever it includes: a reference may lead into another file."""
    without = {key: value for key, value in source.value.items() if key != INCLUDE}
    parsed = parse(replace(source, value=without))
    several = INCLUDE in source.value
    kept = [one for one in parsed.problems if not (several and one.code in ("UnknownRef", "AmbiguousRef"))]
    return replace(parsed, problems=tuple(kept))


def is_workflow(value: Any) -> bool:
    """Tell whether a document is one workflow, with nothing around it."""
    return is_object(value) and "steps" in value and not any(key in value for key in (*TOP, "schema_version", INCLUDE))


def _named(file: Source) -> dict[str, Any]:
    """Return a workflow document with a name: its own, else that of its file."""
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", PurePath(file.name).stem).strip("-.") or "workflow"
    return file.value if file.value.get("name") is not None else {**file.value, "name": name}


def _version(value: dict[str, Any]) -> Any:
    return value.get("schemaVersion", value.get("schema_version"))


@dataclass(slots=True)
class _Reading:
    """Reads the entities of one file after another, and remembers what there is."""

    versioned: bool
    problems: list[Problem]
    held: dict[str, list[Node]] = field(default_factory=lambda: {key: [] for key in LISTS})
    places: dict[str, list[Written]] = field(default_factory=lambda: {key: [] for key in LISTS})
    unread: set[tuple[Kind, str]] = field(default_factory=set[tuple[Kind, str]])
    _seen: dict[tuple[str, str, str | None], Written] = field(
        default_factory=dict[tuple[str, str, str | None], Written]
    )

    def read(self, file: Source) -> None:
        """Read every entity and every group of a file."""
        problems: list[Problem] = []
        for place, entry in _entries(file, problems):
            key = str(place[0]) if place else "tools"
            kind, model = KINDS[key]
            if not self.versioned and kind != "tool":
                continue
            result = self._entity(kind, model, entry, composed=key == "compositions")
            if isinstance(result, list):
                problems += [one.moved(*place) for one in result]
                if is_object(entry) and isinstance(name := entry.get("name"), str):
                    self.unread.add((kind, name))
            else:
                self._keep(f"{kind}s", result, Written(file, place), problems)
        for place, entry in _listed(file, "groups", problems):
            group = read_node(GroupDef, entry)
            if isinstance(group, list):
                problems += [one.moved(*place) for one in group]
            else:
                self._keep("groups", group, Written(file, place), problems)
        self.problems += [placed(problem, file) for problem in problems]

    def _entity(self, kind: Kind, model: type[Entity], entry: Any, *, composed: bool) -> Entity | list[Problem]:
        if kind != "tool":
            return read_node(model, entry)
        result = _tool(entry, composed=composed)
        strict = [*_unversioned(entry)] if self.versioned and is_object(entry) else []
        return result if not strict else [*strict, *(result if isinstance(result, list) else [])]

    def _keep(self, key: str, one: Any, at: Written, problems: list[Problem]) -> None:
        identity = (key, one.name, getattr(one, "version", None))
        if identity in self._seen:
            problems.append(_duplicate(identity, at, self._seen[identity]))
            return
        self._seen[identity] = at
        self.held[key].append(one)
        self.places[key].append(at)


def _duplicate(identity: tuple[str, str, str | None], at: Written, first: Written) -> Problem:
    key, name, given = identity
    version = f" in version {given}" if given is not None else ""
    file = f"{first.source.name}: " if first.source is not at.source else ""
    return Problem(
        code="DuplicateName",
        message=f"two {key} are named {name!r}{version}; the first is at {file}{json_pointer(first.loc)}",
        loc=(*at.loc, "name"),
        value=shown(name),
        expected="a name of its own" if key == "groups" else "a name of its own, or another version",
    )


def _top(value: dict[str, Any], version: str, *, included: bool) -> Iterator[Problem]:
    spelt = [key for key in ("schemaVersion", "schema_version") if value.get(key) is not None]
    if len(spelt) > 1:
        yield Problem(
            code="SpeltTwice", message="'schema_version' is another spelling of 'schemaVersion', given too",
            loc=("schema_version",), value=shown("schema_version"), expected="one of them",
        )  # fmt: skip
    for key in spelt:
        yield from _check_version(key, value[key], version, included=included)
    # What has nothing of a registry may be a workflow document that lacks its steps.
    known = TOP if any(key in value for key in (*TOP, "schema_version", INCLUDE)) else (*TOP, "steps")
    for key, held in value.items():
        if key not in (*TOP, "schema_version") and not key.startswith("$"):
            yield Problem(
                code="UnknownKey", message=f"unknown key {shown(key)}", loc=(key,), value=shown(key),
                expected=f"one of {', '.join(known)}", suggestion=nearest(key, known),
            )  # fmt: skip
        elif key in SECTIONS and key != "tools" and version == "1.0" and held:
            yield Problem(
                code="UnknownKey", message=f"{key!r} needs schemaVersion \"2.0\"", loc=(key,), value=shown(key),
                expected='"schemaVersion": "2.0" at the top of the document',
            )  # fmt: skip
    if version == "2.0" and not included and not any(key in value for key in (*TOP[1:], INCLUDE)):
        expected = f"at least one of {', '.join(LISTS)}"
        yield Problem(code="MissingKey", message="missing key 'tools'", expected=expected)


def _check_version(key: str, given: Any, version: str, *, included: bool) -> Iterator[Problem]:
    if isinstance(given, float | int) and not isinstance(given, bool):
        yield Problem(
            code="WrongType", message=f"{key} is a number: quote it", loc=(key,), value=shown(given),
            expected='"1.0" or "2.0"',
        )  # fmt: skip
    elif given not in ("1.0", "2.0"):
        yield Problem(
            code="UnknownVersion", message=f"unknown schemaVersion {shown(given)}", loc=(key,), value=shown(given),
            expected='"1.0" or "2.0"',
        )  # fmt: skip
    elif included and given != version:
        yield Problem(
            code="UnknownVersion", message=f"schemaVersion {shown(given)} in a document of {version}", loc=(key,),
            value=shown(given), expected=f'"{version}", as the document that includes this one',
        )  # fmt: skip


def _entries(file: Source, problems: list[Problem]) -> Iterator[tuple[Loc, Any]]:
    if is_workflow(file.value):
        yield (), _named(file)
        return
    for key in KINDS:
        yield from _listed(file, key, problems)


def _listed(file: Source, key: str, problems: list[Problem]) -> Iterator[tuple[Loc, Any]]:
    entries = file.value.get(key)
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


def _unversioned(entry: dict[str, Any]) -> Iterator[Problem]:
    """Report what version 2 of a registry asks of a tool beyond version 1."""
    name, version = entry.get("name"), entry.get("version")
    if name is not None and (reason := why_not_a_name(name, "tool")) is not None:
        yield Problem(code="InvalidName", message=reason, loc=("name",), value=shown(name), expected=NAME_EXPECTED)
    if version is None:
        told = f"tool {shown(name)} has no version"
        yield Problem(code="MissingKey", message=told, expected="an exact version such as 1.0.0")
    elif not is_exact(version):
        yield refused(version, "version")
    source = entry.get("source")
    if source is None and entry.get("spec") is None and "steps" not in entry:
        told = f"tool {shown(name)} has neither source nor spec"
        yield Problem(code="ExactlyOne", message=told, value="none", expected="one of them")
    if is_object(source):
        key = "serverVersion" if "serverVersion" in source else "server_version"
        if source.get(key) is None:
            told = f"the source of tool {shown(name)} does not say which version of the server"
            yield Problem(code="MissingKey", message=told, loc=("source",), expected="serverVersion, an exact version")
        elif not is_exact(source[key]):
            yield refused(source[key], "source", key)


def _too_deep(entry: Any) -> Problem | None:
    depth, loc = pattern_depth(entry)
    if depth <= MAX_PATTERN_DEPTH:
        return None
    return Problem(
        code="MaxPatternDepth", message=f"patterns are nested {depth} deep", loc=loc, value=f"{depth} deep",
        expected=f"at most {MAX_PATTERN_DEPTH}; give inner ones a name of their own",
    )  # fmt: skip
