"""What a JSON Schema says about places in a value, as far as that can be known before there is one.

A schema that says nothing ({}) is compatible with everything. Verdicts are three: certainly, perhaps, certainly not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeGuard

from weft.errors import nearest
from weft.expr.paths import Path
from weft.ports import Schema

Verdict: TypeAlias = Literal["fine", "perhaps", "impossible"]
ANY: Schema = {}
MAX_DEPTH = 12
NAMED = "x-weft-type"
"""Carries the name of a type of which nothing but its name is known."""
PLAIN = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
OBJECT, ARRAY = frozenset({"object"}), frozenset({"array"})
_ELSEWHERE = frozenset({"allOf", "anyOf", "oneOf", "if", "patternProperties", "dependentSchemas"})
"""Where a schema may declare fields besides `properties`."""
_WORST: dict[Verdict, int] = {"fine": 0, "perhaps": 1, "impossible": 2}


@dataclass(frozen=True, slots=True)
class Found:
    """What a schema has at a path, and whether a value of that schema can have it."""

    schema: Schema
    verdict: Verdict = "fine"
    reason: str = ""
    suggestion: str | None = None


def named_type(name: str) -> Schema:
    """Return what a type's name says: `string`, `Paper[]`, or only that it is called that."""
    if name.endswith("[]"):
        return array_of(named_type(name[:-2]))
    if name in PLAIN:
        return {"type": name}
    return ANY if name in ("", "any", "json") else {NAMED: name}


def properties_of(schema: Schema) -> Mapping[str, Any]:
    """Return the fields that a schema of an object lists, each with its own."""
    return schema.get("properties", {})


def required_of(schema: Schema) -> Sequence[str]:
    """Return the fields that a schema of an object requires."""
    return schema.get("required", ())


def array_of(items: Schema) -> Schema:
    """Return the schema of a list of such items."""
    return {"type": "array", "items": _without_defs(items), **_defs(items)}


def object_of(fields: Mapping[str, Schema]) -> Schema:
    """Return the schema of an object that has exactly these fields."""
    defs: dict[str, Any] = {}
    properties: dict[str, Schema] = {}
    for name, schema in fields.items():
        own: Mapping[str, Any] = schema.get("$defs", {})
        # Two schemas may mean different things by one name: of the second, nothing is known then.
        clash = any(defs.get(key, value) != value for key, value in own.items())
        properties[name] = ANY if clash else _without_defs(schema)
        defs.update({} if clash else own)
    closed: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "required": list(fields),
        "additionalProperties": False,
    }
    return {**closed, "$defs": defs} if defs else closed


def with_fields(schema: Schema, fields: Mapping[str, Schema]) -> Schema:
    """Return the schema of such an object with these fields added, or put in the place of its own."""
    known = deref(schema)
    added = object_of(fields)
    if "properties" not in known or "$defs" in known or "$defs" in added:
        return {**added, "additionalProperties": {}}
    own = {"properties": {**properties_of(known), **added["properties"]}}
    return {**known, "type": "object", **own, "required": [*{**dict.fromkeys(required_of(known)), **fields}]}


def any_of(schemas: Iterable[Schema]) -> Schema:
    """Return the schema of a value that fits one of these; nothing is known when nothing is known of one."""
    distinct: list[Schema] = []
    for schema in schemas:
        if not schema:
            return ANY
        if schema not in distinct:
            distinct.append(schema)
    if len(distinct) <= 1:
        return distinct[0] if distinct else ANY
    return {"anyOf": distinct}


def types_of(schema: Schema, depth: int = MAX_DEPTH) -> frozenset[str] | None:
    """Return the JSON types that a value may have; None when the schema does not say."""
    schema = deref(schema)
    if depth == 0:
        return None
    if (named := schema.get("type")) is not None:
        return frozenset([named] if isinstance(named, str) else named)
    if "const" in schema:
        return frozenset({type_of(schema["const"])})
    if "enum" in schema:
        return frozenset(type_of(value) for value in schema["enum"])
    if any(branch is True for word in ("anyOf", "oneOf") for branch in schema.get(word, ())):
        return None
    parts: set[str] = set()
    for branch in _branches(schema):
        if (types := types_of(branch, depth - 1)) is None:
            return None
        parts |= types
    return frozenset(parts) or None


def type_of(value: object) -> str:
    """Return the JSON type of a value."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def deref(schema: Schema) -> Schema:
    """Follow local references; one that leads nowhere, or in a circle, says nothing."""
    for _ in range(MAX_DEPTH):
        ref = schema.get("$ref")
        if not isinstance(ref, str):
            return schema
        target = schema.get("$defs", {}).get(ref.removeprefix("#/$defs/")) if ref.startswith("#/$defs/") else None
        schema = below(schema, target)
    return ANY


def items_of(schema: Schema) -> Schema:
    """Return the schema of a list's items."""
    schema = deref(schema)
    items = schema.get("items")
    if "prefixItems" in schema:
        first = [below(schema, one) for one in schema["prefixItems"]]
        return any_of(first if items is False else [*first, below(schema, items)])
    if _is_schema(items):
        return below(schema, items)
    branches = [items_of(branch) for branch in _branches(schema) if may_be(branch, "array")]
    return any_of(branches) if branches else ANY


def may_be(schema: Schema, kind: str) -> bool:
    """Tell whether a value of this schema can have that type."""
    types = types_of(schema)
    return types is None or bool(_widened(types) & _widened(frozenset({kind})))


def look(schema: Schema, path: Path) -> Found:
    """Return what a schema has at a path."""
    if path.steps is None:
        return Found({"type": "array"})
    found = Found(schema)
    many = False
    for step in path.steps:
        inner = _step(found.schema, step)
        if inner.verdict == "impossible":
            return inner
        worse = inner if _WORST[inner.verdict] >= _WORST[found.verdict] else found
        found = Found(inner.schema, worse.verdict, worse.reason, worse.suggestion)
        many = many or step is None
    return Found(array_of(found.schema), found.verdict, found.reason, found.suggestion) if many else found


def fits(given: Schema, wanted: Schema, depth: int = MAX_DEPTH) -> tuple[Verdict, str]:
    """Tell whether a value of one schema is accepted where another is wanted, and why not."""
    given, wanted = deref(given), deref(wanted)
    have, want = types_of(given), types_of(wanted)
    if given.get(NAMED, wanted.get(NAMED)) != wanted.get(NAMED, given.get(NAMED)):
        return "perhaps", f"{given[NAMED]} given where {wanted[NAMED]} is expected"
    if have is None or want is None or depth == 0:
        return "fine", ""
    common = _widened(have) & _widened(want)
    if not common:
        return "impossible", f"{in_words(have)} given where {in_words(want)} is expected"
    worst: tuple[Verdict, str] = "fine", ""
    if not have <= _widened(want):
        worst = "perhaps", f"{in_words(have)} given where {in_words(want)} is expected"
    checks: list[tuple[Verdict, str]] = []
    if have == want == OBJECT:
        checks = list(_fields_fit(given, wanted, depth - 1))
    elif have == want == ARRAY:
        verdict, why = fits(items_of(given), items_of(wanted), depth - 1)
        checks = [(verdict, f"items: {why}")]
    return max([worst, *checks], key=lambda check: _WORST[check[0]])


def _fields_fit(given: Schema, wanted: Schema, depth: int) -> Iterable[tuple[Verdict, str]]:
    have, takes = properties_of(given), properties_of(wanted)
    sure = set(required_of(given))
    for name in required_of(wanted):
        if name not in have and _closed(given):
            yield "impossible", f"field {name!r} is required and never given"
        elif have and name not in sure:
            yield "perhaps", f"field {name!r} is required and may not be given"
    for name in have if _closed(wanted) else ():
        if name not in takes:
            yield "impossible" if name in sure else "perhaps", f"field {name!r} is given and not accepted"
    for name, schema in takes.items():
        if _is_schema(schema) and _is_schema(have.get(name)):
            verdict, why = fits(below(given, have[name]), below(wanted, schema), depth)
            yield verdict if name in sure or verdict == "fine" else "perhaps", f"field {name!r}: {why}"


def _closed(schema: Schema) -> bool:
    """Tell whether an object has no fields but those that are listed."""
    return schema.get("additionalProperties") is False and "patternProperties" not in schema


def _step(schema: Schema, step: str | int | None) -> Found:
    schema = deref(schema)
    types = types_of(schema)
    container = "object" if isinstance(step, str) else "array"
    if types is not None and container not in types:
        if step is None and "object" in types:
            return Found(ANY)
        return Found(
            ANY, "impossible", f"{in_words(types)} has no {f'field {step!r}' if container == 'object' else 'items'}"
        )
    branches = [branch for branch in _branches(schema) if may_be(branch, container)]
    if branches and "properties" not in schema and "items" not in schema:
        return _best([_step(branch, step) for branch in branches])
    if isinstance(step, str):
        return _field(schema, step)
    return Found(items_of(schema))


def _field(schema: Schema, name: str) -> Found:
    known = properties_of(schema)
    if name in known:
        return Found(below(schema, known[name]))
    close = nearest(name, known)
    if _closed(schema):
        return Found(ANY, "impossible", f"there is no field {name!r}", close)
    extra = schema.get("additionalProperties")
    if _is_schema(extra) and "patternProperties" not in schema:
        return Found(below(schema, extra))
    if not known or not schema.keys().isdisjoint(_ELSEWHERE):
        return Found(ANY)
    return Found(ANY, "perhaps", f"field {name!r} is not declared", close)


def _best(options: list[Found]) -> Found:
    best = min(options, key=lambda option: _WORST[option.verdict])
    kept = [option.schema for option in options if option.verdict == best.verdict]
    return Found(any_of(kept), best.verdict, best.reason, best.suggestion)


def _branches(schema: Schema) -> list[Schema]:
    branches: list[Any] = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    return [below(schema, branch) for branch in branches if _is_schema(branch)]


def _is_schema(part: object) -> TypeGuard[Schema]:
    return isinstance(part, Mapping)


def below(schema: Schema, part: Any) -> Schema:
    """Return a part of a schema with the definitions that it may refer to; `true` and the like say nothing."""
    return {**part, **_defs(schema)} if _is_schema(part) else ANY


def _widened(types: frozenset[str]) -> frozenset[str]:
    return types | {"integer"} if "number" in types else types


def in_words(types: frozenset[str]) -> str:
    """Return types as a sentence names them."""
    return " or ".join(sorted(types))


def _defs(schema: Schema) -> dict[str, Any]:
    return {"$defs": schema["$defs"]} if "$defs" in schema else {}


def _without_defs(schema: Schema) -> Schema:
    return {key: value for key, value in schema.items() if key != "$defs"} if "$defs" in schema else schema
