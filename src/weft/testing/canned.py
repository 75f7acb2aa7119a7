"""Canned tools: an upstream that gives prepared answers, in time or late, or fails as told."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeGuard

from weft.errors import ToolFailed, UpstreamUnavailable, WeftError
from weft.ports import Invoke, ToolRef, ToolType

Answer: TypeAlias = "Callable[[Any], Any] | object"
"""A value, an exception to raise, `Late`, or a function of the arguments (async or not); `in_turn(..)` of these is one
for each call."""
Note: TypeAlias = Callable[[str, Any], object]
"""Told of each call: the tool and its arguments."""


class Answers(list[Answer]):
    """Answers of which each is given once; made by `in_turn`."""


def in_turn(*answers: Answer) -> Answers:
    """Give one answer for each call."""
    return Answers(answers)


@dataclass(frozen=True, slots=True)
class Late:
    """An answer that takes its time, on the clock of the call."""

    answer: Answer
    seconds: float


def down(reason: str = "connection refused") -> UpstreamUnavailable:
    """Return the failure of a server that is not there."""
    return UpstreamUnavailable("fake", reason)


def refusal(content: Any) -> ToolFailed:
    """Return the failure of a tool that ran and said no."""
    return ToolFailed("fake", content)


class Canned:
    """An upstream of prepared answers; `chance` makes the named tools fail at random, by the seed."""

    def __init__(
        self,
        answers: Mapping[str, Answer],
        *,
        types: Mapping[str, ToolType] | None = None,
        chance: Mapping[str, float] | None = None,
        seed: int = 0,
        note: Note | None = None,
    ) -> None:
        self._answers = answers
        self._types = types or {}
        self._chance = chance or {}
        self._rng = random.Random(seed)
        self._note = note
        self._queues = {name: list(given) for name, given in answers.items() if is_in_turn(given)}

    def bind(self, ref: ToolRef) -> Invoke | None:
        """Return the tool, ready to answer."""
        name = _key(ref, self._answers)
        if name is None:
            return None

        async def invoke(arguments: Any, call: Any) -> Any:
            if self._note is not None:
                self._note(name, arguments)
            if self._rng.random() < self._chance.get(name, 0.0):
                raise down("by chance")
            return await self._answer(name, self._next(name), arguments, call)

        return invoke

    def describe(self, ref: ToolRef) -> ToolType | None:
        """Return the types that were given for the tool; of most canned tools nothing is known."""
        name = _key(ref, self._answers)
        return None if name is None else self._types.get(name, ToolType())

    def names(self) -> list[str]:
        """Return the names of all canned tools."""
        return list(self._answers)

    def _next(self, name: str) -> Answer:
        if name not in self._queues:
            return self._answers[name]
        if not self._queues[name]:
            raise AssertionError(f"{name!r} was called more often than it has answers")
        return self._queues[name].pop(0)

    async def _answer(self, name: str, answer: Answer, arguments: Any, call: Any) -> Any:
        if isinstance(answer, Late):
            await call.root.clock.sleep(answer.seconds)
            return await self._answer(name, answer.answer, arguments, call)
        if isinstance(answer, BaseException):
            if isinstance(answer, WeftError):
                answer.path = ()  # one failure may answer several calls, each with a path of its own
            raise answer
        if inspect.isawaitable(answer):
            return await self._answer(name, await answer, arguments, call)
        if callable(answer):
            return await self._answer(name, answer(arguments) if answer is not down else down(), arguments, call)
        return answer


def is_in_turn(answers: Answer) -> TypeGuard[list[Answer]]:
    """Tell a list of answers from an answer that is a list: only the former can hold a failure."""
    if isinstance(answers, Answers):
        return True
    return isinstance(answers, list) and any(isinstance(one, BaseException | Late) or callable(one) for one in answers)  # pyright: ignore


def _key(ref: ToolRef, tools: Mapping[str, Answer]) -> str | None:
    """Return the name under which a tool is canned: its own, `server:tool`, or `agent/skill`."""
    for name in (str(ref), f"{ref.name}/{ref.skill}", ref.name):
        if name in tools:
            return name
    return None
