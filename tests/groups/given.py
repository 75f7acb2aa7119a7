"""Values that a JSON Schema takes, at random: for schemas as the tools of servers have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from hypothesis import strategies as st

from tests.strategies import values as any_value
from weft.expr.schemas import compile_schema

Schema: TypeAlias = Mapping[str, Any]
Values: TypeAlias = st.SearchStrategy[Any]


def taken_by(schema: Schema) -> Values:
    """Return values that a schema takes; what its keywords do not tell and does not fit is left out."""
    return _of(schema, schema).filter(compile_schema(dict(schema)).accepts)


def _of(schema: Schema, root: Schema) -> Values:
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "$ref" in schema:
        found: Any = root
        for part in schema["$ref"].split("/")[1:]:
            found = found[part]
        return st.deferred(lambda: _of(found, root))
    branches = schema.get("anyOf") or schema.get("oneOf")
    if branches:
        return st.one_of(*(_of(one, root) for one in branches))
    kinds = schema.get("type", "object" if "properties" in schema else None)
    if kinds is None:
        return any_value()
    return st.one_of(*(_kind(kind, schema, root) for kind in ([kinds] if isinstance(kinds, str) else kinds)))


def _kind(kind: str, schema: Schema, root: Schema) -> Values:
    low, high = (schema.get(f"{end}imum", schema.get(f"exclusive{end.title()}imum")) for end in ("min", "max"))
    match kind:
        case "object":
            return _object(schema, root)
        case "array":
            fewest = schema.get("minItems", 0)
            most = schema.get("maxItems", fewest + 2)
            return st.lists(_of(schema.get("items", {}), root), min_size=fewest, max_size=most)
        case "string":
            return _text(schema)
        case "integer":
            return st.integers(low, high)
        case "number":
            return st.integers(low, high) | st.floats(low, high, allow_nan=False, allow_infinity=False)
        case "boolean":
            return st.booleans()
        case _:
            return st.none()


def _text(schema: Schema) -> Values:
    if "pattern" in schema:
        return st.from_regex(str(schema["pattern"]))
    shortest = schema.get("minLength", 0)
    return st.text("aé ", min_size=shortest, max_size=schema.get("maxLength", shortest + 9))


def _object(schema: Schema, root: Schema) -> Values:
    fields = {name: _of(one, root) for name, one in schema.get("properties", {}).items()}
    needed = set(schema.get("required", ()))
    return st.fixed_dictionaries(
        {name: one for name, one in fields.items() if name in needed},
        optional={name: one for name, one in fields.items() if name not in needed},
    )
