"""One call as middleware and handlers see it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from math import inf, isfinite
from typing import Any, TypeAlias

from weft.ports import ANONYMOUS, Caller, Principal


class ToolCall:
    """A call of an action, of a composition or of a tool of a server, on its way through the middleware.

    Middleware may give `arguments` another value before it goes on; handlers get what is valid.
    """

    __slots__ = ("_done", "_loop", "_state", "action", "again", "arguments", "caller", "tool")

    def __init__(
        self,
        tool: str,
        arguments: dict[str, Any],
        *,
        action: str | None = None,
        caller: Caller | None = None,
        again: bool = False,
    ) -> None:
        self.tool = tool
        """The name of the tool, as the client called it or as it stands in its group."""
        self.action = action
        """Which of its actions, when it is a grouped tool."""
        self.arguments = arguments
        self.caller = caller
        """The client behind it; None when nobody is."""
        self.again = again
        """Whether it goes on with what the client was asked, and was counted before."""
        self._state: dict[str, Any] | None = None
        self._done = -inf
        self._loop = _running_loop() if caller is not None and caller.wants_progress else None

    @property
    def name(self) -> str:
        """The tool and its action, for people and logs."""
        return self.tool if self.action is None else f"{self.tool}.{self.action}"

    @property
    def principal(self) -> Principal:
        """Who calls."""
        return ANONYMOUS if self.caller is None else self.caller.principal

    @property
    def state(self) -> dict[str, Any]:
        """What middleware tells what comes further inside, such as who a user is."""
        if self._state is None:
            self._state = {}
        return self._state

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Tell the client how far it is, if it wants to know; from any thread.

        What is no more than was told before is left out: MCP wants it to go up.
        """
        if self.caller is None or not self.caller.wants_progress or not (isfinite(done) and done > self._done):
            return
        self._done = done
        told: dict[str, Any] = {"progress": done}
        if total is not None and isfinite(total):
            told["total"] = total
        if message is not None:
            # Half a character, as the names of files may have, cannot be sent.
            told["message"] = str(message).encode("utf-8", "replace").decode()
        if self._loop is None or _running_loop() is self._loop:
            self.caller.progress(told)
            return
        with suppress(RuntimeError):  # the loop is gone, and the client with it
            self._loop.call_soon_threadsafe(self.caller.progress, told)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    with suppress(RuntimeError):
        return asyncio.get_running_loop()
    return None


Handler: TypeAlias = Callable[[ToolCall], Awaitable[Any]]
"""Does the work of a call: returns the value of a Python action, or the MCP result of any other tool."""

Middleware: TypeAlias = Callable[[ToolCall, Handler], Awaitable[Any]]
"""Stands around a handler: `async def timed(call, next): ... return await next(call)`."""
