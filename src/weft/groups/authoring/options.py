"""What authors may say of a tool and of an action, checked where they say it."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Sequence
from typing import Any, cast

from weft.errors import shown
from weft.groups.calling import Middleware
from weft.groups.execution.sendable import json_of, object_of
from weft.groups.rule import ResponseRule


def text_of(what: str, given: Any) -> str | None:
    """Return a text that may be left out.

    Raises:
        TypeError: it is none.
    """
    if given is not None and not isinstance(given, str):
        raise TypeError(f"{what} is a text, not {shown(given)}")
    return given


def flag_of(what: str, given: Any) -> bool | None:
    """Return a yes or no that may be left out.

    Raises:
        TypeError: it is neither.
    """
    if given is not None and not isinstance(given, bool):
        raise TypeError(f"{what} is True or False, not {shown(given)}")
    return given


def tags_of(what: str, given: object) -> frozenset[str]:
    """Return tags; a text is one of them.

    Raises:
        TypeError: they are none.
    """
    if isinstance(given, str):
        return frozenset((given,))
    if not isinstance(given, list | tuple | set | frozenset):
        raise TypeError(f"{what} is a list of texts, not {shown(given)}")
    tags = cast("Collection[object]", given)
    for one in tags:
        if not isinstance(one, str):
            raise TypeError(f"{what} is a list of texts, and {shown(one)} is none")
    return frozenset(cast("Collection[str]", tags))


def middleware_of(given: object) -> tuple[Middleware, ...]:
    """Return middleware, outermost first.

    Raises:
        TypeError: one of them does not take a call and what comes next.
    """
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise TypeError(f"middleware is a list of functions, not {shown(given)}")
    return tuple(_middleware(one) for one in cast("Sequence[Any]", given))


def _middleware(one: Any) -> Middleware:
    found: Any = one
    if not callable(one):
        raise TypeError(f"middleware is a function of a call and of what comes next, not {shown(one)}")
    if inspect.isgeneratorfunction(one) or inspect.isasyncgenfunction(one):
        raise TypeError(f"middleware returns what comes of the call, and {_name(one)} yields")
    try:
        inspect.signature(one).bind(None, None)
    except TypeError:
        expected = "`async def timed(call, next)`"
        raise TypeError(
            f"middleware takes a call and what comes next, as {expected} does; {_name(one)} does not"
        ) from None
    except ValueError:
        pass  # it does not tell what it takes
    return found


def _name(one: Any) -> str:
    return getattr(one, "__name__", None) or shown(one)


def response_of(given: Any) -> ResponseRule:
    """Return how much of a result is given.

    Raises:
        TypeError: it is no rule.
    """
    if given is None:
        return ResponseRule()
    if not isinstance(given, ResponseRule):
        raise TypeError(f"response is a w.ResponseRule, such as w.ResponseRule(max_items=20), not {shown(given)}")
    return given


def icons_of(given: Any) -> tuple[dict[str, Any], ...]:
    """Return icons.

    Raises:
        TypeError: one of them is no object with `src`.
    """
    if not isinstance(given, list | tuple):
        raise TypeError(f'icons is a list of objects, such as [{{"src": "https://.."}}], not {shown(given)}')
    icons = [object_of("an icon", one) for one in cast("Sequence[Any]", given)]
    for one in icons:
        if not isinstance(one.get("src"), str):
            raise TypeError(f"an icon says by src where it is, and {shown(one)} does not")
    return tuple(icons)


def meta_of(given: Any) -> dict[str, Any] | None:
    """Return what else is told of a tool.

    Raises:
        TypeError: it is no JSON object.
    """
    return None if given is None else json_of("meta", object_of("meta", given))
