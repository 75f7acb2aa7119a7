"""Logs: one event a line on stderr, as text for people or as JSON for machines; nothing in them steers a terminal.

What others say (tool names, error texts, headers) cannot begin a line of its own; a value whose name says that it is
secret is not shown.
"""

from __future__ import annotations

import logging
import re
import sys
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, Literal, TextIO, cast

import orjson

from weft.redaction import HIDDEN, is_secret_name

LogFormat = Literal["auto", "text", "json"]

_MOST_TEXT: Final = 2000
_MOST_TRACE: Final = 20_000
_MOST_DEPTH: Final = 6
_FIELDS: Final = "weft_fields"
_STACK: Final = "weft_stack"

# The C0 and C1 controls, the two line separators of Unicode, and what changes the direction of writing.
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_NEEDS_QUOTES: Final = re.compile(r'[\s="]|^$')
_NAMES: Final = {"WARNING": "WARN", "CRITICAL": "FATAL"}


class Log:
    """Says what happens in one room of weft, as a sentence and the facts that belong to it."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(f"weft.{name}")

    def debug(self, message: str, **fields: object) -> None:
        """Say what only somebody who looks for a fault wants to know."""
        self._say(logging.DEBUG, message, fields)

    def info(self, message: str, **fields: object) -> None:
        """Say what an operator wants to know."""
        self._say(logging.INFO, message, fields)

    def warning(self, message: str, **fields: object) -> None:
        """Say what an operator should look at."""
        self._say(logging.WARNING, message, fields)

    def error(self, message: str, *, stack: str | None = None, **fields: object) -> None:
        """Say what does not work; the exception that is being handled goes along."""
        self._say(logging.ERROR, message, fields, stack=stack, exc_info=sys.exc_info()[0] is not None)

    def _say(
        self, level: int, message: str, fields: dict[str, object], *, stack: str | None = None, exc_info: bool = False
    ) -> None:
        if self._logger.isEnabledFor(level):
            # The sentence goes as an argument: a percent sign in it is only a percent sign.
            extra = {_FIELDS: fields, _STACK: stack}
            self._logger.log(level, "%s", message, extra=extra, exc_info=exc_info)


class Episodes:
    """Says once that trouble has begun and once that it is over, however often it is met in between."""

    def __init__(self, log: Log, *, most: int = 1000) -> None:
        self.log = log
        self._most = most
        self._open: dict[str, tuple[str, dict[str, object]]] = {}

    def trouble(self, key: str, message: str, **fields: object) -> None:
        """Say it, unless it was the last thing said of this trouble."""
        if self._open.get(key) == (message, fields):
            return
        if len(self._open) >= self._most:
            self._open.pop(next(iter(self._open)))
        self._open[key] = (message, fields)
        self.log.warning(message, **fields)

    def over(self, key: str, message: str, **fields: object) -> None:
        """Say that it is over, if anything was said of it."""
        if self._open.pop(key, None) is not None:
            self.log.info(message, **fields)

    def forget(self, key: str) -> None:
        """End the trouble without a word: something else says it."""
        self._open.pop(key, None)


def configure(
    *,
    format: LogFormat = "auto",
    level: str = "INFO",
    stream: TextIO | None = None,
    redact: Callable[[str], str] | None = None,
) -> Callable[[], None]:
    """Send all logs of this process to stderr (or a stream) and return what undoes it; `redact` sees every text."""
    out = stream or sys.stderr
    people = format == "text" or (format == "auto" and out.isatty())
    handler = _Handler(out)
    handler.setFormatter((_Text if people else _JsonLines)(redact))
    root, ours = logging.getLogger(), logging.getLogger("weft")
    before = root.level, ours.level
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    ours.setLevel(level.upper())

    def undo() -> None:
        root.removeHandler(handler)
        root.setLevel(before[0])
        ours.setLevel(before[1])

    return undo


class _Handler(logging.StreamHandler[TextIO]):
    def handleError(self, record: logging.LogRecord) -> None:
        """Say nothing: stderr is closed or its reader is gone, and a call must not fail for it."""


class _Written:
    """What a record says, made safe: redacted, shortened, as plain JSON values."""

    def __init__(self, redact: Callable[[str], str] | None) -> None:
        self._redact = redact

    def text(self, text: str, most: int = _MOST_TEXT) -> str:
        # Redacted before it is cut: half a secret does not look like one.
        shown = text if self._redact is None else self._redact(text[: 2 * most])
        return shown if len(text) <= most else f"{shown[:most]}... ({len(text)} characters)"

    def fields(self, record: logging.LogRecord) -> dict[str, Any]:
        given = cast("dict[str, object]", getattr(record, _FIELDS, {}))
        return {name: self.value(value, name) for name, value in given.items()}

    def value(self, value: object, name: str = "", depth: int = 0) -> Any:
        if name and value is not None and is_secret_name(name):
            return HIDDEN
        if isinstance(value, bool | int | float | None):
            return value
        if depth >= _MOST_DEPTH:
            return "..."
        if isinstance(value, dict):
            pairs = cast("dict[object, object]", value).items()
            return {self.text(str(key)): self.value(item, str(key), depth + 1) for key, item in pairs}
        if isinstance(value, list | tuple | set | frozenset):
            return [self.value(item, "", depth + 1) for item in cast("list[object]", value)]
        return self.text(str(value))

    def trace(self, record: logging.LogRecord) -> str | None:
        stack = cast("str | None", getattr(record, _STACK, None))
        if stack is None and record.exc_info and record.exc_info[0] is not None:
            stack = "".join(traceback.format_exception(*record.exc_info))
        return None if stack is None else self.text(stack.rstrip("\n"), _MOST_TRACE)


class _JsonLines(logging.Formatter):
    def __init__(self, redact: Callable[[str], str] | None) -> None:
        super().__init__()
        self._written = _Written(redact)

    def format(self, record: logging.LogRecord) -> str:
        told: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._written.text(record.getMessage()),
        }
        # A fact cannot pass for the time or the level of its line.
        told |= {(f"{name}_" if name in told else name): value for name, value in self._written.fields(record).items()}
        if (trace := self._written.trace(record)) is not None:
            told["stack"] = trace
        return _CONTROL.sub(_json_escape, _json(told))


class _Text(logging.Formatter):
    def __init__(self, redact: Callable[[str], str] | None) -> None:
        super().__init__()
        self._written = _Written(redact)

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        level = _NAMES.get(record.levelname, record.levelname)
        facts = "".join(f"  {_plain(name)}={_fact(value)}" for name, value in self._written.fields(record).items())
        line = f"{time} {level:<5} {_plain(self._written.text(record.getMessage()))}{facts}"
        if (trace := self._written.trace(record)) is None:
            return line
        # Set off, so that no line of it can pass for an event.
        return "\n".join([line, *(f"    | {_plain(part)}" for part in trace.split("\n"))])


def _json(told: dict[str, Any]) -> str:
    try:
        return orjson.dumps(told).decode()
    except orjson.JSONEncodeError:
        # Half of a surrogate pair, or an integer beyond 64 bits: rare enough to be dealt with only when it happens.
        return orjson.dumps(_plainest(told)).decode()


def _plainest(value: Any) -> Any:
    if isinstance(value, dict):
        return {_plain(key): _plainest(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_plainest(item) for item in cast("list[Any]", value)]
    return value if isinstance(value, bool | float | None) else _plain(str(value))


def _fact(value: Any) -> str:
    text = value if isinstance(value, str) else _json({"": value})[4:-1]
    if not isinstance(value, str):
        return _plain(text)
    return _plain(_json({"": text})[4:-1] if _NEEDS_QUOTES.search(text) else text)


def _plain(text: str) -> str:
    return _CONTROL.sub(_text_escape, text)


def _text_escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def _json_escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"
