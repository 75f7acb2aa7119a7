"""A grouped tool as `tools/list` has it, put together by the strategies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.groups.action import DISCRIMINATOR, Action
from weft.groups.rule import ResponseRule
from weft.groups.shaping.selecting import SELECT, SELECTED
from weft.groups.strategies.annotations import merged_annotations
from weft.groups.strategies.description import markdown_description
from weft.groups.strategies.schema import Conflicts, input_schema
from weft.groups.strategies.toon import toon_description
from weft.ir.groups import Detail, Format
from weft.ports import Schema


def listed_tool(
    name: str,
    actions: Sequence[Action],
    *,
    title: str | None = None,
    about: str | None = None,
    sections: Mapping[str, str] | None = None,
    common: Schema | None = None,
    discriminator: str = DISCRIMINATOR,
    format: Format = "markdown",
    detail: Detail = "full",
    conflicts: Conflicts = "error",
    response: ResponseRule | None = None,
    helps: Action | None = None,
    icons: Sequence[Mapping[str, Any]] = (),
    meta: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the entry of a tool with these actions: no schema of results, since each action gives something else.

    Raises:
        DocumentInvalid: actions disagree about a field, or one has the name of a field that means something else.
    """
    describe = toon_description if format == "toon" else markdown_description
    told = {
        "name": name,
        "title": title,
        "description": describe(
            actions,
            about=about,
            sections=sections,
            common=common,
            discriminator=discriminator,
            detail=detail,
            helps=helps,
        ),
        "inputSchema": input_schema(
            actions,
            common=common,
            discriminator=discriminator,
            conflicts=conflicts,
            detail=detail,
            extra=extra_fields(response),
            helps=helps,
        ),
        "annotations": merged_annotations([*actions, *([] if helps is None else [helps])], title=title),
        "icons": list(icons) or None,
        "_meta": meta or None,
    }
    return {key: value for key, value in told.items() if value is not None}


def extra_fields(response: ResponseRule | None) -> dict[str, Schema]:
    """Return the fields of weft's own that calls of a grouped tool may have."""
    return {SELECTED: SELECT} if response is None or response.select else {}
