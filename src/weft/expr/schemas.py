"""JSON Schema checks: compiled once, never fetching anything, bounded in what they may cost.

Regular expressions run on the linear engine, so `^(a+)+$` is evaluated safely; what needs backtracking is refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, cast
from urllib.parse import quote, unquote

import jsonschema_rs

from weft.errors import ExpressionInvalid, LimitExceeded, nearest

MAX_DEPTH: Final = 64
MAX_SUBSCHEMAS: Final = 5_000
MAX_PATTERNS: Final = 500
MAX_LARGE_PATTERNS: Final = 10
"""Those that take milliseconds to compile, such as a bounded run of Unicode letters."""
MAX_TOGETHER: Final = 1_000
"""Subschemas that may apply to one place of a value, with references followed."""
MAX_ALONG: Final = 20_000
"""The same, summed from the top of a value down to its deepest place."""
MAX_TRIED: Final = 1_000_000
MAX_EXPLAINED: Final = 2_000
MAX_PROBLEMS: Final = 20

_HOME: Final = "weft:///schema/"
_LINEAR: Final = jsonschema_rs.RegexOptions(size_limit=8 * 1024 * 1024)
_SMALL: Final = jsonschema_rs.RegexOptions(size_limit=256 * 1024)
_TYPES: Final = ("array", "boolean", "integer", "null", "number", "object", "string")
_IN_PLACE: Final = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies")
_MAPS: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")
_OF_ITEMS: Final = ("items", "additionalItems", "unevaluatedItems", "contains", "prefixItems")
_OTHERS: Final = ("additionalProperties", "unevaluatedProperties", "propertyNames", "contentSchema")
_SUBSCHEMAS: Final = frozenset((*_IN_PLACE, *_MAPS, *_OF_ITEMS, *_OTHERS))
_DRAFTS: Final = frozenset(
    f"{scheme}://json-schema.org/{draft}/schema"
    for scheme in ("http", "https")
    for draft in ("draft-04", "draft-06", "draft-07", "draft/2019-09", "draft/2020-12")
)
_REFS: Final = ("$ref", "$dynamicRef", "$recursiveRef")


@dataclass(frozen=True, slots=True)
class SchemaProblem:
    """One way in which a value does not match: where in the value, and which keyword says so."""

    pointer: str
    message: str
    keyword: str


class SchemaCheck:
    """A compiled schema."""

    def __init__(self, validator: jsonschema_rs.Validator, branching: int) -> None:
        self._validator = validator
        self._branching = branching

    def accepts(self, value: Any) -> bool:
        """Tell whether the value matches.

        Raises:
            LimitExceeded: the schema tries alternatives at each level of a value that is too deep for that.
        """
        if self._tries(value) > MAX_TRIED:
            raise LimitExceeded("SchemaCost", MAX_TRIED, "the value is too deep for a recursive schema of alternatives")
        try:
            return self._validator.is_valid(value)
        except ValueError:
            return False

    def problems(self, value: Any) -> list[SchemaProblem]:
        """Return why the value does not match: nothing when it does, at most the first 20 reasons.

        Of a large value it is the first reason alone: the library lists all before it hands out one.
        """
        if self.accepts(value):
            return []
        if self._tries(value) > MAX_EXPLAINED:
            return [SchemaProblem("", "matches none of the alternatives of a recursive schema", "anyOf")]
        try:
            if _larger(value, MAX_EXPLAINED):
                self._validator.validate(value)
            return [_problem(error) for error in islice(self._validator.iter_errors(value), MAX_PROBLEMS)]
        except jsonschema_rs.ValidationError as error:
            return [_problem(error)]
        except ValueError as error:
            return [SchemaProblem("", f"is not JSON: {_short(str(error))}", "type")]

    def _tries(self, value: Any) -> float:
        if self._branching < 2:
            return 1
        return math.exp(min(100.0, _depth(value) * math.log(self._branching)))


def compile_schema(schema: Mapping[str, Any], refs: Mapping[str, Mapping[str, Any]] | None = None) -> SchemaCheck:
    """Return the check that a schema says: 2020-12, or the draft that `$schema` names.

    `$ref: "#Name:1.0.0"` and `"#Name"` are looked up in `refs`; a local anchor of that name comes first.

    Raises:
        ExpressionInvalid: not a schema, too complex, a reference that leads elsewhere, nowhere or in a circle, or a
            regular expression that needs backtracking.
    """
    reader = _Reader(refs or {})
    root = reader.read("", schema)
    for name, document in reader.documents.items():
        _check_meta(name, document)
    cost = _Cost()
    cost.along(root)
    _check_patterns(reader.patterns)
    others = [(_HOME + quote(name, safe=":"), held) for name, held in reader.documents.items() if name]
    registry = jsonschema_rs.Registry(others) if others else None
    try:
        validator = jsonschema_rs.validator_for(
            reader.documents[""], registry=registry, pattern_options=_LINEAR, offline=True
        )
    except ValueError as error:
        raise _invalid("", "", _short(str(error))) from None
    return SchemaCheck(validator, cost.branching)


@dataclass(slots=True, eq=False)
class _Node:
    """One subschema: its rewritten text, and the subschemas that apply with it or below it."""

    where: str
    text: dict[str, Any]
    together: list[_Node] = field(default_factory=list["_Node"])
    below: list[tuple[str, _Node]] = field(default_factory=list[tuple[str, "_Node"]])


class _Reader:
    """Reads a schema and all that it refers to, copying each with its references rewritten."""

    def __init__(self, refs: Mapping[str, Mapping[str, Any]]) -> None:
        self._refs = refs
        self._nodes: dict[str, _Node] = {}
        self._count = 0
        self._level = 0
        self.documents: dict[str, dict[str, Any]] = {}
        self.patterns: dict[str, str] = {}

    def read(self, name: str, schema: Mapping[str, Any]) -> _Node:
        if (known := self._nodes.get(f"{name}#")) is not None:
            return known
        own: list[_Node] = []
        root = self._walk(name, "", schema, own)
        self.documents[name] = root.text
        identity = root.text.pop("$id", None)
        for node in own:
            for keyword in _REFS:
                if isinstance(ref := node.text.get(keyword), str):
                    written, target = self._resolve(name, ref, node.where, identity)
                    node.text[keyword] = written
                    node.together.append(target)
        return root

    def _walk(self, name: str, pointer: str, schema: Mapping[str, Any], own: list[_Node]) -> _Node:
        self._count += 1
        if self._count > MAX_SUBSCHEMAS:
            raise _complex(pointer, f"it has more than {MAX_SUBSCHEMAS} subschemas")
        if self._level == MAX_DEPTH:
            raise _complex(pointer[:80], f"it is nested deeper than {MAX_DEPTH}")
        self._level += 1
        node = _Node(f"{name}#{pointer}", dict(schema))
        own.append(node)
        self._nodes[node.where] = node
        self._note(name, pointer, node)
        for keyword, held in schema.items():
            if keyword in _SUBSCHEMAS:
                node.text[keyword] = self._walk_keyword(name, f"{pointer}/{keyword}", keyword, held, (node, own))
        self._level -= 1
        return node

    def _walk_keyword(self, name: str, pointer: str, keyword: str, held: Any, at: tuple[_Node, list[_Node]]) -> Any:
        node, own = at

        def visit(part: str, value: Any) -> Any:
            if not isinstance(value, Mapping):
                return value
            child = self._walk(name, pointer + part, cast("Mapping[str, Any]", value), own)
            if keyword in _IN_PLACE:
                node.together.append(child)
            elif keyword not in ("$defs", "definitions", "contentSchema"):
                node.below.append((_place(keyword, part), child))
            return child.text

        if isinstance(held, list):
            return [visit(f"/{index}", value) for index, value in enumerate(cast("list[Any]", held))]
        if keyword in _MAPS and isinstance(held, Mapping):
            return {key: visit(_escaped(key), value) for key, value in cast("Mapping[Any, Any]", held).items()}
        return visit("", held)

    def _note(self, name: str, pointer: str, node: _Node) -> None:
        """Remember the anchors and patterns of a subschema."""
        # The library fetches a meta-schema that it does not know.
        if str(node.text.get("$schema", "http://json-schema.org/draft-07/schema")).removesuffix("#") not in _DRAFTS:
            raise _invalid(name, f"{pointer}/$schema", "no such draft of JSON Schema")
        identity = node.text.get("$id")
        if pointer and isinstance(identity, str) and not identity.startswith("#"):
            raise _invalid(name, pointer, "a nested $id is not supported; write its schema as a reference of its own")
        for keyword in ("$anchor", "$dynamicAnchor", "$id"):
            if isinstance(anchor := node.text.get(keyword), str) and (pointer or keyword != "$id"):
                self._nodes.setdefault(f"{name}#{anchor.removeprefix('#')}", node)
        patterns = [node.text.get("pattern")]
        if isinstance(by_pattern := node.text.get("patternProperties"), Mapping):
            patterns.extend(cast("Mapping[Any, Any]", by_pattern))
        self.patterns.update((pattern, node.where) for pattern in patterns if isinstance(pattern, str))
        if len(self.patterns) > MAX_PATTERNS:
            raise _complex(pointer, f"it has more than {MAX_PATTERNS} patterns")

    def _resolve(self, name: str, ref: str, where: str, identity: Any) -> tuple[str, _Node]:
        """Return the reference as the library reads it, and the subschema that it names."""
        base, _, fragment = ref.partition("#")
        if base and base != identity:
            raise ExpressionInvalid(
                f"Remote $ref at {where}: only schemas of this registry can be referred to, nothing is fetched",
                code="RemoteRef",
                value=ref,
                expected='"#/$defs/Name" or "#Name:1.0.0"',
            )
        local = self._nodes.get(f"{name}#{unquote(fragment)}")
        if local is not None:
            return f"#{fragment}", local
        found = self._named(unquote(fragment).removeprefix("/schemas/"), ref, where)
        return _HOME + quote(found, safe=":"), self.read(found, self._refs[found])

    def _named(self, wanted: str, ref: str, where: str) -> str:
        found = [wanted] if wanted in self._refs else [key for key in self._refs if key.split(":")[0] == wanted]
        if len(found) == 1:
            return found[0]
        close = max(found) if found else nearest(wanted, self._refs)
        reason = "has several versions" if found else "leads nowhere"
        raise ExpressionInvalid(
            f"The $ref at {where} {reason}: {ref[:80]}",
            code="AmbiguousRef" if found else "UnknownRef",
            value=ref,
            expected="a name with its version" if found else "a schema of this document or registry",
            suggestion=f"#{close}" if close else None,
        )


class _Cost:
    """How often one place of a value is looked at, with every reference followed."""

    def __init__(self) -> None:
        self.branching = 1
        """In how many ways the schema comes back to itself through one and the same place."""
        self._together: dict[_Node, tuple[int, dict[tuple[str, _Node], int]]] = {}
        self._along: dict[_Node, int] = {}
        self._open: dict[_Node, None] = {}
        self._recursive: set[_Node] = set()

    def along(self, node: _Node) -> int:
        """Return how many subschemas are tried from this place down to the deepest one."""
        if node in self._along:
            return self._along[node]
        if node in self._open:
            self._recursive.add(node)
            return 1
        if len(self._open) > 3 * MAX_DEPTH:
            raise _complex(node.where, "its references go too deep")
        self._open[node] = None
        weight, below = self.together(node, {})
        costs: dict[str, int] = {}
        ways: dict[str, int] = {}
        for (place, child), times in below.items():
            costs[place] = costs.get(place, 0) + times * self.along(child)
            if child in self._recursive:
                ways[place] = ways.get(place, 0) + times
                self._recursive.add(node)
        del self._open[node]
        self.branching = max(self.branching, _worst(ways))
        if (total := weight + _worst(costs)) > MAX_ALONG:
            raise _complex(node.where, "its alternatives multiply")
        self._along[node] = total
        return total

    def together(self, node: _Node, opened: dict[_Node, None]) -> tuple[int, dict[tuple[str, _Node], int]]:
        """Return how many subschemas apply to the same place as this one, and what they say of places below."""
        if node in self._together:
            return self._together[node]
        if node in opened:
            circle = " -> ".join(step.where for step in [*opened, node][-6:])
            raise ExpressionInvalid(f"The $ref goes in a circle: {circle}", code="RefLoop", value=node.where)
        if len(opened) > 3 * MAX_DEPTH:
            raise _complex(node.where, "its references go too deep")
        opened[node] = None
        weight, below = 1, dict.fromkeys(node.below, 1)
        for other in node.together:
            more, places = self.together(other, opened)
            weight += more
            for place, times in places.items():
                below[place] = below.get(place, 0) + times
            if weight > MAX_TOGETHER:
                raise _complex(node.where, f"more than {MAX_TOGETHER} subschemas apply to one value")
        del opened[node]
        self._together[node] = weight, below
        return weight, below


def _worst(counts: Mapping[str, int]) -> int:
    """Return the most that can meet in one place: what is said of any field or item, and of one in particular."""
    every_field, every_item = counts.get("*", 0), counts.get("[*]", 0)
    fields = [count for place, count in counts.items() if place.startswith("/")]
    items = [count for place, count in counts.items() if place.startswith("[/")]
    return max(every_field + max(fields, default=0), every_item + max(items, default=0), counts.get("name", 0))


def _place(keyword: str, part: str) -> str:
    if keyword in _OF_ITEMS:
        return f"[{part}]" if part else "[*]"
    if keyword == "properties":
        return part
    return "name" if keyword == "propertyNames" else "*"


def _check_meta(name: str, document: dict[str, Any]) -> None:
    try:
        jsonschema_rs.meta.validate(document)
    except jsonschema_rs.ValidationError as error:
        pointer = _pointer(error.instance_path)
        if error.instance_path[-1:] == ["type"] or error.instance_path[-2:-1] == ["type"]:
            raise _wrong_type(name, pointer, error.instance) from None
        raise _invalid(name, pointer, _short(error.message)) from None
    except ValueError as error:
        raise _invalid(name, "", _short(str(error))) from None


def _wrong_type(name: str, pointer: str, given: Any) -> ExpressionInvalid:
    names = cast("list[Any]", given if isinstance(given, list) else [given])
    wrong = next((one for one in names if one not in _TYPES), None)
    message = f"Invalid JSON Schema at {name}#{pointer}: no such type"
    close = nearest(wrong, _TYPES)
    return ExpressionInvalid(message, code="InvalidSchema", value=wrong, expected=", ".join(_TYPES), suggestion=close)


def _check_patterns(patterns: Mapping[str, str]) -> None:
    large = {pattern: where for pattern, where in patterns.items() if not _compiles(pattern, _SMALL)}
    for pattern, where in islice(large.items(), MAX_LARGE_PATTERNS):
        if _compiles(pattern, _LINEAR):
            continue
        if not _compiles(pattern, None):
            name, _, pointer = where.partition("#")
            raise _invalid(name, pointer, f"{_short(pattern)} is not a regular expression, or far too large")
        raise ExpressionInvalid(
            f"The pattern at {where} is not linear-time safe, or too large",
            code="RegexNotAllowed",
            value=pattern,
            expected="a regular expression without look-around and back-references",
        )
    if len(large) > MAX_LARGE_PATTERNS:
        raise _complex(max(large.values()), f"it has more than {MAX_LARGE_PATTERNS} large patterns")


def _compiles(pattern: str, options: jsonschema_rs.RegexOptions | None) -> bool:
    try:
        jsonschema_rs.Draft202012Validator({"pattern": pattern}, pattern_options=options)
    except ValueError:
        return False
    return True


def _problem(error: jsonschema_rs.ValidationError) -> SchemaProblem:
    return SchemaProblem(_pointer(error.instance_path), _short(error.message), error.kind.name)


def _pointer(path: list[str | int]) -> str:
    return "".join(map(_escaped, path))


def _escaped(part: object) -> str:
    return "/" + str(part).replace("~", "~0").replace("/", "~1")


def _short(text: str) -> str:
    line = text.split("\n", 1)[0]
    return line if len(line) <= 200 else line[:120] + "..." + line[-77:]


def _invalid(name: str, pointer: str, reason: str) -> ExpressionInvalid:
    return ExpressionInvalid(f"Invalid JSON Schema at {name}#{pointer}: {reason}", code="InvalidSchema")


def _complex(where: str, reason: str) -> ExpressionInvalid:
    return ExpressionInvalid(f"The schema at {where} is too complex: {reason}", code="SchemaTooComplex")


def _depth(value: Any) -> int:
    deepest, level = 0, [value]
    while level:
        deepest += 1
        level = [held for one in level for held in _held(one)]
    return deepest


def _larger(value: Any, limit: int) -> bool:
    waiting = [value]
    for one in waiting:
        waiting.extend(_held(one))
        if len(waiting) > limit:
            return True
    return False


def _held(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return cast("dict[str, Any]", value).values()
    return cast("list[Any]", value) if isinstance(value, list) else ()
