"""`weft tools --tokens`: what the list of tools costs a model, and what groups save of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

import click

from weft.cli.output import plain, plural
from weft.cli.tokens import TokenCounter
from weft.errors import ExecutionFailed
from weft.groups.rule import GROUP
from weft.ports import is_object

MOST: Final = 10**12
"""No list has more tools or bytes: another number is a slip or a joke of its server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """The tools that a grouped tool stands for: how many, and the bytes of their own list."""

    actions: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """What one tool costs."""

    name: str
    bytes: int
    tokens: int
    group: Gathered | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """What a list of tools costs, each and all."""

    weights: Sequence[Weight]
    by: TokenCounter

    @property
    def bytes(self) -> int:
        """Of all tools."""
        return sum(one.bytes for one in self.weights)

    @property
    def tokens(self) -> int:
        """Of all tools."""
        return sum(one.tokens for one in self.weights)

    def saved(self) -> dict[str, int] | None:
        """Return how many groups stand for how many tools, their bytes before and now; None without groups."""
        groups = [(one, one.group) for one in self.weights if one.group is not None]
        if not groups:
            return None
        return {
            "groups": len(groups),
            "tools": sum(group.actions for _, group in groups),
            "before": sum(group.bytes for _, group in groups),
            "after": sum(one.bytes for one, _ in groups),
        }

    def to_json(self) -> dict[str, Any]:
        """Return it as `--json` prints it."""
        told: dict[str, Any] = {
            "tools": [_told(one) for one in self.weights],
            "bytes": self.bytes,
            "tokens": self.tokens,
            "method": self.by.method,
        }
        saved = self.saved()
        return told if saved is None else {**told, "saved": saved}

    def lines(self) -> Iterator[str]:
        """Yield a line for each tool as listed, one for all, and one for what groups save."""
        total = Weight(name="total", bytes=self.bytes, tokens=self.tokens)
        rows = [(plain(one.name), f"{one.bytes:,}", f"{one.tokens:,}") for one in (*self.weights, total)]
        names, sizes, counts = (max(map(len, column)) for column in zip(*rows, strict=True))
        for (name, size, count), one in zip(rows, (*self.weights, total), strict=True):
            shown = name.ljust(names) if one is total else click.style(name.ljust(names), bold=True)
            gathered = "" if one.group is None else f"  for {plural(one.group.actions, 'tool')}"
            yield f"{shown}  {size.rjust(sizes)} bytes  {count.rjust(counts)} tokens{gathered}"
        saved = self.saved()
        if saved is not None:
            groups, verb = plural(saved["groups"], "group"), "stands" if saved["groups"] == 1 else "stand"
            part = f"{saved['after'] / saved['before']:.0%}".replace("%", " %")
            yield (
                f"{groups} {verb} for {saved['tools']:,} tool{'' if saved['tools'] == 1 else 's'}: "
                f"{saved['before']:,} bytes became {saved['after']:,} ({part})"
            )


def weigh(tools: Sequence[dict[str, Any]], *, by: TokenCounter) -> Weighed:
    """Return what tools cost: bytes of all that was received, tokens of what a model is given of it.

    Raises:
        ExecutionFailed: a tool nests so deeply that it cannot be written again.
    """
    return Weighed(weights=[_weight(tool, by) for tool in tools], by=by)


def _weight(tool: dict[str, Any], by: TokenCounter) -> Weight:
    given = {key: tool[key] for key in ("name", "description", "inputSchema") if key in tool}
    name = str(tool.get("name"))
    try:
        size = len(_compact(tool).encode("utf-8", "surrogatepass"))
        return Weight(name=name, bytes=size, tokens=by.count(_compact(given)), group=_gathered(tool))
    except RecursionError:
        raise ExecutionFailed(f"tool {name!r} nests too deeply to be counted", code="NotJson") from None


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _gathered(tool: dict[str, Any]) -> Gathered | None:
    """Return what a tool says that it stands for, if that can be."""
    meta: object = tool.get("_meta")
    group: object = meta.get(GROUP) if is_object(meta) else None
    if not is_object(group):
        return None
    actions, size = group.get("actions"), group.get("bytes")
    return Gathered(actions=actions, bytes=size) if _is_count(actions) and _is_count(size) else None


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MOST


def _told(one: Weight) -> dict[str, Any]:
    told: dict[str, Any] = {"name": one.name, "bytes": one.bytes, "tokens": one.tokens}
    return told if one.group is None else {**told, "group": {"actions": one.group.actions, "bytes": one.group.bytes}}
