"""The things of the model from and to MCP's wire objects, one converter for each kind.

A wire object is a dict as it stands in a list of MCP (`inputSchema`, `_meta`), or an object of the `mcp` SDK. What the
model does not know is kept in `extra` and written back. What stands inside schemas and annotations is shared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeGuard, TypeVar

from weft.errors import DocumentInvalid, InputError, Loc, Problem, json_pointer, nearest, said_by, shown
from weft.groups.model import Icon, Named, Prompt, PromptArgument, Resource, ResourceTemplate, Tool, is_name
from weft.ports import is_array

T = TypeVar("T", bound=Named | Icon)


@dataclass(frozen=True, slots=True)
class Form:
    """What a value on the wire has to be."""

    expected: str
    fits: Callable[[object], bool]


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its key on the wire, its name in the model, and what its value is."""

    key: str
    name: str
    form: Form
    needed: bool = False
    items: Converter[Any] | None = None
    """Of a list of other wire objects: what converts them."""


@dataclass(frozen=True, slots=True)
class Converter(Generic[T]):
    """Converts one kind of thing, both ways, one by one and many at once."""

    kind: str
    thing: type[T]
    fields: tuple[Field, ...]

    def from_wire(self, wire: object) -> T:
        """Return the thing that a wire object tells of.

        Raises:
            DocumentInvalid: with everything that is wrong with it.
        """
        wrong: list[Problem] = []
        made = self._read(wire, (), wrong)
        if made is None or wrong:
            raise DocumentInvalid(wrong)
        return made

    def from_wires(self, wires: Iterable[object]) -> list[T]:
        """Return the things that wire objects tell of, without those that are None.

        Raises:
            DocumentInvalid: with everything that is wrong with any of them.
        """
        wrong: list[Problem] = []
        made = self._read_all(wires, (), wrong)
        if wrong:
            raise DocumentInvalid(wrong)
        return made

    def to_wire(self, one: T) -> dict[str, Any]:
        """Return a thing as a wire object; what says nothing (None, no items, not required) is left out.

        Raises:
            InputError: it is a thing of another kind.
        """
        self._check(one)
        told: dict[str, Any] = {}
        for field in self.fields:
            value = getattr(one, field.name)
            if field.items is not None:
                value = field.items.to_wires(value)
            if not _says_nothing(value):
                told[field.key] = _plain(value)
        known = {field.key for field in self.fields}
        return told | {key: value for key, value in one.extra.items() if key not in known}

    def to_wires(self, ones: Iterable[T | None]) -> list[dict[str, Any]]:
        """Return things as wire objects, without those that are None."""
        return [self.to_wire(one) for one in ones if one is not None]

    def _check(self, one: object) -> None:
        if not isinstance(one, self.thing):
            raise InputError(f"a {self.kind} is expected, a {self.thing.__name__}, not {shown(one)}", code="WrongType")

    def _read_all(self, wires: Iterable[object], at: Loc, wrong: list[Problem]) -> list[T]:
        found = (self._read(wire, (*at, index), wrong) for index, wire in enumerate(wires) if wire is not None)
        return [one for one in found if one is not None]

    def _read(self, wire: object, at: Loc, wrong: list[Problem]) -> T | None:
        """Return the thing, or None when something is noted that keeps it from being made."""
        try:
            told = _told(wire)
        except Exception as error:  # an object of others may fail in any way when it is asked what it says
            wrong.append(_problem("WrongType", f"the {self.kind} cannot be read: {said_by(error)}", at, wire))
            return None
        if told is None:
            wrong.append(_problem("WrongType", f"the {self.kind} is not an object", at, wire, "an object of MCP"))
            return None
        before = len(wrong)
        values = {field.name: self._value(field, told, at, wrong) for field in self.fields}
        if len(wrong) > before:
            return None
        known = {field.key for field in self.fields}
        extra = {key: value for key, value in told.items() if key not in known}
        return self.thing(**{name: value for name, value in values.items() if value is not None}, extra=extra)

    def _value(self, field: Field, told: Mapping[str, Any], at: Loc, wrong: list[Problem]) -> Any:
        value = told.get(field.key)
        if value is None:
            if field.needed:
                wrong.append(self._missing(field, told, at))
            return None
        here, expected = (*at, field.key), field.form.expected
        if not field.form.fits(value):
            message = f"{field.key} of {self._subject(told)} is not {expected}"
            wrong.append(_problem("WrongType", message, here, value, expected))
            return None
        if field.items is not None:
            return tuple(field.items._read_all(value, here, wrong))
        return tuple(value) if is_array(value) else int(value) if isinstance(value, float) else value

    def _missing(self, field: Field, told: Mapping[str, Any], at: Loc) -> Problem:
        known = {one.key for one in self.fields}
        near = nearest(field.key, [str(key) for key in told if key not in known])
        message = f"{self._subject(told)} has no {field.key}" + ("" if near is None else f", but {near!r}")
        return _problem("MissingKey", message, at, told, f"{field.key}, {field.form.expected}")

    def _subject(self, told: Mapping[str, Any]) -> str:
        name = told.get("name")
        return f"{self.kind} {shown(name)}" if isinstance(name, str) else f"the {self.kind}"


def _told(wire: object) -> Mapping[str, Any] | None:
    """Return what a wire object says, or None when it is none."""
    if _is_mapping(wire):
        return wire
    dump = getattr(wire, "model_dump", None)  # the SDK's are pydantic models; weft does without the SDK
    said: object = dump(mode="json", by_alias=True, exclude_none=True) if callable(dump) else None
    return said if _is_mapping(said) else None


def _is_mapping(value: object) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping)


def _problem(code: str, message: str, at: Loc, value: object, expected: str | None = None) -> Problem:
    pointer = json_pointer(at)
    return Problem(code=code, message=message, loc=at, pointer=pointer, value=shown(value), expected=expected)


def _says_nothing(value: object) -> bool:
    return value is None or value is False or (isinstance(value, list | tuple) and not value)


def _plain(value: Any) -> Any:
    """Return a value as the dict or list that JSON has for it."""
    if _is_mapping(value):
        return dict(value)
    return value if isinstance(value, str) or not isinstance(value, Sequence) else [*value]


def _is_count(value: object) -> bool:
    # JSON does not tell 3 from 3.0, and some servers write the second.
    return (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, float) and value.is_integer())


TEXT: Final = Form("a text", lambda value: isinstance(value, str))
NAME: Final = Form("a non-empty text", is_name)
OBJECT: Final = Form("an object", _is_mapping)
LIST: Final = Form("a list", is_array)
TEXTS: Final = Form("a list of texts", lambda value: is_array(value) and all(isinstance(one, str) for one in value))
COUNT: Final = Form("a whole number", _is_count)
FLAG: Final = Form("true or false", lambda value: isinstance(value, bool))

ICONS: Final = Converter(
    "icon",
    Icon,
    (
        Field("src", "src", TEXT, needed=True),
        Field("mimeType", "mime_type", TEXT),
        Field("sizes", "sizes", TEXTS),
        Field("theme", "theme", TEXT),
    ),
)

_NAMED: Final = (
    Field("name", "name", NAME, needed=True),
    Field("title", "title", TEXT),
    Field("description", "description", TEXT),
)
_SHOWN: Final = (Field("icons", "icons", LIST, items=ICONS), Field("_meta", "meta", OBJECT))
_ANNOTATIONS: Final = Field("annotations", "annotations", OBJECT)
_MIME_TYPE: Final = Field("mimeType", "mime_type", TEXT)

TOOLS: Final = Converter(
    "tool",
    Tool,
    (
        *_NAMED,
        Field("inputSchema", "input_schema", OBJECT, needed=True),
        Field("outputSchema", "output_schema", OBJECT),
        _ANNOTATIONS,
        *_SHOWN,
    ),
)

PROMPT_ARGUMENTS: Final = Converter(
    "prompt argument", PromptArgument, (*_NAMED, Field("required", "required", FLAG), *_SHOWN)
)

PROMPTS: Final = Converter(
    "prompt", Prompt, (*_NAMED, Field("arguments", "arguments", LIST, items=PROMPT_ARGUMENTS), *_SHOWN)
)

RESOURCES: Final = Converter(
    "resource",
    Resource,
    (*_NAMED, Field("uri", "uri", NAME, needed=True), Field("size", "size", COUNT), _MIME_TYPE, _ANNOTATIONS, *_SHOWN),
)

RESOURCE_TEMPLATES: Final = Converter(
    "resource template",
    ResourceTemplate,
    (*_NAMED, Field("uriTemplate", "uri_template", NAME, needed=True), _MIME_TYPE, _ANNOTATIONS, *_SHOWN),
)
