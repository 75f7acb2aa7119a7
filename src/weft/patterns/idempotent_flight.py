"""A request under way: one leads it, everybody else who makes the same one waits for what comes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from weft.errors import ExecutionFailed, Retryable, WeftError
from weft.patterns.contract import Call, Value
from weft.patterns.idempotent_claim import Claim, Found, Rules
from weft.patterns.idempotent_records import OUTCOME_UNKNOWN, Record, copied, error_of, verdict
from weft.patterns.single_flight import again, is_own

Work: TypeAlias = Callable[[], Awaitable[Value]]

IN_FLIGHT = "DuplicateInFlight"
REPLAY = "idempotentReplay"
"""Marks what an earlier request, and not this one, led to; one that is skipped cannot tell."""
RETRY_AFTER: Final = 1.0
FIRST_PAUSE: Final = 0.02
LONGEST_PAUSE: Final = 0.5
MARGIN: Final = 0.05
"""So many seconds before its deadline a follower says what it waited for."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a request: a value or an error; `role` is what the trace shows of how."""

    value: Value = None
    error: Exception | None = None
    path: tuple[str, ...] = ()
    role: str = "leader"

    def give(self, call: Call) -> Value:
        """Return the value, or raise the error, to the one who led."""
        call.note(idempotent=self.role)
        if self.role in ("replay", "follower"):
            call.root.mark(REPLAY, True)
        if self.error is not None:
            raise self.error
        return self.value

    def share(self, call: Call) -> Value:
        """Return a copy of the value, or raise one of the error, to one who followed."""
        call.note(idempotent="follower")
        call.root.mark(REPLAY, True)
        if isinstance(self.error, WeftError):
            raise again(self.error, self.path)
        if self.error is not None:
            raise self.error
        return copied(self.value)

    @property
    def is_shared(self) -> bool:
        """Whether it is also the followers' own: not when it is about the one who led, or another one is recorded."""
        if self.error is None or self.role == "fenced":
            return self.role != "fenced"
        if verdict(self.error) == "unknown":
            return False
        return isinstance(self.error, WeftError) and not is_own(self.error) and self.error.code != IN_FLIGHT


def limit_of(call: Call, wait: float | None) -> float:
    """Return until when a follower waits: a moment before its deadline, or as long as the pattern says."""
    now = call.root.clock.now()
    limit = call.deadline - min(MARGIN, max(0.0, (call.deadline - now) / 20))
    return limit if wait is None else min(limit, now + wait)


def refused(code: str, message: str, *, retryable: Retryable = "no", hint: str | None = None) -> ExecutionFailed:
    """Return the error of a request that is not carried out."""
    error = ExecutionFailed(message, code=code, hint=hint)
    error.origin = "caller"
    error.retryable = retryable
    return error


class Flight:
    """One request of this process, and everybody here who waits for it."""

    def __init__(self, rules: Rules, key: str, payload: str, work: Work, call: Call) -> None:
        self.payload = payload
        self.is_dying = False
        """Whether it was given up: whoever comes now must ask the store."""
        self._rules = rules
        self._key = key
        self._work = work
        self._call = call
        self._clock = call.root.clock
        self._claim = Claim(rules, key, payload, call)
        self._waiting = 0
        self._busy = True
        self.task = asyncio.create_task(self._lead())

    @property
    def shown_key(self) -> str:
        """What errors show of the key: a part of its hash, never its values."""
        return self._key[-64:-48]

    async def join(self, call: Call, limit: float | None = None) -> Outcome:
        """Wait for the outcome, a follower until a moment; when nobody waits any more, the work is given up.

        Raises:
            ExecutionFailed: DuplicateInFlight, at that moment.
        """
        self._waiting += 1
        try:
            if limit is None:
                await asyncio.wait((self.task,))
            else:
                async with self._clock.timeout_at(limit):
                    await asyncio.wait((self.task,))
        except TimeoutError:
            raise self._in_flight() from None
        finally:
            self._waiting -= 1
            if not self._waiting and not self.task.done():
                self._abandon(call)
        return self.task.result()

    def _abandon(self, call: Call) -> None:
        self.is_dying = True
        # What talks to the store ends by itself, and soon: torn apart, it would leave a record of nobody.
        if not self._busy:
            self.task.cancel()
        call.root.detach(self._ended())

    async def _ended(self) -> None:
        await asyncio.wait((self.task,))

    async def _lead(self) -> Outcome:
        try:
            entered = await self._enter()
            return await self._carry_out() if entered is None else entered
        except WeftError as error:
            return Outcome(error=error, path=error.path)

    async def _enter(self) -> Outcome | None:
        """Claim the key; or return, or raise, what there is for a duplicate."""
        claim, pause, role = self._claim, FIRST_PAUSE, "replay"
        limit = limit_of(self._call, self._rules.wait)
        claimed = await claim.make()
        while not claimed:
            found = await claim.look()
            if found is None:
                claimed = await claim.make()
            elif claim.is_own(found):
                break
            elif found.record.payload != self.payload:
                raise self.reused()
            elif found.record.state in ("done", "failed", "large"):
                return self.duplicate() or self._replayed(found.record, role)
            elif found.record.state == "running" and found.lease > 0:
                if (told := self.duplicate()) is not None:
                    return told
                role = "follower"
                await self._pause(min(pause * (0.5 + self._call.root.rng.random() / 2), found.lease), limit)
                pause = min(pause * 2, LONGEST_PAUSE)
            else:
                claimed = await self._take_over(found)
        if self.is_dying:
            await claim.settle(None)
            raise asyncio.CancelledError
        return None

    async def _take_over(self, found: Found) -> bool:
        """Claim what an earlier request left without an outcome, if it may be carried out again."""
        if self._rules.on_unknown == "retry":
            return await self._claim.take_over(found)
        self._call.root.signals.count("idempotent_unknown")
        raise refused(
            OUTCOME_UNKNOWN,
            f"The outcome of an earlier request is unknown (key: {self.shown_key}): it may have done its work",
            hint="find out whether it did; onUnknown: retry carries such requests out again",
        )

    async def _pause(self, seconds: float, limit: float) -> None:
        if self._clock.now() + seconds > limit:
            seconds = max(0.0, limit - self._clock.now())
        self._busy = False
        await self._clock.sleep(seconds)
        self._busy = True
        if self.is_dying:
            raise asyncio.CancelledError
        if self._clock.now() >= limit:
            raise self._in_flight()

    async def _carry_out(self) -> Outcome:
        claim = self._claim
        claim.renew_later()
        self._busy = False
        try:
            value = await self._work()
        except asyncio.CancelledError:
            self._busy = True
            await claim.settle(claim.record("unknown"))
            raise
        except Exception as error:
            self._busy = True
            path = error.path if isinstance(error, WeftError) else ()
            return Outcome(error=error, path=path, role=await claim.settle(claim.failure(error)))
        self._busy = True
        return Outcome(value, role=await claim.settle(claim.record("done", value)))

    # What duplicates are told.

    def duplicate(self) -> Outcome | None:
        """Return, or raise, what every duplicate gets at once; None where it gets what the first one got.

        Raises:
            ExecutionFailed: DuplicateRequest.
        """
        policy = self._rules.on_duplicate
        if policy == "error":
            told = f"Duplicate request detected (key: {self.shown_key}). Policy: {policy}"
            raise refused("DuplicateRequest", told)
        return Outcome(role="skipped") if policy == "skip" else None

    def reused(self) -> ExecutionFailed:
        """Return the error of a key that was used before with another payload."""
        told = f"An earlier request had the same key (key: {self.shown_key}) and another payload"
        return refused("IdempotencyKeyReused", told, hint="give each request a key of its own")

    def _in_flight(self) -> ExecutionFailed:
        told = f"An earlier request is still under way (key: {self.shown_key})"
        error = refused(IN_FLIGHT, told, retryable="yes")
        error.retry_after = RETRY_AFTER
        return error

    def _replayed(self, record: Record, role: str) -> Outcome:
        self._call.root.signals.count("idempotent_replays")
        if record.state == "large":
            told = f"An earlier request succeeded (key: {self.shown_key}), and its result was too large to be kept"
            raise refused("ResultTooLarge", told, hint=f"{record.body['bytes']} bytes, limit {self._rules.max_stored}")
        if record.state == "failed":
            error = error_of(record.body)
            return Outcome(error=error, path=error.path, role=role)
        return Outcome(record.body, role=role)
