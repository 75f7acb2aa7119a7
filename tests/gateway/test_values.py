"""Values of calls: what does not fit is refused or told, by choice, with its place and without what is secret."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from weft.errors import ExecutionFailed
from weft.gateway.results import WARNINGS
from weft.gateway.values import Checking, Values, secrets_of, warned, without
from weft.run.trace import Span, Trace

CANARY = "canary-9f8e7d6c"
INPUT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "q": {"type": "string", "pattern": "^[a-z]+$"},
        "limit": {"type": "integer", "maximum": 10},
        "password": {"type": "string", "pattern": "^[0-9]+$"},
        "pin": {"type": "integer", "writeOnly": True},
        "login": {"type": "object", "properties": {"code": {"enum": ["a", "b"], "x-secret": True}}},
        "both": {"anyOf": [{"type": "integer"}, {"type": "object", "required": ["x"]}]},
    },
    "required": ["q"],
}
OUTPUT: dict[str, Any] = {
    "type": "object",
    "properties": {"count": {"type": "integer"}, "name": {"type": "string", "maxLength": 3}},
    "required": ["count"],
}


def values(given: Checking = "error", told: Checking = "error") -> Values:
    made = Values.of(INPUT, OUTPUT, given, told)
    assert made is not None
    return made


def result(structured: Any, **more: Any) -> dict[str, Any]:
    return {"content": [], "structuredContent": structured, **more}


@pytest.mark.req("REG-29", "REG-30", "REG-31")
@pytest.mark.parametrize("policy", ["off", "ignore"])
def test_nothing_is_checked_when_nothing_is_wanted_or_said(policy: Checking):
    assert Values.of(INPUT, OUTPUT, policy, policy) is None
    assert Values.of({"type": "object"}, None, "error", "error") is None
    assert Values.of({}, {}, "error", "error") is None


@pytest.mark.req("REG-30")
def test_arguments_that_do_not_fit_are_told_with_their_places():
    told = values().arguments({"q": "UP", "limit": 11})
    assert sorted(told) == ["/limit: 11 is greater than the maximum of 10", '/q: "UP" does not match "^[a-z]+$"']
    assert values().arguments({}) == ['the arguments: "q" is a required property']
    assert values().arguments({"q": "fine", "more": 1}) == []


@pytest.mark.req("REG-30")
def test_arguments_that_must_fit_are_refused():
    with pytest.raises(ExecutionFailed, match=r"the arguments do not fit: /limit: .*maximum of 10") as caught:
        values().accept("search", {"q": "a", "limit": 11})
    assert caught.value.code == "InvalidArguments"
    assert values().accept("search", {"q": "a"}) == []


def test_at_most_twenty_problems_are_told():
    schema = {"properties": {f"p{n}": {"type": "integer"} for n in range(50)}}
    made = Values.of(schema, None, "error", "off")
    assert made is not None
    assert len(made.arguments({f"p{n}": "x" for n in range(50)})) == 20


@pytest.mark.req("REG-30")
def test_arguments_that_should_fit_go_on_with_a_warning_and_a_line_without_values(caplog: pytest.LogCaptureFixture):
    made = values("warn")
    (warning,) = made.accept("search", {"q": CANARY})
    assert CANARY in warning, "the caller knows what it sent"
    delivered = made.deliver("search", result({"count": 1}, _meta={"a": 1}), [warning])
    assert delivered["_meta"] == {"a": 1, WARNINGS: [warning]}
    assert made.accept("search", {"q": CANARY}), "the caller is told each time, the log is not"
    (line,) = caplog.records
    assert (line.name, line.levelno) == ("weft.values", logging.WARNING)
    assert "/q (pattern)" in str(line.__dict__)
    assert CANARY not in str(line.__dict__)


def test_the_next_line_says_how_often_nothing_was_said(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    now = 1000.0
    monkeypatch.setattr("weft.gateway.values.time.monotonic", lambda: now)
    made = values("warn")
    for _ in range(3):
        made.accept("search", {})
    now += 61
    made.accept("search", {})
    assert [record.__dict__["weft_fields"].get("unsaid") for record in caplog.records] == [None, 2]


@pytest.mark.req("REG-31")
def test_results_that_do_not_fit_are_refused_without_what_stands_in_them():
    with pytest.raises(ExecutionFailed) as caught:
        values().deliver("search", result({"count": CANARY, "name": CANARY}))
    assert caught.value.code == "InvalidOutput"
    assert '/count: is not of type "integer"' in caught.value.message
    assert "/name: is longer than 3 characters" in caught.value.message
    assert CANARY not in caught.value.message
    with pytest.raises(ExecutionFailed, match="no structuredContent"):
        values().deliver("search", {"content": []})
    fine = result({"count": 1})
    assert values().deliver("search", fine) is fine


@pytest.mark.req("REG-31")
def test_results_that_should_fit_come_with_a_warning():
    delivered = values(told="warn").deliver("search", result({}, _meta={WARNINGS: ["before"]}), ["of arguments"])
    assert delivered["_meta"][WARNINGS] == [
        "before",
        "of arguments",
        'the result is not what the outputSchema says: the result: "count" is a required property',
    ]


@pytest.mark.parametrize("said", [{"isError": True}, {"resultType": "input_required"}])
def test_a_tool_that_said_no_or_asks_has_no_result_to_check(said: dict[str, Any]):
    answer: dict[str, Any] = {"content": [], **said}
    assert values().deliver("search", answer) is answer


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"password": CANARY}, '/password: does not match "^[0-9]+$"'),
        ({"password": f'{CANARY} does not match "{CANARY}'}, '/password: does not match "^[0-9]+$"'),
        ({"password": "x" * 300 + CANARY}, '/password: does not match "^[0-9]+$"'),
        ({"pin": CANARY}, '/pin: is not of type "integer"'),
        ({"login": {"code": CANARY}}, '/login/code: is not one of "a" or "b"'),
        ({"login": [CANARY]}, '/login: is not of type "object"'),
        ({"both": {"password": CANARY}}, "/both: is not valid under any of the schemas listed in the 'anyOf' keyword"),
    ],
)
def test_a_secret_that_does_not_fit_is_not_shown(arguments: dict[str, Any], told: str):
    assert values().arguments({"q": "a", **arguments}) == [told]


def test_a_schema_that_is_none_checks_nothing_and_is_told(caplog: pytest.LogCaptureFixture):
    made = Values.of({"type": "strng"}, None, "error", "off")
    assert made is not None
    assert made.accept("search", {}) == made.accept("search", {}) == []
    assert [record.message for record in caplog.records if "cannot be checked" in record.message] != []
    assert len(caplog.records) == 1


def test_a_value_that_is_too_deep_to_be_checked_does_not_fit():
    tree: dict[str, Any] = {"anyOf": [{"type": "string"}, *({"items": {"$ref": "#"}, "minItems": n} for n in range(9))]}
    made = Values.of(tree, None, "warn", "off")
    assert made is not None
    value: Any = 1
    for _ in range(60):
        value = [value]
    (told,) = made.accept("deep", value)
    assert "cannot be checked" in told


def test_warnings_are_added_only_when_there_are_some():
    answer = result({}, _meta="odd")
    assert warned(answer, []) is answer
    assert warned(answer, ["one"])["_meta"] == {WARNINGS: ["one"]}


def test_what_a_tool_quotes_of_its_secret_arguments_is_not_in_the_spans():
    secrets = secrets_of({"q": "text", "password": CANARY, "pin": 123456}, INPUT)
    inner = Span("login", "tool", "login", 0, 1, "failed", error=f"no {CANARY}, nor 123456, for text")
    trace = Trace(Span("root", "tool", "root", 0, 1, "ok", children=[inner]))
    spans = without(lambda: trace, secrets)
    assert spans is not None
    (child,) = spans().to_json()["children"]
    assert child["error"] == "no [redacted], nor [redacted], for text"
    assert without(None, secrets) is None

    def made() -> Trace:
        return trace

    assert without(made, ()) is made
