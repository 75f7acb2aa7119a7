"""Chains: middleware around each handler, made into one function an action before anything is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.groups.calling import Handler, Middleware


def compile_chains(
    handlers: Mapping[str, Handler], *, around: Mapping[str, Sequence[Middleware]]
) -> dict[str, Handler]:
    """Return for each action the one function that runs its middleware, outermost first, and then its handler."""
    return {key: chain(handler, around.get(key, ())) for key, handler in handlers.items()}


def chain(handler: Handler, middleware: Sequence[Middleware]) -> Handler:
    """Return a handler with middleware around it: the first is outermost, so it is wrapped from the right."""
    for one in reversed(middleware):
        handler = _around(one, handler)
    return handler


def _around(middleware: Middleware, inner: Handler) -> Handler:
    # Not async: a coroutine of our own for each layer would cost more than most middleware does.
    return lambda call: middleware(call, inner)
