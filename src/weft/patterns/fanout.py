"""Fan-out: run branches at the same moment and decide what a failure of one means for the others."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from weft.errors import BudgetSpent, DeadlineExceeded, ExecutionFailed, WeftError
from weft.patterns.contract import Call, Step, Value, perform
from weft.ports import is_array


async def all_or_error(work: Sequence[Coroutine[Any, Any, Value]]) -> list[Value]:
    """Run all; the first failure cancels the rest and is the error."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(branch) for branch in work]
        return [task.result() for task in tasks]
    except BaseExceptionGroup as failures:
        first = failures.exceptions[0]
    # Raised out here, and without `from`, it keeps the cause that it came with.
    raise first


async def settle(
    work: Sequence[Coroutine[Any, Any, Value]], call: Call, timeout: float | None
) -> list[Value | BaseException]:
    """Run all, to their ends or to the timeout; give each one's value, its error, or CancelledError when late."""
    if timeout is None:
        return await asyncio.gather(*work, return_exceptions=True)
    tasks = [asyncio.ensure_future(branch) for branch in work]
    clock = call.root.clock
    try:
        async with clock.timeout_at(clock.now() + timeout):
            await asyncio.wait(tasks)
    except TimeoutError:
        pass
    finally:
        for task in tasks:
            task.cancel()
        settled = await asyncio.gather(*tasks, return_exceptions=True)
    return settled


async def scatter(
    steps: Sequence[Step],
    value: Value,
    call: Call,
    *,
    fail_fast: bool,
    min_success: int,
    timeout: float | None = None,
) -> list[Value]:
    """Give the same value to every step; drop what fails or is late, with a warning, unless too few are left."""
    work = [perform(step, value, call) for step in steps]
    if fail_fast:
        return await _in_time(work, call, timeout)
    results: list[Value] = []
    failures: list[tuple[Step, BaseException]] = []
    for step, result in zip(steps, await settle(work, call, timeout), strict=True):
        if not isinstance(result, BaseException):
            results.append(result)
        elif isinstance(result, WeftError | asyncio.CancelledError) and not isinstance(result, BudgetSpent):
            failures.append((step, result))
        else:
            raise result
    for step, error in failures:
        call.root.warn(f"Target '{step.name}' {_reason(error)}")
    if failures and len(results) < min_success:
        raise _too_few(failures, len(results), len(steps), min_success)
    return results


def row_count(results: list[Value]) -> int:
    """Return how many rows the lists among the results have."""
    return sum(len(result) for result in results if is_array(result))


async def _in_time(work: Sequence[Coroutine[Any, Any, Value]], call: Call, timeout: float | None) -> list[Value]:
    if timeout is None:
        return await all_or_error(work)
    clock = call.root.clock
    try:
        async with clock.timeout_at(clock.now() + timeout):
            return await all_or_error(work)
    except TimeoutError:
        raise DeadlineExceeded("Scatter-gather timeout") from None


def _reason(error: BaseException) -> str:
    return "was late and was dropped" if isinstance(error, asyncio.CancelledError) else f"failed: {error}"


def _too_few(failures: list[tuple[Step, BaseException]], got: int, all_of: int, needed: int) -> WeftError:
    errors = [error for _, error in failures]
    if got == 0 and all(isinstance(error, asyncio.CancelledError) for error in errors):
        return DeadlineExceeded("Scatter-gather timeout")
    told = "; ".join(f"{step.name} {_reason(error)}" for step, error in failures)
    first = f"All {all_of} scatter targets failed" if got == 0 else f"Only {got} of {all_of} scatter targets succeeded"
    failed = ExecutionFailed(f"{first}{'' if got == 0 else f', {needed} needed'}: {told}")
    if all(isinstance(error, asyncio.CancelledError) or getattr(error, "retryable", "no") != "no" for error in errors):
        failed.retryable = "yes"
    return failed
