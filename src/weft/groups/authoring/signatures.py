"""What functions take, read from their signatures.

    hints         `def create(name: str, role: Role = Role.user)`: a field for each parameter, as python_tool has it
    a model       `params=CreateUser`: the function gets the instance
    JSON Schema   `params={"type": "object", ..}`: the function gets the object, or its fields by their names

A parameter of the type `w.ToolCall` gets the call and is no field. One that is named as a common field gets that field.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticSerializationError, to_jsonable_python

from weft.errors import ExpressionInvalid, shown
from weft.expr.schemas import check_schema
from weft.expr.types import Member, hints_of, members_schema, taken_schema
from weft.groups.action import fields_of, is_closed
from weft.groups.authoring.defaults import check_default, without_secrets
from weft.groups.authoring.params import Params
from weft.groups.authoring.values import Convert, converter
from weft.groups.calling import ToolCall
from weft.ports import Schema, is_object


def params_of(function: Callable[..., Any], params: Any = None) -> Params:
    """Read what a function takes, from its own hints or from `params`: a model or a JSON Schema.

    Raises:
        TypeError: what it takes cannot be said in JSON, or is not what `params` say.
    """
    try:
        found = _Signature(function)
        if params is None:
            return found.from_hints()
        return found.from_schema(params) if is_object(params) else found.from_model(params)
    except ExpressionInvalid as error:
        raise TypeError(str(error)) from None


def object_schema(tp: Any) -> Schema:
    """Return the schema of a model or another type whose values are objects, closed unless it says otherwise.

    Raises:
        TypeError: it is no such type.
    """
    try:
        return _object(taken_schema(tp), tp)
    except ExpressionInvalid as error:
        raise TypeError(str(error)) from None


class _Signature:
    """A function's parameters: the one for the call, the one for the whole, and those that are fields."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.who: str = getattr(function, "__name__", None) or shown(function)
        hints = _hints(function)
        try:
            parameters = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError):
            raise TypeError(f"{self.who} does not tell its parameters; give an action a function of your own") from None
        if any(one.kind is one.VAR_POSITIONAL for one in parameters):
            raise TypeError(f"{self.who} takes *args, and the arguments of an action have names")
        if parameters and parameters[0].name == "self" and "self" not in hints:
            raise TypeError(f"{self.who} is a method without its object; add the method of an object instead")
        calls = [one for one in parameters if _is_call(hints.get(one.name)) and one.kind is not one.POSITIONAL_ONLY]
        if len(calls) > 1:
            raise TypeError(f"{self.who} takes the call twice: {calls[0].name}, {calls[1].name}")
        self.call = calls[0].name if calls else None
        self.takes_more = any(one.kind is one.VAR_KEYWORD for one in parameters)
        self.rest = [one for one in parameters if one not in calls and one.kind is not one.VAR_KEYWORD]
        self.whole = self.rest[0] if self.rest and self.rest[0].kind is inspect.Parameter.POSITIONAL_ONLY else None
        if sum(one.kind is one.POSITIONAL_ONLY for one in self.rest) > 1:
            raise TypeError(f"{self.who} has two positional-only parameters, and only one can be the whole")
        self.hints = {one.name: _hint(one, hints.get(one.name, Any)) for one in self.rest}

    def from_hints(self) -> Params:
        if self.whole is not None:
            hint = self.hints[self.whole.name]
            schema = taken_schema(hint) or {"additionalProperties": True}
            return self._params(_object(schema, hint), whole=self.whole, made=converter(hint))
        members = [_member(one, self.hints[one.name]) for one in self.rest]
        schema = members_schema(members)
        for name, field in schema["properties"].items():
            if "default" in field:
                check_default(name, field, field["default"], defs=schema.get("$defs", {}))
        return self._params({**schema, "additionalProperties": self.takes_more})

    def from_model(self, model: Any) -> Params:
        if not isinstance(model, type):
            raise TypeError(f"params takes a model or a JSON Schema, not {shown(model)}")
        if not self.rest:
            raise TypeError(f"{self.who} has no parameter that could get the {model.__name__}")
        return self._params(_object(taken_schema(model), model), whole=self.rest[0], made=converter(model))

    def from_schema(self, schema: Schema) -> Params:
        check_schema(schema)
        schema = _object(schema, schema)
        fields = fields_of(schema)
        first = self.whole
        if self.rest and _is_needed(self.rest[0]) and not self._named(fields):
            first = self.rest[0]
        if first is not None:
            return self._params(schema, whole=first)
        untaken = [] if self.takes_more else [name for name in fields if name not in self.hints]
        if untaken:
            raise TypeError(f"{self.who} has no parameter for the field {untaken[0]!r} of its params")
        return self._params(schema)

    def _named(self, fields: Mapping[str, Schema]) -> bool:
        """Tell whether parameters are named as the fields are, so that they want them one by one."""
        return self.takes_more or any(name in self.hints for name in fields)

    def _params(self, schema: Schema, *, whole: inspect.Parameter | None = None, made: Convert | None = None) -> Params:
        named = [one for one in self.rest if one is not whole]
        fields = {one.name: one.default for one in named if isinstance(one.default, FieldInfo)}
        return Params(
            schema=without_secrets(schema),
            untold=fields_of(schema),
            whole=None if whole is None else whole.name,
            by_position=whole is not None and whole.kind is whole.POSITIONAL_ONLY,
            made=made,
            names=frozenset(one.name for one in named),
            needed=frozenset(one.name for one in named if _is_needed(one)),
            converters={one.name: convert for one in named if (convert := converter(self.hints[one.name])) is not None},
            defaults={name: _default_of(info) for name, info in fields.items() if not info.is_required()},
            takes_more=self.takes_more,
            call=self.call,
        )


def docstring_of(function: Callable[..., Any]) -> str | None:
    """Return what a function says of itself."""
    return inspect.getdoc(_whole(function))


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    function = _whole(function)
    if isinstance(function, type):
        return _hints_of_class(function)
    return hints_of(function if inspect.isroutine(function) else type(function).__call__)


def _hints_of_class(made: type) -> dict[str, Any]:
    """Return the hints of what makes an object of a class; of a model, those of its fields."""
    if issubclass(made, BaseModel):
        return {info.alias or name: _field_hint(info) for name, info in made.model_fields.items()}
    return {**hints_of(made.__new__), **hints_of(made.__init__)}


def _field_hint(info: FieldInfo) -> Any:
    return Annotated[(info.annotation, *info.metadata)] if info.metadata else info.annotation


def _whole(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function of which a partial is one."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _hint(parameter: inspect.Parameter, hint: Any) -> Any:
    return Annotated[hint, parameter.default] if isinstance(parameter.default, FieldInfo) else hint


def _member(parameter: inspect.Parameter, hint: Any) -> Member:
    default: Any = parameter.default
    if isinstance(default, FieldInfo):
        default = default.default
    with suppress(PydanticSerializationError):  # a default that is not JSON is not told
        default = to_jsonable_python(default)
    return parameter.name, hint, _is_needed(parameter), default


def _is_needed(parameter: inspect.Parameter) -> bool:
    default: Any = parameter.default
    return default.is_required() if isinstance(default, FieldInfo) else default is parameter.empty


def _default_of(info: FieldInfo) -> Callable[[], Any]:
    return lambda: info.get_default(call_default_factory=True, validated_data={})


def _is_call(hint: Any) -> bool:
    optional = get_origin(hint) in (Union, UnionType)
    return hint is ToolCall or (optional and set(get_args(hint)) == {ToolCall, type(None)})


def _object(schema: Schema, given: Any) -> Schema:
    """Return a schema as that of an object: what it refers to at its root written out, and closed if it may be."""
    target: object = schema.get("$ref")
    if isinstance(target, str) and target.startswith("#/$defs/"):
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        schema = {**schema["$defs"][target.removeprefix("#/$defs/")], **rest}
    if schema.get("type", "object") != "object" or (schema == {} and not is_object(given)):
        raise TypeError(f"the arguments of an action are an object, which {shown(given)} is not")
    return {"type": "object", **schema, **({"additionalProperties": False} if is_closed(schema) else {})}
