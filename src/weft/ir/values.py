"""Constants: raw JSON, or the typed wrappers (`{"numberValue": 0.7}`) that generated documents carry."""

from __future__ import annotations

from typing import Any, cast

TYPED = {"stringValue": str, "numberValue": (int, float), "boolValue": bool}
NAMES = {
    name: wrapper
    for wrapper in (*TYPED, "nullValue", "listValue")
    for name in (wrapper, wrapper.replace("Value", "_value"))
}


def unwrap(value: Any) -> Any:
    """Return what a typed wrapper holds; anything else is the value itself."""
    if not isinstance(value, dict) or len(cast("dict[str, Any]", value)) != 1:
        return cast(Any, value)
    key, held = next(iter(cast("dict[str, Any]", value).items()))
    name = NAMES.get(key, "")
    if name == "nullValue" and (held is True or held is None or held == "NULL_VALUE"):
        return None
    if name == "listValue":
        items = cast("dict[str, Any]", held).get("values") if isinstance(held, dict) else held
        return [unwrap(item) for item in cast("list[Any]", items)] if isinstance(items, list) else cast(Any, value)
    expected = TYPED.get(name)
    # A bool is an int to Python, and a number wrapper around a bool is not a wrapper at all.
    wrong = expected is None or not isinstance(held, expected) or (isinstance(held, bool) and name != "boolValue")
    return cast(Any, value) if wrong else held


def unwrap_values(value: Any) -> Any:
    """Return a predicate's value: a wrapper's, a bare list's or `{"values": [..]}`'s, items unwrapped."""
    if isinstance(value, dict) and list(cast("dict[str, Any]", value)) == ["values"]:
        value = cast("dict[str, Any]", value)["values"]
    if isinstance(value, list):
        return [unwrap(item) for item in cast("list[Any]", value)]
    return unwrap(value)
