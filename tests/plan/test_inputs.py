"""What a caller gives, as a composition takes it."""

from __future__ import annotations

from typing import Any

import pytest

import weft.patterns
from weft.errors import InputError
from weft.ir.document import ToolDef
from weft.plan.inputs import accept, misfits

assert weft.patterns.CATALOGUE


def tool(**more: Any) -> ToolDef:
    return ToolDef.model_validate({"name": "it", "spec": {"tool": {"name": "x"}}, **more})


STRING = tool(inputType="string")
LIST = tool(inputSchema={"type": "array", "items": {"type": "number"}})
OBJECT = tool(inputSchema={"type": "object", "properties": {"a": {"type": "number"}}})
EITHER = tool(inputSchema={"type": ["object", "string"]})
NAMED = tool(inputType="Report")


@pytest.mark.parametrize(
    ("taker", "given", "taken"),
    [
        (STRING, {"topic": "x"}, "x"),
        (STRING, "x", "x"),
        (LIST, {"numbers": [1]}, [1]),
        (OBJECT, {"a": 1}, {"a": 1}),
        (EITHER, {"a": 1}, {"a": 1}),
        (NAMED, {"a": 1}, {"a": 1}),
        (tool(), {"a": 1}, {"a": 1}),
        (tool(spec=None, source={"server": "s", "tool": "t"}, inputType="string"), {"a": "x"}, {"a": "x"}),
    ],
)
def test_a_composition_whose_input_is_no_object_takes_the_sole_property(taker: ToolDef, given: Any, taken: Any):
    assert accept(taker, given) == taken


@pytest.mark.parametrize("given", [{}, {"a": 1, "b": 2}])
def test_without_a_sole_property_the_caller_is_told_what_is_taken(given: Any):
    with pytest.raises(InputError, match=r"'it' takes string") as caught:
        accept(STRING, given)
    assert caught.value.hint is not None


def test_a_value_of_another_type_is_told_and_not_refused():
    assert misfits(STRING, "x") == []
    assert len(misfits(STRING, 5)) == 1
    assert misfits(OBJECT, {"a": "x"})[0].startswith("/a: ")
    assert misfits(tool(), object()) == []
