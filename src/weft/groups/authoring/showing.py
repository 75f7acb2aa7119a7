"""What a grouped tool shows of itself: its actions, and its definition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from weft.errors import DocumentInvalid, Problem
from weft.groups.action import Action
from weft.groups.authoring.branch import Defined, Draft
from weft.groups.authoring.common import Common
from weft.groups.helping import help_action
from weft.groups.listing import listed_tool
from weft.groups.rule import ResponseRule
from weft.groups.strategies.schema import Conflicts
from weft.ir.groups import Detail, Format


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """How a grouped tool shows itself."""

    name: str
    title: str | None = None
    description: str | None = None
    discriminator: str
    format: Format
    detail: Detail
    conflicts: Conflicts
    response: ResponseRule
    icons: tuple[Mapping[str, Any], ...] = ()
    meta: Mapping[str, Any] | None = None


def listed(shown: Shown, draft: Draft, common: Common) -> list[Action]:
    """Return the actions that a tool has, `help` among them where it comes by itself."""
    actions = [_action(defined, common) for defined in draft.actions.values()]
    more = help_action(actions, discriminator=shown.discriminator) if shown.detail != "full" and actions else None
    return actions if more is None else [*actions, more]


def _action(defined: Defined, common: Common) -> Action:
    return Action(
        key=defined.key,
        schema=common.without(defined.params.schema),
        title=defined.title,
        description=defined.description,
        annotations=defined.annotations,
    )


def definition_of(shown: Shown, draft: Draft, common: Common, actions: Mapping[str, Action]) -> dict[str, Any]:
    """Return the tool as `tools/list` has it.

    Raises:
        DocumentInvalid: it has no actions, or two of them have a field that cannot be one.
    """
    if not draft.actions:
        problem = Problem(code="NoActions", message=f"the grouped tool {shown.name!r} has no action", value=shown.name)
        raise DocumentInvalid([problem])
    told = listed_tool(
        shown.name,
        [actions[key] for key in draft.actions],
        title=shown.title,
        about=shown.description,
        sections=_sections(draft),
        common=common.schema or None,
        discriminator=shown.discriminator,
        format=shown.format,
        detail=shown.detail,
        conflicts=shown.conflicts,
        response=shown.response,
        helps=next((one for one in actions.values() if one.key not in draft.actions), None),
        icons=shown.icons,
        meta=shown.meta,
    )
    # A copy: who changes what everybody reads changes neither what is checked nor what runs.
    return {name: _copied(value) for name, value in told.items()}


def _copied(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _copied(one) for name, one in cast("Mapping[str, Any]", value).items()}
    return [_copied(one) for one in cast("Sequence[Any]", value)] if isinstance(value, list | tuple) else value


def _sections(draft: Draft) -> dict[str, str]:
    """Return what is said of the groups in which an action stands."""
    used = {f"{defined.group}." for defined in draft.actions.values()}
    return {
        path: group.description
        for path, group in draft.groups.items()
        if path and group.description and any(one.startswith(f"{path}.") for one in used)
    }
