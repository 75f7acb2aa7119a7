"""Hints that pydantic does not read as authors mean them, put into a form that it does."""

from __future__ import annotations

import sys
from enum import Enum
from types import UnionType
from typing import Annotated, Any, Literal, NotRequired, Required, Union, cast, get_args, get_origin

import typing_extensions
from pydantic import BeforeValidator

from weft.expr.types import hints_of


def readable(hint: Any) -> Any:
    """Return a hint by which pydantic makes the same values: a `TypedDict` of `typing`, `Literal` members of enums."""
    return _readable(hint, {})


def is_typed_dict(hint: Any) -> bool:
    """Tell whether a hint is a `TypedDict`, also that of typing_extensions, which `typing` does not know."""
    return isinstance(hint, type) and issubclass(hint, dict) and hasattr(cast("Any", hint), "__required_keys__")


def _readable(hint: Any, made: dict[Any, Any]) -> Any:
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return _literal(hint, args)
    if is_typed_dict(hint):
        # Before 3.12 pydantic takes only those of typing_extensions.
        return _typed_dict(hint, made) if sys.version_info < (3, 12) else hint
    if origin is None or not args:
        return hint
    inner = tuple(_readable(one, made) for one in args)
    if all(one is other for one, other in zip(inner, args, strict=True)):
        return hint
    if origin is Annotated:
        return Annotated[inner]
    return Union[inner] if origin is UnionType else origin[inner]  # noqa: UP007 (made of a tuple)


def _literal(hint: Any, choices: tuple[Any, ...]) -> Any:
    members = [one for one in choices if isinstance(one, Enum)]
    if not members:
        return hint

    def member(value: Any) -> Any:
        return next((one for one in members if type(one.value) is type(value) and one.value == value), value)

    return Annotated[hint, BeforeValidator(member)]


def _typed_dict(hint: Any, made: dict[Any, Any]) -> Any:
    """Return a typed dictionary as typing_extensions has it; one that holds itself is found in `made`."""
    if hint in made:
        return made[hint]
    new: Any = typing_extensions.TypedDict(hint.__name__, {})  # pyright: ignore[reportArgumentType] (its name is known here)
    made[hint] = new
    new.__module__, new.__doc__ = hint.__module__, hint.__doc__
    if (config := getattr(hint, "__pydantic_config__", None)) is not None:
        new.__pydantic_config__ = config
    needed = set[str]()
    for name, given in hints_of(hint).items():
        inner, required = given, name in hint.__required_keys__
        # What is needed is not known to the class itself when hints are kept as strings.
        while (origin := get_origin(inner)) in (Required, NotRequired):
            inner, required = get_args(inner)[0], origin is Required
        new.__annotations__[name] = _readable(inner, made)
        needed |= {name} if required else set()
    new.__required_keys__ = frozenset(needed)
    new.__optional_keys__ = frozenset(new.__annotations__.keys() - needed)
    return new
