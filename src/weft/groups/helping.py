"""The action `help` of a group that tells its actions in brief: all that is known of one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from weft.groups.action import DISCRIMINATOR, Action
from weft.groups.execution.resolving import resolve
from weft.groups.strategies.schema import input_schema
from weft.ports import Schema

KEY: Final = "help"
FIELD: Final = "of"


def help_action(actions: Sequence[Action], *, discriminator: str = DISCRIMINATOR) -> Action:
    """Return the action that explains the others, by its one field.

    It is `help` with `of`, with as many underscores before them as make them names that no action has.
    """
    key = _free(KEY, {action.key for action in actions})
    field = _free(FIELD, {discriminator, *(name for action in actions for name in action.properties)})
    of = {"type": "string", "description": "The action to explain."}
    return Action(
        key=key,
        schema={"type": "object", "properties": {field: of}, "required": [field], "additionalProperties": False},
        description="Explains an action and all of its fields.",
        annotations={"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False},
    )


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name = f"_{name}"
    return name


def explained(
    actions: Mapping[str, Action],
    given: Mapping[str, Any],
    *,
    helps: Action,
    common: Schema | None = None,
    discriminator: str = DISCRIMINATOR,
    tool: str = "help",
    extra: Mapping[str, Schema] | None = None,
) -> dict[str, Any]:
    """Return what there is to know of the action that is asked for: what it does, and the schema of a call of it.

    Raises:
        ExecutionFailed: `MissingAction` or `UnknownAction`, with those that there are.
    """
    key, action, _ = resolve(actions, given, tool=tool, discriminator=helps.required[0])
    schema = input_schema([action], common=common, discriminator=discriminator, extra=extra)
    told = {
        "action": key,
        "title": action.title,
        "description": action.description,
        "annotations": dict(action.annotations) or None,
        # Of one action it is certain what must be there.
        "inputSchema": {**schema, "required": [*dict.fromkeys((*schema["required"], *action.required))]},
    }
    return {name: value for name, value in told.items() if value is not None}
