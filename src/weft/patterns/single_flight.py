"""Single flight: of all who want the same at the same moment, one does the work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from weft.errors import BudgetSpent, DeadlineExceeded, TimedOut, WeftError

T = TypeVar("T")
E = TypeVar("E", bound=WeftError)

OWN_CODES = frozenset({"StepDenied", "QuotaExceeded", "NotAllowed", "RateLimited"})
"""What is refused to one caller says nothing about the others."""


@dataclass(frozen=True, slots=True)
class Flown(Generic[T]):
    """What the work gave, and whether somebody else did it."""

    value: T
    followed: bool


@dataclass(frozen=True, slots=True)
class _Failed:
    error: WeftError
    path: tuple[str, ...]


class _Abandoned:
    """The one who did the work was stopped: somebody else must do it."""


_ABANDONED = _Abandoned()


class SingleFlight(Generic[T]):
    """Work under way in this process, by what it is for.

    Followers get what the leader got, or its error. Nobody inherits another's cancellation, deadline or budget: when
    a leader is stopped by these, the first of its followers leads.
    """

    def __init__(self) -> None:
        self._flights: dict[str, asyncio.Future[T | _Failed | _Abandoned]] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._flights

    async def do(self, key: str, work: Callable[[], Awaitable[T]]) -> Flown[T]:
        """Do the work, unless somebody does; the value is shared, so it must not be changed."""
        while (flight := self._flights.get(key)) is not None:
            # A follower that is cancelled must not cancel what the others wait for.
            outcome = await asyncio.shield(flight)
            if isinstance(outcome, _Failed):
                raise again(outcome.error, outcome.path)
            if not isinstance(outcome, _Abandoned):
                return Flown(outcome, followed=True)
        return Flown(await self._lead(key, work), followed=False)

    async def _lead(self, key: str, work: Callable[[], Awaitable[T]]) -> T:
        flight: asyncio.Future[T | _Failed | _Abandoned] = asyncio.get_running_loop().create_future()
        self._flights[key] = flight
        outcome: T | _Failed | _Abandoned = _ABANDONED
        try:
            outcome = await work()
            return outcome
        except WeftError as error:
            if not is_own(error):
                outcome = _Failed(error, error.path)
            raise
        finally:
            del self._flights[key]
            flight.set_result(outcome)


def is_own(error: WeftError) -> bool:
    """Tell whether an error is about the call that it ended, and not about the work."""
    late = isinstance(error, DeadlineExceeded) and not isinstance(error, TimedOut)
    return late or isinstance(error, BudgetSpent) or error.code in OWN_CODES


def again(error: E, path: tuple[str, ...]) -> E:
    """Return the same error for another call: its path and its traceback are of that call."""
    copy = type(error).__new__(type(error))
    copy.args = error.args
    copy.__dict__.update(error.__dict__)
    copy.path = path
    copy.trace = None
    copy.__cause__ = error.__cause__
    return copy
