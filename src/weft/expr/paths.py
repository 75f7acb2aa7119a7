"""JSONPath (RFC 9535), compiled once: a singular path gives a value or MISSING, every other one a list.

jsonpath-rfc9535 reads the text; the walk is our own. The library's cannot be bounded (its filters, comparisons and
patterns work without making nodes), recurses into the value, and takes `[1]` and `[true]` for equal.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from re import Pattern
from typing import Any, TypeAlias, cast

from jsonpath_rfc9535 import JSONPathEnvironment
from jsonpath_rfc9535 import filter_expressions as ast
from jsonpath_rfc9535.exceptions import JSONPathError, JSONPathSyntaxError, JSONPathTypeError
from jsonpath_rfc9535.lex import RE_PROPERTY, Lexer
from jsonpath_rfc9535.query import JSONPathQuery
from jsonpath_rfc9535.segments import JSONPathRecursiveDescentSegment, JSONPathSegment
from jsonpath_rfc9535.selectors import (
    FilterSelector,
    IndexSelector,
    JSONPathSelector,
    NameSelector,
    SliceSelector,
    WildcardSelector,
)
from jsonpath_rfc9535.tokens import Token, TokenStream, TokenType

from weft.errors import InvalidJsonPath
from weft.expr.fastpath import (
    COMPARE,
    MAX_VISITED,
    MISSING,
    Find,
    Missing,
    Segment,
    Select,
    Visit,
    at_most_one,
    children,
    containers,
    length,
    many,
    matched,
    prepared_pattern,
    singular,
    sliced,
    why_refused,
    wildcard,
)
from weft.ports import Json

__all__ = ["MAX_PATH", "MAX_VISITED", "MISSING", "Missing", "Path", "Segment", "compile_path", "quote"]

MAX_PATH = 1024
MAX_NESTING = 32

_ENVIRONMENT = JSONPathEnvironment()
_START = r"A-Za-z_\u0080-\uD7FF\uE000-\U0010FFFF"
_NAME = re.compile(rf"[{_START}][{_START}0-9]*")


@dataclass(frozen=True, slots=True)
class Path:
    """A compiled path; `find` and `get` are prepared functions and differ only where nothing is found.

    `find` gives a singular path's value, or MISSING; `get` gives None instead. Both give any other path's list.
    """

    text: str
    singular: bool
    steps: tuple[Segment, ...] | None
    """The simple form: names, indexes and wildcards only; None for every other query."""
    find: Callable[[Any], Any] = field(repr=False, compare=False)
    get: Callable[[Any], Any] = field(repr=False, compare=False)


@lru_cache(maxsize=4096)
def compile_path(text: str) -> Path:
    """Return the path that a text names.

    Raises:
        InvalidJsonPath: it is not RFC 9535, or asks for more than weft allows; `position` says where.
    """
    if len(text) > MAX_PATH:
        reason = f"it has {len(text)} characters, more than {MAX_PATH}"
        wanted = f"at most {MAX_PATH} characters"
        raise InvalidJsonPath(text, reason, code="PathTooLong", expected=wanted, position=MAX_PATH)
    if not text:
        raise InvalidJsonPath(text, "it is empty", expected="a path such as $.order_id, or $ for all", position=0)
    try:
        return _prepared(text, _parsed(text))
    except JSONPathError as error:
        raise _invalid(text, error) from None
    except RecursionError:
        raise InvalidJsonPath(text, "it is nested too deeply") from None
    except OverflowError:
        raise InvalidJsonPath(text, "a number in it is too large") from None
    except (AssertionError, LookupError, ValueError):
        # On some malformed texts the library's parser trips over itself instead of naming a token.
        raise InvalidJsonPath(text, "it is not RFC 9535") from None


def quote(steps: Iterable[Segment]) -> str:
    """Return the path text of names, indexes and wildcards (None)."""
    return "$" + "".join(_quoted(step) for step in steps)


def _quoted(step: Segment) -> str:
    if step is None:
        return "[*]"
    if isinstance(step, int):
        return f"[{step}]"
    if _NAME.fullmatch(step):
        return f".{step}"
    escaped = json.dumps(step, ensure_ascii=False)[1:-1].replace('\\"', '"').replace("'", "\\'")
    return f"['{escaped}']"


def _prepared(text: str, query: JSONPathQuery) -> Path:
    steps = _steps(query)
    if steps is None:
        nodes = _query(query)
        find: Find = lambda value: nodes(value, Visit(value))  # noqa: E731  (a name for both fields)
        return Path(text, False, None, find, find)
    if None in steps:
        find = many(steps)
        return Path(text, False, steps, find, find)
    return Path(text, True, steps, singular(steps, MISSING), singular(steps, None))


# -- reading ---------------------------------------------------------------------------------------------------------


class _Lexer(Lexer):
    """The library's scanner with every name of RFC 9535: its own stops at the second letter of `$.日本`."""

    __slots__ = ()

    def accept_match(self, pattern: Pattern[str]) -> bool:
        return super().accept_match(_NAME if pattern is RE_PROPERTY else pattern)


class _RegexRefused(JSONPathTypeError):
    """A pattern, written in a path, that weft does not run."""


def _parsed(text: str) -> JSONPathQuery:
    lexer = _Lexer(text)
    lexer.run()
    last = lexer.tokens[-1]
    if last.type_ is TokenType.ERROR:
        raise JSONPathSyntaxError(last.message, token=last)
    _check_shape(lexer.tokens)
    if lexer.bracket_stack:
        bracket, index = lexer.bracket_stack[-1]
        raise JSONPathSyntaxError(f"{bracket!r} is not closed", token=Token(TokenType.ERROR, bracket, index, text))
    return JSONPathQuery(env=_ENVIRONMENT, segments=tuple(_ENVIRONMENT.parser.parse(TokenStream(lexer.tokens))))


_OPENING = {TokenType.LBRACKET, TokenType.LPAREN, TokenType.FUNCTION}
_CLOSING = {TokenType.RBRACKET, TokenType.RPAREN}


def _check_shape(tokens: list[Token]) -> None:
    """Refuse what would make the library's parser, which recurses, go deep."""
    depth = 0
    for before, token in itertools.pairwise(tokens):
        if before.type_ is token.type_ is TokenType.NOT:
            raise JSONPathSyntaxError("'!' is repeated", token=token)
        depth += (token.type_ in _OPENING) - (token.type_ in _CLOSING)
        if depth > MAX_NESTING:
            raise JSONPathSyntaxError(f"it is nested more than {MAX_NESTING} deep", token=token)


_TOKEN_NAME = re.compile(r"<TokenType\.(\w+): \d+>|'([A-Z_]{2,})'")


def _invalid(text: str, error: JSONPathError) -> InvalidJsonPath:
    """Return the library's complaint as ours: an offset, and words instead of names of tokens."""
    index = error.token.index if error.token is not None else -1
    position = index if index >= 0 else len(text)
    if not text.startswith("$"):
        return InvalidJsonPath(text, "a path starts with '$'", position=0)
    if text.startswith("=~", position):
        reason = f"'=~' is not RFC 9535, use match() or search(), at offset {position}"
        return InvalidJsonPath(text, reason, code="RegexNotAllowed", position=position)
    said = str(error.args[0]) if error.args else "it is not RFC 9535"
    reason = _TOKEN_NAME.sub(lambda name: (name[1] or name[2]).lower().replace("_", " "), said)
    code = "RegexNotAllowed" if isinstance(error, _RegexRefused) else None
    return InvalidJsonPath(text, f"{reason} at offset {position}", code=code, position=position)


def _steps(query: JSONPathQuery) -> tuple[Segment, ...] | None:
    steps: list[Segment] = []
    for segment in query.segments:
        if isinstance(segment, JSONPathRecursiveDescentSegment) or len(segment.selectors) != 1:
            return None
        match segment.selectors[0]:
            case NameSelector(name=name):
                steps.append(name)
            case IndexSelector(index=index):
                steps.append(index)
            case WildcardSelector():
                steps.append(None)
            case _:
                return None
    return tuple(steps)


# -- walking ---------------------------------------------------------------------------------------------------------

_Nodes: TypeAlias = Callable[[Any, Visit], list[Any]]
_Value: TypeAlias = Callable[[Any, Visit], Any]
_Test: TypeAlias = Callable[[Any, Visit], bool]


def _query(query: JSONPathQuery) -> _Nodes:
    segments = [_segment(segment) for segment in query.segments]

    def nodes(value: Json, visit: Visit) -> list[Json]:
        found = [value]
        for segment in segments:
            if not found:
                break
            found = segment(found, visit)
        return found

    return nodes


def _segment(segment: JSONPathSegment) -> Callable[[list[Json], Visit], list[Json]]:
    selects = [_selector(selector) for selector in segment.selectors]
    descends = isinstance(segment, JSONPathRecursiveDescentSegment)

    def resolve(values: list[Json], visit: Visit) -> list[Json]:
        within = containers(values, visit) if descends else values
        return [found for value in within for select in selects for found in select(value, visit)]

    return resolve


def _selector(selector: JSONPathSelector) -> Select:
    match selector:
        case NameSelector(name=name):
            return at_most_one(singular((name,), MISSING))
        case IndexSelector(index=index):
            return at_most_one(singular((index,), MISSING))
        case SliceSelector(slice=part):
            return sliced(part)
        case FilterSelector(expression=filtering):
            return _filter(filtering.expression)
        case _:
            return wildcard


def _filter(expression: ast.Expression) -> Select:
    prepared = _Filter()
    test = prepared.test(expression)
    # Eight parts of an expression take about as long as visiting a node.
    cost = 1 + prepared.steps + prepared.parts // 8

    def select(value: Json, visit: Visit) -> Sequence[Json]:
        below = children(value)
        visit.charge(1 + cost * len(below))
        return [child for child in below if test(child, visit)]

    return select


class _Filter:
    """Prepares one filter expression, and counts the steps and parts that one evaluation of it costs."""

    def __init__(self) -> None:
        self.steps = 0
        self.parts = 0

    def test(self, expression: ast.Expression) -> _Test:
        denied = False
        while isinstance(expression, ast.PrefixExpression):
            denied, expression = not denied, expression.right
            self.parts += 1
        test = self._test(expression)
        return (lambda current, visit: not test(current, visit)) if denied else test

    def _test(self, expression: ast.Expression) -> _Test:
        self.parts += 1
        match expression:
            case ast.LogicalExpression(operator=operator):
                return _chain([self.test(term) for term in _terms(expression)], until=operator == "||")
            case ast.ComparisonExpression(left=left, operator=operator, right=right):
                first, compare, second = self.value(left), COMPARE[operator], self.value(right)
                return lambda current, visit: compare(first(current, visit), second(current, visit), visit)
            case ast.FilterQuery(query=query) if query.singular_query():
                value = self.value(expression)
                return lambda current, visit: value(current, visit) is not MISSING
            case ast.FilterQuery():
                nodes = self.nodes(expression)
                return lambda current, visit: bool(nodes(current, visit))
            case ast.FunctionExtension(name="match" | "search"):
                return self._matches(expression)
            case _:
                raise JSONPathTypeError("a filter needs a comparison or a query here", token=expression.token)

    def _matches(self, call: ast.FunctionExtension) -> _Test:
        if isinstance(pattern := call.args[1], ast.StringLiteral):
            _check_pattern(pattern)
        text, regexp, whole = self.value(call.args[0]), self.value(pattern), call.name == "match"
        return lambda current, visit: matched(text(current, visit), regexp(current, visit), visit, whole=whole)

    def value(self, expression: ast.Expression) -> _Value:
        self.parts += 1
        match expression:
            case ast.FilterExpressionLiteral():
                literal = _literal(cast("ast.FilterExpressionLiteral[Any]", expression))
                return lambda current, visit: literal
            case ast.FilterQuery(query=query) if query.singular_query():
                return self._single(expression)
            case ast.FunctionExtension(name="length", args=[argument]):
                value = self.value(argument)
                return lambda current, visit: length(value(current, visit))
            case ast.FunctionExtension(name="count", args=[argument]):
                nodes = self.nodes(argument)
                return lambda current, visit: len(nodes(current, visit))
            case ast.FunctionExtension(name="value", args=[argument]):
                nodes = self.nodes(argument)
                return lambda current, visit: found[0] if len(found := nodes(current, visit)) == 1 else MISSING
            case _:
                raise JSONPathTypeError("only single values can be compared", token=expression.token)

    def _single(self, expression: ast.FilterQuery) -> _Value:
        steps = _steps(expression.query) or ()
        self.steps += len(steps)
        find = singular(steps, MISSING)
        if isinstance(expression, ast.RootFilterQuery):
            return lambda current, visit: find(visit.root)
        return lambda current, visit: find(current)

    def nodes(self, expression: ast.Expression) -> _Nodes:
        self.parts += 1
        if not isinstance(expression, ast.FilterQuery):
            raise JSONPathTypeError("a query is needed here", token=expression.token)
        nodes = _query(expression.query)
        if isinstance(expression, ast.RootFilterQuery):
            return lambda current, visit: nodes(visit.root, visit)
        return nodes


def _chain(tests: list[_Test], *, until: bool) -> _Test:
    def test(current: Json, visit: Visit) -> bool:
        for each in tests:
            if each(current, visit) is until:
                return until
        return not until

    return test


def _terms(chain: ast.LogicalExpression) -> list[ast.Expression]:
    """Return the operands of a chain of one operator, so that a long chain is not a deep one."""
    terms: list[ast.Expression] = []
    waiting: list[ast.Expression] = [chain]
    while waiting:
        term = waiting.pop()
        if isinstance(term, ast.LogicalExpression) and term.operator == chain.operator:
            waiting += [term.right, term.left]
        else:
            terms.append(term)
    return terms


_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def _literal(literal: ast.FilterExpressionLiteral[Any]) -> Json:
    """Return a literal's value, numbers read anew: the library rounds long integers and takes `-01`."""
    if not isinstance(literal, (ast.IntegerLiteral, ast.FloatLiteral)):
        return literal.value
    text = literal.token.value
    parts = _NUMBER.fullmatch(text)
    if parts is None or math.isinf(float(text)):
        raise JSONPathTypeError(f"{text!r} is not a JSON number", token=literal.token)
    return float(text) if parts[1] or parts[2] else int(text)


def _check_pattern(literal: ast.StringLiteral) -> None:
    reason = why_refused(literal.value)
    if reason is None and prepared_pattern(literal.value) is None:
        reason = "the pattern is not an I-Regexp (RFC 9485: no \\d or \\w, nothing lazy, no lookaround)"
    if reason is not None:
        raise _RegexRefused(reason, token=literal.token)
