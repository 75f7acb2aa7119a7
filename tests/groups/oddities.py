"""Schemas as a careless or hostile server may send them: any JSON at all in any place of them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

KEYWORDS = (
    "type", "properties", "required", "additionalProperties", "patternProperties", "propertyNames", "anyOf", "oneOf",
    "allOf", "not", "if", "then", "else", "$ref", "$dynamicRef", "$defs", "definitions", "$id", "$anchor", "$schema",
    "items", "prefixItems", "contains", "enum", "const", "default", "description", "title", "examples", "format",
    "pattern", "minimum", "maxLength", "multipleOf", "dependentSchemas", "dependentRequired", "dependencies",
    "unevaluatedProperties", "writeOnly", "discriminator", "nullable",
)  # fmt: skip
NAMES = ("x", "y", "A", "kind", "")
TEXTS = (
    "", "x", "#", "#/$defs/A", "#/$defs/B", "#/properties/x", "#/anyOf/0", "#/anyOf/\u00b2", "#/anyOf/" + "9" * 5000,
    "#A", "other.json", "object", "array", "string", "null", "strnig", "password", "(", "a\n\u202eb",
)  # fmt: skip

_scalars: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from((None, True, False, 0, 1, -1, 1.5, 10**30)), st.sampled_from(TEXTS), st.text(max_size=3)
)


def _within(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    fields = st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
    branches = st.lists(inner, max_size=3)
    formed = st.fixed_dictionaries(
        {},
        optional={
            "properties": fields,
            "required": st.lists(st.sampled_from(NAMES) | _scalars, max_size=2),
            "anyOf": branches,
            "oneOf": branches,
            "allOf": branches,
            "$ref": st.sampled_from(TEXTS) | inner,
            "$defs": fields,
            "enum": branches,
            "type": st.sampled_from(TEXTS) | branches,
            "additionalProperties": inner,
        },
    )
    one = st.sampled_from(("anyOf", "oneOf", "allOf")).flatmap(
        lambda keyword: st.fixed_dictionaries({keyword: branches})
    )
    return st.one_of(branches, fields, formed, one, st.dictionaries(st.sampled_from(KEYWORDS), inner, max_size=4))


junk: st.SearchStrategy[Any] = st.recursive(_scalars, _within, max_leaves=12)
"""Any JSON, with the words of schemas in it."""

_fields: dict[str, st.SearchStrategy[Any]] = {
    "properties": st.dictionaries(st.sampled_from(NAMES), junk, min_size=1, max_size=3)
}
_beside: dict[str, st.SearchStrategy[Any]] = {
    "required": st.lists(st.sampled_from(NAMES), max_size=2),
    "additionalProperties": st.booleans() | junk,
    "$defs": st.dictionaries(st.sampled_from(("A", "B")), junk, max_size=2),
    "anyOf": st.lists(junk, max_size=3),
}
schemas: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.dictionaries(st.sampled_from(KEYWORDS), junk, max_size=4),
    st.fixed_dictionaries(_fields, optional=_beside),
)
"""What may stand as `inputSchema`: an object, whatever is in it."""
