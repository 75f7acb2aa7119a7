"""Handlers of Python functions: async and sync ones, and generators that tell how far they are."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeAlias

from weft.errors import ToolFailed, UpstreamUnavailable, WeftError, said_by
from weft.groups.calling import Handler, ToolCall
from weft.groups.execution.progress import Telling
from weft.groups.execution.results import ACTION_FAILED, Failure, Outcome, as_json
from weft.redaction import redact

Arguments: TypeAlias = tuple[Sequence[Any], Mapping[str, Any]]
_SCALARS: Final = frozenset((str, int, float, bool, type(None)))
_log = logging.getLogger("weft.actions")


def handler_of(
    function: Callable[..., Any], call_with: Callable[[ToolCall], Arguments], *, threaded: bool = False
) -> Handler:
    """Return what calls a function with the arguments that `call_with` makes of a call.

    A sync function runs where the event loop runs, as a `w.python_tool` does, so what it uses need not be safe for
    threads; `threaded` is for one that takes its time. Of a generator, all that `progress_of` knows is progress; its
    result is what it returns, or the last other thing that it yields.
    """
    begin = _begin(function, threaded)

    async def handle(call: ToolCall) -> Any:
        try:
            args, kwargs = call_with(call)
            result = await begin(*args, **kwargs)
            if inspect.isasyncgen(result):
                result = await _run_async(result, Telling(call))
            elif inspect.isgenerator(result):
                result = await _run_sync(result, Telling(call), threaded)
            return _given(result)
        except Failure as error:
            # A copy that is kept, in a cache say, must tell whose it is.
            error.tool = error.tool or call.name
            raise
        except WeftError:
            raise
        except asyncio.CancelledError as error:
            if is_asked():
                raise
            raise _failed(call.name, "it was cancelled from within") from error
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            raise _told(error, call.name) from error

    return handle


def is_asked() -> bool:
    """Tell whether somebody cancelled the task that runs; else what it runs did so to itself, and failed."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _begin(function: Callable[..., Any], threaded: bool) -> Callable[..., Any]:
    """Return what is awaited for the function's result, or for its generator."""
    if _is_coroutine_function(function):
        return function
    begun = _begun(function)
    if threaded and not _is_generator_function(function):
        return partial(asyncio.to_thread, begun)

    async def begin(*args: Any, **kwargs: Any) -> Any:
        result = begun(*args, **kwargs)
        return await result if inspect.isawaitable(result) else result

    return begin


def _begun(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function so that it ends by nothing that a future cannot hold."""

    def begun(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except StopIteration as error:
            raise RuntimeError("it raised StopIteration, as next() does at the end") from error

    return begun


def _is_coroutine_function(function: Any) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004 (whether it is async is asked, not whether it can be called)


def _is_generator_function(function: Any) -> bool:
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


async def _run_async(generator: AsyncGenerator[Any, Any], telling: Telling) -> Any:
    result: Any = None
    try:
        async for one in generator:
            if not telling.tell(one):
                result = one
            # It may never wait for anything itself, and others want their turn.
            await asyncio.sleep(0)
    finally:
        await generator.aclose()
    return result


async def _run_sync(generator: Generator[Any, Any, Any], telling: Telling, threaded: bool) -> Any:
    result: Any = None
    running = False

    def step() -> tuple[bool, Any]:
        try:
            return True, next(generator)
        except StopIteration as end:
            return False, end.value

    # In a thread it sees what middleware has set for it, as a function there does.
    seeing = contextvars.copy_context()
    try:
        while True:
            if threaded:
                running = True
                goes_on, one = await _in_thread(partial(seeing.run, step), generator)
                running = False
            else:
                # Others get their turn, the client hears of it, and whoever cancels is heard.
                await asyncio.sleep(0)
                goes_on, one = step()
            if not goes_on:
                return result if one is None else one
            if not telling.tell(one):
                result = one
    finally:
        if not running:
            generator.close()


async def _in_thread(step: Callable[[], tuple[bool, Any]], generator: Generator[Any, Any, Any]) -> tuple[bool, Any]:
    def closed(future: asyncio.Future[tuple[bool, Any]]) -> None:
        # Nobody is there any more to hear how it ended.
        _ = future.cancelled() or future.exception()
        generator.close()

    future = asyncio.get_running_loop().run_in_executor(None, step)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        # A thread cannot be stopped: the generator is closed as soon as it stands still.
        future.add_done_callback(closed)
        raise


def _given(result: Any) -> Any:
    """Return a function's result as JSON, so that middleware sees what the client will see.

    Raises:
        Failure: the function returned it.
    """
    if result.__class__ in _SCALARS:
        return result
    if isinstance(result, Failure):
        raise result
    if isinstance(result, Outcome):
        return replace(result, value=as_json(result.value))
    return as_json(result)


def _told(error: BaseException, name: str) -> WeftError:
    """Return how a function's own exception is told: as the failure of a tool, without a traceback."""
    said = redact(said_by(error))
    _log.error("%s failed: %s", name, said, exc_info=error)
    if isinstance(error, ConnectionError):
        return UpstreamUnavailable(name, said.removeprefix(f"{type(error).__name__}: "))
    return _failed(name, said)


def _failed(name: str, said: str) -> ToolFailed:
    failed = ToolFailed(name, said)
    failed.code = ACTION_FAILED
    return failed
