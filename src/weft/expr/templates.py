"""Templates: text with `{name}` in it, filled in one pass; a value is never expanded again."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from weft.errors import ExecutionFailed, ExpressionInvalid, LimitExceeded, nearest

MAX_BYTES: Final = 64 * 1024
MAX_BITS: Final = 4096

_TOKEN: Final = re.compile(r"\{\{|\}\}|(\$\$|\$)?\{([A-Za-z_][A-Za-z0-9_]*)\}|[{}]")
_EXPECTED: Final = "{name}; {{ and }} stand for braces"


@dataclass(frozen=True, slots=True)
class Template:
    """A compiled text; `names` are its placeholders in order of first use."""

    text: str
    names: tuple[str, ...]
    render: Callable[[Mapping[str, Any]], str]


def compile_template(text: str, names: Iterable[str] | None = None) -> Template:
    """Return a template of `{name}` or `${name}`; `{{`, `}}` are braces, `$${name}` is a dollar before the value.

    Raises:
        ExpressionInvalid: too long, stray braces, anything but a name in them, or a name not among `names`.
    """
    if len(text) > MAX_BYTES or _size(text) > MAX_BYTES:
        raise ExpressionInvalid("the template is longer than 64 KiB", code="TemplateTooLong", value=text)
    pieces = _pieces(text)
    used = tuple(dict.fromkeys(name for _, name, _ in pieces if name))
    if names is not None:
        known = list(names)
        for _, name, position in pieces:
            if name and name not in known:
                raise _unknown(name, known, position)
    if not used:
        fixed = "".join(literal for literal, _, _ in pieces)
        return Template(text, (), lambda values: fixed)
    return Template(text, used, _renderer([(literal, name) for literal, name, _ in pieces]))


def canonical(text: str) -> str:
    """Return the text with `${name}` written as `{name}`, meaning the same."""
    return _TOKEN.sub(lambda token: f"{{{token[2]}}}" if token[1] == "$" else token[0], text)


def _pieces(text: str) -> list[tuple[str, str, int]]:
    """Cut the text into (literal, the name that follows it, that name's position)."""
    pieces: list[tuple[str, str, int]] = []
    literal: list[str] = []
    start = 0
    for token in _TOKEN.finditer(text):
        literal.append(text[start : token.start()])
        start = token.end()
        dollars, name = token[1], token[2]
        if name:
            literal.append("$" if dollars == "$$" else "")
            pieces.append(("".join(literal), name, token.start(2)))
            literal.clear()
        elif token[0] in ("{{", "}}"):
            literal.append(token[0][0])
        else:
            raise _stray(text, token.start())
    literal.append(text[start:])
    pieces.append(("".join(literal), "", len(text)))
    return pieces


def _stray(text: str, position: int) -> ExpressionInvalid:
    end = text.find("}", position) if text[position] == "{" else -1
    message = f"Unbalanced brace at {position}" if end < 0 else f"Only a name may stand in braces, at {position}"
    value = text[position : end + 1] if end >= 0 else text[position : position + 40]
    return ExpressionInvalid(message, code="TemplateSyntax", value=value, expected=_EXPECTED, position=position)


def _unknown(name: str, known: list[str], position: int) -> ExpressionInvalid:
    return ExpressionInvalid(
        f"Unknown template variable: {name}",
        code="TemplateUnknownName",
        value=name,
        expected=f"one of {', '.join(sorted(known))}" if known else "no variables here",
        suggestion=nearest(name, known),
        position=position,
    )


def _renderer(pieces: list[tuple[str, str]]) -> Callable[[Mapping[str, Any]], str]:
    *filled, (last, _) = pieces

    def render(values: Mapping[str, Any]) -> str:
        out: list[str] = []
        length = len(last)
        for literal, name in filled:
            if name not in values:
                raise ExecutionFailed(f"Template variable '{name}' has no value")
            value = values[name]
            filling = value if isinstance(value, str) else _text(name, value)
            length += len(literal) + len(filling)
            # Checked before joining: a short template can name a large value thousands of times.
            if length > MAX_BYTES:
                raise _too_long()
            out.append(literal)
            out.append(filling)
        out.append(last)
        done = "".join(out)
        if _size(done) > MAX_BYTES:
            raise _too_long()
        return done

    return render


def scalar_text(value: Any, named: Callable[[], str]) -> str | None:
    """Return null, a boolean or a number as it stands in a text; None for any other value.

    Raises:
        ExecutionFailed: a number that has no such text; the error calls it what `named` returns.
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value.bit_length() <= MAX_BITS:
        return repr(value)
    if isinstance(value, float) and math.isfinite(value):
        return repr(value)
    if isinstance(value, int | float):
        raise ExecutionFailed(f"{named()} is not a finite number of reasonable length")
    return None


def _text(name: str, value: Any) -> str:
    text = scalar_text(value, lambda: f"Template variable '{name}'")
    if text is not None:
        return text
    kind = "a list" if isinstance(value, list) else "an object"
    raise ExecutionFailed(
        f"Template variable '{name}' is {kind}; only text, numbers, booleans and null fill a template"
    )


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


def _too_long() -> LimitExceeded:
    return LimitExceeded("TemplateSize", MAX_BYTES, "the filled template is longer than 64 KiB")
