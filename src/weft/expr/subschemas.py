"""The subschemas of a JSON Schema: read with all that they refer to, and what it costs to try them on a value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeGuard, cast
from urllib.parse import quote, unquote

from weft.errors import ExpressionInvalid, Loc, json_pointer, nearest
from weft.ports import Schema, is_array

MAX_DEPTH: Final = 64
MAX_SUBSCHEMAS: Final = 5_000
MAX_PATTERNS: Final = 500
MAX_TOGETHER: Final = 1_000
"""Subschemas that may apply to one place of a value, with references followed."""
MAX_ALONG: Final = 20_000
"""The same, summed from the top of a value down to its deepest place."""

HOME: Final = "weft:///schema/"
"""Where the library finds the schemas that are referred to by name."""
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
_NOTED: Final = frozenset(("$schema", "$id", "$anchor", "$dynamicAnchor", "pattern", "patternProperties"))


def _is_mapping(value: object) -> TypeGuard[Schema]:
    return value.__class__ is dict or isinstance(value, Mapping)


def subschemas(schema: Any) -> Iterator[tuple[Loc, dict[str, Any]]]:
    """Yield a schema and every one in it, with its place; what is no object says nothing that could refer."""
    pending: list[tuple[Loc, Any]] = [((), schema)]
    while pending:
        loc, one = pending.pop()
        if not _is_mapping(one):
            continue
        yield loc, cast("dict[str, Any]", one)
        for keyword in _SUBSCHEMAS.intersection(one):
            held = one[keyword]
            if is_array(held):
                pending += [((*loc, keyword, index), item) for index, item in enumerate(held)]
            elif keyword in _MAPS and _is_mapping(held):
                pending += [((*loc, keyword, name), item) for name, item in held.items()]
            else:
                pending.append(((*loc, keyword), held))


@dataclass(slots=True, eq=False)
class Subschema:
    """One subschema: its rewritten text, and the subschemas that apply with it or below it."""

    where: str
    text: dict[str, Any]
    together: list[Subschema] = field(default_factory=list["Subschema"])
    below: list[tuple[str, Subschema]] = field(default_factory=list[tuple[str, "Subschema"]])


class Reader:
    """Reads a schema and all that it refers to, copying each with its references rewritten."""

    def __init__(self, refs: Mapping[str, Schema]) -> None:
        self._refs = refs
        self._nodes: dict[str, Subschema] = {}
        self._count = 0
        self._level = 0
        self.documents: dict[str, dict[str, Any]] = {}
        self.patterns: dict[str, str] = {}

    def read(self, name: str, schema: Schema) -> Subschema:
        """Return the schema of that name, "" for the first, with every reference in it followed."""
        if (known := self._nodes.get(f"{name}#")) is not None:
            return known
        own: list[Subschema] = []
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

    def _walk(self, name: str, pointer: str, schema: Schema, own: list[Subschema]) -> Subschema:
        self._count += 1
        if self._count > MAX_SUBSCHEMAS:
            raise too_complex(pointer, f"it has more than {MAX_SUBSCHEMAS} subschemas")
        if self._level == MAX_DEPTH:
            raise too_complex(pointer[:80], f"it is nested deeper than {MAX_DEPTH}")
        self._level += 1
        node = Subschema(f"{name}#{pointer}", dict(schema))
        own.append(node)
        self._nodes[node.where] = node
        self._note(name, pointer, node)
        for keyword, held in schema.items():
            if keyword in _SUBSCHEMAS:
                node.text[keyword] = self._walk_keyword(name, f"{pointer}/{keyword}", keyword, held, (node, own))
        self._level -= 1
        return node

    def _walk_keyword(
        self, name: str, pointer: str, keyword: str, held: Any, at: tuple[Subschema, list[Subschema]]
    ) -> Any:
        node, own = at

        def visit(part: str, value: Any) -> Any:
            if not _is_mapping(value):
                return value
            child = self._walk(name, pointer + part, value, own)
            if keyword in _IN_PLACE:
                node.together.append(child)
            elif keyword not in ("$defs", "definitions", "contentSchema"):
                node.below.append((_place(keyword, part), child))
            return child.text

        if is_array(held):
            return [visit(f"/{index}", value) for index, value in enumerate(held)]
        if keyword in _MAPS and _is_mapping(held):
            return {key: visit(json_pointer([key]), value) for key, value in held.items()}
        return visit("", held)

    def _note(self, name: str, pointer: str, node: Subschema) -> None:
        """Remember the anchors and patterns of a subschema."""
        # The library fetches a meta-schema that it does not know.
        text = node.text
        if _NOTED.isdisjoint(text):
            return
        if "$schema" in text and str(text["$schema"]).removesuffix("#") not in _DRAFTS:
            raise invalid(name, f"{pointer}/$schema", "no such draft of JSON Schema")
        identity = text.get("$id")
        if pointer and isinstance(identity, str) and not identity.startswith("#"):
            raise invalid(name, pointer, "a nested $id is not supported; write its schema as a reference of its own")
        for keyword in ("$anchor", "$dynamicAnchor", "$id"):
            if isinstance(anchor := text.get(keyword), str) and (pointer or keyword != "$id"):
                self._nodes.setdefault(f"{name}#{anchor.removeprefix('#')}", node)
        patterns = [text.get("pattern")]
        if _is_mapping(by_pattern := text.get("patternProperties")):
            patterns.extend(by_pattern)
        self.patterns.update((pattern, node.where) for pattern in patterns if isinstance(pattern, str))
        if len(self.patterns) > MAX_PATTERNS:
            raise too_complex(pointer, f"it has more than {MAX_PATTERNS} patterns")

    def _resolve(self, name: str, ref: str, where: str, identity: Any) -> tuple[str, Subschema]:
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
        return HOME + quote(found, safe=":"), self.read(found, self._refs[found])

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


class Cost:
    """How often one place of a value is looked at, with every reference followed."""

    def __init__(self) -> None:
        self.branching = 1
        """In how many ways the schema comes back to itself through one and the same place."""
        self._together: dict[Subschema, tuple[int, dict[tuple[str, Subschema], int]]] = {}
        self._along: dict[Subschema, int] = {}
        self._open: dict[Subschema, None] = {}
        self._recursive: set[Subschema] = set()

    def along(self, node: Subschema) -> int:
        """Return how many subschemas are tried from this place down to the deepest one."""
        if node in self._along:
            return self._along[node]
        if node in self._open:
            self._recursive.add(node)
            return 1
        if len(self._open) > 3 * MAX_DEPTH:
            raise too_complex(node.where, "its references go too deep")
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
            raise too_complex(node.where, "its alternatives multiply")
        self._along[node] = total
        return total

    def together(self, node: Subschema, opened: dict[Subschema, None]) -> tuple[int, dict[tuple[str, Subschema], int]]:
        """Return how many subschemas apply to the same place as this one, and what they say of places below."""
        if node in self._together:
            return self._together[node]
        if node in opened:
            circle = " -> ".join(step.where for step in [*opened, node][-6:])
            raise ExpressionInvalid(f"The $ref goes in a circle: {circle}", code="RefLoop", value=node.where)
        if len(opened) > 3 * MAX_DEPTH:
            raise too_complex(node.where, "its references go too deep")
        opened[node] = None
        weight, below = 1, dict.fromkeys(node.below, 1)
        for other in node.together:
            more, places = self.together(other, opened)
            weight += more
            for place, times in places.items():
                below[place] = below.get(place, 0) + times
            if weight > MAX_TOGETHER:
                raise too_complex(node.where, f"more than {MAX_TOGETHER} subschemas apply to one value")
        del opened[node]
        self._together[node] = weight, below
        return weight, below


def _worst(counts: Mapping[str, int]) -> int:
    """Return the most that can meet in one place: what is said of any field or item, and of one in particular."""
    if not counts:
        return 0
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


def invalid(name: str, pointer: str, reason: str) -> ExpressionInvalid:
    """Return the error for what is no schema."""
    return ExpressionInvalid(f"Invalid JSON Schema at {name}#{pointer}: {reason}", code="InvalidSchema")


def too_complex(where: str, reason: str) -> ExpressionInvalid:
    """Return the error for a schema that would cost too much."""
    return ExpressionInvalid(f"The schema at {where} is too complex: {reason}", code="SchemaTooComplex")
