"""What an action takes, and how valid arguments become what its function gets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from weft.errors import nearest
from weft.groups.action import fields_of, is_closed, required_of
from weft.groups.authoring.values import Convert, Unfit, converted, invalid
from weft.groups.calling import ToolCall
from weft.ports import Schema

Arguments: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]
CallWith: TypeAlias = Callable[[ToolCall], Arguments]


@dataclass(frozen=True, slots=True, kw_only=True)
class Params:
    """What a function takes of a call."""

    schema: Schema
    """Of the object that it takes, closed unless it says otherwise."""

    untold: Mapping[str, Schema] = field(default_factory=dict[str, Schema])
    """Its fields with what is not told of them: the defaults of secrets."""

    whole: str | None = None
    """The parameter that gets the object."""

    by_position: bool = False
    """Whether that parameter has no name for callers."""

    made: Convert | None = None
    """What makes the object what that parameter wants; then it gets the fields of its own schema alone."""

    names: frozenset[str] = frozenset()
    """The parameters that get a field each."""

    needed: frozenset[str] = frozenset()
    """Those of them without a default."""

    converters: Mapping[str, Convert] = field(default_factory=dict[str, Convert])
    defaults: Mapping[str, Callable[[], Any]] = field(default_factory=dict[str, Callable[[], Any]])
    """What pydantic's `Field` gives as a default where Python would give the `Field` itself."""

    absent: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What the schema says that fields are which nobody sent, for parameters without a default."""

    takes_more: bool = False
    """Whether it has `**fields`."""

    call: str | None = None
    """The parameter that gets the call."""

    def bound(self, common: Schema) -> CallWith:
        """Return what makes the arguments of the function of a call whose fields are valid.

        Raises:
            TypeError: it wants a field that neither its own schema nor the common one has, or that may be missing.
        """
        known = {*fields_of(self.schema), *fields_of(common)}
        for name in sorted(self.names - known):
            if name in self.needed:
                close = nearest(name, known)
                hint = f"did you mean {close!r}?" if close else f"there are {', '.join(sorted(known)) or 'none'}"
                raise TypeError(f"its parameter {name!r} is no field of it, nor a common one; {hint}")
        absent = {name: self._absent(name, common) for name in self._unsure(common)}
        return replace(self, absent=absent)._bound(common, known) if absent else self._bound(common, known)

    def _unsure(self, common: Schema) -> list[str]:
        """Return the parameters without a default whose fields need not be sent."""
        return sorted(self.needed & self.names - {*required_of(self.schema), *required_of(common)})

    def _absent(self, name: str, common: Schema) -> Any:
        found = {**fields_of(common), **fields_of(self.schema), **self.untold}[name]
        if "default" not in found:
            told = f"its parameter {name!r} has no default, and the schema does not require the field"
            raise TypeError(f"{told}; give the parameter a default, or name the field in required")
        return found["default"]

    def _bound(self, common: Schema, known: Collection[str]) -> CallWith:
        if self.whole is not None:
            return self._with_whole()
        plain = not self.converters and not self.defaults and not self.absent and self.call is None
        if plain and is_closed(self.schema) and is_closed(common) and (self.takes_more or self.names.issuperset(known)):
            return lambda call: ((), call.arguments)
        return self._with_names()

    def _with_names(self) -> CallWith:
        def call_with(call: ToolCall) -> Arguments:
            return (), self._named(call)

        return call_with

    def _with_whole(self) -> CallWith:
        name, made = self.whole or "", self.made
        own = frozenset(fields_of(self.schema)) if is_closed(self.schema) else None

        def call_with(call: ToolCall) -> Arguments:
            value: Any = call.arguments
            if made is not None:
                mine = value if own is None else {key: one for key, one in value.items() if key in own}
                try:
                    value = made(mine)
                except Unfit as error:
                    raise invalid(call, error, self.schema) from None
            named = self._named(call)
            return ((value,), named) if self.by_position else ((), {**named, name: value})

        return call_with

    def _named(self, call: ToolCall) -> dict[str, Any]:
        given = call.arguments
        named = dict(given) if self.takes_more else {name: given[name] for name in self.names if name in given}
        for name, value in self.absent.items():
            if name not in named:
                named[name] = deepcopy(value)
        if self.converters:
            try:
                named = converted(named, self.converters)
            except Unfit as error:
                raise invalid(call, error, self.schema) from None
        for name, default in self.defaults.items():
            if name not in named:
                named[name] = default()
        if self.call is not None:
            named[self.call] = call
        return named
