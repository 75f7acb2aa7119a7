"""Names that registries and weft.yaml write in the same way: of groups, of their actions, and globs of tools."""

from __future__ import annotations

import re

from weft.errors import shown
from weft.ir.nodes import refuse

GROUP_NAME = r"^[A-Za-z0-9_.-]{1,64}$"
"""What MCP and its clients take as the name of a tool."""

ACTION_KEY = r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$"
FIELD_NAME = r"^[A-Za-z][A-Za-z0-9_-]{0,63}$"
MAX_KEY = 128
RESERVED = "__"


def check_group_name(name: str) -> str:
    """Refuse what no tool of MCP can be named."""
    if not _fits(GROUP_NAME, name):
        wanted = "letters, digits, _, - and ., at most 64 of them"
        raise refuse("InvalidName", f"{shown(name)} is no name of a group", value=shown(name), expected=wanted)
    if name.startswith(RESERVED):
        told = f"{shown(name)} begins with {RESERVED!r}, which is reserved"
        raise refuse("InvalidName", told, value=shown(name), expected="another name")
    return name


def check_action_key(key: str) -> str:
    """Refuse what no action can be called."""
    if len(key) > MAX_KEY or not _fits(ACTION_KEY, key):
        wanted = f"create, or users.create: letters, digits, _ and - between dots, at most {MAX_KEY} characters"
        raise refuse("InvalidName", f"{shown(key)} is no key of an action", value=shown(key), expected=wanted)
    return key


def check_discriminator(name: str) -> str:
    """Refuse what cannot be the field that says which action is meant; those that begin with _ are weft's own."""
    if not _fits(FIELD_NAME, name):
        told = f"{shown(name)} begins with '_', as weft's own fields do" if name.startswith("_") else None
        wanted = "a letter, then letters, digits, _ and -, at most 64 of them"
        raise refuse("InvalidName", told or f"{shown(name)} is no name of a field", value=shown(name), expected=wanted)
    return name


def check_glob(glob: str) -> str:
    """Refuse a glob that can match nothing."""
    if not glob or glob != glob.strip():
        told = f"{shown(glob)} matches no name"
        raise refuse("InvalidGlob", told, value=shown(glob), expected='a name, or a glob such as "search_*"')
    return glob


def _fits(pattern: str, text: str) -> bool:
    # fullmatch: $ alone lets a line break at the end through.
    return re.fullmatch(pattern.strip("^$"), text) is not None
