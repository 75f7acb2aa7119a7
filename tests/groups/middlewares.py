"""Calls through middleware, for its tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.gateway.callers import Nobody
from weft.groups.calling import Middleware, ToolCall
from weft.groups.strategies.chains import chain
from weft.ports import Principal

ALICE = Principal(subject="alice", agent_name="desk", scopes=frozenset({"read", "write"}), method="jwt")
BOB = Principal(subject="bob", tenant="acme", method="key")


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def call_of(
    principal: Principal | None = None, *, tool: str = "shop", action: str | None = None, **arguments: Any
) -> ToolCall:
    """Return a call, of somebody or of nobody."""
    return ToolCall(tool, arguments, action=action, caller=None if principal is None else Nobody(principal=principal))


async def through(middleware: Middleware, gives: Any, call: ToolCall | None = None) -> Any:
    """Return what a call gives whose handler returns or raises this, or does this with the call."""
    do: Callable[[ToolCall], Any] | None = gives if callable(gives) else None

    async def handler(call: ToolCall) -> Any:
        if isinstance(gives, BaseException):
            raise gives
        return gives if do is None else do(call)

    return await chain(handler, [middleware])(call or call_of())


def result(text: str, **more: Any) -> dict[str, Any]:
    """Return the result of an MCP tool."""
    return {"content": [{"type": "text", "text": text}], "isError": False, **more}


class Lines:
    """Takes what is logged."""

    def __init__(self) -> None:
        self.told: list[dict[str, object]] = []

    def __call__(self, message: str, /, **facts: object) -> None:
        self.told.append({"message": message, **facts})


async def ended(middleware: Middleware, gives: Any, call: ToolCall | None = None) -> Any:
    """Return what a call gives, or the error that it raises."""
    try:
        return await through(middleware, gives, call)
    except BaseException as error:
        return error
