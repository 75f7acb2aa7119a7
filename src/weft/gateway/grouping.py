"""Groups of served tools: one tool in the list for many, whose actions are these."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from weft.gateway.passing import compiled
from weft.gateway.tools import Tool
from weft.groups.action import Action
from weft.groups.calling import Handler
from weft.groups.execution.checking import arguments_check
from weft.groups.execution.resolving import resolve
from weft.groups.helping import explained, help_action
from weft.groups.listing import extra_fields, listed_tool
from weft.groups.middleware.around import Around, around
from weft.groups.rule import GROUP, GroupRule
from weft.groups.shaping.selecting import select_of
from weft.groups.strategies.fields import field_users
from weft.ports import is_object

REMEMBERED: Final = 20_000
"""Of how many members, in all selections of them, it is remembered how they are listed."""


@dataclass(frozen=True, slots=True)
class Member:
    """A tool as an action of a group."""

    key: str
    tool: Tool
    action: Action
    check: Callable[[dict[str, Any]], None]
    """Refuses arguments that the tool does not take, in sentences from which a model learns."""

    bytes: int
    """How long its own entry of the list is."""

    around: Handler | None = None
    """The middleware around the tool and around the group, compiled."""


@dataclass(frozen=True, slots=True)
class Meant:
    """What a call of a group comes to: one of its members, with the arguments that are the member's own."""

    group: Grouped
    member: Member
    arguments: dict[str, Any]
    select: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Grouped:
    """A group as it is served, with the members that are there for somebody."""

    rule: GroupRule
    members: Mapping[str, Member]
    """By the key of the action."""

    listed: dict[str, Any]
    helps: Action | None
    """The action that explains the others, when their descriptions are left out."""

    choices: Mapping[str, Member | None] = field(repr=False)
    """The same members, and None under the key of the action that explains them."""

    middleware: Sequence[Around] = field(repr=False)
    """What stands around calls of tools, of which a part may be for the group's name."""

    _narrower: dict[tuple[str, ...], Grouped] = field(
        default_factory=dict[tuple[str, ...], "Grouped"], repr=False, compare=False
    )

    @property
    def name(self) -> str:
        """The name of the tool that it is."""
        return self.rule.name

    @property
    def tools(self) -> frozenset[str]:
        """The names of its members' tools."""
        return frozenset(one.tool.name for one in self.members.values())

    def limited_to(self, tools: Mapping[str, Tool]) -> Grouped | None:
        """Return it with those members only whose tools are given, in the versions given; None when none is left."""
        kept = {key: tools[one.tool.name] for key, one in self.members.items() if one.tool.name in tools}
        if len(kept) == len(self.members) and all(kept[key] is one.tool for key, one in self.members.items()):
            return self
        if not kept:
            return None
        asked = tuple(f"{key} {tool.key}" for key, tool in kept.items())
        found = self._narrower.get(asked)
        if found is None:
            found = made(self.rule, kept, self.middleware)
            if len(self._narrower) >= most_remembered(len(self.members)):
                self._narrower.clear()
            self._narrower[asked] = found
        return found

    def meant(self, arguments: dict[str, Any]) -> Meant | dict[str, Any]:
        """Return which member a call means, or, when it asks for an explanation, that.

        Raises:
            ExecutionFailed: no action is named, or none of this group.
        """
        rule = self.rule
        _, member, given = resolve(self.choices, arguments, tool=rule.name, discriminator=rule.discriminator)
        if member is None:
            assert self.helps is not None, "or there would be a member"
            actions = {key: one.action for key, one in self.members.items()}
            return explained(
                actions,
                given,
                helps=self.helps,
                discriminator=rule.discriminator,
                tool=rule.name,
                extra=extra_fields(rule.response),
            )
        select, given = select_of(given) if rule.response.select else (None, given)
        return Meant(self, member, given, select)


def most_remembered(members: int) -> int:
    """Return for how many callers it is remembered what they see of so many members: each has a text of its own."""
    return max(REMEMBERED // max(members, 1), 20)


def made(rule: GroupRule, tools: Mapping[str, Tool], middleware: Sequence[Around]) -> Grouped:
    """Return a group of tools, by the keys of their actions.

    Raises:
        DocumentInvalid: one has a field that the group needs for itself.
    """
    actions = {key: action_of(key, tool) for key, tool in tools.items()}
    users = field_users(list(actions.values()))
    members = {
        key: Member(
            key,
            tool,
            actions[key],
            arguments_check(actions[key], tool=rule.name, others=users),
            len(orjson.dumps(tool.listed)),
            compiled((*around((*tool.facts.names, rule.name), middleware), *rule.middleware)),
        )
        for key, tool in tools.items()
    }
    helps = None if rule.detail == "full" else help_action(list(actions.values()), discriminator=rule.discriminator)
    choices: dict[str, Member | None] = dict(members)
    if helps is not None:
        choices[helps.key] = None
    told = {"actions": len(members), "bytes": sum(one.bytes for one in members.values())}
    listed = listed_tool(
        rule.name,
        list(actions.values()),
        title=rule.title,
        about=rule.description,
        discriminator=rule.discriminator,
        format=rule.format,
        detail=rule.detail,
        conflicts="union",
        response=rule.response,
        helps=helps,
        meta={GROUP: told},
    )
    return Grouped(rule, members, listed, helps, choices, middleware)


def action_of(key: str, tool: Tool) -> Action:
    """Return a tool as an action, from what its own entry of the list says."""
    listed = tool.listed
    hints: object = listed.get("annotations")
    annotations = hints if is_object(hints) else {}
    title: object = listed.get("title") or annotations.get("title")
    told: object = listed.get("description")
    schema: object = listed.get("inputSchema")
    return Action(
        key=key,
        schema=schema if is_object(schema) else {},
        title=title if isinstance(title, str) else None,
        description=told if isinstance(told, str) else None,
        annotations=annotations,
    )
