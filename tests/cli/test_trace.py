"""`weft trace`: recent calls from an admin listener."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any

import pytest

from tests.upstreams.listening import listening

from .conftest import Run

ID = "a" * 32
SPANS: dict[str, Any] = {
    "step": "research", "kind": "composition", "startMs": 0, "durationMs": 12.5, "outcome": "ok", "inputSize": 1,
    "outputSize": 2,
    "children": [
        {"step": "news", "kind": "tool", "tool": "news_search", "startMs": 1, "durationMs": 2, "outcome": "failed",
         "error": "closed\x1b[2J"},
    ],
}  # fmt: skip
CALL = {"id": ID, "method": "tools/call", "tool": "research", "outcome": "ok", "ms": 12.5, "spans": SPANS}
RELAYED = {"id": "b" * 32, "method": "tools/call", "tool": "fetch", "server": "web", "outcome": "ok", "ms": 1.5}
ANSWERS: dict[str, Any] = {
    "/traces": {"traces": [RELAYED, CALL]},
    f"/traces/{ID}": CALL,
    f"/traces/{'b' * 32}": {"calls": [RELAYED]},
}


async def admin_app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    if scope["type"] != "http":
        return
    told = ANSWERS.get(scope["path"])
    body = json.dumps(told).encode() if told is not None else b"{}"
    await send({"type": "http.response.start", "status": 404 if told is None else 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture(scope="module")
def admin() -> Generator[str]:
    with listening(admin_app) as port:
        yield f"http://127.0.0.1:{port}"


def test_a_call_is_shown_as_a_tree_with_times_and_errors(run: Run, admin: str):
    first, second = run("trace", ID, "--admin", admin).stdout.splitlines()
    assert first.split() == ["research", "composition", "12.50", "ms", "1", "->", "2"]
    assert second.startswith("└─ news  tool news_search")
    assert "failed  closed" in second
    assert "\x1b" not in second


def test_the_last_call_needs_no_id_and_one_that_was_passed_through_is_a_line(run: Run, admin: str):
    done = run("trace", "--last", "--admin", admin)
    assert done.stdout == "tools/call fetch on web  1.5 ms  ok\n"


def test_json_is_what_the_gateway_told(run: Run, admin: str):
    assert json.loads(run("trace", ID, "--admin", admin, "--json").stdout) == [CALL]


def test_a_trace_that_is_not_kept_ends_with_2(run: Run, admin: str):
    done = run("trace", "c" * 32, "--admin", admin)
    assert done.exit_code == 2
    assert "Trace not found" in done.stderr


def test_a_gateway_that_is_not_there_ends_with_1(run: Run):
    done = run("trace", "--last", "--admin", "http://127.0.0.1:9")
    assert done.exit_code == 1
    assert "--admin names another" in done.stderr


@pytest.mark.parametrize("typed", [[], [ID, "--last"]])
def test_either_an_id_or_the_last(typed: list[str], run: Run):
    done = run("trace", *typed)
    assert done.exit_code == 2
    assert "give the ID of a trace, or --last" in done.stderr
