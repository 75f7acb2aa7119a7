"""Only for: calls of those who may, and a kind word for the others that tells nothing of who they would have to be."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from fnmatch import fnmatchcase
from inspect import isawaitable
from typing import Any, TypeAlias

from weft.errors import ExecutionFailed, WeftError
from weft.expr.rules import compile_call_rule
from weft.groups.calling import Handler, Middleware, ToolCall
from weft.groups.middleware.lines import Say, said
from weft.ports import Principal

Judge: TypeAlias = Callable[[ToolCall], bool | Awaitable[bool]]
"""Says whether a call may go on."""


def only_for(
    *,
    scopes: Iterable[str] = (),
    agents: Iterable[str] = (),
    tenants: Iterable[str] = (),
    subjects: Iterable[str] = (),
    when: str | Judge | None = None,
    log: Say = said,
) -> Middleware:
    """Return middleware that lets through who has all scopes, and fits one glob of each other kind that is given.

    `when` is a CEL condition over `principal`, `tool` and `arguments`, or a function of the call; one that ends in an
    error says no. Why somebody was refused is told to `log` alone.

    Raises:
        ExpressionInvalid: the condition does not compile, or names what there is not.
        ValueError: it is for everybody.
    """
    needed = frozenset(_several(scopes))
    globs = {"agents": _several(agents), "tenants": _several(tenants), "subjects": _several(subjects)}
    judge = _judge(when) if isinstance(when, str) else when
    if not needed and not any(globs.values()) and judge is None:
        raise ValueError("only_for is for everybody: give scopes, agents, tenants, subjects or when")

    def unfit(principal: Principal) -> str | None:
        if not needed <= principal.scopes:
            return "scopes"
        names = {"agents": principal.agent_name, "tenants": principal.tenant, "subjects": principal.subject}
        return next((kind for kind, name in names.items() if globs[kind] and not _fits(name, globs[kind])), None)

    async def middleware(call: ToolCall, next: Handler) -> Any:
        why = unfit(call.principal)
        if why is None and judge is not None:
            why = await _denied_by(judge, call)
        if why is None:
            return await next(call)
        log("refused", tool=call.name, principal=call.principal.id, why=why)
        told = f"{call.name!r} may not be called for this caller"
        raise ExecutionFailed(told, code="NotAllowed", hint="go on without it, or ask who runs this server for access")

    return middleware


async def _denied_by(judge: Judge, call: ToolCall) -> str | None:
    try:
        found = judge(call)
        return None if (await found if isawaitable(found) else found) is True else "when"
    except Exception as error:
        # What others' code says may quote arguments.
        return f"when ended in an error: {error.message if isinstance(error, WeftError) else type(error).__name__}"


def _judge(text: str) -> Judge:
    condition = compile_call_rule(text)

    def judge(call: ToolCall) -> bool:
        tool = {"name": call.tool, "action": call.action}
        return condition({"principal": call.principal.to_json(), "tool": tool, "arguments": call.arguments})

    return judge


def _several(given: Iterable[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _fits(name: str | None, globs: tuple[str, ...]) -> bool:
    return name is not None and any(fnmatchcase(name, glob) for glob in globs)
