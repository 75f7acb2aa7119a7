"""The hints of a grouped tool: what a client may expect, whichever of its actions is called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.groups.action import Action


def merged_annotations(actions: Sequence[Action], *, title: str | None = None) -> dict[str, Any]:
    """Return the hints that hold for all actions: read-only if all are, destructive if one is, idempotent if all are.

    What an action does not say is as MCP has it: not read-only, destructive, not idempotent, in an open world.
    """
    if not actions:
        return {}
    told: dict[str, Any] = {
        "readOnlyHint": all(_reads_only(one) for one in actions),
        "destructiveHint": any(not _reads_only(one) and _hint(one, "destructiveHint", True) for one in actions),
        "idempotentHint": all(_reads_only(one) or _hint(one, "idempotentHint", False) for one in actions),
        "openWorldHint": any(_hint(one, "openWorldHint", True) for one in actions),
    }
    return told if title is None else {"title": title, **told}


def _reads_only(action: Action) -> bool:
    return _hint(action, "readOnlyHint", False)


def _hint(action: Action, name: str, otherwise: bool) -> bool:
    """Return a hint; one that is no boolean was not given."""
    given: object = action.annotations.get(name)
    return given if isinstance(given, bool) else otherwise
