"""Typed paths: what they reach, and everything that they refuse."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NotRequired, TypedDict

import pytest
from pydantic import BaseModel, ConfigDict, Field

from weft.errors import ExpressionInvalid, InputError, InvalidJsonPath
from weft.expr.fields import (
    Coalesce,
    Concat,
    FieldError,
    Literal,
    TemplateText,
    coalesce,
    concat,
    each,
    is_path,
    literal,
    path,
    path_schema,
    path_text,
    some,
    template,
)


class Author(BaseModel):
    name: str
    mentor: Author | None = None


class Paper(BaseModel):
    title: str
    relevance: float
    pdf_url: str | None = Field(default=None, alias="pdfUrl")
    authors: list[Author] = []
    editor: Author | None = None
    tags: dict[str, int] = {}
    extra: Any = None
    pair: tuple[int, str] = (1, "a")


@dataclass
class Awkward:
    get: str
    copy: int
    path: str
    steps: list[str] = field(default_factory=list[str])
    _hidden: str = ""


class Row(TypedDict):
    title: str
    author: Author
    nested: Inner
    note: NotRequired[str]


class Inner(TypedDict):
    values: list[int]


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    known: int


SCHEMA: dict[str, Any] = {
    "title": "Thing",
    "type": "object",
    "properties": {
        "a-b": {"type": "string"},
        "kind": {"oneOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}]},
        "self": {"$ref": "#/$defs/Loop"},
        "free": {},
        "listed": {"type": ["array", "null"], "items": {"type": "number"}},
        "either": {"properties": {"a": True}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        "labels": {"type": "object", "patternProperties": {"^x-": {"type": "string"}}},
    },
    "$defs": {
        "Cat": {"type": "object", "properties": {"name": {"type": "string"}, "lives": {"type": "integer"}}},
        "Dog": {"type": "object", "properties": {"name": {"type": "integer"}}},
        "Loop": {"$ref": "#/$defs/Loop"},
    },
}

p: Any = path(Paper)
row: Any = path(Row)
thing: Any = path(SCHEMA)


@pytest.mark.req("ALG-12")
@pytest.mark.parametrize(
    ("reached", "text"),
    [
        (p, "$"),
        (p.title, "$.title"),
        (p.pdf_url, "$.pdfUrl"),
        (p["pdf_url"], "$.pdfUrl"),
        (p["pdfUrl"], "$.pdfUrl"),
        (p.authors[0].name, "$.authors[0].name"),
        (p.authors[-1].mentor.mentor.name, "$.authors[-1].mentor.mentor.name"),
        (some(p.editor).name, "$.editor.name"),
        (each(p.authors).name, "$.authors[*].name"),
        (p.tags.anything, "$.tags.anything"),
        (p.tags["two words"], "$.tags['two words']"),
        (p.tags.get("x"), "$.tags.x"),
        (p.extra.deep[3].er, "$.extra.deep[3].er"),
        (p.pair[1], "$.pair[1]"),
        (row["author"].mentor.name, "$.author.mentor.name"),
        (row["nested"]["values"][0], "$.nested.values[0]"),
        (row.get("note"), "$.note"),
        (path(Open).other, "$.other"),  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownArgumentType]  (an extra field)
        (thing["a-b"], "$['a-b']"),
        (thing.kind.lives, "$.kind.lives"),
        (thing.self.anything, "$.self.anything"),
        (thing.listed[0], "$.listed[0]"),
        (thing.either.a, "$.either.a"),
        (thing.labels["x-y"], "$.labels['x-y']"),
        (each(path(list[Paper])).title, "$[*].title"),
    ],
)
def test_walking_a_model_gives_the_path_of_the_field(reached: object, text: str):
    assert path_text(reached) == text


@pytest.mark.req("ALG-12")
def test_any_name_can_be_a_field_even_that_of_a_method():
    a: Any = path(Awkward)
    assert [path_text(one) for one in (a.get, a.copy, a.path, a.steps[0])] == [
        "$.get",
        "$.copy",
        "$.path",
        "$.steps[0]",
    ]
    assert path_text(a["_hidden"]) == path_text(a._hidden) == "$._hidden"


@pytest.mark.req("ALG-14")
@pytest.mark.parametrize(
    ("walk", "sentence"),
    [
        (lambda: p.titel, "Paper has no field 'titel'; did you mean 'title'?"),
        (lambda: p.pdfUrl, "Paper has no field 'pdfUrl'; did you mean 'pdf_url'?"),
        (lambda: p.nonexistent, "Paper has no field 'nonexistent'; it has authors, editor, extra"),
        (lambda: p["titel"], "did you mean 'title'?"),
        (lambda: p.authors[0].nam, "Author ($.authors[0] of Paper) has no field 'nam'; did you mean 'name'?"),
        (lambda: p._private, "Paper has no field '_private'"),
        (lambda: p.extra._private, "$.extra of Paper has no field '_private'"),
        (lambda: p.title.lower("x"), "$.title of Paper is of type string: it has no fields, and a path has no methods"),
        (lambda: p.title[0], "$.title of Paper is of type string: it has no items"),
        (lambda: p.authors.name, "$.authors of Paper is of type array: it has no fields"),
        (lambda: p[0], "$ of Paper is of type object: it has no items"),
        (lambda: each(p.title), "it has no items"),
        (lambda: p[True], "takes a name or an index, not True"),
        (lambda: p[1.5], "takes a name or an index, not 1.5"),
        (lambda: row.title, "Row is a TypedDict: write ['title'], not .title"),
        (lambda: row["titel"], "Row has no field 'titel'; did you mean 'title'?"),
        (lambda: row.get("nope"), "Row has no field 'nope'"),
        (lambda: row.get("note", "x"), "use w.coalesce()"),
        (lambda: thing.kind.age, "$.kind of Thing has no field 'age'"),
        (lambda: thing.kind.live, "did you mean 'lives'?"),
        (lambda: thing.either.b, "$.either of Thing has no field 'b'"),
    ],
)
def test_a_field_that_the_model_does_not_have_is_refused_at_once(walk: Callable[[], object], sentence: str):
    with pytest.raises(FieldError) as caught:
        walk()
    assert sentence in str(caught.value)


@pytest.mark.req("ALG-14")
def test_the_error_names_the_field_the_model_and_the_nearest_field():
    with pytest.raises(FieldError) as caught:
        _ = p.titel
    assert (caught.value.field, caught.value.model, caught.value.suggestion) == ("titel", "Paper", "title")
    assert isinstance(caught.value, InputError)
    assert isinstance(caught.value, AttributeError)
    assert isinstance(caught.value, TypeError)


async def _awaited() -> None:
    await p.extra


async def _entered() -> None:
    async with p.extra:
        pass


def _with() -> None:
    with p.extra:
        pass


BINARY = [
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_", "xor", "lshift", "rshift",
    "eq", "ne", "lt", "le", "gt", "ge", "iadd", "imul", "iand", "ior",
]  # fmt: skip
UNARY: list[Callable[[Any], object]] = [
    operator.neg, operator.pos, operator.invert, operator.not_, operator.index, abs, bool, len, iter, reversed, list,
    str, bytes, format, hash, int, float, complex, round,
]  # fmt: skip


@pytest.mark.req("ALG-13")
@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("other", ["x", 1, p.relevance])
def test_paths_have_no_operators_on_either_side(name: str, other: object):
    operation: Callable[[Any, Any], Any] = getattr(operator, name)
    with pytest.raises(FieldError, match=r"^<path "):
        operation(p.title, other)
    if name == "mod" and isinstance(other, str):
        return  # Python takes whatever has items for a mapping, and a text without `%` asks nothing of it
    with pytest.raises(FieldError, match=r"^<path "):
        operation(other, p.title)


@pytest.mark.req("ALG-13")
@pytest.mark.parametrize("operation", UNARY)
def test_paths_are_not_values(operation: Callable[[Any], Any]):
    with pytest.raises(FieldError, match=r"^<path \$\.extra of Paper> .*; "):
        operation(p.extra)


@pytest.mark.req("ALG-13")
@pytest.mark.parametrize(
    ("use", "instead"),
    [
        (lambda: p.extra.lower(x=1), "a path has no methods"),
        (lambda: p.title + "x", "w.concat() or w.template()"),
        (lambda: p.title or "x", "w.coalesce(a, b)"),
        (lambda: p.title and "x", "w.coalesce(a, b)"),
        (lambda: not p.title, "w.router()"),
        (lambda: p.relevance > 0.7, "w.filter(p.x, w.gt(0.7))"),
        (lambda: 0.5 < p.relevance < 1, "w.filter(p.x, w.gt(0.7))"),
        (lambda: "x" in p.title, "w.contains('y')"),
        (lambda: p.authors[1:2], "each()"),
        (lambda: [*p.authors], "w.each(p.xs)"),
        (lambda: f"{p.title}", "w.template("),
        (lambda: "%s" % p.title, "w.template("),  # noqa: UP031  (it is the old form that is tried)
        (lambda: {p.title: 1}, "keep paths in a list"),
        (lambda: setattr(p, "title", 1), "w.schema_map()"),
        (lambda: delattr(p, "title"), "w.schema_map()"),
        (lambda: operator.setitem(p, "title", 1), "w.schema_map()"),
        (lambda: operator.delitem(p, "title"), "w.schema_map()"),
        (_with, "a path is read when it runs"),
        (lambda: _awaited().send(None), "a path is read when it runs"),
        (lambda: _entered().send(None), "a path is read when it runs"),
    ],
)
def test_a_refusal_says_what_to_use_instead(use: Callable[[], object], instead: str):
    with pytest.raises(FieldError) as caught:
        use()
    assert instead in str(caught.value)


def test_paths_can_be_shown_copied_and_probed():
    assert repr(p.authors[0].name) == "<path $.authors[0].name of Paper>"
    assert repr(path(list[int])) == "<path $ of list[int]>"
    assert copy.copy(p.title) is not None
    assert path_text(copy.deepcopy({"a": [p.title]})["a"][0]) == "$.title"
    assert not hasattr(p, "titel")
    assert not hasattr(p.title, "lower")
    assert not hasattr(p.extra, "__array__")
    assert is_path(p.title)
    assert not is_path("$.title")


@pytest.mark.req("ALG-2", "ALG-12")
def test_a_path_knows_the_schema_of_its_field():
    assert path_schema(p.title) == {"type": "string"}
    assert path_schema(p.pdf_url)["anyOf"] == [{"type": "string"}, {"type": "null"}]
    assert path_schema(p.pair[1]) == {"type": "string"}
    assert path_schema(p.pair[0]) == {"type": "integer"}
    assert path_schema(p.tags.x) == {"type": "integer"}
    assert path_schema(each(p.authors).name) == {"type": "array", "items": {"type": "string"}}
    assert path_schema(p.extra.x) == path_schema("$.title") == {}
    assert path_schema(thing.kind.name) == {"anyOf": [{"type": "string"}, {"type": "integer"}]}
    assert path_schema(p.authors[0])["$defs"]["Author"]["properties"]["name"] == {"type": "string"}
    assert "x-weft-model" not in str(path_schema(p.authors[0]))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("title", "'title' is not a path; write p.title, or a JSONPath that starts with $"),
        (3, "3 is not a path; use a field of w.path()"),
        (coalesce(p.title), "is a source for schema_map, not a path"),
        (row.get, "is not a path"),
    ],
)
def test_what_is_no_path_is_refused_where_a_path_is_expected(given: object, sentence: str):
    uses: list[Callable[[Any], object]] = [path_text, some, each, coalesce, concat, lambda it: template("{x}", x=it)]
    for use in uses:
        with pytest.raises(FieldError) as caught:
            use(given)
        assert sentence in str(caught.value)


def test_a_text_is_taken_for_a_path_only_if_it_is_one():
    assert path_text("$.a[?@.b > 1]") == "$.a[?@.b > 1]"
    with pytest.raises(InvalidJsonPath):
        path_text("$.a[")


@pytest.mark.req("ALG-15")
def test_field_sources_keep_the_texts_of_their_paths():
    assert coalesce(p.pdf_url, p.title) == Coalesce(("$.pdfUrl", "$.title"))
    assert template("{a}: {b}", a=p.title, b="$.x") == TemplateText("{a}: {b}", {"a": "$.title", "b": "$.x"})
    assert concat(p.title, p.pdf_url, separator=" ") == Concat(("$.title", "$.pdfUrl"), " ")
    assert concat(p.title) == Concat(("$.title",), "")
    assert literal({"a": [1, None]}) == Literal({"a": [1, None]})


@pytest.mark.req("ALG-15")
def test_a_literal_does_not_change_with_the_list_it_was_made_of():
    values = [1]
    made = literal(values)
    values.append(2)
    assert made == Literal([1])


@pytest.mark.req("ALG-15")
@pytest.mark.parametrize("value", [(1, 2), {1: "a"}, float("nan"), object(), p.title, [p.title]])
def test_a_literal_must_be_json(value: object):
    with pytest.raises(ExpressionInvalid, match="is not JSON"):
        literal(value)


def test_sources_without_paths_are_refused():
    for source in (coalesce, concat):
        with pytest.raises(FieldError, match="needs at least one path"):
            source()


def test_a_model_without_a_schema_is_refused():
    with pytest.raises(ExpressionInvalid, match="Plain has no JSON Schema"):
        path(type("Plain", (), {}))
