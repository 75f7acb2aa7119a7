"""Reading a document: bytes become JSON values, or problems that say file, line and column.

JSON takes a fast way first; whatever that way refuses or doubts is read again with care, which decides and explains.
YAML is read as 1.2 core: only true and false are booleans (`on`, `yes` and `no` are text), dates are text, `1e3` is a
number, `!!python/...` and every tag outside the core are refused, and so are merge keys (`<<`) and keys that are not
strings. Anchors work; what aliases stand for counts in full against the limits.
"""

from __future__ import annotations

import json
import re
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from math import isinf
from pathlib import Path
from types import NoneType
from typing import Any, Literal, cast

import yaml
from yaml.reader import Reader

from weft.errors import DocumentInvalid, Problem, shown
from weft.ir.locate import (
    Composer,
    DocumentLimits,
    Event,
    Wrong,
    json_events,
    non_finite,
    number,
    problem,
    too_many,
)
from weft.ir.places import JsonPlace, Place, find, json_place

__all__ = ["CALL_LIMITS", "DOCUMENT_LIMITS", "DocumentLimits", "Format", "Source", "read", "read_file"]

Format = Literal["json", "yaml"]

DOCUMENT_LIMITS = DocumentLimits()
CALL_LIMITS = DocumentLimits(bytes=1 << 20, depth=64, nodes=100_000)

_UNLIMITED = DocumentLimits(bytes=1 << 62, depth=1 << 62, nodes=1 << 62, digits=1 << 62)
_FORMATS: dict[str, Format] = {".json": "json", ".yaml": "yaml", ".yml": "yaml"}
_TYPES = {list: "an array", str: "a string", bool: "a boolean", NoneType: "null", int: "a number", float: "a number"}
_WRITTEN = re.compile(r"[^\s,\[\]{}#]*")

_DOUBT: Any = object()
_NOT_NESTING = bytes(set(range(256)) - set(b'"[]{}'))
_NOT_COUNTED = b" \t\n\r:"
_STEPS = bytes(1 if byte in b"[{" else 255 if byte in b"]}" else 0 for byte in range(256))
_LONE_SURROGATE = re.compile(
    r"\\u[dD][89abAB]..(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F]",
)

_parse = cast("Callable[..., Iterator[Any]]", yaml.parse)  # pyright: ignore[reportUnknownMemberType]  (no types)
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_CORE = "tag:yaml.org,2002:"
_TAGS: dict[str, type] = {"str": str, "int": int, "float": float, "bool": bool, "null": NoneType}
_PLAIN: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NUMBER = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|0o[0-7]+|0x[0-9a-fA-F]+")
_NON_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


@dataclass(frozen=True, slots=True)
class Source:
    """A document as it was written, and its value."""

    name: str
    text: str
    format: Format
    value: Any
    _places: list[Place | JsonPlace] = field(
        default_factory=list[Place | JsonPlace], init=False, repr=False, compare=False
    )
    _breaks: list[int] = field(default_factory=list[int], init=False, repr=False, compare=False)

    def position(self, loc: Sequence[str | int]) -> tuple[int, int] | None:
        """Return the line and column, from 1, of the value at a place; of its nearest parent, where it is missing."""
        at = self._offset(loc)
        if at is None:
            return None
        # Counted once: a document may have thousands of problems, and each asks for its line.
        if not self._breaks:
            self._breaks.extend([-1, *(found.start() for found in re.finditer("\n", self.text))])
        line = bisect_left(self._breaks, at)
        return line, at - self._breaks[line - 1]

    def written(self, loc: Sequence[str | int]) -> str | None:
        """Return an unquoted scalar as its author wrote it: `1.10`, where the value is 1.1."""
        at = self._offset(loc)
        found = None if at is None else _WRITTEN.match(self.text, at)
        return found[0] if found else None

    def _offset(self, loc: Sequence[str | int]) -> int | None:
        try:
            if not self._places:
                self._places.append(self._root())
            return find(self._places[0], loc)
        except (DocumentInvalid, ValueError):
            return None

    def _root(self) -> Place | JsonPlace:
        if self.format == "json":
            return json_place(self.text)
        return _compose(self.text, self.format, file=self.name, limits=_UNLIMITED)[1]


def read_file(
    path: Path, *, format: Format | None = None, limits: DocumentLimits = DOCUMENT_LIMITS, whole_document: bool = True
) -> Source:
    """Read a file, or say in a sentence why it cannot be read."""
    try:
        _check_size(path.stat().st_size, str(path), limits)
        with path.open("rb") as file:
            data = file.read(limits.bytes + 1)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        message = f"cannot read the file: {reason[:1].lower()}{reason[1:]}"
        raise _invalid("UnreadableFile", message, file=str(path), expected="a file that can be read") from None
    return read(data, name=str(path), format=format, limits=limits, whole_document=whole_document)


def read(
    data: bytes | str,
    *,
    name: str = "<input>",
    format: Format | None = None,
    limits: DocumentLimits = DOCUMENT_LIMITS,
    whole_document: bool = True,
) -> Source:
    """Return a document, which must be an object unless it is only part of one.

    Raises:
        DocumentInvalid: with every problem found, each with its line and column.
    """
    _check_size(len(data), name, limits)
    text, raw = _decoded(data, name)
    _check_size(len(raw), name, limits)
    if not text.strip():
        raise _invalid("EmptyDocument", "empty document", file=name, expected="an object")
    form = format or _FORMATS.get(Path(name).suffix.lower()) or ("json" if text.lstrip()[0] in "{[" else "yaml")
    if form == "json":
        _check_count(text, raw, name, limits)
    value = _fast_json(text, raw, limits) if form == "json" else _DOUBT
    if value is _DOUBT:
        value, _ = _compose(text, form, file=name, limits=limits)
    source = Source(name, text, form, value)
    if whole_document and not isinstance(value, dict):
        line, column = source.position(()) or (1, 1)
        got = _TYPES[type(value)]
        message = f"the document is {got}"
        raise _invalid("WrongTopLevel", message, file=name, expected="an object", value=got, line=line, column=column)
    return source


def _invalid(code: str, message: str, *, file: str, **more: Any) -> DocumentInvalid:
    return DocumentInvalid([Problem(code=code, message=message, file=file, **more)])


def _check_size(size: int, name: str, limits: DocumentLimits) -> None:
    if size > limits.bytes:
        most = f"at most {limits.bytes} bytes"
        raise _invalid("TooLarge", "the document is too large", file=name, expected=most, value=f"{size} bytes")


def _decoded(data: bytes | str, name: str) -> tuple[str, bytes]:
    """Return the text without a byte order mark, and its UTF-8."""
    if isinstance(data, str):
        text = data.removeprefix("\ufeff")
        try:
            return text, text.encode()
        except UnicodeEncodeError as error:
            wrong = Wrong("InvalidUnicode", "half of a surrogate pair is no character", expected="whole characters")
            raise DocumentInvalid([problem(wrong, text=text, at=error.start, file=name)]) from None
    raw = data.removeprefix(b"\xef\xbb\xbf")
    try:
        if not (guess := json.detect_encoding(raw)).startswith("utf-8"):
            wrong = Wrong("NotUtf8", f"must be UTF-8; this looks like {guess.upper()}", expected="UTF-8")
            raise DocumentInvalid([problem(wrong, text="", at=0, file=name)])
        return raw.decode(), raw
    except UnicodeDecodeError as error:
        wrong = Wrong("NotUtf8", "must be UTF-8", expected="UTF-8", value=shown(raw[error.start : error.end]))
        before = raw[: error.start].decode()
        raise DocumentInvalid([problem(wrong, text=before, at=len(before), file=name)]) from None


def _compose(text: str, form: Format, *, file: str, limits: DocumentLimits) -> tuple[Any, Place]:
    events = json_events(text, limits) if form == "json" else _yaml_events(text, limits)
    return Composer(text, file=file, limits=limits).compose(events)


def _check_count(text: str, raw: bytes, name: str, limits: DocumentLimits) -> None:
    """Refuse too many values before any is read: reading with care would take minutes to come to the same end."""
    if len(raw) <= limits.nodes:
        return
    marks = _unescaped(raw).translate(None, _NOT_COUNTED)
    # A quote stays where a string was, so that ["x"] is not taken for [].
    outside = b'"'.join(marks.split(b'"')[::2])
    nodes = 1 + sum(map(outside.count, (b",", b"[", b"{"))) - outside.count(b"[]") - outside.count(b"{}")
    if nodes > limits.nodes:
        raise DocumentInvalid([problem(too_many(limits), text=text, at=len(text) - len(text.lstrip()), file=name)])


def _fast_json(text: str, raw: bytes, limits: DocumentLimits) -> Any:
    """Return the value of a text that is surely sound, else `_DOUBT`."""
    if _depth(raw) > limits.depth or "\\u0000" in text:
        return _DOUBT
    if ("\\ud" in text or "\\uD" in text) and _LONE_SURROGATE.search(text.replace("\\\\", "__")):
        return _DOUBT
    try:
        return _decoder(limits.digits).decode(text)
    except (ValueError, RecursionError):
        return _DOUBT


def _depth(raw: bytes) -> int:
    """Return how deep a JSON text nests, seeing only what is outside strings."""
    # Two quotes that meet, whichever strings they belong to, leave what is inside and outside as it was.
    marks = _unescaped(raw).translate(None, _NOT_NESTING).replace(b'""', b"")
    outside = b"".join(marks.split(b'"')[::2])
    return max(accumulate(array("b", outside.translate(_STEPS))), default=0)


def _unescaped(raw: bytes) -> bytes:
    """Return a JSON text in which every quote begins or ends a string."""
    return raw.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in raw else raw


@lru_cache(maxsize=8)
def _decoder(digits: int) -> json.JSONDecoder:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) != len(pairs):
            raise ValueError("duplicate key")
        return made

    def whole(text: str) -> int:
        if len(text) > digits:
            raise ValueError("too many digits")
        return int(text)

    def finite(text: str) -> float:
        if len(text) > digits or isinf(value := float(text)):
            raise ValueError("not finite")
        return value

    return json.JSONDecoder(object_pairs_hook=unique, parse_int=whole, parse_float=finite, parse_constant=whole)


def _yaml_events(text: str, limits: DocumentLimits) -> Iterator[Event]:
    documents = 0
    try:
        for event in _parse(text, Loader=_LOADER):
            at: int = event.start_mark.index
            match event:
                case yaml.DocumentStartEvent():
                    documents += 1
                    if documents > 1:
                        raise Wrong("MultipleDocuments", "a second document begins", at=at, expected="one document")
                case yaml.ScalarEvent():
                    yield Event("scalar", at, _yaml_scalar(event, limits), event.anchor, event.implicit[0])
                case yaml.AliasEvent():
                    yield Event("alias", at, event.anchor)
                case yaml.SequenceStartEvent():
                    yield Event("[", at, _known_tag(event.tag, "seq", at), event.anchor)
                case yaml.MappingStartEvent():
                    yield Event("{", at, _known_tag(event.tag, "map", at), event.anchor)
                case yaml.SequenceEndEvent():
                    yield Event("]", at)
                case yaml.MappingEndEvent():
                    yield Event("}", at)
                case _:
                    pass
    except (yaml.YAMLError, ValueError) as error:
        raise _yaml_wrong(text, error) from None
    if not documents:
        raise Wrong("EmptyDocument", "empty document", expected="an object")


def _known_tag(tag: str | None, core: str, at: int) -> None:
    if tag not in (None, "!", _CORE + core):
        raise Wrong("UnknownTag", f"the tag {shown(tag)} is refused", at=at, expected="no tag")


def _yaml_scalar(event: yaml.ScalarEvent, limits: DocumentLimits) -> Any:
    if event.tag is None or event.tag == "!":
        return _yaml_plain(event.value, limits) if event.implicit[0] and event.tag is None else event.value
    kind = _TAGS.get(event.tag.removeprefix(_CORE)) if event.tag.startswith(_CORE) else None
    if kind is None:
        return Wrong("UnknownTag", f"the tag {shown(event.tag)} is refused", expected="no tag")
    value = event.value if kind is str else _yaml_plain(event.value, limits)
    if isinstance(value, Wrong) or type(value) is kind:
        return value
    return Wrong("UnknownTag", f"{shown(event.value)} is not what its tag says", expected=_TYPES[kind])


def _yaml_plain(text: str, limits: DocumentLimits) -> Any:
    """Return what an unquoted scalar means in the YAML 1.2 core schema."""
    if text in _PLAIN:
        return _PLAIN[text]
    if text[0] not in "+-.0123456789":
        return text
    if _NUMBER.fullmatch(text):
        return number(text, limits.digits)
    return non_finite(text) if _NON_FINITE.fullmatch(text) else text


def _yaml_wrong(text: str, error: Exception) -> Wrong:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    at: int = mark.index if mark else getattr(error, "position", 0)
    if _SURROGATE_ESCAPE.match(text, max(at - 2, 0)):
        return Wrong(
            "InvalidUnicode", "half of a surrogate pair is no character", at=at - 2, expected="whole characters"
        )
    what = getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be read"
    if mark is None and (found := Reader.NON_PRINTABLE.search(text)):
        at = found.start()
    got = shown(text[at : at + 20]) if at < len(text) else "the end of the document"
    return Wrong("InvalidYaml", f"not valid YAML: {what}", at=min(at, len(text)), expected="YAML 1.2", value=got)
