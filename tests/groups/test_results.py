"""What actions give back, as a client gets it."""

from __future__ import annotations

from datetime import date
from typing import Any

import mcp.types
import orjson
import pytest

from weft.errors import ExecutionFailed, InputError, TimedOut, ToolFailed, UpstreamUnavailable
from weft.groups.execution.results import Failure, Outcome, failure, success, wire, wire_error

NUMBER: Any = 5
IMAGE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}


def text(result: dict[str, Any]) -> str:
    return result["content"][0]["text"]


def test_an_object_is_structured_as_it_is_with_its_json_beside_it():
    assert wire({"id": 1}) == {
        "content": [{"type": "text", "text": '{"id":1}'}],
        "structuredContent": {"id": 1},
        "isError": False,
    }


@pytest.mark.parametrize(("value", "told"), [("hi", "hi"), (3, "3"), ([1, 2], "[1,2]"), (None, "null"), (True, "true")])
def test_any_other_value_is_wrapped_and_marked(value: Any, told: str):
    result = wire(value)
    assert (text(result), result["structuredContent"]) == (told, {"result": value})
    assert result["_meta"] == {"weft/wrapped": True}


def test_a_success_may_say_it_in_words_and_carry_meta():
    result = wire(success({"id": 1}, text="Made user 1", meta={"x/took": 3}))
    assert (text(result), result["structuredContent"], result["_meta"]) == ("Made user 1", {"id": 1}, {"x/took": 3})
    assert not result["isError"]


def test_blocks_are_passed_on_behind_the_text():
    assert wire(success(content=[IMAGE]))["content"] == [IMAGE]
    assert "structuredContent" not in wire(success(content=[IMAGE]))
    assert wire(success(content=[IMAGE], text="A map"))["content"] == [{"type": "text", "text": "A map"}, IMAGE]
    both = wire(success({"id": 1}, content=[IMAGE]))
    assert (text(both), both["content"][1], both["structuredContent"]) == ('{"id":1}', IMAGE, {"id": 1})


def test_an_outcome_may_have_failed_and_still_have_a_value():
    result = wire(Outcome(value={"done": 2, "of": 3}, text="One of three failed", failed=True))
    assert (result["isError"], result["structuredContent"]) == (True, {"done": 2, "of": 3})


def test_an_outcome_cannot_be_changed():
    with pytest.raises(AttributeError):
        success(1).value = 2  # pyright: ignore[reportAttributeAccessIssue]


def test_a_value_that_is_not_json_is_an_error():
    with pytest.raises(ExecutionFailed, match="the result is not JSON") as caught:
        wire({"when": object()})
    assert caught.value.code == "NotJson"


def test_a_failure_can_be_raised():
    with pytest.raises(Failure, match="no such user") as caught:
        raise failure("no such user", hint="users.list gives ids", code="NoUser", data={"id": 7})
    assert isinstance(caught.value, ToolFailed)
    assert caught.value.to_json() | {"path": []} == {
        "code": "NoUser",
        "message": "no such user",
        "retryable": "no",
        "origin": "upstream",
        "path": [],
        "hint": "users.list gives ids",
        "data": {"id": 7},
    }


def test_a_failure_is_told_in_words_for_the_model_and_facts_for_machines():
    result = wire(failure("no such user", hint="users.list gives ids", data={"id": 7}))
    assert result["isError"]
    assert text(result) == "no such user. Hint: users.list gives ids"
    assert (result["_meta"]["weft/error"]["code"], result["_meta"]["weft/error"]["data"]) == ("ActionFailed", {"id": 7})
    assert "structuredContent" not in result


def test_an_error_says_which_step_failed_and_whether_to_try_again():
    error = UpstreamUnavailable("db", "refused", retry_after=4)
    error.within("platform")
    assert text(wire_error(error, tool="platform")) == (
        "Upstream 'db' is unavailable: refused. It may work when tried again in 4 s."
    )
    late = TimedOut("it took too long")
    late.within("load")
    assert (
        text(wire_error(late)) == "Failed at step 'load': it took too long. It is not known whether the work was done."
    )


def test_what_a_tool_said_itself_does_not_repeat_its_name():
    assert text(wire_error(ToolFailed("platform", "closed today"), tool="platform")) == "closed today"
    assert text(wire_error(ToolFailed("other", "closed today"), tool="platform")) == "Tool 'other' failed: closed today"


def test_a_list_of_problems_is_followed_by_its_hint_on_a_line_of_its_own():
    assert text(wire_error(InputError("two things:\n- a\n- b"))) == "two things:\n- a\n- b"
    error = ExecutionFailed("two things:\n- a\n- b", hint="takes c")
    assert text(wire_error(error)) == "two things:\n- a\n- b.\nHint: takes c"


def test_an_exception_that_weft_does_not_know_is_told_without_traceback_and_secrets():
    result = wire_error(ValueError("password=hunter22 is wrong"))
    assert text(result) == "ValueError: password=[redacted] is wrong"
    assert "Traceback" not in str(result)


@pytest.mark.parametrize("given", [{"a": 1}, "hi", success({"a": 1}, text="t", content=[IMAGE]), failure("no")])
def test_the_sdk_takes_every_result(given: Any):
    result = mcp.types.CallToolResult.model_validate(wire(given))
    assert result.is_error == isinstance(given, Failure)


def test_dates_are_json_already():
    assert wire({"on": date(2026, 1, 31)})["content"][0]["text"] == '{"on":"2026-01-31"}'


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (lambda: success(content="hi"), r"w\.success: content is a list of blocks, .* not 'hi'"),
        (lambda: success(content=["hi"]), "content has 'hi', which is no block: its type is one of text, image"),
        (lambda: success(content=[{"x": 1}]), "which is no block"),
        (lambda: success(content=[{"type": "text"}]), "a block of the type text whose text is None"),
        (lambda: success(1, text=NUMBER), r"w\.success: text is a text, not 5"),
        (lambda: success(1, meta={"x": 2**70}), r"w\.success: meta is JSON, not .*64-bit"),
        (lambda: success(1, meta=NUMBER), r"w\.success: meta is an object, not 5"),
        (lambda: failure("no", data=object()), r"w\.failure: data is JSON, not <object"),
        (lambda: failure(NUMBER), r"w\.failure: the message is a text, not 5"),
        (lambda: failure("no", hint=NUMBER), r"w\.failure: hint is a text, not 5"),
    ],
)
def test_what_could_not_be_sent_is_told_to_who_makes_it(made: Any, told: str):
    with pytest.raises(TypeError, match=told):
        made()


def test_half_characters_are_replaced_wherever_they_stand():
    results = [
        wire(success({"id": 1}, text="a\ud800", meta={"x": "a\ud800"}, content=[{"type": "text", "text": "a\ud800"}])),
        wire(failure("a\ud800", hint="a\ud800", data={"file": "a\ud800"})),
        wire_error(ValueError("file \udcff.txt")),
        wire_error(ExecutionFailed("a\ud800", code="Mine")),
    ]
    for result in results:
        assert orjson.loads(orjson.dumps(result)) == result
        assert "?" in text(result)


@pytest.mark.parametrize(
    "given",
    [Outcome(content=["hi"]), Outcome(value=1, text=5), Outcome(value=1, meta={"x": object()})],  # pyright: ignore[reportArgumentType] (who makes them without `success`)
)
def test_an_outcome_that_nobody_checked_is_an_error_and_no_invalid_result(given: Outcome):
    with pytest.raises(ExecutionFailed, match="the result cannot be sent") as caught:
        wire(given)
    assert caught.value.code == "NotJson"


def test_facts_that_are_not_json_are_told_by_their_kind():
    error = ExecutionFailed("no", code="Mine")
    error.add(what=object(), size=2**70)
    told = wire_error(error)["_meta"]["weft/error"]
    assert told["what"].startswith("<object")
    assert told["size"] == str(2**70)


def test_what_middleware_made_of_a_value_is_json_in_the_result():
    assert wire({"at": date(2026, 1, 31)})["structuredContent"] == {"at": "2026-01-31"}
