"""What all settings have in common: frozen, strict, camelCase only; and the kinds of values that they hold."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Self, TypeAlias

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ModelWrapValidatorHandler,
    PlainSerializer,
    Strict,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, PydanticCustomError
from pydantic_core import core_schema as cs

from weft.config.secrets import Secret
from weft.errors import ExpressionInvalid, shown
from weft.expr.durations import DAY, parse_duration
from weft.ir.nodes import Node, joined, refuse, refused
from weft.ports import is_object

FROM_ENV = {"type": "string", "pattern": r"^\$\{env:"}
UNITS = {"": 1, "B": 1, "KB": 1000, "MB": 10**6, "GB": 10**9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_SIZE = re.compile(r"([0-9]{1,15}) ?([KMG]i?B|B)")
_WORDS = {"true": True, "false": False}


class Setting(Node):
    """A part of weft.yaml: keys are spelled in one way."""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        names = [field.alias or to_camel(name) for name, field in cls.model_fields.items()]
        cls._keys, cls._empty = {name: name for name in names}, {}

    @classmethod
    def faults(cls, given: Mapping[str, Any]) -> Iterator[PydanticCustomError]:
        """Yield what is wrong with the keys as they stand together; most settings have nothing to say here."""
        yield from ()

    @model_validator(mode="wrap")
    @classmethod
    def _together(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Check the keys together also when one of them is wrong by itself, so that nothing hides."""
        given = {key: item for key, item in value.items() if item is not None} if is_object(value) else {}
        wrong = list(cls.faults(given)) if is_object(value) else []
        try:
            made = handler(value)
        except ValidationError as failed:
            raise (joined(cls, failed, wrong) if wrong else failed) from None
        if wrong:
            raise joined(cls, None, wrong)
        return made

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model_dump(exclude_unset=True)!r})"


class _Text:
    """A text; one made from references stays a Secret, and is written as it was."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        shown_as = cs.plain_serializer_function_ser_schema(_as_written)
        return cs.no_info_plain_validator_function(_is_text, serialization=shown_as)

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> Any:
        return {"type": "string"}


def _is_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    told = "a number" if isinstance(value, int | float) and not isinstance(value, bool) else "not a text"
    quoted = ": quote it" if isinstance(value, bool | int | float) else ""
    raise refuse("WrongType", f"this is {told}{quoted}", value=shown(value), expected="a text")


def _as_written(value: str) -> str:
    return value.written if isinstance(value, Secret) else value.replace("${", "$${")


Text: TypeAlias = Annotated[str, _Text()]
Texts: TypeAlias = Annotated[tuple[Text, ...], Strict(False)]


def _whole(value: Any) -> Any:
    """Take the digits that a variable holds for the number that they write."""
    return int(value) if isinstance(value, Secret) and re.fullmatch(r"[0-9]{1,15}", value) else value


def _yes_or_no(value: Any) -> Any:
    return _WORDS.get(value, value) if isinstance(value, Secret) else value


Count: TypeAlias = Annotated[
    int,
    Field(ge=1, le=10**12),
    BeforeValidator(_whole),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1}, FROM_ENV]}),
]
Port: TypeAlias = Annotated[
    int,
    Field(ge=0, le=65535),
    BeforeValidator(_whole),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0, "maximum": 65535}, FROM_ENV]}),
]
Flag: TypeAlias = Annotated[
    bool, BeforeValidator(_yes_or_no), WithJsonSchema({"anyOf": [{"type": "boolean"}, FROM_ENV]})
]


def _bytes(value: Any) -> Any:
    value = _whole(value)
    if isinstance(value, str):
        if (read := _SIZE.fullmatch(value)) is None:
            raise refuse(
                "SizeInvalid", "not a size", value=shown(value), expected='a size such as "512KiB", "8MiB" or 1048576'
            )
        return int(read[1]) * UNITS[read[2]]
    return value


Size: TypeAlias = Annotated[
    int,
    Field(ge=1, le=1 << 40),
    BeforeValidator(_bytes),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "examples": ["512KiB", "8MiB"]}]}),
]


def _seconds(value: Any) -> float:
    try:
        if (length := parse_duration(value, most=30 * DAY)) > 0:
            return length
    except ExpressionInvalid as error:
        raise refused(error) from None
    raise refuse("DurationZero", "the duration is 0", value=shown(value), expected="more than 0")


def duration_text(seconds: float) -> str:
    """Return a length of time as weft.yaml writes it."""
    if seconds >= DAY and seconds % DAY == 0:
        return f"{seconds / DAY:.0f}d"
    return f"{seconds:g}s" if seconds >= 1 else f"{seconds * 1000:g}ms"


Seconds: TypeAlias = Annotated[
    float,
    BeforeValidator(_seconds),
    PlainSerializer(duration_text),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "examples": ["250ms", "30s", "5m", "1h"]},
                {"type": "object", "maxProperties": 1},
            ]
        }
    ),
]


def _path(value: Any, info: ValidationInfo) -> Any:
    if isinstance(value, Path):
        return folder_of(info) / value
    if not isinstance(value, str) or not value or "\0" in value:
        raise refuse("WrongType", "not a path", value=shown(value), expected="the path of a file or folder")
    return folder_of(info) / Path(value).expanduser()


def _file(value: Path, info: ValidationInfo) -> Path:
    if info.context is not None and not value.is_file():
        raise refuse("UnreadableFile", "there is no such file", value=shown(str(value)), expected="a file")
    return value


def folder_of(info: ValidationInfo) -> Path:
    """Return the folder to which the paths of a file are relative."""
    return info.context if isinstance(info.context, Path) else Path()


AnyPath: TypeAlias = Annotated[Path, BeforeValidator(_path), PlainSerializer(str), WithJsonSchema({"type": "string"})]
FilePath: TypeAlias = Annotated[AnyPath, AfterValidator(_file)]
"""A file that must be there."""


def described(default: Any, text: str, **more: Any) -> Any:
    """Return a field with the sentence that the schema and the reference show."""
    return Field(default, description=text, **more)
