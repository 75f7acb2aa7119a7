"""Records of the audit log: what is said of a call, a step or an event, and how that is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from weft.telemetry.auditchain import written

Kind = Literal["call", "step", "security"]
Decision = Literal["allow", "deny"]
MOST_TEXT = 256
MOST_READ = 4096
REMEMBERED = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One call, inner step or event of security; `arguments` is what `AuditLog.fingerprint` gave."""

    kind: Kind = "call"
    event: str | None = None
    """What happened, of an event of security."""

    count: int | None = None
    """How many such events the record stands for."""

    principal: str
    tenant: str | None = None
    label: str | None = None
    """What the client calls itself."""

    server: str | None = None
    tool: str | None = None
    spec: str | None = None
    decision: Decision
    reason: str | None = None
    arguments: str | None = None
    outcome: str | None = None
    ms: float | None = None
    trace: str | None = None

    @property
    def secure(self) -> bool:
        """Whether it may never be lost."""
        return self.kind == "security" or self.decision == "deny"


class Scribe:
    """Writes entries as the text of records: redacted, cut, in ASCII."""

    def __init__(self, redact: Callable[[str], str] | None) -> None:
        self._redact = redact
        # The same few names stand in most records, and to redact one costs more than to write the record.
        self._remembered = lru_cache(REMEMBERED)(self._text)

    def told(self, entry: Entry) -> str:
        """Return a record without its braces, its number and its time."""
        told = f'"kind":"{entry.kind}"'
        for name, text in (
            ("event", entry.event),
            ("principal", entry.principal),
            ("tenant", entry.tenant),
            ("label", entry.label),
            ("server", entry.server),
            ("tool", entry.tool),
            ("spec", entry.spec),
            ("decision", entry.decision),
            ("reason", entry.reason),
            ("outcome", entry.outcome),
        ):
            if text is not None:
                told += f',"{name}":{self._remembered(text) if len(text) <= MOST_TEXT else self._text(text)}'
        if entry.arguments is not None:
            told += f',"arguments":{_mark(entry.arguments)}'
        if entry.count is not None:
            told += f',"count":{entry.count}'
        if entry.ms is not None:
            told += f',"ms":{round(entry.ms, 3)}'
        return told if entry.trace is None else f'{told},"trace":{_mark(entry.trace)}'

    def _text(self, text: str) -> str:
        # Redacted before it is cut: half a secret does not look like one.
        shown = text[:MOST_READ] if self._redact is None else self._redact(text[:MOST_READ])
        return written(shown if len(shown) <= MOST_TEXT else shown[:MOST_TEXT] + "...")


def _mark(text: str) -> str:
    """Return a hash or an id, which is different in each record, as JSON."""
    return f'"{text}"' if text.isalnum() and text.isascii() else written(text[:MOST_TEXT])
