"""Tools that patterns name beside their operations, as authors give them."""

from __future__ import annotations

from typing import Any

from weft.patterns.contract import Op, operand


def tool_name(given: str | Op[Any, Any], who: str) -> str:
    """Return the name of a tool that an author gave by name, or as an operation that is nothing but a call of it."""
    if isinstance(given, str):
        return given
    name = getattr(operand(given, who).node, "name", None)
    if not isinstance(name, str):
        raise TypeError(f"{who} takes a tool by name there; give a pattern one with w.named(..)")
    return name
