"""Stages: how the steps of a pipeline, compiled, run one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from weft.errors import DeadlineExceeded, WeftError
from weft.patterns.bindings import Read, guarded_read
from weft.patterns.contract import Call, Pure, Run, Step, Value


@dataclass(frozen=True, slots=True)
class Stage:
    """A step, how it reads its input unless that is the result just before, and the condition on which it runs."""

    step: Step
    read: Read | None
    condition: Callable[[dict[str, Value]], bool] | None


def guarded_stage(stage: Stage) -> Stage:
    """Return the stage with what its binding makes weighed."""
    return stage if stage.read is None else replace(stage, read=guarded_read(stage.read))


def chain(stages: list[Stage]) -> Run | Pure:
    """Compile steps of which each takes the result before it: no table of results, no bindings."""
    steps = tuple((stage.step.pure.fn if stage.step.pure else None, stage.step) for stage in stages)
    count = sum(_steps(stage.step) for stage in stages)
    if all(pure is not None for pure, _ in steps):
        fused = _fused([(step.name, pure) for pure, step in steps if pure is not None])
        return Pure(fused, spans=_spanned(stages), steps=count)
    with_spans = tuple((None if step.pure is not None and step.pure.spans else pure, step) for pure, step in steps)

    async def run(value: Value, call: Call) -> Value:
        root = call.root
        if (left := root.steps_left - count) < 0:
            root.spend_steps(count)
        root.steps_left = left
        traced, deadline, now = call.traced, call.deadline, root.clock.now
        name, inner = "", call
        # The span, the budget and the error's path are kept here rather than in `perform`: one coroutine less a step.
        try:
            for pure, step in with_spans if traced else steps:
                name = step.name
                if traced:
                    inner = call.open(step, value)
                if pure is not None:
                    value = pure(value)
                elif (inner.began if traced else now()) < deadline:
                    value = await step.run(value, inner)
                else:
                    raise DeadlineExceeded("the call's deadline has passed")
                if traced:
                    inner.close(value)
        except BaseException as error:
            if isinstance(error, WeftError):
                error.within(name)
            if traced:
                inner.fail(error)
            raise
        return value

    return run


def _steps(step: Step) -> int:
    """Return how much of the budget of steps a step takes."""
    return 1 if step.pure is None else step.pure.steps


def _fused(steps: Sequence[tuple[str, Callable[[Value], Value]]]) -> Callable[[Value], Value]:
    def run(value: Value) -> Value:
        name = ""
        try:
            for name, pure in steps:  # noqa: B007  (read by the handler below)
                value = pure(value)
        except WeftError as error:
            error.within(name)
            raise
        return value

    return run


def _spanned(stages: list[Stage]) -> Callable[[Value, Call], Value]:
    """Return what `_fused` does with a span for each step."""
    steps = [(stage.step, stage.step.pure) for stage in stages]

    def run(value: Value, call: Call) -> Value:
        for step, pure in steps:
            assert pure is not None
            inner = call.open(step, value)
            try:
                value = pure.fn(value) if pure.spans is None else pure.spans(value, inner)
            except BaseException as error:
                if isinstance(error, WeftError):
                    error.within(step.name)
                inner.fail(error)
                raise
            inner.close(value)
        return value

    return run


def general(stages: list[Stage], output: Read | None) -> Run:
    """Compile steps that may read any earlier result, and may be skipped."""

    async def run(value: Value, call: Call) -> Value:
        given, previous, results = value, value, list[Value]()
        root = call.root
        for stage in stages:
            step = stage.step
            if stage.condition is not None and not _holds(stage, given, previous):
                call.skip(step)
                results.append(previous)
                continue
            value = previous if stage.read is None else _read(stage, stage.read, given, previous, results)
            root.spend_steps(_steps(step))
            inner = call.open(step, value) if call.traced else call
            try:
                if root.clock.now() >= call.deadline:
                    raise DeadlineExceeded("the call's deadline has passed")
                if step.pure is None or (call.traced and step.pure.spans is not None):
                    previous = await step.run(value, inner)
                else:
                    previous = step.pure.fn(value)
            except BaseException as error:
                if isinstance(error, WeftError):
                    error.within(step.name)
                if call.traced:
                    inner.fail(error)
                raise
            if call.traced:
                inner.close(previous)
            results.append(previous)
        return previous if output is None else output(given, previous, results)

    return run


def _holds(stage: Stage, given: Value, previous: Value) -> bool:
    assert stage.condition is not None
    try:
        return stage.condition({"input": given, "previous": previous})
    except WeftError as error:
        error.within(stage.step.name)
        raise


def _read(stage: Stage, read: Read, given: Value, previous: Value, results: list[Value]) -> Value:
    try:
        return read(given, previous, results)
    except WeftError as error:
        error.within(stage.step.name)
        raise
