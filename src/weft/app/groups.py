"""Groups of tools, as weft.yaml and the registry say them together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.app.middleware import Kept, middleware_of
from weft.config import Config
from weft.config.groups import Group
from weft.errors import DocumentInvalid, Problem
from weft.groups.calling import Middleware
from weft.groups.rule import GroupRule, ResponseRule
from weft.ir.document import Document
from weft.ir.groups import GroupDef


def groups_of(config: Config, *, kept: Kept | None = None) -> tuple[GroupRule, ...]:
    """Return the groups of weft.yaml; of `kept`, the middleware of before, goes on what is still set the same.

    Raises:
        DocumentInvalid: with every function for middleware of a group that cannot be imported.
    """
    around = _middleware(config, kept)
    return tuple(replace(_rule(name, one, one.views), middleware=around[name]) for name, one in config.groups.items())


def registry_groups(document: Document) -> tuple[GroupRule, ...]:
    """Return the groups of a registry."""
    return tuple(_rule(group.name, group) for group in document.groups)


def _middleware(config: Config, kept: Kept | None) -> dict[str, tuple[Middleware, ...]]:
    """Return what stands around the actions of each group of weft.yaml."""
    found: dict[str, tuple[Middleware, ...]] = {}
    problems: list[Problem] = []
    for name, group in config.groups.items():
        try:
            made = middleware_of(group.middleware, file=config.file, at=("groups", name, "middleware"), kept=kept)
        except DocumentInvalid as error:
            problems += error.problems
        else:
            found[name] = tuple(one.middleware for one in made)
    if problems:
        raise DocumentInvalid(problems)
    return found


def _rule(name: str, group: Group | GroupDef, views: Sequence[str] = ()) -> GroupRule:
    return GroupRule(
        name=name,
        title=group.title,
        description=group.description,
        include=tuple(group.include),
        exclude=tuple(group.exclude),
        servers=tuple(group.servers),
        tags=frozenset(group.tags),
        exclude_tags=frozenset(group.exclude_tags),
        actions=dict(group.actions),
        discriminator=group.discriminator,
        format=group.format,
        detail=group.detail,
        views=tuple(views),
        keep_tools=group.keep_tools,
        response=_response(group),
    )


def _response(group: Group | GroupDef) -> ResponseRule:
    given = group.response
    if given is None:
        return ResponseRule()
    return ResponseRule(
        select=given.select, max_items=given.max_items, max_text=given.max_text, max_bytes=given.max_bytes
    )
