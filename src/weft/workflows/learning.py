"""Learning: what the recorded runs of a template suggest for its document. Nothing is ever changed by itself."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from weft.ports import Json, is_object
from weft.workflows.schedule import has_order, outlook
from weft.workflows.statistics import Statistics, StepStatistics, percentile
from weft.workflows.steps import DocumentStep, field, steps_of

Kind = Literal["timeout", "max_concurrency", "parallel", "retry"]

ENOUGH: Final = 20
"""So many runs say something of the next."""
MARGIN: Final = 2.0
FAR: Final = 5.0
"""A time limit that is so many times the suggested one stops nothing in time."""
SHORTEST_MS: Final = 100
DEFAULT_AT_ONCE: Final = 16
MOST_AT_ONCE: Final = 64
MOST_RETRIES: Final = 3
RARE: Final = 0.01
"""Retries are enough when no more than this share of the runs of a step still fails."""
MOST_TRIED: Final = 20
"""So many steps, those that wait longest, are looked at for what they need not wait for."""

SAFE: Final = frozenset({"UpstreamUnavailable", "SessionGone", "StoreUnavailable", "StoreBusy"})
"""Codes that say that nothing was done."""
UNSURE: Final = frozenset({"UpstreamDied", "DeadlineExceeded", "Timeout"})
"""Codes that leave open whether something was done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """One change that somebody may want to make to a document, and why."""

    kind: Kind
    step: str | None = None
    current: Json = None
    suggested: Json = None
    why: str
    saves_ms: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the suggestion as people and programs are shown it."""
        told: dict[str, Any] = {
            "kind": self.kind,
            "step": self.step,
            "current": self.current,
            "suggested": self.suggested,
            "why": self.why,
        }
        return told if self.saves_ms is None else {**told, "saves_ms": self.saves_ms}


def suggestions(composition: Mapping[str, Any], statistics: Statistics) -> list[Suggestion]:
    """Return what the runs suggest; nothing, before there were enough of them or where a document cannot run."""
    steps = steps_of(composition)
    if not steps or not has_order(steps):
        return []
    measured = {id: one.durations for id, one in statistics.steps.items() if len(one.times) >= ENOUGH}
    medians = {id: percentile(all_of, 0.5) for id, all_of in measured.items()}
    return [
        *_parallel(steps, medians, _at_once(composition)),
        *_concurrency(composition, steps, medians),
        *_timeouts(steps, measured),
        *_retries(composition, steps, statistics.steps),
    ]


def _timeouts(steps: Iterable[DocumentStep], measured: Mapping[str, Sequence[float]]) -> Iterator[Suggestion]:
    for step in steps:
        took = measured.get(step.id)
        # The limit of a step that is done for each item is the limit of one item, and people take the time they take.
        if took is None or step.repeats or step.asks:
            continue
        slow, current = percentile(took, 0.99), step.timeout_ms
        suggested = max(_rounded_up(slow * MARGIN), SHORTEST_MS)
        seen = f"of {len(took)} runs, 99 % took at most {_ms(slow)} and the longest {_ms(took[-1])}"
        if current is None:
            why = f"step '{step.id}' has no time limit: {seen}"
        elif current > suggested * FAR:
            why = f"step '{step.id}' may take {_ms(current)}, far longer than it ever does: {seen}"
        elif current < slow * 1.1:
            why = f"step '{step.id}' may take {_ms(current)}, which is hardly enough: {seen}"
        else:
            continue
        yield Suggestion(kind="timeout", step=step.id, current=current, suggested=suggested, why=why)


def _parallel(steps: Sequence[DocumentStep], medians: Mapping[str, float], at_once: int) -> Iterator[Suggestion]:
    """Yield the steps that wait for others and use nothing of them, where that costs time."""
    loose = {step.id: free for step in steps if (free := _freed(step)) is not None and step.id in medians}
    tried = sorted(loose, key=lambda id: -max((medians.get(one, 0.0) for one in _dropped(loose[id], steps)), default=0))
    loose = {id: loose[id] for id in tried[:MOST_TRIED]}
    before = outlook(steps, medians, at_once=at_once).takes
    all_free = outlook([loose.get(step.id, step) for step in steps], medians, at_once=at_once).takes
    for step in steps:
        free = loose.get(step.id)
        if free is None:
            continue
        alone = before - outlook([free if one is step else one for one in steps], medians, at_once=at_once).takes
        rest = [one if one is step else loose.get(one.id, one) for one in steps]
        last = outlook(rest, medians, at_once=at_once).takes - all_free
        if max(alone, last) < 1:
            continue
        unread = _listed(one for one in step.depends_on if one not in free.depends_on)
        saved = alone if alone >= 1 else last
        goes = f"from {_ms(before)} to {_ms(before - alone)}" if alone >= 1 else f"by {_ms(last)}, with the others"
        why = (
            f"step '{step.id}' waits for {unread} and uses nothing of that; at the same time the workflow would go "
            f"{goes}, by median durations, unless it needs what {unread} changed"
        )
        yield Suggestion(
            kind="parallel", step=step.id, current=list(step.depends_on), suggested=list(free.depends_on), why=why,
            saves_ms=round(saved, 1),
        )  # fmt: skip


def _freed(step: DocumentStep) -> DocumentStep | None:
    """Return the step without what it waits for in vain; None when there is nothing such."""
    needed = tuple(one for one in step.depends_on if one in step.reads)
    # One that goes on with the first of several is there for their order.
    return None if step.first or needed == step.depends_on else replace(step, depends_on=needed)


def _dropped(free: DocumentStep, steps: Iterable[DocumentStep]) -> list[str]:
    written = next(step.depends_on for step in steps if step.id == free.id)
    return [one for one in written if one not in free.depends_on]


def _concurrency(
    composition: Mapping[str, Any], steps: Sequence[DocumentStep], medians: Mapping[str, float]
) -> Iterator[Suggestion]:
    if len(medians) < len(steps) or any(step.repeats for step in steps):
        return  # How wide it is cannot be told of steps that nobody has measured, or that are many.
    at_once, free = _at_once(composition), outlook(steps, medians)
    written = field(composition, "max_concurrency")
    if free.widest > at_once and at_once < MOST_AT_ONCE:
        suggested = min(free.widest, MOST_AT_ONCE)
        now, then = (outlook(steps, medians, at_once=limit).takes for limit in (at_once, suggested))
        if now - then >= 1:
            why = (
                f"{free.widest} steps could run at the same moment and only {at_once} may; with {suggested} the "
                f"workflow would go from {_ms(now)} to {_ms(then)}, by median durations"
            )
            saves = round(now - then, 1)
            yield Suggestion(
                kind="max_concurrency", current=written, suggested=suggested, why=why, saves_ms=saves
            )  # fmt: skip
    elif isinstance(written, int) and free.widest < written:
        why = f"{written} steps may run at the same moment, and no more than {free.widest} ever do"
        yield Suggestion(kind="max_concurrency", current=written, suggested=free.widest, why=why)


def _retries(
    composition: Mapping[str, Any], steps: Iterable[DocumentStep], known: Mapping[str, StepStatistics]
) -> Iterator[Suggestion]:
    handling = field(composition, "error_handling")
    handling = handling if is_object(handling) else {}
    most = field(handling, "max_retries")
    usual = most if isinstance(most, int) else 3 if field(handling, "failure_strategy") == "retry" else 0
    for step in steps:
        seen = known.get(step.id)
        if seen is None or seen.runs < ENOUGH or step.asks or step.repeats:
            continue
        passing = {code: count for code, count in seen.codes.items() if code in SAFE | UNSURE}
        final = sum(seen.codes.values()) - sum(passing.values())
        # What a retry mended left no code: that it was tried again says that it could be.
        chance = (seen.attempts - seen.succeeded - final) / seen.attempts
        current = usual if step.retry_count is None else step.retry_count
        needed = next((n for n in range(1, MOST_RETRIES) if _rare(chance, n)), MOST_RETRIES)
        if not passing or chance > 0.5 or _rare(chance, current) or needed <= current:
            continue
        if step.at_most_once and not passing.keys() <= SAFE:
            continue
        codes = ", ".join(f"{code} {count}" for code, count in passing.items())
        why = (
            f"step '{step.id}' failed in {sum(passing.values())} of {seen.runs} runs with what may pass ({codes}); "
            f"{needed} {'retry' if needed == 1 else 'retries'} would leave about {chance ** (needed + 1):.1%}"
        )
        if not passing.keys() <= SAFE:
            why += ", if doing it twice does no harm: some of these leave open whether it was done"
        yield Suggestion(kind="retry", step=step.id, current=step.retry_count, suggested=needed, why=why)


def _rare(chance: float, retries: int) -> bool:
    return round(chance ** (retries + 1), 9) <= RARE


def _at_once(composition: Mapping[str, Any]) -> int:
    written = field(composition, "max_concurrency")
    return written if isinstance(written, int) and written > 0 else DEFAULT_AT_ONCE


def _rounded_up(ms: float) -> int:
    """Return whole milliseconds with two digits that count."""
    unit = 10 ** max(math.floor(math.log10(max(ms, 1))) - 1, 0)
    return math.ceil(ms / unit) * unit


def _ms(ms: float) -> str:
    return f"{ms:.0f} ms" if ms >= 10 else f"{ms:.1f} ms"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
