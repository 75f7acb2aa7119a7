"""Doing one step of a workflow: its parameters filled in, its attempts, its items; and taking it back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from weft.errors import BudgetSpent, ExecutionFailed, TimedOut, WeftError
from weft.patterns.backoff import Backoff
from weft.patterns.contract import Call, Value, perform, type_name
from weft.patterns.copies import bounded
from weft.patterns.fanout import all_or_error
from weft.patterns.keys import Keys
from weft.patterns.retry import copied
from weft.patterns.retry_rules import asked_to_wait, exhausted, final
from weft.patterns.saga_plan import standing
from weft.patterns.workflow_ledger import Ledger
from weft.patterns.workflow_names import INDEX
from weft.patterns.workflow_plan import Done, EachItem, Made, Stage, StepTold
from weft.ports import is_array

JITTER = 0.2
LEAST = 0.01
"""With less time than this left, in seconds, another attempt is not begun."""
UNDO_ATTEMPTS = 3


class Declined(Exception):
    """A person who was asked said no, and the step may do without."""


async def do_step(
    stage: Stage,
    scope: dict[str, Value],
    call: Call,
    *,
    ledger: Ledger,
    backoff: Backoff,
    told: StepTold,
    tell: Callable[[StepTold], object],
    partly: Callable[[Done], object],
) -> Done:
    """Do a step, again where it failed and may be repeated, and return what it gave.

    Of a list that was done only in part, `partly` hears what has to be undone.
    """
    doing = _Doing(stage, call, ledger=ledger, backoff=backoff, told=told, tell=tell)
    await ledger.begun(stage)
    if stage.each is not None:
        made: list[Any] = []
        try:
            await doing.each(stage.each, scope, made)
        except BaseException:
            if stage.undo is not None and (some := tuple(one for one in made if one is not None)):
                partly(Done(stage, "failed", made=some))
            raise
        output: Value = [one.output for one in made]
    else:
        only = await doing.once(scope, None)
        made, output = [only], only.output
    kept = tuple(made) if stage.undo is not None else ()
    return Done(stage, "succeeded", output, kept, attempts=told.attempts)


class _Doing:
    """One step while it is done."""

    __slots__ = ("_backoff", "_call", "_ledger", "_stage", "_tell", "_told")

    def __init__(
        self,
        stage: Stage,
        call: Call,
        *,
        ledger: Ledger,
        backoff: Backoff,
        told: StepTold,
        tell: Callable[[StepTold], object],
    ) -> None:
        self._stage = stage
        self._call = call
        self._ledger = ledger
        self._backoff = backoff
        self._told = told
        self._tell = tell

    async def each(self, each: EachItem, scope: dict[str, Value], made: list[Any]) -> None:
        """Do the step for every item of a list, some at once; `made` gets each call, in the place of its item."""
        items: Any = each.items.render(scope)
        if not is_array(items):
            told = f"for_each of step '{self._stage.id}' needs a list, and was given {type_name(items)}"
            raise ExecutionFailed(told, code="NotAnArray")
        self._told.items = len(items)
        root = self._call.root
        root.spend_rows(len(items))
        if self._stage.step.kind == "tool":
            root.need_calls(len(items))
        made += [None] * len(items)
        pending = iter(enumerate(items))
        await all_or_error([self._items(each, scope, pending, made) for _ in range(min(each.at_once, len(items)))])

    async def _items(
        self, each: EachItem, scope: dict[str, Value], pending: Iterator[tuple[int, Value]], made: list[Any]
    ) -> None:
        for index, item in pending:
            made[index] = await self.once({**scope, each.name: item, INDEX: index}, index, item)

    async def once(self, scope: dict[str, Value], index: int | None, item: Value = None) -> Made:
        """Do the step for one set of parameters."""
        stage, call = self._stage, self._call
        value: Any = stage.parameters.render(scope)
        if stage.parameters.constant:
            # A tool may change what it is given; the plan keeps its own.
            value = copied(value)
        if stage.may_copy:
            value = bounded(value)
        call.root.spend_steps(1)
        given = copied(value) if stage.undo is not None else None
        keys = self._ledger.keys(stage, index)
        name = "" if index is None else f"{stage.id}[{index}]"
        if not stage.retries:
            self._told.attempts += 1
            output = await stage.attempt(value, call if keys is None else call.keyed(keys), name)
        else:
            output = await self._again_and_again(value, keys, name)
        return Made(given, output, item, index)

    async def _again_and_again(self, value: Value, keys: Keys | None, name: str) -> Value:
        stage, call, told = self._stage, self._call, self._told
        root = call.root
        failures: list[WeftError] = []
        while True:
            told.attempts += 1
            number = len(failures) + 1
            place = call if keys is None else call.keyed(keys.again(number))
            try:
                return await stage.attempt(copied(value), place, name)
            except BudgetSpent:
                raise
            except WeftError as error:
                failures.append(error)
            last = failures[-1]
            if not stage.may_repeat(last, number):
                raise final(failures)
            if number > stage.retries:
                raise exhausted(failures, stage.retries, "attempts")
            pause = self._backoff.chosen.delay(number) * (1 - JITTER * root.rng.random())
            pause = max(pause, asked_to_wait(last))
            if root.clock.now() + pause + LEAST > call.deadline:
                raise exhausted(failures, stage.retries + 1, "deadline")
            told.error = last.to_json()
            self._tell(told)
            await root.clock.sleep(pause)
            told.error = None


async def undo_step(done: Done, scope: dict[str, Value], call: Call, ledger: Ledger) -> None:
    """Take back what a step did, the last call first; it has a time of its own, and rights lost since do not matter.

    Raises:
        WeftError: one of its calls could not be taken back; the others were tried all the same.
    """
    stage = done.stage
    assert stage.undo is not None
    root = call.root
    place = call.apart() if root.context is None else call.apart(standing(root.context))
    failed: WeftError | None = None
    for position, made in reversed(list(enumerate(done.made))):
        index = position if made.index is None else made.index
        known = {**scope, "output": made.output, "parameters": made.parameters}
        if stage.each is not None:
            known |= {stage.each.name: made.item, INDEX: index}
        try:
            value = stage.undo.parameters.render(known)
            keys = ledger.keys(stage, index if stage.each is not None else None)
            await _undone(stage, value, place if keys is None else place.keyed(keys.below("undo")))
        except WeftError as error:
            failed = error
    if failed is not None:
        raise failed


async def _undone(stage: Stage, value: Value, place: Call) -> None:
    assert stage.undo is not None
    clock = place.root.clock
    for attempt in range(1, UNDO_ATTEMPTS + 1):
        try:
            async with clock.timeout_at(place.deadline):
                await perform(stage.undo.step, value, place)
            return
        except TimeoutError:
            raise TimedOut(f"'{stage.undo.step.name}' did not answer before its deadline") from None
        except WeftError as error:
            if attempt == UNDO_ATTEMPTS or error.retryable == "no":
                raise
        await clock.sleep(0.2 * attempt)
