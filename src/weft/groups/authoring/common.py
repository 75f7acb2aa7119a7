"""Common fields: what every action of a grouped tool takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from weft.errors import ExpressionInvalid, shown
from weft.expr.schemas import check_schema
from weft.expr.types import members_schema, plain
from weft.groups.action import fields_of, is_closed, required_of
from weft.groups.authoring.defaults import without_secrets
from weft.groups.authoring.signatures import object_schema
from weft.groups.authoring.values import Convert, Unfit, converter, invalid
from weft.groups.calling import ToolCall
from weft.ports import Schema, is_object

TOLD = ("default", "description", "examples", "title")
"""What a schema says beside which values it takes."""

NONE = object()


@dataclass(frozen=True, slots=True)
class Common:
    """Fields, and what their types check beyond their schema."""

    schema: Schema
    """Empty without any."""

    checks: tuple[tuple[frozenset[str], Convert], ...] = ()
    """For the values of some fields together, as an object: what refuses them."""

    def joined(self, other: Common) -> Common:
        """Return both.

        Raises:
            TypeError: both have a field of the same name.
        """
        if not (self.schema and other.schema):
            return self if self.schema else other
        ours, theirs = fields_of(self.schema), fields_of(other.schema)
        if twice := sorted(ours.keys() & theirs.keys()):
            raise TypeError(f"the common field {twice[0]!r} is there already")
        defs, more = self.schema.get("$defs", {}), other.schema.get("$defs", {})
        if unlike := sorted(name for name in defs.keys() & more.keys() if defs[name] != more[name]):
            raise TypeError(f"two types of common fields are named {unlike[0]!r}; give one of them another name")
        schema: dict[str, Any] = {"type": "object", "properties": {**ours, **theirs}}
        if required := [*required_of(self.schema), *required_of(other.schema)]:
            schema["required"] = required
        if defs or more:
            schema["$defs"] = {**defs, **more}
        return Common({**schema, "additionalProperties": False}, (*self.checks, *other.checks))

    def check(self, call: ToolCall) -> None:
        """Check what only the types of the fields know.

        Raises:
            ExecutionFailed: code `InvalidArguments`.
        """
        for names, convert in self.checks:
            try:
                convert({name: value for name, value in call.arguments.items() if name in names})
            except Unfit as error:
                raise invalid(call, error, self.schema) from None

    def without(self, schema: Schema) -> Schema:
        """Return an action's schema without the fields that are common and mean the same there."""
        ours, needed, required = fields_of(self.schema), required_of(self.schema), required_of(schema)
        fields = fields_of(schema)
        same = {
            name
            for name in ours.keys() & fields.keys()
            if (name in needed or name not in required)
            and (not _meant(fields[name]) or _meant(fields[name]) == _meant(ours[name]))
        }
        if not same:
            return schema
        left = {**schema, "properties": {name: one for name, one in fields.items() if name not in same}}
        if "required" in left:
            left["required"] = [name for name in required if name not in same]
        return left


def common_of(given: Any, fields: Mapping[str, Any]) -> Common:
    """Return the common fields that a model or a JSON Schema has, and those given by name.

    A field is a type or a JSON Schema, or `(type, default)` when it need not be given.

    Raises:
        TypeError: it is nothing of these, or takes fields without naming them.
    """
    found = Common({}) if given is None else _given(given)
    return found.joined(_named(fields)) if fields else found


def _given(given: Any) -> Common:
    if is_object(given):
        try:
            check_schema(given)
        except ExpressionInvalid as error:
            raise TypeError(str(error)) from None
        closed = {"type": "object", **given, "additionalProperties": given.get("additionalProperties", False)}
        found = Common(without_secrets(closed))
    elif isinstance(given, type):
        schema, convert = object_schema(given), converter(given)
        found = Common(without_secrets(schema), () if convert is None else ((frozenset(fields_of(schema)), convert),))
    else:
        raise TypeError(f"common fields are a model, a JSON Schema or types by name, not {shown(given)}")
    if found.schema["type"] != "object" or not is_closed(found.schema):
        raise TypeError(f"common fields have names, and {shown(given)} takes others too")
    return found


def _named(fields: Mapping[str, Any]) -> Common:
    parts: dict[str, tuple[Any, Any]] = {}
    for name, spec in fields.items():
        parts[name] = spec if isinstance(spec, tuple) and len(spec) == 2 else (spec, NONE)  # pyright: ignore[reportUnknownArgumentType] (a tuple of anything)
    try:
        hints = {name: Any if is_object(hint) else hint for name, (hint, _) in parts.items()}
        members = [(name, hints[name], default is NONE, default) for name, (_, default) in parts.items()]
        schema = members_schema(members)
    except ExpressionInvalid as error:
        raise TypeError(str(error)) from None
    properties = {name: _property(one, *parts[name]) for name, one in schema["properties"].items()}
    checks = [
        (frozenset((name,)), _of(name, convert))
        for name, (hint, _) in parts.items()
        if not is_object(hint) and (convert := converter(hint)) is not None
    ]
    whole = {**schema, "properties": properties, "additionalProperties": False}
    return Common(without_secrets(whole), tuple(checks))


def _property(made: Schema, given: Any, default: Any) -> Schema:
    if not is_object(given):
        return made
    check_schema(given)
    return {**given, **({} if default is NONE else {"default": plain(default)})}


def _of(name: str, convert: Convert) -> Convert:
    """Return the check of one field, which names it."""

    def check(values: Mapping[str, Any]) -> None:
        if name not in values:
            return
        try:
            convert(values[name])
        except Unfit as error:
            raise Unfit(error.below(name), secrets=error.secrets) from None

    return check


def _meant(schema: Schema) -> Schema:
    """Return what a schema says of values."""
    return {key: value for key, value in schema.items() if key not in TOLD}
