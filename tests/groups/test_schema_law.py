"""A call that is valid for an action passes the schema of the whole tool."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from mcp.types import Tool

from tests.groups.calls import Call, calls
from tests.strategies import unhurried
from tests.strategies import values as any_value
from weft.expr.schemas import compile_schema
from weft.groups.strategies.schema import input_schema
from weft.ir.groups import Detail


def schema_of(call: Call, detail: Detail) -> dict[str, Any]:
    return input_schema(call.actions, common=call.common, conflicts="union", detail=detail)


@pytest.mark.req("GRP-8")
@pytest.mark.parametrize("detail", ["full", "brief"])
@settings(unhurried, max_examples=200)
@given(call=calls())
def test_what_is_valid_for_an_action_passes_the_schema_of_the_tool(call: Call, detail: Detail) -> None:
    schema = schema_of(call, detail)
    assert compile_schema(schema).problems(call.arguments) == []
    assert Tool.model_validate({"name": "many", "inputSchema": schema}).input_schema == schema


@settings(unhurried, max_examples=200)
@given(call=calls(), value=any_value())
def test_a_brief_schema_takes_all_that_the_full_one_takes(call: Call, value: Any) -> None:
    full, brief = schema_of(call, "full"), schema_of(call, "brief")
    assert full["properties"].keys() == brief["properties"].keys()
    for name, field in full["properties"].items():
        if compile_schema({**field, "$defs": full.get("$defs", {})}).accepts(value):
            assert compile_schema(brief["properties"][name]).accepts(value)
