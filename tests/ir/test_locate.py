"""Where values stand in their text."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import json_pointer
from weft.ir.read import Format, Source, read

pytestmark = pytest.mark.req("ALG-1")

JSON = """{
  "tools": [
    {"name": "é\U0001f600", "spec": {"a/b": [10, {"q\\"~": true}]}},
    {"name": "[,]", "sp\\u0065c": {}, "last": 3}
  ],
  "": null
}
"""

YAML = """# first
tools:
  - name: "é\U0001f600"
    spec: {a/b: [10, {'q"~': true}]}
  - &second
    name: "[,]"
    "sp\\x65c": {}
    last: 3
"": ~
again: *second
"""

PLACES: list[tuple[tuple[str | int, ...], str]] = [
    (("tools", 0, "name"), '"é'),
    (("tools", 0, "spec", "a/b"), "[10"),
    (("tools", 0, "spec", "a/b", 0), "10"),
    (("tools", 0, "spec", "a/b", 1, 'q"~'), "true"),
    (("tools", 1, "name"), '"[,]"'),
    (("tools", 1, "spec"), "{}"),
    (("tools", 1, "last"), "3"),
]


def rest(source: Source, loc: Any) -> str:
    """Return the text from the position of a place to the end of its line."""
    position = source.position(loc)
    assert position is not None
    line, column = position
    return source.text.split("\n")[line - 1][column - 1 :]


@pytest.mark.parametrize(("text", "format"), [(JSON, "json"), (YAML, "yaml")])
@pytest.mark.parametrize(("loc", "begins"), PLACES)
def test_a_position_points_at_the_value(text: str, format: Format, loc: tuple[str | int, ...], begins: str):
    source = read(text, format=format)
    assert rest(source, loc).startswith(begins)
    assert rest(source, json_pointer(loc)) == rest(source, loc)


def test_lines_and_columns_count_from_one():
    source = read(JSON)
    assert source.position(()) == (1, 1)
    assert source.position(("tools", 1)) == (4, 5)
    assert source.position(("",)) == (6, 7)


@pytest.mark.parametrize(
    ("missing", "parent"),
    [
        (("tools", 1, "spec", "x", "y"), ("tools", 1, "spec")),
        (("tools", 9), ("tools",)),
        (("tools", -1), ("tools",)),
        (("tools", 1, "last", "x"), ("tools", 1, "last")),
        (("nothing",), ()),
    ],
)
@pytest.mark.parametrize(("text", "format"), [(JSON, "json"), (YAML, "yaml")])
def test_what_is_missing_is_placed_at_its_parent(
    text: str, format: Format, missing: tuple[str | int, ...], parent: tuple[str | int, ...]
):
    source = read(text, format=format)
    assert source.position(missing) == source.position(parent)


def test_an_alias_is_placed_at_its_anchor():
    source = read(YAML, format="yaml")
    assert source.position(("again", "last")) == source.position(("tools", 1, "last")) == (8, 11)


def test_columns_count_characters_after_a_byte_order_mark():
    assert read('\ufeff{"a": 1}'.encode()).position(("a",)) == (1, 7)


@pytest.mark.parametrize("format", ["json", "yaml"])
def test_carriage_returns_end_lines_only_with_a_line_feed(format: Format):
    assert read('{"a": 1,\r\n"b": 2}', format=format).position(("b",)) == (2, 6)


def test_a_source_whose_text_is_broken_has_no_positions():
    assert Source("x", "{", "json", None).position(("a",)) is None
    assert Source("x", "{", "json", None).written(("a",)) is None


@pytest.mark.parametrize(
    ("loc", "expected"), [((), ""), (("a", 0), "/a/0"), (("a/b", "m~n", ""), "/a~1b/m~0n/"), (("~1",), "/~01")]
)
def test_a_pointer_is_rfc_6901(loc: tuple[str | int, ...], expected: str):
    assert json_pointer(loc) == expected


keys = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(keys, inner),
    max_leaves=20,
)


def every_place(value: Any, loc: tuple[str | int, ...] = ()) -> list[tuple[tuple[str | int, ...], Any]]:
    children: dict[str | int, Any] = {}
    if isinstance(value, dict | list):
        whole = cast("dict[str, Any] | list[Any]", value)
        children.update(whole if isinstance(whole, dict) else enumerate(whole))
    return [(loc, value), *(found for key, child in children.items() for found in every_place(child, (*loc, key)))]


@given(values, st.sampled_from([None, 1]), st.booleans())
def test_decoding_json_at_any_position_gives_the_value_there(value: Any, indent: int | None, ascii: bool):
    source = read(json.dumps(value, indent=indent, ensure_ascii=ascii), format="json", whole_document=False)
    lines = source.text.split("\n")
    for loc, part in every_place(value):
        line, column = source.position(loc) or (0, 0)
        assert json.JSONDecoder().raw_decode("\n".join(lines[line - 1 :])[column - 1 :])[0] == part
