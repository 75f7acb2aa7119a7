"""How a run goes, on stderr: one line a step that changes in a terminal, else a line for each thing that happens."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any

import click

from weft.cli.output import note, plain
from weft.ports import is_object

MARKS: Mapping[str, tuple[str, str]] = {
    "waiting": ("·", "bright_black"),
    "running": ("●", "cyan"),
    "succeeded": ("✓", "green"),
    "failed": ("✗", "red"),
    "skipped": ("-", "yellow"),
    "cancelled": ("✗", "yellow"),
    "undone": ("↩", "yellow"),
    "undo_failed": ("✗", "red"),
}
SAID: Mapping[str, str] = {"succeeded": "done", "undo_failed": "not undone"}
LONGEST_NAME = 32


@dataclass(slots=True)
class Step:
    """What is known of a step."""

    id: str
    status: str = "waiting"
    began: float | None = None
    ms: float | None = None
    retries: int = 0
    why: str = ""


class Lines:
    """Prints a line for each step that ended or is tried again."""

    def __init__(self, *, now: Callable[[], float] = monotonic) -> None:
        self.steps: dict[str, Step] = {}
        self._now = now

    def hear(self, event: dict[str, Any]) -> None:
        """Take note of an event, and show it."""
        kind: str = event["event"]
        data: dict[str, Any] = event["data"]
        if kind == "run_started":
            self.steps = {id: Step(id) for id in data["steps"]}
            return
        if not kind.startswith("step_"):
            return
        step = self.steps.setdefault(data["id"], Step(data["id"]))
        step.status = data["status"]
        step.ms = data.get("duration_ms")
        step.why = _why(data)
        if kind == "step_started":
            step.began = self._now()
        elif kind == "step_retried":
            step.retries += 1
        self._changed(step, kind)

    def draw(self) -> None:
        """Show how it stands: each line has been printed already."""

    def close(self) -> None:
        """Show nothing more."""

    def stop(self) -> None:
        """Say what was done, and what was undone, of a run that was stopped."""
        for step in self.steps.values():
            if step.status == "running":
                step.status = "cancelled"
        self.close()
        groups = {"done": ("succeeded",), "undone": ("undone",), "not undone": ("undo_failed",)}
        groups |= {"stopped in its middle": ("cancelled",), "not begun": ("waiting",)}
        told = [
            f"{name}: {', '.join(found)}"
            for name, statuses in groups.items()
            if (found := [plain(one.id) for one in self.steps.values() if one.status in statuses])
        ]
        note("the run was cancelled" + (f" ({'; '.join(told)})" if told else ", and nothing of it was begun"))

    def _changed(self, step: Step, kind: str) -> None:
        if kind == "step_started":
            return
        if kind == "step_retried":
            note(plain(f"{step.id}: attempt {step.retries} failed, it is tried again: {step.why}"))
            return
        took = f" ({_seconds(step.ms)})" if step.ms is not None and step.status != "skipped" else ""
        why = f": {step.why}" if step.why else ""
        note(plain(f"{step.id}: {SAID.get(step.status, step.status)}{took}{why}"))


class Board(Lines):
    """Keeps a line for each step up to date, in a terminal that is high enough."""

    def __init__(self, *, now: Callable[[], float] = monotonic) -> None:
        super().__init__(now=now)
        self._drawn = 0

    def draw(self) -> None:
        """Show how it stands, in the place of what was shown before."""
        if not self.steps or self._is_too_high():
            return
        up = f"\x1b[{self._drawn}F" if self._drawn else ""
        columns = shutil.get_terminal_size().columns
        lines = "".join(f"\x1b[2K{self._line(one, columns)}\n" for one in self.steps.values())
        # Without colours the cursor moves all the same.
        click.echo(up + lines, err=True, nl=False, color=True)
        self._drawn = len(self.steps)

    def close(self) -> None:
        """Show the end."""
        self.draw()

    def _changed(self, step: Step, kind: str) -> None:
        if self._is_too_high():
            super()._changed(step, kind)
        else:
            self.draw()

    def _is_too_high(self) -> bool:
        return len(self.steps) >= shutil.get_terminal_size().lines - 1

    def _line(self, step: Step, columns: int) -> str:
        mark, colour = MARKS.get(step.status, ("?", "white"))
        width = min(max(len(one) for one in self.steps), LONGEST_NAME)
        said = SAID.get(step.status, step.status)
        took = self._took(step)
        more = [f"retry {step.retries}" if step.retries else "", step.why]
        text = f" {plain(step.id)[:LONGEST_NAME]:<{width}}  {said:<10}{took:>8}  {plain('  '.join(filter(None, more)))}"
        marked = mark if os.environ.get("NO_COLOR") else click.style(mark, fg=colour)
        return marked + text[: columns - 2].rstrip()

    def _took(self, step: Step) -> str:
        if step.status == "running" and step.began is not None:
            return f"{self._now() - step.began:.1f} s"
        return _seconds(step.ms) if step.ms is not None and step.status != "skipped" else ""


def display_for() -> Lines:
    """Return what suits stderr."""
    can_redraw = sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    return Board() if can_redraw else Lines()


def _why(data: Mapping[str, Any]) -> str:
    """Return why a step failed, was skipped, or is tried again."""
    because: object = data.get("because")
    error: object = data.get("error")
    if is_object(error):
        return f"{error.get('message')} [{error.get('code')}]"
    return str(because) if because is not None else ""


def _seconds(ms: float) -> str:
    return f"{ms / 1000:.1f} s" if ms >= 1000 else f"{ms:.0f} ms"
