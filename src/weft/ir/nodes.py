"""What every part of a document has in common: one canonical form, other spellings taken on the way in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel, to_snake
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError
from pydantic_core import core_schema as cs

from weft.errors import ExpressionInvalid, nearest, shown
from weft.expr.cel import compile_condition
from weft.expr.durations import as_ms
from weft.expr.paths import compile_path
from weft.ports import Json, is_array, is_object

JSON_TYPES = (str, bool, int, float, list, dict, type(None))
MAX_LITERAL = 1 << 20


def refuse(code: str, message: str, **details: Any) -> PydanticCustomError:
    """Return the error that a validator raises.

    `details` are value, expected and suggestion, as in Problem, and `at`: the place below the node, if not the node.
    """
    return PydanticCustomError(cast(Any, code), "{sentence}", {"sentence": message, **details})


def refused(error: ExpressionInvalid, *at: str | int) -> PydanticCustomError:
    """Return a small language's error as the one that a validator raises."""
    return refuse(
        error.code, error.message, value=error.value, expected=error.expected, suggestion=error.suggestion, at=at
    )


def joined(
    model: type[BaseModel], failed: ValidationError | None, more: Sequence[PydanticCustomError]
) -> ValidationError:
    """Return what a model's own checks refuse together with what validation refused before them: nothing hides."""
    lines: list[InitErrorDetails] = []
    told = list[dict[str, Any]]()
    for one in failed.errors(include_url=False) if failed is not None else ():
        context = one.get("ctx", {})
        told += [] if one["loc"] else [context]
        custom = "sentence" in context
        kind = PydanticCustomError(cast(Any, one["type"]), "{sentence}", context) if custom else one["type"]
        lines.append({"type": kind, "loc": one["loc"], "input": one["input"], "ctx": context})
    # pydantic wraps a model twice that was used before it became part of another, so its checks may run twice.
    lines += [InitErrorDetails(type=one, loc=(), input=None) for one in more if one.context not in told]
    return ValidationError.from_exception_data(model.__name__, lines)


def expression(check: Callable[[Any], object]) -> Callable[[Any], Any]:
    """Make a validator of a compile function: the text stays text, an error keeps its place."""

    def checked(text: Any) -> Any:
        try:
            check(text)
        except ExpressionInvalid as error:
            raise refused(error) from None
        return text

    return checked


PathText = Annotated[str, AfterValidator(expression(compile_path))]
CelText = Annotated[str, AfterValidator(expression(compile_condition))]


def _milliseconds(value: Any) -> Any:
    if isinstance(value, str) or is_object(value):
        try:
            return as_ms(value)
        except ExpressionInvalid as error:
            raise refused(error) from None
    return value


class _Milliseconds:
    """An integer of milliseconds; "30s" and duration objects are taken too."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        number = cs.int_schema(strict=True, ge=1, le=24 * 3600 * 1000)
        return cs.no_info_before_validator_function(_milliseconds, number)


Milliseconds = Annotated[int, _Milliseconds()]


def _is_json(value: Any) -> Any:
    if isinstance(value, JSON_TYPES):
        return cast(Any, value)
    raise refuse("NotJson", f"{shown(value)} is not a JSON value", value=shown(value), expected="a JSON value")


# Checked by type only: documents come from `read`, which lets nothing but finite JSON through.
AnyJson = Annotated[Any, AfterValidator(_is_json), WithJsonSchema({})]


def _is_small(value: Any) -> Any:
    if _size(value) > MAX_LITERAL:
        got, most = shown(value), f"at most {MAX_LITERAL} bytes; let a tool give what is larger"
        raise refuse("LiteralTooLarge", "a literal of more than 1 MiB", value=got, expected=most)
    return value


def _size(value: Any) -> int:
    """Return about how many bytes a literal takes as JSON."""
    if isinstance(value, str):
        return (len(value) if value.isascii() else len(value.encode(errors="surrogatepass"))) + 2
    if is_array(value):
        return sum(_size(item) + 1 for item in value) + 2
    if is_object(value):
        return sum(_size(key) + _size(item) + 2 for key, item in value.items()) + 2
    return 4


LiteralJson = Annotated[AnyJson, AfterValidator(_is_small)]
"""A JSON value that stands in a document for what every call is given."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """Stands in the place of what an unknown key holds, with the keys that are known there."""

    known: Mapping[str, str]


class Node(BaseModel):
    """A part of a document: frozen, strict, camelCase outside and snake_case inside."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        alias_generator=to_camel,
        validate_by_name=False,
        validate_by_alias=True,
        serialize_by_alias=True,
        defer_build=True,
        arbitrary_types_allowed=False,
        hide_input_in_errors=True,
    )

    aliases: ClassVar[Mapping[str, str]] = {}
    """Other names that documents use for a key, each with the canonical one."""
    keeps_null: ClassVar[frozenset[str]] = frozenset()
    """Canonical keys whose null is a value; elsewhere null means absent."""
    _keys: ClassVar[Mapping[str, str]] = {}
    _empty: ClassVar[Mapping[str, Any]] = {}
    """Keys whose default is the empty list or object: given as that, they are left out."""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        keys: dict[str, str] = {}
        empty: dict[str, Any] = {}
        for name, field in cls.model_fields.items():
            outward = field.alias or to_camel(name)
            keys[outward] = keys[to_snake(outward)] = outward
            if field.default in ([], {}):
                empty[outward] = field.default
        for other, canonical in cls.aliases.items():
            keys[other] = keys[to_camel(other)] = canonical
        cls._keys, cls._empty = keys, empty

    @classmethod
    def spell(cls, value: Any) -> Any:
        """Turn this node's own other spellings into the canonical one; plain nodes have none."""
        return value

    @model_validator(mode="before")
    @classmethod
    def _canonical_keys(cls, value: Any) -> Any:
        if isinstance(value, cls):
            return value
        value = cls.spell(value)
        if not is_object(value):
            got, wanted = shown(value), f"an object ({cls.__name__})"
            raise refuse("WrongType", f"{got} is not an object", value=got, expected=wanted)
        keys, keeps, empty = cls._keys, cls.keeps_null, cls._empty
        out: dict[str, Any] = {}
        for key, item in value.items():
            canonical = keys.get(key)
            if canonical is None:
                if not key.startswith("$"):
                    out[key] = Unknown(keys)
                continue
            if (item is None and canonical not in keeps) or (canonical in empty and item == empty[canonical]):
                continue
            if canonical in out:
                sentence = f"{shown(key)} is another spelling of {canonical!r}, given too"
                raise refuse("SpeltTwice", sentence, value=shown(key), expected="one of them", at=(key,))
            out[canonical] = item
        return out

    @classmethod
    def spellings(cls) -> Mapping[str, str]:
        """Return every accepted key with the canonical one."""
        return cls._keys

    def to_ir(self) -> dict[str, Json]:
        """Return the canonical JSON."""
        return self.model_dump(mode="json", exclude_unset=True)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.to_ir()!r})"


class OneOf(Node):
    """A node of which exactly one choice is given; keys that are no choice may stand beside it."""

    beside: ClassVar[frozenset[str]] = frozenset()
    noun: ClassVar[str] = "choice"

    @model_validator(mode="after")
    def _exactly_one(self) -> OneOf:
        given = self.model_fields_set - self.beside
        if len(given) != 1:
            fields = type(self).model_fields.items()
            choices = [field.alias or name for name, field in fields if name not in self.beside]
            found = ", ".join(sorted(type(self).model_fields[name].alias or name for name in given)) or "none"
            raise refuse(
                "ExactlyOne",
                f"exactly one {self.noun} is needed, found {found}",
                value=found,
                expected=f"one of {', '.join(choices)}",
            )
        return self

    @property
    def kind(self) -> str:
        """The name of the choice that was made."""
        return next(iter(self.model_fields_set - self.beside))

    @property
    def chosen(self) -> Any:
        """The choice itself."""
        return getattr(self, self.kind)


class Tagged:
    """Annotates an open field with a closed union: `{kind: body}`, one key, found in `kinds` once that is known.

    The tag that pydantic puts in an error's `loc` is then the JSON key, so that `loc` is the place in the document.
    """

    def __init__(self, kinds: Callable[[], Mapping[str, type[Node]]], spell: Callable[[Any], Any]) -> None:
        self.kinds = kinds
        self.spell = spell

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        kinds = self.kinds()
        tags = {model: tag for tag, model in kinds.items()}

        def pick(value: Any) -> Any:
            return tags.get(value.__class__) or next(iter(value), None)

        def body(tag: str, model: type[Node]) -> CoreSchema:
            def unwrap(value: Any) -> Any:
                return value if type(value) is model else value[tag]

            return cs.no_info_before_validator_function(unwrap, handler.generate_schema(model))

        def wrap(value: Any, dump: Callable[[Any], Any]) -> Any:
            return {tags[type(value)]: dump(value)}

        union = cs.tagged_union_schema(
            {tag: body(tag, model) for tag, model in kinds.items()},
            pick,
            serialization=cs.wrap_serializer_function_ser_schema(wrap, schema=cs.any_schema()),
        )
        return cs.no_info_before_validator_function(self.spell, union)


def unknown(what: str, name: object, known: list[str]) -> PydanticCustomError:
    """Return the error for a name that a closed set does not have."""
    return refuse(
        f"Unknown{what.title().replace(' ', '')}",
        f"Unknown {what} {shown(name)}",
        value=shown(name),
        expected=f"one of {', '.join(known)}",
        suggestion=nearest(name, known),
    )
