"""Calls on their way through middleware to the tool itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from weft.errors import ExecutionFailed
from weft.groups.calling import Handler, Middleware, ToolCall
from weft.groups.strategies.chains import chain
from weft.ports import Caller, is_object

Work: TypeAlias = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
"""Calls the tool itself with arguments, and returns its MCP result."""


class Passing(ToolCall):
    """A call that knows how to go on to its tool; middleware is compiled before there is one."""

    __slots__ = ("work",)

    def __init__(
        self,
        tool: str,
        arguments: dict[str, Any],
        *,
        action: str | None,
        caller: Caller,
        work: Work,
        again: bool,
    ) -> None:
        super().__init__(tool, arguments, action=action, caller=caller, again=again)
        self.work = work


def compiled(middleware: Sequence[Middleware]) -> Handler | None:
    """Return the one function that goes through middleware to the tool; None where there is none."""
    return chain(_arrived, middleware) if middleware else None


def _arrived(call: ToolCall) -> Awaitable[Any]:
    if not isinstance(call, Passing) or not is_object(call.arguments):
        told = f"middleware of {call.tool!r} does not go on with the call that it was given, or with its arguments"
        raise ExecutionFailed(told, code="MiddlewareFailed", hint="ask who runs this server")
    return call.work(call.arguments)
