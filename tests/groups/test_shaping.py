"""Shaping of results: the fields that were asked for, within limits, and told what was cut."""

from __future__ import annotations

import copy
import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import ExecutionFailed
from weft.groups.rule import ResponseRule
from weft.groups.shaping.cutting import size_of
from weft.groups.shaping.results import CUT, SELECT, select_of, shape, shape_result
from weft.ports import is_array, is_object

FREE = ResponseRule()
REPOSITORY: dict[str, Any] = {
    "id": 7,
    "name": "weft",
    "owner": {"login": "ada", "id": 1, "email": "ada@example.com"},
    "items": [{"name": "a", "size": 1}, {"name": "b", "size": 2}],
}
names = st.text("abc", min_size=1, max_size=2)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(names, inner, max_size=4),
    max_leaves=40,
)


def chosen(value: Any, *select: str) -> Any:
    return shape(value, select=select, rule=FREE).value


def is_part(part: Any, whole: Any) -> bool:
    """Tell whether a value is another one with fewer fields, shorter lists and shorter texts."""
    if is_object(part) and is_object(whole):
        return all(key in whole and is_part(value, whole[key]) for key, value in part.items())
    if is_array(part) and is_array(whole):
        return len(part) <= len(whole) and all(map(is_part, part, whole))
    if isinstance(part, str) and isinstance(whole, str):
        return part == whole or whole.startswith(part.removesuffix("…"))
    return part == whole and type(part) is type(whole)


def test_only_the_fields_that_were_asked_for_are_left():
    assert chosen(REPOSITORY, "id", "owner.login", "items.name") == {
        "id": 7,
        "owner": {"login": "ada"},
        "items": [{"name": "a"}, {"name": "b"}],
    }


def test_a_field_that_is_asked_for_as_a_whole_stays_whole():
    assert chosen(REPOSITORY, "owner.login", "owner") == {"owner": REPOSITORY["owner"]}


def test_lists_of_objects_and_lists_of_lists_are_gone_through():
    assert chosen([[{"id": 1, "x": 2}], [{"id": 3}]], "id") == [[{"id": 1}], [{"id": 3}]]


def test_what_has_no_fields_stays_as_it_is():
    value = [{"owner": None, "x": 1}, {"owner": "ada"}, "more"]
    assert chosen(value, "owner.login") == [{"owner": None}, {"owner": "ada"}, "more"]


def test_a_field_with_dots_in_its_own_name_is_asked_for_by_that():
    assert chosen({"a.b": {"c": 1, "d": 2}, "a": {"b": {"c": 3}}, "x": 4}, "a.b.c") == {
        "a.b": {"c": 1},
        "a": {"b": {"c": 3}},
    }


def test_a_field_that_the_result_never_has_is_told_with_those_that_there_are():
    shaped = shape(REPOSITORY, select=["owner.logn", "stars", "items.name"], rule=FREE)
    assert shaped.notes == [
        "_select: there is no 'owner.logn'; did you mean 'owner.login'? 'owner' has login, id, email",
        "_select: there is no 'stars'; the result has id, name, owner, items",
    ]


def test_of_fields_that_are_not_there_only_the_first_step_that_fails_is_told():
    assert shape(REPOSITORY, select=["user.login", "user.id"], rule=FREE).notes == [
        "_select: there is no 'user'; the result has id, name, owner, items"
    ]


@pytest.mark.parametrize("value", [[], {"items": []}, {"items": None}, None])
def test_nothing_is_told_where_there_was_nothing_that_could_have_the_field(value: Any):
    assert shape(value, select=["items.name"] if value else ["id"], rule=FREE).notes == []


def test_a_text_of_which_fields_are_asked_for_stays_and_says_so():
    shaped = shape("plain", select=["id"], rule=FREE)
    assert shaped.value == "plain"
    assert shaped.notes == ["_select: there is no 'id', the result has no fields"]


def test_the_names_are_taken_out_of_the_arguments():
    assert select_of({"action": "list", "_select": ["id", "id", "name"]}) == (("id", "name"), {"action": "list"})
    assert select_of({"_select": "id"}) == (("id",), {})
    assert select_of({"_select": None}) == select_of({"_select": []}) == (None, {})
    arguments = {"action": "list"}
    assert select_of(arguments)[1] is arguments


@pytest.mark.parametrize(
    ("sent", "field"), [(7, "_select"), ({"id": 1}, "_select"), (["id", 7], "_select[1]"), ([""], "_select[0]")]
)
def test_names_that_are_none_are_refused_with_what_is_expected(sent: Any, field: str):
    with pytest.raises(ExecutionFailed) as caught:
        select_of({"_select": sent})
    assert caught.value.code == "InvalidArguments"
    assert caught.value.message.startswith(f"{field} is ")
    assert '["id", "owner.login"]' in caught.value.message
    assert caught.value.to_json()["problems"][0]["field"] == field


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (["a"] * 101, "_select has 101 names, expected at most 100 names"),
        (["a", "b" * 201], "_select[1] has 201 characters, expected at most 200 characters"),
        ("b" * 201, "_select has 201 characters, expected at most 200 characters"),
        ([".".join("a" * 17)], "_select[0] has 17 parts, expected at most 16 parts"),
    ],
)
def test_more_names_than_anybody_needs_are_refused_before_anything_is_called(sent: Any, message: str):
    with pytest.raises(ExecutionFailed) as caught:
        select_of({"_select": sent})
    assert caught.value.code == "InvalidArguments"
    assert caught.value.message == message
    assert len(str(caught.value.to_json())) < 500
    most = [f"n{n}" for n in range(99)] + [".".join("a" * 16)]
    assert select_of({"_select": most})[0] == tuple(most)


def test_of_many_names_that_are_not_there_the_first_ones_are_told():
    value = {f"field_{n}_{'x' * 300}": n for n in range(1000)}
    shaped = shape(value, select=[f"fielt_{n}" + "y" * 190 for n in range(100)], rule=FREE)
    assert len(shaped.notes) == 11
    assert all(len(note) < 350 for note in shaped.notes)
    assert " more" in shaped.notes[0]
    assert not any("the result has" in note for note in shaped.notes[1:])
    assert shaped.notes[-1] == "_select: 90 more names are not there"


def test_the_field_says_of_itself_what_it_takes():
    assert SELECT["type"] == "array"
    assert SELECT["maxItems"] == 100
    assert "items.name" in SELECT["description"]


def test_lists_and_texts_are_cut_wherever_they_are_and_it_is_told():
    value = {"items": [{"tags": list("abcdef"), "body": "x" * 50} for _ in range(1234)], "title": "short"}
    shaped = shape(value, select=None, rule=ResponseRule(max_items=2, max_text=10))
    assert shaped.value == {"items": [{"tags": ["a", "b"], "body": "xxxxxxxxx…"}] * 2, "title": "short"}
    assert shaped.notes == [
        "items: 2 of 1,234 shown",
        "items.tags: at most 2 of up to 6 items shown, 2 times",
        "items.body: at most 10 of up to 50 characters shown, 2 times",
        "Ask for less with a narrower call or with _select",
    ]


def test_where_no_fields_can_be_asked_for_the_note_does_not_say_so():
    shaped = shape([1, 2, 3], select=None, rule=ResponseRule(max_items=1, select=False))
    assert shaped.notes == ["1 of 3 items shown", "Ask for less with a narrower call"]


def test_of_very_many_places_only_the_first_are_told():
    value = {f"f{n}": [1, 2] for n in range(30)}
    notes = shape(value, select=None, rule=ResponseRule(max_items=1)).notes
    assert len(notes) == 12
    assert notes[-2] == "20 more places are cut"


def test_too_many_bytes_cut_lists_from_their_ends_and_say_how_many_there_were():
    value: dict[str, Any] = {"items": [{"name": f"{n:04}"} for n in range(1000)], "total": 1000}
    shaped = shape(value, select=None, rule=ResponseRule(max_items=500, max_bytes=200))
    assert shaped.value["items"] == value["items"][: len(shaped.value["items"])]
    assert len(shaped.value["items"]) == 11
    assert shaped.value["total"] == 1000
    assert shaped.notes[0] == "items: 11 of 1,000 shown"


def test_one_item_that_is_too_long_keeps_the_beginning_of_its_text():
    value = [{"body": "x" * 5000}, {"body": "y"}]
    shaped = shape(value, select=None, rule=ResponseRule(max_bytes=100))
    assert len(shaped.value) == 1
    assert shaped.value[0]["body"].startswith("xxxxxxxx")
    assert 90 < size_of(shaped.value) <= 100


def test_an_object_of_very_many_fields_loses_the_last_ones():
    shaped = shape({f"field{n}": n for n in range(5000)}, select=None, rule=ResponseRule(max_bytes=100))
    assert list(shaped.value) == [f"field{n}" for n in range(len(shaped.value))]
    assert shaped.notes[0].endswith(" of 5,000 fields shown")


def test_without_names_and_limits_the_very_same_object_comes_back():
    assert shape(REPOSITORY, select=None, rule=FREE).value is REPOSITORY
    result: dict[str, Any] = {"content": []}
    assert shape_result(result, select=None, rule=FREE) is result
    assert shape(REPOSITORY, select=None, rule=ResponseRule(max_items=100, max_bytes=10_000)).value is REPOSITORY


def nested(levels: int, value: Any = 1) -> Any:
    for _ in range(levels):
        value = {"a": value}
    return value


def test_a_value_that_is_nested_beyond_reason_is_cut_there_and_can_be_written():
    shaped = shape(nested(3000), select=None, rule=ResponseRule(max_items=1))
    assert orjson.dumps(shaped.value) == orjson.dumps(nested(200, {}))
    assert shaped.notes[0].endswith("nothing is shown below 200 levels")
    assert len(shaped.notes[0]) < 300
    assert shape(nested(3000), select=None, rule=ResponseRule(max_bytes=2)).value == {}


@pytest.mark.parametrize("value", [{7: "no name", "id": 1}, nested(1, [[nested(1)]])], ids=["no JSON", "deep"])
def test_what_cannot_be_gone_through_stays_whole_and_never_becomes_an_error(value: Any, monkeypatch: Any):
    if 7 not in value:

        def fails(*_: object) -> None:
            raise RecursionError

        monkeypatch.setattr("weft.groups.shaping.selecting.Selection.of", fails)
    assert shape(value, select=["id"], rule=FREE).value is value
    result = shape_result({"content": [], "structuredContent": value}, select=["id"], rule=FREE)
    assert result["structuredContent"] is value
    assert "the result is whole" in result["_meta"][CUT][0]
    text = {"type": "text", "text": "told " * 10}
    cut = shape_result(
        {"content": [text], "structuredContent": {"result": value}}, select=["id"], rule=ResponseRule(max_bytes=22)
    )
    assert cut["structuredContent"] == {"result": {}}
    assert cut["content"][0]["text"] == "told t…"
    assert "the result is left out" in cut["_meta"][CUT][0]


class Counted(dict[str, Any]):
    """An object that counts how often one of its fields is looked at."""

    looks = 0

    def items(self) -> Any:
        for pair in super().items():
            Counted.looks += 1
            yield pair


@pytest.mark.parametrize("rule", [ResponseRule(max_bytes=2000), ResponseRule(max_bytes=2000, max_items=9, max_text=99)])
def test_to_cut_a_value_costs_as_much_as_what_stays_and_not_as_what_there_is(rule: ResponseRule):
    value = Counted({f"f{n}": Counted(a="x" * 50, b=list(range(20))) for n in range(20_000)})
    Counted.looks = 0
    shaped = shape(value, select=None, rule=rule)
    assert 1800 < size_of(shaped.value) <= 2000
    assert Counted.looks < 10_000


def test_a_very_long_name_of_a_field_is_not_told_in_full():
    key = "k" * 1_000_000
    cut = shape({key: {"deep": {"list": [1, 2]}}}, select=None, rule=ResponseRule(max_items=1))
    assert cut.notes[0] == f"{'k' * 39}….deep.list: 1 of 2 shown"
    missing = shape({key: 1}, select=["z"], rule=FREE)
    assert missing.notes == [f"_select: there is no 'z'; the result has {'k' * 39}…"]


def test_integers_of_any_length_stay_as_they_are():
    text = '{"id": 123456789012345678901234567890, "x": 1.5, "u": 18446744073709551616}'
    result = shape_result({"content": [{"type": "text", "text": text}]}, select=["id", "u"], rule=FREE)
    assert result["content"][0]["text"] == '{"id":123456789012345678901234567890,"u":18446744073709551616}'
    # What came over the wire has lost the digits; the text beside it has them, and is the same value nevertheless.
    told = {"content": [{"type": "text", "text": text}], "structuredContent": orjson.loads(text)}
    result = shape_result(told, select=["id"], rule=ResponseRule(max_bytes=100))
    assert result["content"] == [{"type": "text", "text": '{"id":123456789012345678901234567890}'}]
    assert result["structuredContent"] == {"id": 1.2345678901234568e29}
    value = shape({"n": [10**40] * 9}, select=None, rule=ResponseRule(max_bytes=100)).value
    assert value == {"n": [10**40] * 2}


@pytest.mark.parametrize("text", ['{"id": 1e999, "n": 12345678901234567890}', '{"id": NaN, "n": 12345678901234567890}'])
def test_a_text_that_is_only_nearly_json_stays_a_text(text: str):
    result = {"content": [{"type": "text", "text": text}]}
    assert shape_result(result, select=["n"], rule=FREE)["content"][0]["text"] == text


@given(values, st.lists(st.lists(names, min_size=1, max_size=3).map(".".join), min_size=1, max_size=4))
def test_what_is_selected_is_a_part_and_the_value_stays_as_it_was(value: Any, select: list[str]):
    before = copy.deepcopy(value)
    assert is_part(shape(value, select=select, rule=FREE).value, value)
    assert value == before


@given(values)
def test_to_select_everything_changes_nothing(value: Any):
    def paths(one: Any, above: str) -> list[str]:
        if is_array(one):
            return [path for inner in one for path in paths(inner, above)]
        if not is_object(one):
            return []
        found: list[str] = []
        for key, inner in one.items():
            found += paths(inner, f"{above}{key}.") or [f"{above}{key}"]
        return found

    everything = paths(value, "")
    if everything:
        shaped = shape(value, select=everything, rule=FREE)
        assert shaped.value == value
        assert shaped.notes == []


@given(
    values,
    st.none() | st.integers(1, 5),
    st.none() | st.integers(1, 20),
    st.integers(10, 200),
)
def test_the_limits_hold_whatever_the_value(value: Any, items: int | None, text: int | None, most: int):
    before = copy.deepcopy(value)
    shaped = shape(value, select=None, rule=ResponseRule(max_items=items, max_text=text, max_bytes=most))
    assert len(orjson.dumps(shaped.value)) <= most
    assert is_part(shaped.value, value)
    assert bool(shaped.notes) == (shaped.value != value)
    assert value == before


def served(value: Any, text: str | None = None) -> dict[str, Any]:
    structured: Any = value if is_object(value) else {"result": value}
    return {
        "content": [{"type": "text", "text": json.dumps(value, indent=2) if text is None else text}],
        "structuredContent": structured,
    }


def test_the_text_that_is_the_json_of_a_result_is_written_anew():
    result = shape_result(served(REPOSITORY), select=["id"], rule=FREE)
    assert result == {"content": [{"type": "text", "text": '{"id":7}'}], "structuredContent": {"id": 7}}


@pytest.mark.parametrize("select", [["name"], ["result.name"]])
def test_a_value_that_is_wrapped_is_looked_into(select: list[str]):
    result = shape_result(served(REPOSITORY["items"]), select=select, rule=FREE)
    assert result["structuredContent"] == {"result": [{"name": "a"}, {"name": "b"}]}
    told = json.loads(result["content"][0]["text"])
    assert told == [{"name": "a"}, {"name": "b"}]


def test_a_text_for_people_beside_the_value_is_cut_and_not_replaced():
    result = shape_result(served(REPOSITORY, "A repository of ada's"), select=["id"], rule=ResponseRule(max_text=13))
    assert result["content"][0]["text"] == "A repository…"
    assert result["structuredContent"] == {"id": 7}
    assert result["_meta"][CUT] == ["13 of 21 characters shown", "Ask for less with a narrower call or with _select"]
    assert result["content"][-1]["text"] == (
        "[13 of 21 characters shown. Ask for less with a narrower call or with _select.]"
    )


def test_json_in_a_text_without_structured_content_is_shaped_and_stays_json():
    result = shape_result(
        {"content": [{"type": "text", "text": json.dumps(REPOSITORY)}], "_meta": {"mine": 1}},
        select=["items.name", "none"],
        rule=ResponseRule(max_items=1),
    )
    assert json.loads(result["content"][0]["text"]) == {"items": [{"name": "a"}]}
    assert "structuredContent" not in result
    assert result["_meta"]["mine"] == 1
    assert [note.split(":")[0] for note in result["_meta"][CUT][:2]] == ["_select", "items"]


def test_what_need_not_be_cut_keeps_the_way_in_which_it_was_written():
    result = served(REPOSITORY)
    assert shape_result(result, select=None, rule=ResponseRule(max_items=5)) == result
    plain = {"content": [{"type": "text", "text": '{ "id":   7 }'}]}
    assert shape_result(plain, select=["id"], rule=FREE) == plain


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


IMAGE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}


def test_a_limit_of_items_is_for_lists_and_not_for_blocks():
    content = [text('{"id": 0}'), IMAGE, text("plain"), text('["a", "b", "c"]'), text('{"id": 4}')]
    result = shape_result({"content": content}, select=None, rule=ResponseRule(max_items=2))
    assert result["content"][:-1] == [*content[:3], text('["a","b"]'), content[4]]
    assert result["_meta"][CUT][0] == "2 of 3 items shown"


def test_of_many_texts_the_last_ones_go_and_images_stay():
    content = [text("a" * 40), IMAGE, text("b" * 40), text("c" * 40), text("")]
    result = shape_result({"content": content}, select=None, rule=ResponseRule(max_bytes=100))
    assert result["content"][:-1] == [content[0], IMAGE, text("b" * 25 + "…")]
    assert result["_meta"][CUT][:2] == ["26 of 40 characters shown", "2 of 4 texts shown"]
    many = {"content": [text("")] * 20_000, "structuredContent": {"a": 1}}
    assert len(shape_result(many, select=None, rule=ResponseRule(max_bytes=100))["content"]) == 4


def test_the_text_that_tells_the_value_again_is_not_counted_but_once():
    value = {"items": list(range(30))}
    told = orjson.dumps(value).decode()
    result = {"content": [text(told)], "structuredContent": value}
    most = ResponseRule(max_bytes=len(told))
    assert shape_result(result, select=None, rule=most) == result
    written = shape_result({**result, "content": [text(json.dumps(value, indent=9))]}, select=None, rule=most)
    assert written["content"] == [text(told)]
    thrice = shape_result({**result, "content": [text(told)] * 3}, select=None, rule=most)
    assert size_of(thrice["structuredContent"]) + sum(len(one["text"]) for one in thrice["content"][1:-1]) <= len(told)


def test_a_text_for_people_and_the_value_share_the_room():
    result = {"content": [text("z" * 900)], "structuredContent": {"items": list(range(900))}}
    shaped = shape_result(result, select=None, rule=ResponseRule(max_bytes=200))
    assert shaped["content"][0] == text("z" * 97 + "…")
    assert 90 < size_of(shaped["structuredContent"]) <= 100
    small = shape_result({**result, "structuredContent": {"id": 7}}, select=None, rule=ResponseRule(max_bytes=200))
    assert small["structuredContent"] == {"id": 7}
    assert len(small["content"][0]["text"].encode()) == 200 - size_of({"id": 7})


said = st.text('abc\n"ä…', max_size=30) | values.map(json.dumps)


@given(
    value=values,
    told=st.lists(said, max_size=6),
    longest=st.none() | st.integers(1, 30),
    most=st.integers(30, 200),
    data=st.data(),
)
def test_the_limit_of_bytes_is_for_all_that_a_result_says(
    *, value: Any, told: list[str], longest: int | None, most: int, data: st.DataObject
):
    select = data.draw(st.none() | st.just(["a", "b.c"]))
    again = data.draw(st.sampled_from([0, 1, 2]))
    result: dict[str, Any] = served(value) if data.draw(st.booleans()) else {"content": []}
    result["content"] = [*result["content"] * again, *map(text, told)]
    before = copy.deepcopy(result)
    shaped = shape_result(result, select=select, rule=ResponseRule(max_text=longest, max_bytes=most))
    assert result == before
    content = shaped["content"][:-1] if CUT in shaped.get("_meta", {}) else shaped["content"]
    texts = [block["text"] for block in content]
    counted = sum(len(one.encode()) for one in texts)
    if "structuredContent" in result:
        assert is_object(shaped["structuredContent"])
        counted += size_of(shaped["structuredContent"])
        inner = shaped["structuredContent"].get("result") if not is_object(value) else shaped["structuredContent"]
        same = [one for one in texts if one == inner or json_of(one) == inner]
        counted -= max((len(one.encode()) for one in same), default=0)
    assert counted <= most


def json_of(said: str) -> Any:
    try:
        return json.loads(said)
    except ValueError:
        return said


@pytest.mark.parametrize("value", [REPOSITORY, [1, 2, 3], "told", 12345])
@pytest.mark.parametrize("most", [1, 2, 5, 13])
def test_however_small_the_limit_a_result_stays_valid(value: Any, most: int):
    result = shape_result(served(value), select=None, rule=ResponseRule(max_bytes=most))
    assert is_object(result["structuredContent"])
    assert all(isinstance(block["text"], str) for block in result["content"])
    assert result["_meta"][CUT]
    if not is_object(value):
        assert result["structuredContent"].keys() == {"result"}


def test_of_a_result_that_failed_only_the_text_is_cut():
    failed = {"content": [{"type": "text", "text": '["a", "b", "c"]'}], "isError": True}
    assert shape_result(failed, select=["id"], rule=ResponseRule(max_items=1, max_bytes=4)) is failed
    cut = shape_result(
        {"content": [{"type": "text", "text": "no " * 100}], "isError": True},
        select=None,
        rule=ResponseRule(max_text=6),
    )
    assert cut["content"][0]["text"] == "no no…"
    assert cut["isError"] is True
