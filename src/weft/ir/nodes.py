"""What every part of a document has in common: one canonical form, other spellings taken on the way in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, PydanticCustomError
from pydantic_core import core_schema as cs

from weft.errors import ExpressionInvalid, nearest, shown
from weft.expr.cel import compile_condition
from weft.expr.durations import as_ms
from weft.expr.paths import compile_path
from weft.ports import Json

JSON_TYPES = (str, bool, int, float, list, dict, type(None))


def refuse(code: str, message: str, **details: Any) -> PydanticCustomError:
    """Return the error that a validator raises: `details` are value, expected and suggestion, as in Problem."""
    return PydanticCustomError(cast(Any, code), "{sentence}", {"sentence": message, **details})


def expression(check: Callable[[Any], object]) -> Callable[[Any], Any]:
    """Make a validator of a compile function: the text stays text, an error keeps its place."""

    def checked(text: Any) -> Any:
        try:
            check(text)
        except ExpressionInvalid as error:
            raise refuse(
                error.code, error.message, value=error.value, expected=error.expected, suggestion=error.suggestion
            ) from None
        return text

    return checked


PathText = Annotated[str, AfterValidator(expression(compile_path))]
CelText = Annotated[str, AfterValidator(expression(compile_condition))]


def _milliseconds(value: Any) -> Any:
    if isinstance(value, (str, dict)):
        try:
            return as_ms(cast(Any, value))
        except ExpressionInvalid as error:
            raise refuse(error.code, error.message, value=error.value, expected=error.expected) from None
    return value


class _Milliseconds:
    """An integer of milliseconds; "30s" and duration objects are taken too."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        number = cs.int_schema(strict=True, ge=1, le=24 * 3600 * 1000)
        return cs.no_info_before_validator_function(_milliseconds, number)


Milliseconds = Annotated[int, _Milliseconds()]


def _is_json(value: Any) -> Any:
    if not isinstance(value, JSON_TYPES):
        raise refuse("NotJson", f"{shown(value)} is not a JSON value", expected="a JSON value")
    return value


# Checked by type only: documents come from `read`, which lets nothing but finite JSON through.
AnyJson = Annotated[Any, AfterValidator(_is_json), WithJsonSchema({})]


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

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        keys: dict[str, str] = {}
        for name, field in cls.model_fields.items():
            outward = field.alias or to_camel(name)
            keys[outward] = keys[name] = outward
        for other, canonical in cls.aliases.items():
            keys[other] = keys[to_camel(other)] = canonical
        cls._keys = keys

    @classmethod
    def spell(cls, value: Any) -> Any:
        """Turn this node's own other spellings into the canonical one; plain nodes have none."""
        return value

    @model_validator(mode="before")
    @classmethod
    def _canonical_keys(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, cls):
            return value
        value = cls.spell(value)
        if not isinstance(value, dict):
            raise refuse("WrongType", f"{shown(value)} is not an object", expected=f"an object ({cls.__name__})")
        keys, keeps = cls._keys, cls.keeps_null
        out: dict[str, Any] = {}
        for key, item in cast("dict[str, Any]", value).items():
            canonical = keys.get(key)
            if canonical is None:
                canonical = key
                if info.context is not None:
                    info.context.setdefault(key, set()).update(keys.values())
            if canonical.startswith("$") or (item is None and canonical not in keeps):
                continue
            if canonical in out:
                raise refuse("SpeltTwice", f"{key!r} is another spelling of {canonical!r}, given too", value=key)
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
            choices = [to_camel(name) for name in type(self).model_fields if name not in self.beside]
            found = ", ".join(sorted(given)) or "none"
            raise refuse(
                "ExactlyOne",
                f"exactly one {self.noun} is needed, found {found}",
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
            return tags.get(type(value)) or next(iter(value), None)

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
