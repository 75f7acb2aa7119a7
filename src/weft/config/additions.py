"""Adding servers to a weft.yaml that people have written: their lines and comments stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import yaml

from weft.config.mcpservers import Imported
from weft.errors import DocumentInvalid, InputError
from weft.ir.read import read

_compose = cast("Callable[..., Any]", yaml.compose)  # pyright: ignore[reportUnknownMemberType]  (no types)
PASTE = "import without -o prints the servers, for you to paste"


def with_servers(text: str, imported: Imported, *, name: str) -> str:
    """Return the text of a file with more servers in it.

    Raises:
        InputError: it has a server of the same name, or is written so that nothing can be put in between.
    """
    before = _value(text, name)
    servers: dict[str, Any] = before.get("servers") or {}
    if same := [key for key in imported.servers if key in servers]:
        hint = "rename them there or here, or remove them"
        raise InputError(f"{name} has servers of the same name: {', '.join(same)}", code="ServerExists", hint=hint)
    made = _inserted(text, imported)
    try:
        after = _value(made, name) if made is not None else None
    except DocumentInvalid:
        after = None
    if made is None or after != {**before, "servers": {**servers, **imported.servers}}:
        raise InputError(f"nothing can be added to {name} as it is written", code="CannotAdd", hint=PASTE)
    return made


def _value(text: str, name: str) -> dict[str, Any]:
    try:
        return read(text, name=name).value
    except DocumentInvalid as error:
        if [problem.code for problem in error.problems] == ["EmptyDocument"]:
            return {}
        raise


def _inserted(text: str, imported: Imported) -> str | None:
    """Return the text with the servers after those that it has, or at its end when it has none.

    After, since the order of servers decides which of them wins.
    """
    lines = text.splitlines()
    found = _servers_end(text)
    if found is None:
        return "\n".join([*lines, *([""] if lines else []), "servers:", *imported.lines()]) + "\n"
    end, indent = found
    if indent is None:
        return None
    return "\n".join([*lines[:end], *imported.lines(" " * indent), *lines[end:]]) + "\n"


def _servers_end(text: str) -> tuple[int, int | None] | None:
    """Return the line after the last server and the column of their names; no column when they stand on one line."""
    root = _compose(text, Loader=yaml.SafeLoader)
    if root is None:
        return None
    for key, value in root.value:
        if key.value != "servers":
            continue
        if value.id == "mapping" and value.value and not value.flow_style:
            return _last_line(value) + 1, value.start_mark.column
        empty = value.id == "scalar" and value.value == "" and not root.flow_style
        return key.start_mark.line + 1, 2 if empty else None
    return (0, None) if root.flow_style else None


def _last_line(node: Any) -> int:
    """Return the last line on which something of a node stands; its own end is where the next one begins."""
    if node.id == "scalar":
        return node.end_mark.line - (1 if node.style in ("|", ">") else 0)
    if node.flow_style or not node.value:
        return node.end_mark.line
    last = node.value[-1]
    return _last_line(last[1] if isinstance(last, tuple) else last)
