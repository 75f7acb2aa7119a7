"""Progress that an action tells by yielding it."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any, Final, cast

from weft.groups.calling import ToolCall

_A_LITTLE: Final = 0.001


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an action is; without `done`, as far as before."""

    done: float | None = None
    total: float | None = None
    message: str | None = None


def progress(done: float | None = None, total: float | None = None, message: str | None = None) -> Progress:
    """Return what an action yields to tell how far it is: `yield w.progress(3, 10, "three pages read")`."""
    return Progress(done, total, message)


def progress_of(given: Any) -> Progress | None:
    """Return the progress that a yielded thing stands for; None when it is a result.

    A number, `(done, total)`, `(done, total, message)` and a text, which is a message, are progress.
    """
    if isinstance(given, Progress):
        return given
    if isinstance(given, str):
        return Progress(message=given)
    if _is_number(given):
        return Progress(given)
    if not isinstance(given, tuple):
        return None
    match cast("tuple[Any, ...]", given):
        case (done, total) if _is_number(done) and _is_number(total):
            return Progress(done, total)
        case (done, total, str(message)) if _is_number(done) and (total is None or _is_number(total)):
            return Progress(done, total, message)
        case _:
            return None


def _is_number(given: Any) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool)


class Telling:
    """Tells the client of one call how far it is."""

    __slots__ = ("_call", "_counts", "_last", "_total")

    def __init__(self, call: ToolCall) -> None:
        self._call = call
        self._last: float | None = None
        self._total: float | None = None
        self._counts = True

    def tell(self, given: Any) -> bool:
        """Tell what was yielded, unless it goes down or is no number, and tell whether it was progress."""
        found = progress_of(given)
        if found is None:
            return False
        done = found.done
        if done is None or (found.message is not None and done == self._last):
            # It has to go up each time: by one where only messages come, else by next to nothing.
            last = self._last or 0.0
            self._last = last + 1 if self._counts else round(last + _A_LITTLE, 3)
        elif not isfinite(done) or (self._last is not None and done < self._last):
            return True
        else:
            self._counts, self._last = False, done
        self._total = self._total if found.total is None else found.total
        self._call.progress(self._last, self._total, found.message)
        return True
