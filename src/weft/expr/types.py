"""JSON Schema from Python types: what functions, models and typed dictionaries say of their values."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import json
import sys
import types
import typing
from collections import Counter, OrderedDict, abc, defaultdict, deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Annotated, Any, Literal, NotRequired, Required, Union, cast, get_args, get_origin

from pydantic import BaseModel, TypeAdapter
from pydantic.dataclasses import is_pydantic_dataclass
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from weft.errors import ExpressionInvalid, shown
from weft.ports import Json, is_array, is_object

Schema = dict[str, Any]
Mode = Literal["serialization", "validation"]

MODEL = "x-weft-model"
"""Where an annotated schema keeps what JSON Schema cannot say: the model's name and its Python field names."""

_REF = "#/$defs/"
_SETS = (set, frozenset, abc.Set, abc.MutableSet)
_ARRAYS = (tuple, list, deque, abc.Sequence, abc.MutableSequence, abc.Collection, abc.Iterable, *_SETS)
_MAPS = (dict, OrderedDict, defaultdict, abc.Mapping, abc.MutableMapping)
_TYPES = {"null", "boolean", "number", "string", "array", "object"}


def schema_of(tp: Any) -> Schema:
    """Return the JSON Schema of a Python type; a schema that is already one passes through.

    Raises:
        ExpressionInvalid: the type has no JSON form, or names a type that cannot be found.
    """
    return tp if is_object(tp) else public(annotated_schema(tp))


def taken_schema(tp: Any) -> Schema:
    """Return the JSON Schema of what pydantic takes for a type, which may be more than it writes.

    Raises:
        ExpressionInvalid: as `schema_of`.
    """
    writer = _Writer("validation")
    return public(writer.finish(writer.schema(tp)))


def members_schema(members: abc.Iterable[Member]) -> Schema:
    """Return the schema of an object with these members, as `taken_schema`; it says nothing of others."""
    writer = _Writer("validation")
    return public(writer.finish(writer.members(list(members))))


def annotated_schema(tp: Any) -> Schema:
    """Return the schema of a type with each model's name and Python field names under `MODEL`."""
    if is_object(tp):
        return tp
    writer = _Writer()
    return writer.finish(writer.schema(tp))


def public(schema: Schema) -> Schema:
    """Return a schema without the notes of `annotated_schema`."""
    return _rebuilt(schema, lambda node: {key: value for key, value in node.items() if key != MODEL})


def function_types(fn: Callable[..., Any]) -> tuple[Schema, Schema]:
    """Return the input and output schemas of a function, from its signature and hints.

    A positional-only parameter is the whole input; any other is a property of it.
    """
    hints = hints_of(fn if inspect.isroutine(fn) else type(fn).__call__)
    parameters = list(inspect.signature(fn).parameters.values())
    whole = _positional_only(fn, parameters)
    writer = _Writer()
    given = writer.schema(hints.get(whole.name, Any)) if whole else writer.parameters(parameters, hints)
    returns = hints.get("return", Any)
    if get_origin(returns) in (abc.Awaitable, abc.Coroutine):
        returns = get_args(returns)[-1]
    return public(writer.finish(given)), schema_of(returns)


def plain(value: Any) -> Any:
    """Return a copy of a JSON value.

    Raises:
        ExpressionInvalid: the value would not come back from JSON as it went.
    """
    try:
        copy = json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise ExpressionInvalid(f"{shown(value)} is not JSON: {error}", value=value) from error
    if copy != value:
        raise ExpressionInvalid(f"{shown(value)} is not JSON as it stands, it would become {shown(copy)}", value=value)
    return copy


Member: typing.TypeAlias = tuple[str, Any, bool, Any]
"""A field's name, its hint, whether it is required, and its default or some marker that is not JSON."""


class _Writer:
    """One schema under construction: a type with a name is written once, under `$defs`."""

    def __init__(self, mode: Mode = "serialization") -> None:
        self.mode: Mode = mode
        self.defs: dict[str, Schema] = {}
        self.names: dict[Any, str] = {}

    def schema(self, tp: Any) -> Schema:
        base, *notes = get_args(tp) if get_origin(tp) is Annotated else (tp,)
        if notes and self.mode == "validation":
            with suppress(ExpressionInvalid):  # pydantic knows what notes mean, but not every type
                return self._leaf(tp)
        own = self._own(base)
        if own is None:
            return self._leaf(tp)
        told = [note.description for note in notes if isinstance(note, FieldInfo) and note.description]
        return own | {"description": told[-1]} if told else own

    def parameters(self, parameters: list[inspect.Parameter], hints: Mapping[str, Any]) -> Schema:
        named = [one for one in parameters if one.kind is not one.VAR_KEYWORD]
        members = [(one.name, hints.get(one.name, Any), one.default is one.empty, one.default) for one in named]
        return self.members(members) | {"additionalProperties": len(named) < len(parameters)}

    def finish(self, schema: Schema) -> Schema:
        """Inline what is used once; a recursive type is used at least twice, so this ends."""
        uses: Counter[str] = Counter()

        def counted(node: Schema) -> Schema:
            if isinstance(node.get("$ref"), str):
                uses[node["$ref"]] += 1
            made_up = "enum" in node and isinstance(node.get("title"), str)
            return {key: value for key, value in node.items() if key != "title"} if made_up else node

        def inlined(node: Schema) -> Schema:
            target = node.get("$ref")
            if not isinstance(target, str) or uses[target] > 1:
                return node
            rest = {key: value for key, value in node.items() if key != "$ref"}
            return _rebuilt(defs[target.removeprefix(_REF)], inlined) | rest

        schema, defs = _rebuilt([schema, self.defs], counted)
        shared = {name: _rebuilt(body, inlined) for name, body in defs.items() if uses[_REF + name] > 1}
        return _rebuilt(schema, inlined) | ({"$defs": shared} if shared else {})

    def _own(self, tp: Any) -> Schema | None:
        origin, args = get_origin(tp) or tp, get_args(tp)
        if tp is Any or tp is object or tp == Json:
            return {}
        if origin is Union or origin is types.UnionType:
            return _union([self.schema(arg) for arg in args])
        if origin is tuple and args and args[-1] is not Ellipsis:
            items = [self.schema(arg) for arg in args]
            return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
        if origin in _ARRAYS:
            unique = {"uniqueItems": True} if origin in _SETS else {}
            return {"type": "array", "items": self.schema(args[0]) if args else {}, **unique}
        if origin in _MAPS:
            return {"type": "object", "additionalProperties": self.schema(args[1]) if args else True}
        return self._named(tp, origin) if _is_typed_dict(origin) or _is_plain_dataclass(origin) else None

    def _named(self, tp: Any, cls: Any) -> Schema:
        if tp not in self.names:
            name = next(free for free in _spellings(cls.__name__) if free not in self.defs)
            self.names[tp], self.defs[name] = name, {}
            body = self.members(_members(cls, _bound_hints(tp, cls)))
            told = cls.__dict__.get("__doc__")
            if told and not told.startswith(f"{cls.__name__}("):  # the text that dataclass writes by itself
                body["description"] = inspect.cleandoc(told)
            by = "item" if _is_typed_dict(cls) else "attribute"
            self.defs[name] = _noted(body, cls, {field: field for field in body["properties"]}, by=by)
        return {"$ref": _REF + self.names[tp]}

    def members(self, members: list[Member]) -> Schema:
        properties = {name: self.schema(hint) | _default(value) for name, hint, _, value in members}
        required = [name for name, _, needed, _ in members if needed]
        return {"type": "object", "properties": properties} | ({"required": required} if required else {})

    def _leaf(self, tp: Any) -> Schema:
        try:
            for template in _spellings("{model}"):  # another model may have the same name already
                schema = _leaf_schema(tp, self.mode, _REF + template)
                defs = {template.format(model=name): body for name, body in schema.get("$defs", {}).items()}
                if all(self.defs.get(name, body) == body for name, body in defs.items()):
                    self.defs |= defs
                    return {key: value for key, value in schema.items() if key != "$defs"}
        except (PydanticUserError, PydanticUndefinedAnnotation, TypeError, NameError) as error:
            wanted = "use a JSON type, a TypedDict, a dataclass or a pydantic model"
            raise ExpressionInvalid(f"{_name(tp)} has no JSON Schema; {wanted}", value=tp, expected=wanted) from error
        raise AssertionError("unreachable: there is always one more spelling")


def _leaf_schema(tp: Any, mode: Mode, ref: str) -> Schema:
    # The same few types stand in most signatures, and pydantic takes its time.
    try:
        hash(tp)
    except TypeError:
        return _remembered.__wrapped__(tp, mode, ref)
    return _remembered(tp, mode, ref)


@lru_cache(maxsize=256)
def _remembered(tp: Any, mode: Mode, ref: str) -> Schema:
    return TypeAdapter[Any](tp).json_schema(mode=mode, schema_generator=_Generator, ref_template=ref)


class _Generator(GenerateJsonSchema):
    """pydantic's own generator, without the titles that it makes up and with our notes."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        cls: type[BaseModel] = schema["cls"]
        aliases = {name: field.serialization_alias or name for name, field in cls.model_fields.items()}
        aliases |= {name: field.alias or name for name, field in cls.model_computed_fields.items()}
        return _noted(super().model_schema(schema), cls, aliases)

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        infos: dict[str, FieldInfo] = getattr(schema["cls"], "__pydantic_fields__", {})
        aliases = dict(zip(schema["fields"], schema["fields"], strict=True))
        aliases |= {name: info.serialization_alias or name for name, info in infos.items()}
        return _noted(super().dataclass_schema(schema), schema["cls"], aliases)

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> JsonSchemaValue:
        body = super().typed_dict_schema(schema)
        return _noted(body, schema.get("cls"), {name: name for name in body.get("properties", {})}, by="item")


def _noted(body: Schema, cls: Any, names: dict[str, str], *, by: str = "attribute") -> Schema:
    name = getattr(cls, "__name__", "the model")
    if body.get("title") == name:
        del body["title"]
    present = {python: key for python, key in names.items() if key in body.get("properties", {})}
    return body | {MODEL: {"name": name, "by": by, "fields": present}} if present else body


def _members(cls: Any, hints: Mapping[str, Any]) -> list[Member]:
    if not dataclasses.is_dataclass(cls):
        return [_typed_key(name, hint, needed=name in cls.__required_keys__) for name, hint in hints.items()]
    missing = dataclasses.MISSING
    return [
        (one.name, hints[one.name], one.default is missing and one.default_factory is missing, one.default)
        for one in dataclasses.fields(cls)
    ]


def _typed_key(name: str, hint: Any, *, needed: bool) -> Member:
    # `__required_keys__` does not know of Required and NotRequired when hints are kept as strings.
    while (origin := get_origin(hint)) in (Required, NotRequired):
        needed, hint = origin is Required, get_args(hint)[0]
    return name, hint, needed, dataclasses.MISSING


def _default(value: Any) -> Schema:
    try:
        return {"default": plain(value)}
    except ExpressionInvalid:
        return {}


def hints_of(source: Any) -> dict[str, Any]:
    """Return the type hints of a function or a class, with what is annotated.

    Raises:
        ExpressionInvalid: one of them names what cannot be found.
    """
    known: dict[str, Any] = vars(sys.modules.get(getattr(source, "__module__", ""), typing))
    # typing never comes to the end of a recursive alias such as Json.
    recursive = {name: Any for name, value in known.items() if isinstance(value, str) and value == cast("Any", Json)}
    try:
        try:
            return typing.get_type_hints(source, localns=recursive or None, include_extras=True)
        except NameError as error:
            if error.name != "Json":
                raise
            # `w.Json`: the alias names itself, and the module does not have it under that name.
            return typing.get_type_hints(source, localns={**recursive, "Json": Any}, include_extras=True)
    except (NameError, TypeError, SyntaxError, RecursionError) as error:
        raise ExpressionInvalid(f"the type hints of {_name(source)} cannot be read: {error}", value=source) from error


def _bound_hints(tp: Any, cls: Any) -> dict[str, Any]:
    """Return the hints of a class, its type variables replaced by the arguments that a generic was given."""
    bound: dict[Any, Any] = dict(zip(getattr(cls, "__parameters__", ()), get_args(tp), strict=False))

    def filled(hint: Any) -> Any:
        if isinstance(hint, typing.TypeVar):
            return bound.get(hint, Any)
        free = getattr(hint, "__parameters__", ()) if get_args(hint) else ()
        return hint[tuple(bound.get(one, Any) for one in free)] if free else hint

    return {name: filled(hint) for name, hint in hints_of(cls).items()}


def _positional_only(fn: Any, parameters: list[inspect.Parameter]) -> inspect.Parameter | None:
    if any(one.kind is one.VAR_POSITIONAL for one in parameters):
        raise ExpressionInvalid(f"{_name(fn)} takes *args, and a tool's arguments have names", value=fn)
    if not parameters or parameters[0].kind is not inspect.Parameter.POSITIONAL_ONLY:
        return None
    if any(one.default is one.empty or one.kind is one.POSITIONAL_ONLY for one in parameters[1:]):
        raise ExpressionInvalid(f"{_name(fn)} takes a positional-only parameter, so it can take no other", value=fn)
    return parameters[0]


def _union(options: list[Schema]) -> Schema:
    anything = {"type": "array", "items": {}} in options and {one.get("type") for one in options} >= _TYPES
    if {} in options or anything:
        return {}
    distinct = [one for at, one in enumerate(options) if one not in options[:at]]
    return distinct[0] if len(distinct) == 1 else {"anyOf": distinct}


def _rebuilt(node: Any, change: Callable[[Schema], Schema]) -> Any:
    """Return a JSON value with every object in it changed, the innermost first."""
    if is_array(node):
        return [_rebuilt(item, change) for item in node]
    if not is_object(node):
        return node
    return change({key: _rebuilt(value, change) for key, value in node.items()})


def _spellings(name: str) -> abc.Iterator[str]:
    return itertools.chain([name], (f"{name}_{n}" for n in itertools.count(2)))


def _is_typed_dict(tp: Any) -> bool:
    # typing.is_typeddict does not know the TypedDict of typing_extensions.
    return isinstance(tp, type) and issubclass(tp, dict) and hasattr(cast("Any", tp), "__required_keys__")


def _is_plain_dataclass(tp: Any) -> bool:
    return isinstance(tp, type) and dataclasses.is_dataclass(tp) and not is_pydantic_dataclass(tp)


def _name(tp: Any) -> str:
    return getattr(tp, "__name__", None) or shown(tp)
