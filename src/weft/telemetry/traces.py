"""Recent traces: what the last calls did, kept within bounds; how a call went, never what it was given."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from time import monotonic
from typing import Any, Final, Protocol

import orjson

MOST_TEXT: Final = 500
_RECORD_BYTES: Final = 800
_SPAN_BYTES: Final = 250
_SPANS_UNTOLD: Final = 32
_BATCH: Final = 50


class Tree(Protocol):
    """A call's spans as a tree."""

    def to_json(self) -> dict[str, Any]:
        """Return the tree as JSON."""
        ...


Spans = Callable[[], Any]
"""Gives the tree of a call's spans when somebody wants to see it; None when there is none."""


class Record:
    """One call of a client, from its beginning; `outcome` is empty while it runs."""

    __slots__ = (
        "began", "bytes", "ended", "error", "method", "name", "outcome", "parent_id", "sampled", "server", "span_id",
        "spans", "trace_id", "tree", "wall",
    )  # fmt: skip

    trace_id: str
    span_id: str
    parent_id: str | None
    sampled: bool
    method: str
    name: str
    wall: float
    began: float
    ended: float
    outcome: str
    server: str | None
    error: str | None
    spans: Spans | None
    tree: bytes | None
    bytes: int

    @property
    def seconds(self) -> float:
        """How long the call took."""
        return self.ended - self.began


class Traces:
    """The last calls, at most so many and so many bytes.

    Trees are made late, since most are never looked at; but not too late, since what a tree is made of keeps the
    snapshot alive that the call ran in.
    """

    def __init__(
        self,
        *,
        keep: int = 1000,
        max_bytes: int = 16 << 20,
        settle_after: float = 5.0,
        redact: Callable[[str], str] | None = None,
    ) -> None:
        self._keep = keep
        self._max_bytes = max_bytes
        self._settle_after = settle_after
        self._redact = redact or _as_it_is
        self._records: deque[Record] = deque()
        self._pending: deque[Record] = deque()
        self._bytes = 0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, record: Record, *, spans: int = 0) -> None:
        """Keep a call that has ended, with about so many spans; the oldest make room."""
        records = self._records
        records.append(record)
        if record.spans is None:
            record.bytes = _RECORD_BYTES
        else:
            record.bytes = _RECORD_BYTES + (spans or _SPANS_UNTOLD) * _SPAN_BYTES
            self._pending.append(record)
            if self._timer is None:
                self._arm(self._settle_after)
        self._bytes += record.bytes
        while len(records) > self._keep or (self._bytes > self._max_bytes and records):
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        oldest = self._records.popleft()
        self._bytes -= oldest.bytes
        if self._pending and self._pending[0] is oldest:
            self._pending.popleft()

    def settle(self) -> None:
        """Make the trees of all calls kept, soon and a few at a time: a new snapshot is served, the old one may go."""
        self._arm(0.0, before=monotonic())

    def _arm(self, delay: float, *, before: float | None = None) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_later(delay, self._settle_due, before)

    def _settle_due(self, before: float | None) -> None:
        self._timer = None
        due = monotonic() - self._settle_after if before is None else before
        for _ in range(_BATCH):
            if not self._pending or self._pending[0].ended > due:
                break
            self._settle(self._pending.popleft())
        if self._pending:
            more = self._pending[0].ended <= due
            self._arm(0.0 if more else self._settle_after, before=before if more else None)

    def _settle(self, record: Record) -> None:
        spans, record.spans = record.spans, None
        record.tree = None if spans is None else self._tree(spans)
        size = _RECORD_BYTES + len(record.tree or b"")
        self._bytes += size - record.bytes
        record.bytes = size

    def _tree(self, spans: Spans) -> bytes | None:
        try:
            tree: Tree | None = spans()
            return None if tree is None else orjson.dumps(self._clean(tree.to_json()))
        except Exception:
            # Surprising, and no reason to lose the other traces or to fail whoever looks at one.
            return None

    def _clean(self, span: dict[str, Any]) -> dict[str, Any]:
        if isinstance(error := span.get("error"), str):
            # Redacted before it is cut: half a secret does not look like one.
            span["error"] = self._redact(error[: 8 * MOST_TEXT])[:MOST_TEXT]
        for child in span.get("children", ()):
            self._clean(child)
        return span

    def get(self, trace_id: str) -> list[dict[str, Any]]:
        """Return the calls of a trace with their trees of spans, oldest first."""
        return [self._whole(record) for record in self._records if record.trace_id == trace_id]

    def recent(self, count: int = 50, *, tool: str | None = None) -> list[dict[str, Any]]:
        """Return the last calls, of one tool or of all, newest first and without trees."""
        found: list[dict[str, Any]] = []
        for record in reversed(self._records):
            if len(found) == count:
                break
            if tool is None or record.name == tool:
                found.append(self._summary(record))
        return found

    def _whole(self, record: Record) -> dict[str, Any]:
        tree = record.tree if record.spans is None else self._tree(record.spans)
        return {**self._summary(record), **({} if tree is None else {"spans": orjson.loads(tree)})}

    def _summary(self, record: Record) -> dict[str, Any]:
        told: dict[str, Any] = {
            "id": record.trace_id,
            "span": record.span_id,
            "parent": record.parent_id,
            "time": datetime.fromtimestamp(record.wall, UTC).isoformat(timespec="milliseconds"),
            "method": record.method,
            "tool": record.name,
            "server": record.server,
            "outcome": record.outcome,
            "ms": round(record.seconds * 1000, 3),
            "error": None if record.error is None else self._redact(record.error),
        }
        return {key: value for key, value in told.items() if value is not None}


def _as_it_is(text: str) -> str:
    return text
