"""The part of Go's templates that can be said in weft: places in values, texts around them, comparisons."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

_ACTION = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_TOKEN = re.compile(
    r"""\s*(?:(?P<text>"(?:[^"\\]|\\.)*"|`[^`]*`)|(?P<number>-?\d+(?:\.\d+)?)|(?P<place>(?:\.[A-Za-z_][\w-]*)+)"""
    r"""|(?P<word>[A-Za-z_]\w*)|(?P<mark>[()]))"""
)
_WORDS = {"true": True, "false": False, "nil": None}
COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
MOST_DEPTH = 32


class Inexpressible(Exception):
    """A template that weft has no words for; its text says which part."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place in what a workflow knows: `.steps.a.output.x`."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A function of some arguments, and a place in what it gives."""

    function: str
    arguments: tuple[Expression, ...]
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fixed:
    """A value that stands in the template."""

    value: Any


Expression: TypeAlias = "Place | Call | Fixed"


def pieces(text: str) -> list[str | Expression]:
    """Return a template as texts and the expressions between them.

    Raises:
        Inexpressible: it has control structures, pipes, or anything else than places and calls.
    """
    found: list[str | Expression] = []
    end = 0
    for action in _ACTION.finditer(text):
        if action.start() > end:
            found.append(text[end : action.start()])
        found.append(expression(action[1]))
        end = action.end()
    if end < len(text):
        found.append(text[end:])
    if any(isinstance(piece, str) and "{{" in piece for piece in found):
        raise Inexpressible("an action that does not end")
    return found


def expression(text: str) -> Expression:
    """Return what stands between the braces.

    Raises:
        Inexpressible: it is more than a place, a value or calls.
    """
    return _Parser(text.strip()).parsed()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0

    def parsed(self) -> Expression:
        made = self._call(0)
        if self._text[self._at :].strip():
            raise Inexpressible(f"{{{{{self._text}}}}}")
        return made

    def _next(self) -> re.Match[str] | None:
        return _TOKEN.match(self._text, self._at)

    def _call(self, depth: int) -> Expression:
        if depth > MOST_DEPTH:
            raise Inexpressible("a template that nests too deeply")
        token = self._next()
        if token is None or token["word"] is None or token["word"] in _WORDS:
            return self._operand(depth)
        self._at = token.end()
        arguments: list[Expression] = []
        while (following := self._next()) is not None and following["mark"] != ")":
            arguments.append(self._operand(depth))
        return Call(token["word"], tuple(arguments))

    def _operand(self, depth: int) -> Expression:
        token = self._next()
        if token is None or token["mark"] == ")":
            raise Inexpressible(f"{{{{{self._text}}}}}")
        self._at = token.end()
        if token["mark"] == "(":
            return self._group(depth)
        if token["place"] is not None:
            return Place(tuple(token["place"][1:].split(".")))
        if token["text"] is not None:
            return Fixed(_unquoted(token["text"]))
        if token["number"] is not None:
            return Fixed(json.loads(token["number"]))
        if token["word"] in _WORDS:
            return Fixed(_WORDS[token["word"]])
        raise Inexpressible(f"{token['word']} as an argument")

    def _group(self, depth: int) -> Expression:
        inner = self._call(depth + 1)
        end = self._next()
        if end is None or end["mark"] != ")":
            raise Inexpressible(f"{{{{{self._text}}}}}")
        self._at = end.end()
        after = re.compile(r"(?:\.[A-Za-z_][\w-]*)+").match(self._text, self._at)
        if after is None:
            return inner
        self._at = after.end()
        names = tuple(after[0][1:].split("."))
        if isinstance(inner, Call):
            return Call(inner.function, inner.arguments, (*inner.names, *names))
        raise Inexpressible(f"{{{{{self._text}}}}}")


def _unquoted(text: str) -> str:
    if text[0] == "`":
        return text[1:-1]
    try:
        return json.loads(text)
    except ValueError:
        raise Inexpressible(f"the text {text}") from None


def condition(made: Expression, place: Callable[[tuple[str, ...]], str]) -> str:
    """Return a condition in CEL; `place` says where a place is.

    Raises:
        Inexpressible: a function that weft does not know.
    """
    if isinstance(made, Call) and not made.names:
        parts = made.arguments
        if made.function in COMPARISONS and len(parts) == 2:
            return f"{_operand(parts[0], place)} {COMPARISONS[made.function]} {_operand(parts[1], place)}"
        if made.function in ("and", "or") and len(parts) > 1:
            joint = " && " if made.function == "and" else " || "
            return joint.join(f"({condition(part, place)})" for part in parts)
        if made.function == "not" and len(parts) == 1:
            return f"!({condition(parts[0], place)})"
        raise Inexpressible(f"the function {made.function}")
    if isinstance(made, Fixed) and isinstance(made.value, bool):
        return "true" if made.value else "false"
    told = _operand(made, place)
    # What is missing is false in Go, and an error in CEL.
    return f"has({told}) && {told} == true" if isinstance(made, Place) and "." in told else f"{told} == true"


def _operand(made: Expression, place: Callable[[tuple[str, ...]], str]) -> str:
    if isinstance(made, Place):
        return place(made.names)
    if isinstance(made, Fixed):
        return json.dumps(made.value, ensure_ascii=False)
    raise Inexpressible(f"the function {made.function}")
