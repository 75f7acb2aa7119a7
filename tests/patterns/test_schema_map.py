"""Schema maps build an object from another, field by field, and say which path is missing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypedDict

import pytest

import weft as w
from tests.patterns.worlds import document, problems, run
from weft.errors import ExecutionFailed, LimitExceeded
from weft.expr.fields import FieldError
from weft.testing import FakeWorld

ROW: dict[str, Any] = {
    "title": "Weft",
    "year": 1999,
    "none": None,
    "author": {"first": "Ada", "last": "Byron"},
    "tags": ["a", "b"],
    "trick": "{title} ${title} $.title",
    "flag": True,
}


async def mapped(mappings: dict[str, Any], row: Any = ROW) -> Any:
    """Return what a mapping makes of a row; alone and in a list it must be the same."""
    world = FakeWorld()
    spec = {"schemaMap": {"mappings": mappings}}
    one = (await run(world, spec, row)).value
    assert (await run(world, {"mapEach": {"inner": spec}}, [row, row])).value == [one, one]
    return one


async def failure(mappings: dict[str, Any], row: Any = ROW) -> str:
    """Return the sentence with which a mapping fails; alone and in a list it must be the same."""
    spec, said = {"schemaMap": {"mappings": mappings}}, set[str]()
    for given, value in ((spec, row), ({"mapEach": {"inner": spec}}, [row])):
        with pytest.raises(ExecutionFailed) as caught:
            await run(FakeWorld(), given, value)
        said.add(caught.value.message)
    assert len(said) == 1
    return said.pop()


@pytest.mark.req("ALG-15", "ALG-28", "ALG-48")
@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"path": "$.title"}, "Weft"),
        ({"path": "$.author.last"}, "Byron"),
        ({"path": "$.tags[1]"}, "b"),
        ({"path": "$.tags[-1]"}, "b"),
        ({"path": "$.tags[*]"}, ["a", "b"]),
        ({"path": "$.nowhere[*]"}, []),
        ({"path": "$.none"}, None),
        ({"path": "$"}, ROW),
        ("$.title", "Weft"),
        ({"path": "$.nowhere", "default": 7}, 7),
        ({"path": "$.nowhere", "default": None}, None),
        ({"path": "$.none", "default": 7}, None),
        ({"path": "$.title", "default": 7}, "Weft"),
        ({"literal": 0.6}, 0.6),
        ({"literal": None}, None),
        ({"literal": {"numberValue": 0.6}}, 0.6),
        ({"literal": {"nullValue": True}}, None),
        ({"literal": {"a": [1]}}, {"a": [1]}),
        ({"literal": "$.title"}, "$.title"),
        ({"coalesce": ["$.nowhere", "$.none", "$.title"]}, "Weft"),
        ({"coalesce": {"paths": ["$.author.middle", "$.author.last"]}}, "Byron"),
        ({"coalesce": ["$.nowhere", "$.none"]}, None),
        ({"coalesce": ["$.nowhere", "$.none"], "default": "?"}, "?"),
        ({"coalesce": ["$.nowhere", "$.flag"], "default": "?"}, True),
        ({"coalesce": ["$.a[0]", "$.tags[0]"]}, "a"),
        ({"template": "{t} ({y})", "vars": {"t": "$.title", "y": "$.year"}}, "Weft (1999)"),
        ({"template": {"template": "${t}!", "vars": {"t": "$.title"}}}, "Weft!"),
        ({"template": "{{literal}}"}, "{literal}"),
        ({"template": "{a}{b}", "vars": {"a": "$.flag", "b": "$.none"}}, "truenull"),
        ({"concat": ["$.author.first", "$.author.last"]}, "AdaByron"),
        ({"concat": {"paths": ["$.author.first", "$.year", "$.nowhere", "$.title"], "separator": " "}}, "Ada Weft"),
        ({"concat": ["$.year", "$.none"], "separator": ","}, ""),
        ({"nested": {"mappings": {"who": {"path": "$.author.first"}, "n": {"literal": 1}}}}, {"who": "Ada", "n": 1}),
        ({"nested": {"deep": {"nested": {"t": "$.title"}}}}, {"deep": {"t": "Weft"}}),
    ],
)
async def test_a_field_comes_from(source: Any, expected: Any):
    assert await mapped({"x": source, "always": {"path": "$.title"}}) == {"x": expected, "always": "Weft"}


@pytest.mark.req("ALG-48")
@pytest.mark.parametrize(
    ("source", "path"),
    [
        ({"path": "$.nowhere"}, "$.nowhere"),
        ({"path": "$.title.deeper"}, "$.title.deeper"),
        ({"path": "$.tags[7]"}, "$.tags[7]"),
        ({"path": "$.tags.a"}, "$.tags.a"),
        ({"path": "$.title[0]"}, "$.title[0]"),
        ({"nested": {"a": "$.nowhere"}}, "$.nowhere"),
        ({"template": "{t}", "vars": {"t": "$.nowhere"}}, "$.nowhere"),
    ],
)
async def test_a_path_that_is_not_there_is_named(source: Any, path: str):
    assert await failure({"x": source}) == f"Path {path} not found"


@pytest.mark.req("ALG-48")
@pytest.mark.parametrize("row", [None, 7, "text", [{"a": 1}], True])
async def test_a_row_that_is_no_object_has_no_fields(row: Any):
    assert await failure({"x": {"path": "$.a"}}, row) == "Path $.a not found"
    assert await mapped({"x": {"coalesce": ["$.a", "$.b"]}}, row) == {"x": None}
    assert await mapped({"x": {"path": "$"}}, row) == {"x": row}


@pytest.mark.req("ALG-48")
def test_a_template_variable_that_is_not_given_is_an_error():
    found = problems({"schemaMap": {"mappings": {"x": {"template": "{title}", "vars": {"tilte": "$.title"}}}}})
    assert [problem.code for problem in found] == ["TemplateUnknownName"]
    assert "title" in found[0].message


async def test_a_value_in_a_template_is_never_expanded_again():
    row = {"a": "{b}", "b": "secret", "c": "${b}", "d": "{{b}}"}
    source = {"template": "{a} {c} {d}", "vars": {"a": "$.a", "b": "$.b", "c": "$.c", "d": "$.d"}}
    assert await mapped({"x": source}, row) == {"x": "{b} ${b} {{b}}"}


@pytest.mark.parametrize("path", ["$.author", "$.tags"])
async def test_a_template_takes_no_lists_and_no_objects(path: str):
    assert "only text, numbers" in await failure({"x": {"template": "{v}", "vars": {"v": path}}})


@pytest.mark.parametrize("source", [{"template": "{v}{v}", "vars": {"v": "$.v"}}, {"concat": ["$.v", "$.v"]}])
async def test_text_that_grows_too_long_is_refused(source: Any):
    with pytest.raises(LimitExceeded) as caught:
        await run(FakeWorld(), {"schemaMap": {"mappings": {"x": source}}}, {"v": "v" * 40_000})
    assert caught.value.code == "TemplateSize"


@pytest.mark.parametrize(
    "source",
    [
        {"literal": {"list": []}},
        {"path": "$.nowhere", "default": {"list": []}},
        {"coalesce": ["$.nowhere"], "default": {"list": []}},
        {"nested": {"inner": {"literal": {"list": []}}}},
    ],
)
async def test_no_two_rows_share_a_literal_that_can_be_changed(source: Any):
    spec = {"mapEach": {"inner": {"schemaMap": {"mappings": {"x": source}}}}}
    engine = FakeWorld().engine(document(spec))
    first, second = await engine.execute("it", [{}, {}])
    held = first["x"].get("inner", first["x"])
    held["list"].append("spoilt")
    assert second != first
    assert (await engine.execute("it", [{}]))[0] == second


@pytest.mark.parametrize("kind", [{"literal": 1}, {"concat": ["$.a"]}, {"template": "x"}, {"nested": {"a": "$.a"}}])
def test_a_default_that_would_never_be_used_is_refused(kind: dict[str, Any]):
    found = problems({"schemaMap": {"mappings": {"x": {**kind, "default": 1}}}})
    assert [problem.code for problem in found] == ["UnusedDefault"]


def test_a_field_has_exactly_one_source():
    for wrong in ({}, {"path": "$.a", "literal": 1}, {"default": 1}):
        assert problems({"schemaMap": {"mappings": {"x": wrong}}})
    assert problems({"schemaMap": {"mappings": {}}})


@dataclass
class Paper:
    title: str
    pdf: str
    id: str
    score: float


class Unified(TypedDict):
    title: str
    url: str


@pytest.mark.req("ALG-12", "ALG-15")
def test_the_builder_takes_paths_constants_and_the_six_sources():
    p = w.path(Paper)
    fields = {
        "path": p.title,
        "literal": 0.6,
        "quoted": w.literal("$.title"),
        "coalesce": w.coalesce(p.pdf, p.id),
        "template": w.template("{t}", t=p.title),
        "concat": w.concat(p.title, p.id, separator="-"),
        "nested": {"deep": {"title": p.title}},
    }
    assert w.schema_map(p, fields).to_ir() == {
        "schemaMap": {
            "mappings": {
                "path": {"path": "$.title"},
                "literal": {"literal": 0.6},
                "quoted": {"literal": "$.title"},
                "coalesce": {"coalesce": {"paths": ["$.pdf", "$.id"]}},
                "template": {"template": {"template": "{t}", "vars": {"t": "$.title"}}},
                "concat": {"concat": {"paths": ["$.title", "$.id"], "separator": "-"}},
                "nested": {
                    "nested": {"mappings": {"deep": {"nested": {"mappings": {"title": {"path": "$.title"}}}}}},
                },
            }
        }
    }


async def test_a_typed_result_maps_like_any_other():
    p = w.path(Paper)
    op = w.schema_map(p, Unified(title=p.title, url=w.coalesce(p.pdf, p.id)))
    row = {"title": "Weft", "pdf": None, "id": "7", "score": 1}
    assert await FakeWorld().run(op, row) == {"title": "Weft", "url": "7"}


@pytest.mark.req("ALG-13", "ALG-14")
def test_a_path_is_only_a_path():
    p: Any = w.path(Paper)
    uncalled: Any = w.gt
    wrong: list[Callable[[], Any]] = [
        lambda: p.nonexistent,
        lambda: p.title.lower("x"),
        lambda: p.title + "x",
        lambda: p.title or p.id,
        lambda: p.title[1:2],
        lambda: p.score > 1,
        lambda: w.filter(p.title, w.gt(1)),
        lambda: w.filter(p.score, uncalled),
        lambda: w.filter(p.score, w.gt(p.title)),
    ]
    for mistake in wrong:
        with pytest.raises(FieldError):
            mistake()


async def test_mappings_too_large_for_generated_code_map_all_the_same():
    many = {f"f{n}": {"path": "$.a"} for n in range(2000)} | {
        "c": {"coalesce": [f"$.n{n}" for n in range(3000)] + ["$.a"]}
    }
    result = (await run(FakeWorld(), {"schemaMap": {"mappings": many}}, {"a": 1})).value
    assert result == dict.fromkeys(many, 1)
