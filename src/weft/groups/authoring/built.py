"""A grouped tool made ready: its definition, and for each action one check and one function."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, cast

from weft.errors import ExecutionFailed, ToolFailed, WeftError, said_by
from weft.groups.action import Action
from weft.groups.authoring.branch import Defined, Draft
from weft.groups.authoring.common import Common
from weft.groups.authoring.showing import Shown, definition_of, listed
from weft.groups.calling import Handler, ToolCall
from weft.groups.execution.checking import arguments_check
from weft.groups.execution.handling import handler_of, is_asked
from weft.groups.execution.resolving import resolve
from weft.groups.execution.results import Failure, Outcome, wire
from weft.groups.execution.sent import sent_text
from weft.groups.helping import explained
from weft.groups.listing import extra_fields
from weft.groups.rule import ResponseRule
from weft.groups.shaping.results import select_of, shape, shape_result
from weft.groups.strategies.chains import compile_chains
from weft.groups.strategies.fields import field_users
from weft.ports import Caller, is_object
from weft.redaction import redact

Check = Callable[[dict[str, Any]], None]
_UNLIMITED = ResponseRule()
_log = logging.getLogger("weft.actions")


@dataclass(frozen=True, slots=True)
class Route:
    """Where a call of an action goes."""

    check: Check
    run: Handler


class Built:
    """A grouped tool in use; nothing of it changes any more, and nothing is assembled in a call."""

    __slots__ = ("_discriminator", "_name", "_routes", "_rule", "_selects", "actions", "definition")

    def __init__(self, shown: Shown, draft: Draft, common: Common) -> None:
        self.actions = MappingProxyType({one.key: one for one in listed(shown, draft, common)})
        """By their keys, `help` among them where it comes by itself."""
        self.definition = definition_of(shown, draft, common, self.actions)
        """The tool as `tools/list` has it; nothing of a call depends on it."""
        self._routes = _routes(shown, draft, common, self.actions)
        self._name, self._discriminator = shown.name, shown.discriminator
        self._rule, self._selects = shown.response, shown.response.select

    async def execute(self, arguments: Mapping[str, Any] | None, caller: Caller | None) -> Any:
        """Run an action and return its value, or the outcome that it gave; whole, since no model reads it.

        Raises:
            WeftError: it failed, whether it raised that or returned it, or was called wrongly.
        """
        value, select = await self._run(arguments, caller)
        if isinstance(value, Outcome) and value.failed:
            raise ToolFailed(self._name, value.value if value.text is None else value.text)
        if select is None:
            return value
        if isinstance(value, Outcome):
            return replace(value, value=shape(value.value, select=select, rule=_UNLIMITED).value)
        return shape(value, select=select, rule=_UNLIMITED).value

    async def call(self, arguments: Mapping[str, Any] | None, caller: Caller | None) -> dict[str, Any]:
        """Run an action and return an MCP result as a model should read it, also when it fails."""
        result, select = await self._result(arguments, caller)
        return shape_result(result, select=select, rule=self._rule)

    async def call_whole(self, arguments: Mapping[str, Any] | None, caller: Caller | None) -> dict[str, Any]:
        """Run an action and return all of its MCP result, also when it fails."""
        return (await self._result(arguments, caller))[0]

    async def _result(
        self, arguments: Mapping[str, Any] | None, caller: Caller | None
    ) -> tuple[dict[str, Any], Sequence[str] | None]:
        try:
            value, select = await self._run(arguments, caller)
            return wire(value), select
        except WeftError as error:
            return wire(error), None

    async def _run(
        self, arguments: Mapping[str, Any] | None, caller: Caller | None
    ) -> tuple[Any, Sequence[str] | None]:
        if not is_object(arguments):
            arguments = _object(arguments)
        key, route, given = resolve(self._routes, arguments, tool=self._name, discriminator=self._discriminator)
        select, given = select_of(given) if self._selects else (None, given)
        route.check(given)
        call = ToolCall(self._name, given, action=key, caller=caller)
        try:
            value = await route.run(call)
        except WeftError:
            raise
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and is_asked():
                raise
            # Handlers tell of their own: this one is of middleware.
            raise _told(error, call) from error
        if isinstance(value, BaseException):
            raise value if isinstance(value, WeftError) else _told(value, call)
        if inspect.iscoroutine(value):
            value.close()
            raise _told(TypeError("it returned next(call) without awaiting it"), call)
        return value, select


def _told(error: BaseException, call: ToolCall) -> Failure:
    """Return what is told of an exception that middleware raised or returned."""
    said = "it was cancelled from within" if isinstance(error, asyncio.CancelledError) else redact(said_by(error))
    _log.error("middleware of %s failed: %s", call.name, said, exc_info=error)
    return Failure(f"middleware failed: {said}", code="MiddlewareFailed")


def _object(arguments: object) -> dict[str, Any]:
    if arguments is None:
        return {}
    if isinstance(arguments, Mapping):
        return dict(cast("Mapping[str, Any]", arguments))
    raise ExecutionFailed(f"arguments are an object, not {sent_text(arguments)}", code="InvalidArguments")


def _routes(shown: Shown, draft: Draft, common: Common, actions: Mapping[str, Action]) -> dict[str, Route]:
    others = field_users(list(actions.values()))
    checks = {
        key: arguments_check(action, common=common.schema or None, tool=shown.name, others=others)
        for key, action in actions.items()
    }
    around = {key: draft.middleware_of(defined) for key, defined in draft.actions.items()}
    handlers = {
        key: _handler(shown.name, defined, common, again=checks[key] if around[key] else None)
        for key, defined in draft.actions.items()
    }
    for key in actions.keys() - draft.actions.keys():
        around[key] = draft.groups[""].middleware
        handlers[key] = _helping(shown, common, actions, key)
    chains = compile_chains(handlers, around=around)
    return {key: Route(checks[key], chains[key]) for key in actions}


def _handler(tool: str, defined: Defined, common: Common, *, again: Check | None) -> Handler:
    try:
        call_with = defined.params.bound(common.schema)
    except TypeError as error:
        raise TypeError(f"w.group({tool!r}), action {defined.key!r}: {error}") from None
    handler = handler_of(defined.function, call_with, threaded=defined.threaded)
    if again is None and not common.checks:
        return handler

    def checked(call: ToolCall) -> Any:
        # What middleware made of the arguments is not known to be valid.
        if again is not None:
            if not is_object(call.arguments):
                raise TypeError(f"it made the arguments {sent_text(call.arguments)}, which is no object")
            again(call.arguments)
        common.check(call)
        return handler(call)

    return checked


def _helping(shown: Shown, common: Common, actions: Mapping[str, Action], key: str) -> Handler:
    helps = actions[key]
    explains = {name: one for name, one in actions.items() if name != key}

    async def handle(call: ToolCall) -> Any:
        return explained(
            explains,
            call.arguments,
            helps=helps,
            common=common.schema or None,
            discriminator=shown.discriminator,
            tool=shown.name,
            extra=extra_fields(shown.response),
        )

    return handle
