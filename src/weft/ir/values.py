"""Constants: raw JSON, or the typed wrappers (`{"numberValue": 0.7}`) that generated documents carry."""

from __future__ import annotations

from typing import Any

from weft.ports import is_array, is_object

TYPED = {"stringValue": str, "numberValue": (int, float), "boolValue": bool}
NAMES = {
    name: wrapper
    for wrapper in (*TYPED, "nullValue", "listValue")
    for name in (wrapper, wrapper.replace("Value", "_value"))
}


def unwrap(value: Any) -> Any:
    """Return what a typed wrapper holds; anything else is the value itself."""
    if not is_object(value) or len(value) != 1:
        return value
    key, held = next(iter(value.items()))
    name = NAMES.get(key, "")
    if name == "nullValue" and (held is True or held is None or held == "NULL_VALUE"):
        return None
    if name == "listValue":
        items = held.get("values") if is_object(held) else held
        return [unwrap(item) for item in items] if is_array(items) else value
    expected = TYPED.get(name)
    # A bool is an int to Python, and a number wrapper around a bool is not a wrapper at all.
    wrong = expected is None or not isinstance(held, expected) or (isinstance(held, bool) and name != "boolValue")
    return value if wrong else held


def unwrap_values(value: Any) -> Any:
    """Return a predicate's value: a wrapper's, a bare list's or `{"values": [..]}`'s, items unwrapped."""
    if is_object(value) and list(value) == ["values"]:
        value = value["values"]
    return [unwrap(item) for item in value] if is_array(value) else unwrap(value)
