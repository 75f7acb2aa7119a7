"""Where each value stands in its text: JSON and YAML become events, events become values with places and problems.

A problem in one value is noted and reading goes on; a syntax error or a limit ends it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import isinf
from typing import Any, Literal, NamedTuple

from weft.errors import DocumentInvalid, Loc, Problem, json_pointer, shown
from weft.ir.places import Place, after_space

MOST_PROBLEMS = 100

_SURROGATE = re.compile("[\ud800-\udfff]")
_TOKEN = re.compile(
    r"""[ \t\n\r]*+(?P<token>
        (?P<mark>[\[\]{},:])
        |(?P<string>"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+(?P<end>"?))
        |(?P<number>-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+)(?![\w.+])
        |(?P<word>true|false|null|NaN|-?Infinity)\b)""",
    re.VERBOSE,
)
_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None}
_GRAMMAR = {
    "a value": '[{"0',
    "a value or ']'": '[{"0]',
    "a quoted key": '"',
    "a quoted key or '}'": '"}',
    "':'": ":",
    "',' or ']'": ",]",
    "',' or '}'": ",}",
}
_AFTER = {"[": "',' or ']'", "{": "',' or '}'"}


@dataclass(frozen=True, slots=True)
class DocumentLimits:
    """How much one document may hold: a scalar or container is one node, an object in an array is two deep."""

    bytes: int = 64 << 20
    depth: int = 256
    nodes: int = 5_000_000
    digits: int = 4300


class Wrong(Exception):
    """What cannot be read: raised where it ends the reading, else in the place of the value."""

    def __init__(self, code: str, message: str, *, at: int = 0, expected: str, value: str | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.at, self.expected, self.value = code, message, at, expected, value


class Event(NamedTuple):
    """One step through a text; `plain` is a YAML scalar without quotes."""

    kind: Literal["[", "{", "]", "}", "scalar", "alias"]
    at: int
    value: Any = None
    anchor: str | None = None
    plain: bool = False


def line_column(text: str, at: int) -> tuple[int, int]:
    """Return the line and column, both from 1, of an offset."""
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def number(text: str, digits: int) -> int | float | Wrong:
    """Return the number that JSON or YAML writes so, or what is wrong with it."""
    try:
        if len(text.lstrip("+-")) > digits:
            raise ValueError
        if text[:2] in ("0x", "0o"):
            return int(text, 0)
        value = float(text) if "." in text or "e" in text or "E" in text else int(text)
    except ValueError:  # also raised at Python's own limit on digits, which may be lower than ours
        return Wrong("NumberTooLong", "the number is too long", expected=f"at most {digits} digits", value=shown(text))
    return non_finite(text) if isinstance(value, float) and isinf(value) else value


def non_finite(text: str) -> Wrong:
    """Return the problem with a number that no JSON can carry."""
    return Wrong("NonFiniteNumber", "the number is not finite", expected="a finite number", value=shown(text))


def too_many(limits: DocumentLimits, at: int = 0) -> Wrong:
    """Return the problem with a document that has more values than it may."""
    most = limits.nodes
    return Wrong("TooManyNodes", f"the document has over {most} values", at=at, expected=f"at most {most}")


def json_events(text: str, limits: DocumentLimits) -> Iterator[Event]:
    """Yield the events of a JSON text; raise `Wrong` where its grammar breaks."""
    opened: list[str] = []
    want, at = "a value", 0
    while want != "the end":
        token = _TOKEN.match(text, at)
        kind = _kind(token)
        at = after_space(text, at) if token is None else token.start("token")
        if token is None or kind not in _GRAMMAR[want]:
            raise _misfit(text, at, want)
        if kind in "[{":
            yield Event("[" if kind == "[" else "{", at)
            opened.append(kind)
            want = "a value or ']'" if kind == "[" else "a quoted key or '}'"
        elif kind in ",:":
            want = "a quoted key" if kind == "," and opened[-1] == "{" else "a value"
        else:
            if kind in "]}":
                yield Event("]" if kind == "]" else "}", at)
                opened.pop()
            else:
                yield Event("scalar", at, _scalar(token, limits))
            is_key = kind == '"' and want.startswith("a quoted key")
            want = "':'" if is_key else _AFTER[opened[-1]] if opened else "the end"
        at = token.end()
    if (rest := after_space(text, at)) < len(text):
        raise Wrong("MultipleDocuments", "something follows the end of the document", at=rest, expected="one document")


def _kind(token: re.Match[str] | None) -> str:
    """Return the mark itself, a quote for a whole string, a 0 for any other scalar."""
    if token is None or token["end"] == "":
        return "nothing"
    return token["mark"] or ("0" if token["string"] is None else '"')


def _scalar(token: re.Match[str], limits: DocumentLimits) -> Any:
    if (quoted := token["string"]) is not None:
        return json.loads(quoted) if "\\" in quoted else quoted[1:-1]
    if token["number"] is not None:
        return number(token["number"], limits.digits)
    return _WORDS[token["word"]] if token["word"] in _WORDS else non_finite(token["word"])


def _misfit(text: str, at: int, want: str) -> Wrong:
    token = _TOKEN.match(text, at)
    what = f"{want} is missing"
    if token and token["end"] == "" and want.startswith("a "):
        at, want = token.end(), "a closing quote, a known escape, no control character"
        what = f"the string breaks off at {shown(text[at : at + 2])}"
    if at >= len(text):
        what = "the document ends too early"
    elif text[at] in "]}" and want in ("a value", "a quoted key"):
        what = "trailing comma" if text[:at].rstrip().endswith(",") else what
    got = shown(text[at : at + 20]) if at < len(text) else "the end of the document"
    return Wrong("InvalidJson", f"not valid JSON: {what}", at=at, expected=want, value=got)


class _Node(NamedTuple):
    value: Any
    place: Place
    size: int = 1
    height: int = 0


@dataclass(slots=True)
class _Open:
    """A container whose end is not read yet; `key` waits for its value."""

    value: Any
    place: Place
    anchor: str | None
    before: int
    height: int = 1
    key: str | None = None

    @property
    def wants_key(self) -> bool:
        return self.key is None and isinstance(self.value, dict)


class Composer:
    """Makes the value and the places of one document from its events, and notes what is wrong."""

    def __init__(self, text: str, *, file: str, limits: DocumentLimits) -> None:
        self.text, self.file, self.limits = text, file, limits
        self.problems: list[Problem] = []
        self._open: list[_Open] = []
        self._anchors: dict[str, _Node | None] = {}
        self._nodes = 0
        self._root = _Node(None, Place(0))

    def compose(self, events: Iterable[Event]) -> tuple[Any, Place]:
        """Return the document and its places; an alias shares the value of its anchor.

        Raises:
            DocumentInvalid: with every problem up to the one that ended the reading.
        """
        try:
            for event in events:
                self._take(event)
        except Wrong as wrong:
            self._note(wrong, wrong.at)
        if self.problems:
            raise DocumentInvalid(self.problems)
        return self._root.value, self._root.place

    def _take(self, event: Event) -> None:
        if event.kind in "]}":
            done = self._open.pop()
            self._put(_Node(done.value, done.place, self._nodes - done.before, done.height), done.anchor)
        elif self._open and self._open[-1].wants_key:
            self._name(self._open[-1], event)
        elif event.kind in "[{":
            self._count(event.at, height=1)
            if event.anchor is not None:
                self._anchors[event.anchor] = None
            value: Any = [] if event.kind == "[" else {}
            self._open.append(_Open(value, Place(event.at, {}), event.anchor, self._nodes - 1))
        elif event.kind == "alias":
            node = self._aliased(event)
            self._count(event.at, size=node.size, height=node.height)
            self._put(node, None)
        else:
            self._count(event.at)
            self._put(_Node(self._checked(event.value, event.at), Place(event.at)), event.anchor)

    def _name(self, owner: _Open, event: Event) -> None:
        node = self._aliased(event) if event.kind == "alias" else _Node(event.value, Place(event.at))
        key = node.value
        if event.kind in "[{":
            raise Wrong("KeyNotString", "a list or an object cannot be a key", at=event.at, expected="a string")
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        if not isinstance(key, str):
            written = shown(self.text[event.at :].split(":", 1)[0].strip())
            self._note(Wrong("KeyNotString", "a key is no string", expected="text: quote it", value=written), event.at)
        elif event.plain and key == "<<":
            self._note(Wrong("MergeKey", "YAML 1.2 has no merge keys", expected="the keys themselves"), event.at)
        elif "\0" in key:
            self._note(Wrong("InvalidName", "a key holds NUL", expected="a key without it", value=shown(key)), event.at)
        owner.key = self._checked(key, event.at) if isinstance(key, str) else str(key)
        if owner.key in owner.value:
            name = shown(owner.key)
            self._note(
                Wrong("DuplicateKey", f"the key {name} is there twice", expected="it once", value=name), event.at
            )

    def _aliased(self, event: Event) -> _Node:
        node = self._anchors.get(event.value)
        if node is None:
            what = "stands inside its own anchor" if event.value in self._anchors else "has no anchor"
            expected = "an anchor that ends before it"
            raise Wrong("InvalidAlias", f"the alias *{event.value} {what}", at=event.at, expected=expected)
        return node

    def _put(self, node: _Node, anchor: str | None) -> None:
        if anchor is not None:
            self._anchors[anchor] = node
        if not self._open:
            self._root = node
            return
        owner = self._open[-1]
        owner.height = max(owner.height, node.height + 1)
        if owner.place.children is not None:
            owner.place.children[str(len(owner.value)) if owner.key is None else owner.key] = node.place
        if owner.key is None:
            owner.value.append(node.value)
        else:
            owner.value[owner.key] = node.value
            owner.key = None

    def _count(self, at: int, *, size: int = 1, height: int = 0) -> None:
        self._nodes += size
        if len(self._open) + height > self.limits.depth:
            depth = self.limits.depth
            del self._open[16:]  # a place this deep tells nobody more than its beginning
            raise Wrong("MaxDepth", f"the document nests deeper than {depth}", at=at, expected=f"at most {depth}")
        if self._nodes > self.limits.nodes:
            raise too_many(self.limits, at)

    def _checked(self, value: Any, at: int) -> Any:
        if isinstance(value, Wrong):
            self._note(value, at)
        elif isinstance(value, str) and _SURROGATE.search(value):
            what = "half of a surrogate pair is no character"
            self._note(Wrong("InvalidUnicode", what, expected="whole characters", value=shown(value)), at)
        return value

    def _note(self, wrong: Wrong, at: int) -> None:
        loc = tuple(owner.key if owner.key is not None else len(owner.value) for owner in self._open)
        if self._open and self._open[-1].wants_key:
            loc = loc[:-1]
        self.problems.append(problem(wrong, text=self.text, at=at, file=self.file, loc=loc))
        if len(self.problems) >= MOST_PROBLEMS:
            raise DocumentInvalid(self.problems)


def problem(wrong: Wrong, *, text: str, at: int, file: str, loc: Loc = ()) -> Problem:
    """Return what is wrong as a problem with its place in a file."""
    line, column = line_column(text, at)
    return Problem(
        code=wrong.code,
        message=wrong.message,
        loc=loc,
        pointer=json_pointer(loc),
        value=wrong.value,
        expected=wrong.expected,
        file=file,
        line=line,
        column=column,
    )
