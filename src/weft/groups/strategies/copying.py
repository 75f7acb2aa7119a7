"""Parts of a schema, copied so that they can stand in another one and still mean the same, or a little more."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final
from urllib.parse import unquote

from weft.expr.subschemas import subschemas
from weft.groups.strategies.definitions import HOME, Definitions, free_name, is_index, is_schema, text_of
from weft.ports import Schema, is_array

MAX_DEPTH: Final = 50
"""A little less than what a check takes, since the fields of an action come to stand deeper."""
MAX_DEFINITIONS: Final = 300

_MAPS: Final = frozenset(("properties", "patternProperties", "dependentSchemas", "$defs", "definitions"))
_SUBSCHEMAS: Final = _MAPS | {
    "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "items", "prefixItems", "additionalItems", "contains",
    "unevaluatedItems", "additionalProperties", "unevaluatedProperties", "propertyNames", "contentSchema",
}  # fmt: skip
_REFS: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_LEFT_OUT: Final = frozenset(
    ("$schema", "$id", "$comment", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary", "$defs",
     "definitions", "dependencies", "additionalItems", "x-mcp-header", "discriminator", *_REFS)
)  # fmt: skip
"""Keywords that would say something else in another schema.

`x-mcp-header` names a header of one tool's requests: twice, or in an alternative, clients refuse the whole tool.
`discriminator` is of OpenAPI, and leads by `mapping` to where definitions stood before.
"""
_TURNING: Final = frozenset(("not", "if", "then", "else", "maxContains", "unevaluatedItems", "unevaluatedProperties"))
"""Keywords by which a schema may take less when a part of it takes more."""
_LATER: Final = frozenset(
    ("prefixItems", "dependentSchemas", "dependentRequired", "unevaluatedItems", "unevaluatedProperties",
     "minContains", "maxContains")
)  # fmt: skip
"""Keywords that the older drafts do not know, and so do not heed."""
_BESIDE_REF: Final = frozenset((*_REFS, "title", "description", "default", "examples"))
_OLD: Final = re.compile(r"https?://json-schema\.org/draft-0[3-7]/")


class Reading:
    """A schema of others, from which parts are copied so that they can stand elsewhere.

    What cannot be copied, such as a reference to another document, is left open, and `opened` says so. Then only a
    reading that is not `exact` takes all that the schema takes: it leaves out what turns parts around.
    """

    def __init__(self, schema: Schema, *, name: str, exact: bool = True) -> None:
        self.opened = False
        self._schema = schema
        self._name = name
        self._exact = exact
        draft = str(schema.get("$schema", ""))
        self._old = _OLD.match(draft) is not None
        self._refs = _REFS[:1] if self._old else _REFS[::2] if "2019-09" in draft else _REFS[:2]
        self._bodies: dict[str, dict[str, Any]] = {}
        self._names: dict[tuple[str, ...], str] = {}
        self._numbers: dict[str, int] = {}
        self._referring: list[dict[str, Any]] = []
        self._below: dict[str, set[str]] = {}
        self._waiting: list[tuple[str, Any]] = []
        self._within = ""
        self._anchors: dict[str, tuple[str, ...]] | None = None

    def copy(self, schema: Any, *, called: str = "") -> dict[str, Any]:
        """Return a part of the schema; its references are right after `settle`."""
        self._within = ""
        made = self._copied(schema, called, 0)
        while self._waiting:
            self._within, body = self._waiting.pop()
            self._bodies[self._within] = self._copied(body, self._within, 0)
        return made

    def settle(self, shared: Definitions) -> None:
        """Give each definition that was met its name among those of all, and let the references lead there."""
        texts = {name: text_of(body) for name, body in self._bodies.items()}
        final: dict[str, str] = {}
        for name, body in self._bodies.items():
            whole = frozenset((one, texts[one]) for one in self._reached(name))
            final[name] = shared.add(name, whole, body)
        for node in self._referring:
            node["$ref"] = HOME + final[node["$ref"]]

    def heeded(self, schema: Schema) -> Schema:
        """Return what counts in a schema: in the older drafts, nothing that stands beside a reference."""
        if self._old and "$ref" in schema:
            return {key: held for key, held in schema.items() if key in _BESIDE_REF}
        return schema

    def target(self, ref: object) -> Any:
        """Return the part to which a reference leads, or None."""
        loc = self._loc(ref)
        return None if loc is None else _at(self._schema, loc)

    def _reached(self, name: str) -> set[str]:
        found, waiting = {name}, [name]
        while waiting:
            more = self._below.get(waiting.pop(), set()) - found
            found |= more
            waiting += more
        return found

    def _copied(self, schema: Any, called: str, depth: int) -> dict[str, Any]:
        if not is_schema(schema):
            return {"not": {}} if schema is False else {}
        if depth > MAX_DEPTH or (schema is not self._schema and _moves(schema)):
            self.opened = True
            return {}
        said = self.heeded(schema)
        made: dict[str, Any] = {}
        for keyword in self._refs:
            if isinstance(said.get(keyword), str):
                self._refer(made, said[keyword])
        for keyword, held in said.items():
            if self._skips(keyword, held, called):
                continue
            written = self._written(keyword, held)
            if written not in said or written == keyword:
                made[written] = self._held(keyword, held, depth) if keyword in _SUBSCHEMAS else held
        if is_array(said.get("items")) and "additionalItems" in said:
            made["items"] = self._held("items", said["additionalItems"], depth)
        return made

    def _skips(self, keyword: str, held: Any, called: str) -> bool:
        if keyword == "dependencies" or (self._old and keyword == "format"):
            # The newest draft does not heed them, or only as remarks.
            self.opened = True
        if keyword == "title":
            return _letters(held) == _letters(called)
        if keyword in _LEFT_OUT or (self._old and keyword in _LATER):
            return True
        return not self._exact and keyword in _TURNING

    def _written(self, keyword: str, held: Any) -> str:
        """Return how the newest draft calls a keyword, or how one is called that takes no less."""
        if keyword == "items" and is_array(held):
            return "prefixItems"
        return "anyOf" if keyword == "oneOf" and not self._exact else keyword

    def _held(self, keyword: str, held: Any, depth: int) -> Any:
        def part(value: Any, called: str = "") -> Any:
            return self._copied(value, called, depth + 1) if is_schema(value) else value

        if is_array(held):
            return [part(one) for one in held]
        if keyword in _MAPS and is_schema(held):
            return {name: part(one, name) for name, one in held.items()}
        return part(held)

    def _refer(self, made: dict[str, Any], ref: str) -> None:
        loc = self._loc(ref)
        name = None if loc is None or "$ref" in made else self._definition(loc)
        if name is None:
            self.opened = True
            return
        made["$ref"] = name
        self._referring.append(made)
        self._below.setdefault(self._within, set()).add(name)

    def _definition(self, loc: tuple[str, ...]) -> str | None:
        """Return the name that a place in this schema has as a definition."""
        if (known := self._names.get(loc)) is not None:
            return known
        found = _at(self._schema, loc)
        if len(self._names) == MAX_DEFINITIONS or not (is_schema(found) or isinstance(found, bool)):
            return None
        called = next((name for above, name in reversed([*pairwise(loc)]) if above in _MAPS), self._name)
        name = free_name(re.sub(r"[^\w.-]+", "_", called, flags=re.ASCII), self._below, self._numbers)
        self._names[loc] = name
        self._below[name] = set()
        self._waiting.append((name, found))
        return name

    def _loc(self, ref: object) -> tuple[str, ...] | None:
        """Return the place in this schema to which a reference leads, or None if it leads elsewhere or nowhere."""
        if not isinstance(ref, str):
            return None
        base, _, fragment = ref.partition("#")
        fragment = unquote(fragment)
        if base and base != self._schema.get("$id"):
            return None
        if not fragment or fragment.startswith("/"):
            return tuple(part.replace("~1", "/").replace("~0", "~") for part in fragment.split("/")[1:])
        if self._anchors is None:
            self._anchors = dict(_anchors(self._schema))
        return self._anchors.get(fragment)


def _moves(schema: Schema) -> bool:
    """Tell whether a schema has an address of its own, from which its references are read."""
    own = schema.get("$id")
    return isinstance(own, str) and not own.startswith("#")


def _anchors(schema: Schema) -> Iterator[tuple[str, tuple[str, ...]]]:
    for loc, one in subschemas(schema):
        for keyword in ("$anchor", "$dynamicAnchor", "$id"):
            if isinstance(anchor := one.get(keyword), str) and (loc or keyword != "$id"):
                yield anchor.removeprefix("#"), tuple(str(step) for step in loc)


def _at(schema: Any, loc: tuple[str, ...]) -> Any:
    for step in loc:
        if is_array(schema):
            schema = schema[int(step)] if is_index(step, schema) else None
        else:
            schema = schema.get(step) if is_schema(schema) else None
    return schema


def _letters(name: object) -> str:
    return "".join(one for one in str(name).casefold() if one.isalnum())
