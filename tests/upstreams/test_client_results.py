"""The value of a tool's result."""

from __future__ import annotations

from typing import Any

import pytest

from weft.errors import ToolFailed
from weft.upstreams.results import value_of

IMAGE = {"type": "image", "data": "AA==", "mimeType": "image/png"}


def text(*texts: str) -> list[Any]:
    return [{"type": "text", "text": one} for one in texts]


@pytest.mark.parametrize(
    ("result", "value"),
    [
        ({"content": text("mirror"), "structuredContent": {"a": 1}}, {"a": 1}),
        ({"content": [], "structuredContent": [], "resultType": "complete"}, []),
        ({"content": text("null"), "structuredContent": None, "resultType": "complete"}, None),
        ({"content": text("said"), "structuredContent": None}, "said"),
        ({"structuredContent": {"result": 3}, "_meta": {"weft/wrapped": True}}, 3),
        ({"structuredContent": {"result": None}, "_meta": {"weft/wrapped": True}}, None),
        ({"structuredContent": {"result": 3}}, {"result": 3}),
        ({"structuredContent": {"result": 3}, "_meta": {"weft/wrapped": "yes"}}, {"result": 3}),
        ({"content": text(' {"a": [1]} ')}, {"a": [1]}),
        ({"content": text("[1, 2]")}, [1, 2]),
        ({"content": text("[1, 2")}, "[1, 2"),
        ({"content": text("12")}, "12"),
        ({"content": text("true")}, "true"),
        ({"content": text("")}, ""),
        ({"content": text("[1]", "[2]")}, text("[1]", "[2]")),
        ({"content": [IMAGE]}, [IMAGE]),
        ({"content": []}, []),
        ({}, []),
    ],
)
def test_a_result_has_the_value_that_its_form_says(result: dict[str, Any], value: Any):
    assert value_of(result, tool="t") == value


@pytest.mark.parametrize(
    ("result", "content"),
    [
        ({"content": text("no", "never")}, "no\nnever"),
        ({"content": [*text("no"), IMAGE]}, [*text("no"), IMAGE]),
        ({"content": [], "structuredContent": {"why": 1}}, {"why": 1}),
        ({}, "it did not say why"),
    ],
)
def test_an_error_of_the_tool_is_raised_with_what_it_said(result: dict[str, Any], content: Any):
    with pytest.raises(ToolFailed) as caught:
        value_of({**result, "isError": True}, tool="t")
    assert (caught.value.tool, caught.value.content) == ("t", content)


def test_a_tool_that_asks_for_input_has_no_value_yet():
    with pytest.raises(ToolFailed, match="asks for input"):
        value_of({"resultType": "input_required", "inputRequests": {}}, tool="t")
