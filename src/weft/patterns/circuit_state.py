"""The state of a circuit, and the rules by which it changes: no I/O, no clock of its own.

closed -- too many failures in the window --> open -- after a while --> half open -- enough successes --> closed
                                              ^------------- one failure --------------'
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import orjson

from weft.ports import Json, is_array, is_object

Phase = Literal["closed", "open", "half_open"]
Outcome = Literal["success", "failure", "neutral"]

BUCKETS: Final = 20
"""How finely the window slides: failures further apart than it never count together, nor do a few just within it."""
ROUNDING: Final = 1e-6
BUSY_PAUSE: Final = 1.0
"""When to ask again while a probe is under way."""
UNBORN: Final = -1
"""The epoch of a state that no store has yet: nothing has happened, so whoever reports first makes one."""
_FORMAT: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitRules:
    """When a circuit opens, for how long, and what closes it; seconds."""

    failure_threshold: int
    failure_window: float
    reset_timeout: float
    success_threshold: int = 1
    half_open_max_concurrent: int = 1
    failure_rate: float | None = None
    minimum_calls: int = 1
    max_reset_timeout: float | None = None
    """With it, each opening in a row lasts twice as long as the one before, up to this."""

    def open_for(self, openings: int) -> float:
        """Return how long the circuit stays open when it opens for so many a time in a row."""
        if self.max_reset_timeout is None:
            return self.reset_timeout
        return min(self.reset_timeout * 2.0 ** min(openings - 1, 60), self.max_reset_timeout)

    def longest(self) -> float:
        """Return the longest time that a circuit stays open."""
        return self.max_reset_timeout or self.reset_timeout


class Permit(NamedTuple):
    """A call that was let through: in which generation of the circuit, and with which place as a probe."""

    epoch: int
    generation: int
    probe: int | None = None


class Refusal(NamedTuple):
    """A call that was not: `left` is after how many seconds it makes sense to ask again, if that is known."""

    phase: Phase
    left: float | None


class Move(NamedTuple):
    """A transition."""

    was: Phase
    to: Phase


Moves: TypeAlias = "list[Move]"


@dataclass(slots=True)
class CircuitState:
    """Where a circuit stands. Outcomes of calls that began before its last transition do not count."""

    epoch: int = 0
    """Another one for each life of the state: one that was lost and made anew knows nothing of old permits."""
    generation: int = 0
    phase: Phase = "closed"
    forced: bool = False
    """Held open by an operator, until it is reset."""
    since: float = 0.0
    openings: int = 0
    successes: int = 0
    probes: dict[int, tuple[float, float]] = field(default_factory=dict[int, tuple[float, float]])
    """When each probe began, and for how long it may take."""
    granted: int = 0
    buckets: list[list[int]] = field(default_factory=list[list[int]])
    """The parts of the window in which something happened: which, how many calls, how many failures."""
    changed: bool = field(default=False, compare=False)

    # -- calls -------------------------------------------------------------------------------------------------------

    def admit(self, rules: CircuitRules, now: float, lease: float, moves: Moves) -> Permit | Refusal:
        """Let a call through or not; a probe that has not reported after its lease counts as failed."""
        self._advance(rules, now, moves)
        if self.forced:
            return Refusal("open", None)
        if self.phase == "closed":
            return Permit(self.epoch, self.generation)
        if self.phase == "open":
            return Refusal("open", max(0.0, self.since + rules.open_for(self.openings) - now))
        if len(self.probes) >= rules.half_open_max_concurrent:
            return Refusal("half_open", min(BUSY_PAUSE, rules.reset_timeout))
        self.granted += 1
        self.probes[self.granted] = (now, lease)
        self.changed = True
        return Permit(self.epoch, self.generation, self.granted)

    def report(self, rules: CircuitRules, permit: Permit, outcome: Outcome, now: float, moves: Moves) -> None:
        """Take the outcome of a call that was let through."""
        if self.phase == "half_open":
            self._advance(rules, now, moves)
        if permit.epoch not in (self.epoch, UNBORN) or permit.generation != self.generation or self.forced:
            return
        if self.phase == "closed":
            self._record(rules, outcome, now, moves)
        elif permit.probe is not None and self.probes.pop(permit.probe, None) is not None:
            self.changed = True
            if outcome == "failure":
                self._open(now, moves)
            elif outcome == "success":
                self.successes += 1
                if self.successes >= rules.success_threshold:
                    self._move("closed", now, moves)

    def _record(self, rules: CircuitRules, outcome: Outcome, now: float, moves: Moves) -> None:
        if outcome == "neutral" or (outcome == "success" and rules.failure_rate is None):
            return
        bucket = self._bucket(rules, now)
        bucket[1] += 1
        bucket[2] += outcome == "failure"
        self.changed = True
        if outcome == "failure" and self._is_too_much(rules):
            self._open(now, moves)

    def _bucket(self, rules: CircuitRules, now: float) -> list[int]:
        index = int(now / (rules.failure_window / BUCKETS))
        if not self.buckets or self.buckets[-1][0] != index:
            # Also drops what lies in the future, where a clock was put back.
            self.buckets = [one for one in self.buckets if index - BUCKETS < one[0] < index]
            self.buckets.append([index, 0, 0])
        return self.buckets[-1]

    def _is_too_much(self, rules: CircuitRules) -> bool:
        calls, failures = (sum(one[part] for one in self.buckets) for part in (1, 2))
        if failures < rules.failure_threshold:
            return False
        rate = rules.failure_rate
        return rate is None or (calls >= rules.minimum_calls and failures >= rate * calls)

    # -- transitions -------------------------------------------------------------------------------------------------

    def _advance(self, rules: CircuitRules, now: float, moves: Moves) -> None:
        """Make the transitions that time alone makes, each at its own moment, however late somebody looks."""
        while not self.forced and self.phase != "closed":
            self._clamp(now)
            if self.phase == "open":
                if now < self.since + rules.open_for(self.openings) - ROUNDING:
                    return
                self._move("half_open", now, moves)
            ends = min((began + lease for began, lease in self.probes.values()), default=now + 1)
            if now < ends - ROUNDING:
                return
            self._open(ends, moves)

    def _clamp(self, now: float) -> None:
        """Let what seems to lie in the future begin now: a clock that was put back delays by one interval at most."""
        if self.since > now:
            self.since, self.changed = now, True
        if any(began > now for began, _ in self.probes.values()):
            self.probes = {probe: (min(began, now), lease) for probe, (began, lease) in self.probes.items()}
            self.changed = True

    def _open(self, at: float, moves: Moves) -> None:
        self.openings += 1
        self._move("open", at, moves)

    def _move(self, to: Phase, at: float, moves: Moves) -> None:
        moves.append(Move(self.phase, to))
        self.phase = to
        self.since = at
        self.generation += 1
        self.successes = 0
        self.probes = {}
        self.buckets = []
        if to == "closed":
            self.openings = 0
        self.changed = True

    # -- operators ---------------------------------------------------------------------------------------------------

    def force_open(self, now: float, moves: Moves) -> None:
        """Open the circuit until it is reset."""
        if self.phase != "open":
            self._open(now, moves)
        self.forced = self.changed = True

    def reset(self, now: float, moves: Moves) -> None:
        """Close the circuit and forget all failures."""
        self.forced = False
        if self.phase == "closed":
            self.generation += 1
            self.buckets = []
            self.changed = True
        else:
            self._move("closed", now, moves)

    def failures(self, rules: CircuitRules, now: float) -> int:
        """Return how many failures count now."""
        index = int(now / (rules.failure_window / BUCKETS))
        return sum(one[2] for one in self.buckets if index - BUCKETS < one[0] <= index)

    # -- in a store --------------------------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """Return the state as a store keeps it."""
        told: dict[str, Json] = {
            "format": _FORMAT,
            "epoch": self.epoch,
            "generation": self.generation,
            "phase": self.phase,
            "forced": self.forced,
            "since": self.since,
            "openings": self.openings,
            "successes": self.successes,
            "probes": [[probe, began, lease] for probe, (began, lease) in self.probes.items()],
            "granted": self.granted,
            "buckets": [list[Json](one) for one in self.buckets],
        }
        return orjson.dumps(told)

    @classmethod
    def of_bytes(cls, written: bytes) -> CircuitState | None:
        """Return the state that `to_bytes` wrote; None when it is damaged or of another format."""
        try:
            told: Any = orjson.loads(written)
            if (
                not is_object(told)
                or told.pop("format") != _FORMAT
                or told["phase"] not in ("closed", "open", "half_open")
            ):
                return None
            probes = {int(probe): (float(began), float(lease)) for probe, began, lease in told.pop("probes")}
            buckets = [[int(part) for part in one] for one in told.pop("buckets") if is_array(one) and len(one) == 3]
            return cls(**told, probes=probes, buckets=buckets)
        except (KeyError, TypeError, ValueError):
            return None
