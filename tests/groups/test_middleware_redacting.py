"""Results come without secrets and without what else was named: as values, as MCP results, in texts and in errors."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from tests.groups.middlewares import call_of, result, through
from weft.errors import ExecutionFailed, ExpressionInvalid, ToolFailed
from weft.groups.calling import ToolCall
from weft.groups.execution.results import failure, success
from weft.groups.middleware import cleaning, redacted

HIDDEN = "[redacted]"
TOKEN = "ghp_" + "a1B2" * 8
EMAIL = r"[\w.]+@[\w.]+"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"user": "ann", "password": "hunter22"}, {"user": "ann", "password": HIDDEN}),
        ({"credentials": {"user": "ann", "age": 7}}, {"credentials": {"user": HIDDEN, "age": 7}}),
        ({"max_tokens": 500, "token": "", "secret": None}, {"max_tokens": 500, "token": "", "secret": None}),
        ({"nextPageToken": "abc123", "page_token": "x9"}, {"nextPageToken": "abc123", "page_token": "x9"}),
        ([{"note": f"use {TOKEN} here"}], [{"note": f"use {HIDDEN} here"}]),
        ({"apiKey": "zq-77-11", "log": "sent zq-77-11"}, {"apiKey": HIDDEN, "log": f"sent {HIDDEN}"}),
        (f"Bearer {TOKEN}", f"Bearer {HIDDEN}"),
        ("next_page_token: CAUQAA, password: hunter22", f"next_page_token: CAUQAA, password: {HIDDEN}"),
        (12, 12),
        (None, None),
    ],
)
async def test_secrets_are_hidden_by_their_names_and_forms(value: Any, shown: Any):
    before = deepcopy(value)
    assert await through(redacted(), value) == shown
    assert value == before


async def test_fields_are_hidden_wherever_they_stand_and_wherever_their_values_are_said_again():
    value = {"Email": "ann@x.example", "rows": [{"email": "bob@x.example", "ssn": 123456789, "vip": True}]}
    made = await through(redacted(fields=["email", "SSN", "vip"]), result("", structuredContent=value))
    assert made["structuredContent"] == {"Email": HIDDEN, "rows": [{"email": HIDDEN, "ssn": HIDDEN, "vip": HIDDEN}]}
    told = result("ann@x.example wrote to 123456789", structuredContent=value)
    made = await through(redacted(fields=["email", "ssn"]), told)
    assert made["content"] == [{"type": "text", "text": f"{HIDDEN} wrote to {HIDDEN}"}]


async def test_patterns_are_hidden_in_texts_numbers_and_names():
    value = {"by ann@x.example": 1, "by bob@x.example": 2, "n": [4111, "see eve@x.example"]}
    made = await through(redacted(patterns=[EMAIL, r"\b4\d{3}\b"]), value)
    assert made == {f"by {HIDDEN}": 1, f"by {HIDDEN} 2": 2, "n": [HIDDEN, f"see {HIDDEN}"]}


async def test_fields_that_are_kept_stay():
    value = {"token": "kept-one", "password": "hunter22", "nested": {"token": "kept-two"}}
    made = await through(redacted(keep=["token"]), value)
    assert made == {"token": "kept-one", "password": HIDDEN, "nested": {"token": "kept-two"}}


async def test_a_text_that_is_json_stays_json():
    value = {"id": 7, "email": "ann@x.example"}
    short, long = json.dumps(value), json.dumps(value, indent=2)
    middleware = redacted(fields=["email"])
    made = [(await through(middleware, result(text)))["content"][0]["text"] for text in (short, long)]
    assert [json.loads(text) for text in made] == [{"id": 7, "email": HIDDEN}] * 2
    assert "\n" in made[1]
    untouched = '{"id":   7}'
    assert (await through(middleware, result(untouched)))["content"][0]["text"] == untouched


async def test_named_fields_are_hidden_in_plain_text_to_the_end_of_the_line():
    made = await through(redacted(fields=["name"]), "id: 7\nName: Ann Smith\ncity: Bonn, name=Bob; ok")
    assert made == f"id: 7\nName: {HIDDEN}\ncity: Bonn, name={HIDDEN}; ok"


async def test_of_a_result_all_texts_are_clean_and_bytes_and_state_as_they_were():
    given: dict[str, Any] = {
        "content": [
            {"type": "image", "data": TOKEN, "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "https://u:pw123456@x.example/", "text": TOKEN, "blob": TOKEN}},
        ],
        "isError": True,
        "resultType": "complete",
        "requestState": TOKEN,
        "_meta": {"who": TOKEN},
    }
    made = await through(redacted(), given)
    assert made["content"][0] == given["content"][0]
    resource = {"uri": f"https://{HIDDEN}@x.example/", "text": HIDDEN, "blob": TOKEN}
    assert made["content"][1]["resource"] == resource
    assert (made["requestState"], made["_meta"], made["isError"]) == (TOKEN, {"who": HIDDEN}, True)


async def test_an_outcome_is_clean_in_all_its_parts():
    blocks = [{"type": "text", "text": "hunter22"}]
    given = success({"password": "hunter22"}, text="it is hunter22", meta={"at": "hunter22"}, content=blocks)
    made = await through(redacted(), given)
    assert made == success(
        {"password": HIDDEN}, text=f"it is {HIDDEN}", meta={"at": HIDDEN}, content=[{"type": "text", "text": HIDDEN}]
    )


class Account(BaseModel):
    """An account."""

    name: str
    password: str


@dataclass
class Person:
    """A person."""

    email: str


async def test_models_and_dataclasses_are_looked_into():
    value = {"account": Account(name="ann", password="hunter22"), "who": Person("ann@x.example"), "said": "hunter22"}
    made = await through(redacted(fields=["email"]), value)
    assert made == {"account": {"name": "ann", "password": HIDDEN}, "who": {"email": HIDDEN}, "said": HIDDEN}
    with pytest.raises(ExecutionFailed, match="the result is not JSON"):
        await through(redacted(), object())


async def test_errors_are_clean_raised_and_returned():
    error = ToolFailed("login", f"no such key {TOKEN}")
    error.hint = f"renew {TOKEN}"
    error.add(sent={"password": "hunter22"})
    with pytest.raises(ToolFailed) as caught:
        await through(redacted(), error)
    told = caught.value
    assert (told.content, told.hint) == (f"no such key {HIDDEN}", f"renew {HIDDEN}")
    assert TOKEN not in str(told) + json.dumps(told.to_json())
    assert told.facts == {"sent": {"password": HIDDEN}}
    returned = await through(redacted(), lambda _: failure(TOKEN))  # pyright: ignore[reportUnknownLambdaType]
    assert returned.message == HIDDEN


async def test_arguments_are_hidden_from_the_tool_only_if_that_is_said():
    seen: list[dict[str, Any]] = []

    def note(call: ToolCall) -> None:
        seen.append(call.arguments)

    call = call_of(email="ann@x.example", q="mail ann@x.example")
    given = call.arguments
    await through(redacted(fields=["email"]), note, call)
    await through(redacted(fields=["email"], arguments=True), note, call)
    assert seen == [given, {"email": HIDDEN, "q": f"mail {HIDDEN}"}]
    assert given == {"email": "ann@x.example", "q": "mail ann@x.example"}


async def test_a_pattern_that_takes_too_long_hides_the_whole_text():
    text = "a" * 5000 + "!"
    assert await through(redacted(patterns=[r"(a|a|aa)+$"]), text) == HIDDEN


async def test_what_is_nested_too_deeply_is_not_given_out():
    value: Any = TOKEN
    for _ in range(5000):
        value = [value]
    with pytest.raises(ExecutionFailed, match="nested too deeply"):
        await through(redacted(), value)
    with pytest.raises(ExecutionFailed, match="nested too deeply"):
        await through(redacted(), ExecutionFailed("[" * 990 + "]" * 990))


async def test_past_the_budget_of_a_result_every_text_name_and_number_is_hidden(monkeypatch: pytest.MonkeyPatch):
    ticks = count()
    monkeypatch.setattr(cleaning, "perf_counter", lambda: next(ticks) / 8)
    value = {"first": "a", "list": ["b", "c", "d", 7]}
    # An eighth of a second for a, first, b and c each: so half a second is over.
    made = await through(redacted(patterns=["[xyz]"]), value)
    assert made == {"first": "a", HIDDEN: ["b", "c", HIDDEN, HIDDEN]}
    # The next result has a budget of its own.
    assert await through(redacted(patterns=["[xyz]"]), "axe") == f"a{HIDDEN}e"


async def test_secrets_are_hidden_in_names_too():
    value = {TOKEN: 1, "ann@x.example": {"email": "ann@x.example"}, "hunter22": 2, "user": {"password": "hunter22"}}
    made = await through(redacted(fields=["email"]), value)
    assert made == {HIDDEN: 1, f"{HIDDEN} 2": {"email": HIDDEN}, f"{HIDDEN} 3": 2, "user": {"password": HIDDEN}}
    # A word that is also a name stays one: a result keeps its form.
    assert await through(redacted(), {"token": "user", "user": "ann"}) == {"token": HIDDEN, "user": "ann"}


@pytest.mark.parametrize(
    "given",
    [
        result("ann@x.example", _meta={"email": "ann@x.example"}),
        result("x", extra="to ann@x.example", email="ann@x.example"),
        {"content": ["ann@x.example"], "structuredContent": {"email": "ann@x.example"}},
        result('log: {\\"email\\":\\"ann@x.example\\"} end'),
        result('"{\\"email\\":\\"ann@x.example\\"}"'),
        result('{"email":"ann@x.example","email":""}'),
        result('{"email" :"ann@x.example","email":"","n":"{\\u0022a\\u0022:1}"}'),
        result('{"a\\\\":1,"email":"ann@x.example","email":null}'),
        result('{"a":[{"email":"ann@x.example","b":{"c":"\\":"},"email":null}]}'),
        {"content": [{"type": "text", "text": "x", "data": "email: ann@x.example"}]},
        {"content": [{"type": "resource_link", "uri": "x:y", "name": "email: ann@x.example"}]},
        result("", _meta={"note": "email=ann@x.example"}),
        result('"u\\"ann@x.example"', structuredContent={"email": 'u"ann@x.example'}),
    ],
)
async def test_no_place_of_a_result_is_forgotten(given: dict[str, Any]):
    assert "ann@x.example" not in json.dumps(await through(redacted(fields=["email"]), given))


async def test_json_with_a_name_twice_is_written_again_and_other_json_is_as_it_was():
    middleware = redacted(fields=["email"])
    made = await through(middleware, result('{ "a": 1, "a": 2 }'))
    assert made["content"][0]["text"] == '{"a":2}'
    same = '{ "a" : "\\":", "b": {"a": ":"}, "c": "{\\"a\\": 1}" }'
    assert (await through(middleware, result(same)))["content"][0]["text"] == same


async def test_a_number_that_is_hidden_is_hidden_where_it_stands_again():
    made = await through(redacted(fields=["card"]), {"card": 4111111111111111, "paid with": 4111111111111111, "n": 4})
    assert made == {"card": HIDDEN, "paid with": HIDDEN, "n": 4}


async def test_questions_are_clean_where_people_and_models_read_them_and_can_be_answered():
    schema = {"type": "object", "properties": {"password": {"type": "string"}}}
    url = "https://x.example/?token=abcdefgh"
    given: dict[str, Any] = {
        "resultType": "input_required",
        "requestState": TOKEN,
        "inputRequests": {
            TOKEN: {
                "method": "elicitation/create",
                "params": {"message": f"use {TOKEN}?", "requestedSchema": schema, "url": url},
            },
            "b": {
                "method": "sampling/createMessage",
                "params": {
                    "systemPrompt": f"say {TOKEN}",
                    "messages": [{"role": "user", "content": {"type": "text", "text": TOKEN}}],
                },
            },
            "c": {"method": "roots/list"},
        },
    }
    before = deepcopy(given)
    made = await through(redacted(), given)
    asked = made["inputRequests"]
    assert asked[TOKEN]["params"] == {"message": f"use {HIDDEN}?", "requestedSchema": schema, "url": url}
    assert asked["b"]["params"]["systemPrompt"] == f"say {HIDDEN}"
    assert asked["b"]["params"]["messages"] == [{"role": "user", "content": {"type": "text", "text": HIDDEN}}]
    assert (asked["c"], made["requestState"], given) == (given["inputRequests"]["c"], TOKEN, before)


def test_a_name_that_is_empty_is_refused_at_once():
    with pytest.raises(ValueError, match="fields has a name that is empty"):
        redacted(fields=["email", ""])
    with pytest.raises(ValueError, match="keep has a name that is empty"):
        redacted(keep=" ")


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        ("(", "not a regular expression"),
        ("a*", "fits the empty text"),
        (r"\b", "fits the empty text"),
        ("x?$", "fits the empty text"),
        ("(?=key)", "fits the empty text"),
        ("(?<=pin: )", "fits the empty text"),
    ],
)
def test_a_pattern_that_is_none_is_refused_at_once(pattern: str, told: str):
    with pytest.raises(ExpressionInvalid, match=told):
        redacted(patterns=[pattern])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["a", "b", "pin"]), inner, max_size=3),
    max_leaves=12,
)


@given(value=JSON, secret=st.text(st.sampled_from("QWXYZ"), min_size=6, max_size=12))
async def test_what_stands_under_a_named_field_stands_nowhere_else_either(value: Any, secret: str):
    given = {"pin": secret, "rest": value, "told": f"it is {secret}."}
    made = await through(redacted(fields=["pin"]), result(json.dumps(given), structuredContent=given))
    assert secret not in json.dumps(made)
    assert made["structuredContent"].keys() == given.keys()
    assert json.loads(made["content"][0]["text"]) == made["structuredContent"]
