"""Grouped tools at the command line: what is shown of them, of their errors, and of what was cut."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from mcp.server import MCPServer

import weft as w
from tests.upstreams.listening import listening
from weft.cli.tools import about

from .conftest import Run

TOON = {
    "about: Counts. Slowly\nactions[1|]{action|does}:\n  up|Counts up": "Counts. Slowly",
    "actions[1|]{action|does}:\n  up|Counts up": "a grouped tool",
}


@pytest.fixture(scope="module")
def url() -> Generator[str]:
    server = MCPServer("counting")
    group = w.group("counting", description="Counts.", format="toon", response=w.ResponseRule(max_items=2))
    group.add("up", lambda: list(range(5)), description="Counts up.")
    group.add("to", _to, description="Counts to a number.")
    w.attach(server, group)
    with listening(server.streamable_http_app()) as port:
        yield f"http://127.0.0.1:{port}/mcp"


def _to(number: int, step: int = 1) -> list[int]:
    return list(range(0, number, step))


def test_a_grouped_tool_is_listed_with_what_it_is_for(run: Run, url: str):
    assert run("tools", "--url", url).stdout.split() == ["counting", "destroys", "Counts."]


@pytest.mark.parametrize(("description", "shown"), TOON.items())
def test_a_table_is_not_what_a_tool_is_for(description: str, shown: str):
    assert about({"name": "x", "description": description}) == shown


def test_what_was_cut_is_a_warning(run: Run, url: str):
    done = run("call", "counting", "action=up", "--url", url)
    assert done.stdout == "[0,1]\n"
    assert "warning: " in done.stderr
    assert "2 of 5" in done.stderr


def test_an_error_of_several_lines_is_shown_in_several(run: Run, url: str):
    done = run("call", "counting", "action=to", "number=x", "stp=2", "--url", url)
    assert done.exit_code == 1
    lines = done.stderr.splitlines()
    assert lines[0].startswith("error: ")
    assert any(line.startswith("    - 'stp' is no field of to") and "'step'" in line for line in lines)
    assert any(line.startswith("    - 'number' is \"x\"") for line in lines)
