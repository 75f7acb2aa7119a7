"""The names that `import weft as w` gives, and how they get there."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import weft

NAMES = [
    "Composition", "GroupedTool", "Json", "Op", "RegistryBuilder", "ResponseRule", "ToolCall", "ToolSet", "agent",
    "attach", "cache", "circuit_breaker", "claim_check", "coalesce", "compile", "composition", "concat", "constant",
    "construct", "contains", "dead_letter", "dedupe", "each", "enricher", "eq", "exponential", "failure", "filter",
    "fixed", "flatten", "from_input", "from_previous", "from_step", "group", "gt", "gte", "holds", "hours",
    "idempotent", "is_error", "is_not_null", "is_null", "keep_lists", "limit", "linear", "literal", "lt", "lte",
    "map_each", "merge", "middleware", "millis", "minutes", "named", "ne", "one_of", "path", "pipeline", "progress",
    "python_tool", "recipient_list", "retry", "router", "saga", "saga_step", "scatter_gather", "schema_map",
    "seconds", "some", "sort", "step", "success", "template", "throttle", "timeout", "tool", "when", "wire_tap",
    "workflow", "workflow_step",
]  # fmt: skip


def test_the_public_names_are_these():
    assert weft.__all__ == NAMES
    assert set(NAMES) <= set(dir(weft))


@pytest.mark.parametrize("name", NAMES)
def test_every_name_can_be_used(name: str):
    assert getattr(weft, name) is getattr(weft, name)


def test_a_name_that_there_is_not_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'weft' has no attribute 'pipelin'"):
        _ = weft.pipelin  # pyright: ignore[reportAttributeAccessIssue,reportUnknownMemberType,reportUnknownVariableType]


def test_type_checkers_and_python_find_the_same_names_in_the_same_places():
    tree = ast.parse(Path(weft.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imported = {
        alias.asname or alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert sorted(imported) == sorted(weft.__all__)
    assert imported == weft._HOME  # pyright: ignore[reportPrivateUsage]


def test_importing_weft_loads_nothing_heavy():
    code = "import sys, weft; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"pydantic", "pydantic_core", "orjson", "yaml", "click", "jsonschema_rs", "asyncio", "jsonpath_rfc9535"}
    assert heavy & set(done.stdout.split()) == set()
