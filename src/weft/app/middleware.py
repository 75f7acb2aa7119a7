"""What weft.yaml says about middleware, as functions; what a reload leaves as it was goes on as it is."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Sequence
from dataclasses import replace
from inspect import isawaitable
from pathlib import Path
from typing import Any, TypeGuard

from weft.app.importing import CannotImport, imported
from weft.config.middleware import MiddlewareRule, is_own
from weft.config.secrets import Secret
from weft.errors import DocumentInvalid, ExecutionFailed, Loc, Problem, WeftError, said_by, shown
from weft.groups.calling import Handler, Middleware, ToolCall
from weft.groups.execution.results import wire
from weft.groups.middleware import Around, logged, only_for, rate_limited, redacted, timed
from weft.groups.middleware.seen import is_result
from weft.ir.normalise import placed
from weft.ir.read import read_file
from weft.ports import is_object
from weft.redaction import redact
from weft.telemetry.logs import Log

_log = Log("calls")


class Kept:
    """Middleware that was built, by its place and settings, so that a reload does not begin to count anew."""

    def __init__(self) -> None:
        self.built: dict[Loc, list[tuple[MiddlewareRule, Middleware]]] = {}


def middleware_of(
    rules: Sequence[MiddlewareRule],
    *,
    file: Path | None = None,
    at: Loc = ("middleware",),
    kept: Kept | None = None,
) -> tuple[Around, ...]:
    """Return middleware, outermost first; `file` is the weft.yaml with the rules, and `at` their place in it.

    Raises:
        DocumentInvalid: with every rule whose own function cannot be imported or is none.
    """
    before = [] if kept is None else [*kept.built.get(at, ())]
    made: list[tuple[MiddlewareRule, Middleware]] = []
    problems: list[Problem] = []
    for index, rule in enumerate(rules):
        same = next((one for one in before if one[0] == rule), None)
        if same is not None:
            # Each once: two equal rules are two.
            before.remove(same)
            made.append(same)
            continue
        try:
            made.append((rule, _made(rule, (file or Path("weft.yaml")).absolute().parent)))
        except CannotImport as error:
            problems.append(replace(error.problem, loc=(*at, index, "use")))
    if problems:
        raise DocumentInvalid([_placed(one, file) for one in problems])
    if kept is not None:
        kept.built[at] = made
    return tuple(Around(rule.tools, middleware) for rule, middleware in made)


def _placed(problem: Problem, file: Path | None) -> Problem:
    return problem if file is None else placed(problem, read_file(file))


def _made(rule: MiddlewareRule, folder: Path) -> Middleware:
    if is_own(rule.use):
        return _own(rule, folder)
    if rule.use == "logged":
        return logged(_log.info)
    if rule.use == "timed":
        return timed()
    if rule.use == "rateLimited":
        assert rule.per_second is not None, "the settings have it"
        return rate_limited(per_second=rule.per_second, burst=rule.burst, by=rule.by)
    if rule.use == "redacted":
        return redacted(fields=rule.fields, patterns=rule.patterns, keep=rule.keep, arguments=rule.arguments)
    return only_for(
        scopes=rule.scopes,
        agents=rule.agents,
        tenants=rule.tenants,
        subjects=rule.subjects,
        when=rule.when,
        log=_log.info,
    )


def _own(rule: MiddlewareRule, folder: Path) -> Middleware:
    found: Any = imported(rule.use, folder)
    if rule.given is not None:
        try:
            found = found(**rule.given)
        except (Exception, SystemExit) as error:
            said = redact(said_by(error), [one for one in rule.given.values() if isinstance(one, Secret)])
            told = f"{rule.use} cannot be called with what stands under 'with': {said}"
            raise _unfit(rule, told, "a function that takes these and returns the middleware") from error
    if not _is_middleware(found):
        made = "what it returns" if rule.given is not None else rule.use
        hint = "" if rule.given is not None else "; a function that makes one is called when there is 'with', even {}"
        wanted = f"a function (call, next){hint}"
        raise _unfit(rule, f"{made} is no middleware: {shown(found)}", wanted)
    return _kept_in_form(rule.use, found)


def _unfit(rule: MiddlewareRule, message: str, expected: str) -> CannotImport:
    return CannotImport(Problem(code="NotMiddleware", message=message, value=shown(str(rule.use)), expected=expected))


def _is_middleware(found: Any) -> TypeGuard[Middleware]:
    """Tell whether something can be called with a call and what comes next."""
    if not callable(found):
        return False
    try:
        inspect.signature(found).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # it is built in, and nobody knows
        return True
    return True


def _kept_in_form(use: str, middleware: Middleware) -> Middleware:
    """Return somebody's middleware, so that whatever it gives is a result and whatever it raises is told as one."""

    async def own(call: ToolCall, next: Handler) -> Any:
        inner: list[BaseException] = []

        async def onward(passed: ToolCall) -> Any:
            _check_passed(passed, call)
            try:
                return await next(passed)
            except BaseException as error:
                inner.append(error)
                raise

        try:
            given: object = middleware(call, onward)
            return _result(await given if isawaitable(given) else given)
        except (WeftError, asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # sys.exit() among them: one call must not end the gateway
            if any(error is one for one in inner):
                raise
            _log.error(f"middleware {use} failed", tool=call.name, error=type(error).__name__)
            why = f": {error}" if isinstance(error, _Misused) else f" ({type(error).__name__})"
            told = f"{call.name!r} cannot be called: middleware {use} failed{why}"
            raise ExecutionFailed(told, code="MiddlewareFailed", hint="ask who runs this server") from error

    return own


class _Misused(Exception):
    """Middleware does what it may not; the sentence quotes nothing of a call."""


def _check_passed(passed: object, call: ToolCall) -> None:
    if passed is not call:
        raise _Misused(f"it goes on with {_kind(passed)} in place of the call that it was given")
    arguments: object = call.arguments
    if not is_object(arguments):
        raise _Misused(f"the arguments that it gives the call are no object but {_kind(arguments)}")


def _result(value: object) -> dict[str, Any]:
    if is_result(value):
        return value
    try:
        return wire(value)
    except ExecutionFailed:
        raise _Misused(f"what it returns is no result and no JSON value but {_kind(value)}") from None


def _kind(value: object) -> str:
    return "nothing" if value is None else f"something of the type {type(value).__name__}"
