"""`weft call`: arguments in, value out, against a server on the SDK."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import mcp_types as t
import pytest
from mcp.server import Server, ServerRequestContext

from tests.upstreams.listening import listening

from .conftest import Run, process
from .test_trace import ID, admin_app

CHILD = Path(__file__).resolve().parent.parent / "upstreams" / "children" / "mcp_server.py"
SCHEMAS: dict[str, dict[str, Any]] = {
    "echo": {"properties": {"text": {"type": "string"}, "count": {"type": "integer"}}, "required": ["text"]},
    "warned": {},
    "refuse": {},
    "misfit": {},
    "undone": {},
    "two": {"properties": {"a": {}, "b": {}}},
}
UNDONE: dict[str, Any] = {
    "code": "UpstreamUnavailable", "message": "the till is shut", "retryable": "yes", "origin": "store",
    "path": ["pay"], "retryAfterMs": 5000, "hint": "come back", "deadLetterError": "no dlq", "self": "odd",
}  # fmt: skip


async def list_tools(_: object, __: object) -> t.ListToolsResult:
    tools = [t.Tool(name=name, input_schema={"type": "object", **schema}) for name, schema in SCHEMAS.items()]
    return t.ListToolsResult(tools=tools, ttl_ms=0, cache_scope="private")


async def call_tool(_: ServerRequestContext[Any, Any], params: t.CallToolRequestParams) -> t.CallToolResult:
    given = params.arguments or {}
    match params.name:
        case "refuse":
            return t.CallToolResult(content=[t.TextContent(type="text", text="not today")], is_error=True)
        case "misfit":
            meta = {"weft/error": {"code": "InvalidArguments"}}
            return t.CallToolResult(content=[t.TextContent(type="text", text="no query")], is_error=True, _meta=meta)
        case "undone":
            meta = {"weft/error": UNDONE, "weft/traceId": ID, "weft/warnings": ["the news were late"]}
            text = "Failed at step 'pay': the till is shut. Hint: come back. It may work when tried again in 5 s."
            return t.CallToolResult(content=[t.TextContent(type="text", text=text)], is_error=True, _meta=meta)
        case "warned":
            meta = {"weft/warnings": ["one source was late"], "weft/traceId": "a" * 32, "weft/wrapped": True}
            return t.CallToolResult(content=[], structured_content={"result": [1, 2]}, _meta=meta)
        case _:
            return t.CallToolResult(content=[], structured_content=given)


@pytest.fixture(scope="module")
def url() -> Generator[str]:
    server: Any = Server("oracle", on_list_tools=list_tools, on_call_tool=call_tool)
    with listening(server.streamable_http_app()) as port:
        yield f"http://127.0.0.1:{port}/mcp"


@pytest.fixture(scope="module")
def admin() -> Generator[str]:
    with listening(admin_app) as port:
        yield f"http://127.0.0.1:{port}"


def test_the_value_is_printed_as_json_on_one_line(run: Run, url: str):
    done = run("call", "echo", "--url", url, "--input", '{"text": "hé", "count": 2}')
    assert (done.exit_code, done.stdout, done.stderr) == (0, '{"text":"hé","count":2}\n', "")


@pytest.mark.parametrize("typed", [["text=12", "count=3"], ["--input", "text=12", "--input", "count=3"]])
def test_what_is_typed_becomes_what_the_schema_wants(typed: list[str], run: Run, url: str):
    done = run("call", "echo", *typed, "--url", url)
    assert json.loads(done.stdout) == {"text": "12", "count": 3}


def test_arguments_come_from_a_file_or_a_pipe(run: Run, url: str, folder: Path):
    (folder / "given.json").write_text('{"text": "from a file"}')
    assert json.loads(run("call", "echo", "--url", url, "--input", "@given.json").stdout) == {"text": "from a file"}
    piped = run("call", "echo", "--url", url, "--input", "-", input='{"text": "piped"}')
    assert json.loads(piped.stdout) == {"text": "piped"}


def test_a_value_that_is_no_object_goes_to_the_only_required_argument(run: Run, url: str):
    assert json.loads(run("call", "echo", "--url", url, "--input", '"bees"').stdout) == {"text": "bees"}
    wrong = run("call", "two", "--url", url, "--input", '"bees"')
    assert wrong.exit_code == 2
    assert "it takes a, b" in wrong.stderr


def test_warnings_go_to_stderr_and_a_wrapped_value_is_unwrapped(run: Run, url: str):
    done = run("call", "warned", "--url", url)
    assert (done.stdout, done.stderr) == ("[1,2]\n", "warning: one source was late\n")
    told = json.loads(run("call", "warned", "--url", url, "--json").stdout)
    assert told == {"value": [1, 2], "warnings": ["one source was late"], "traceId": "a" * 32}


def test_a_tool_that_says_no_ends_with_1(run: Run, url: str):
    done = run("call", "refuse", "--url", url)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "Tool 'refuse' failed: not today" in done.stderr
    assert json.loads(run("call", "refuse", "--url", url, "--json").stdout)["error"]["code"] == "ToolFailed"


def test_a_failure_that_weft_tells_keeps_its_code(run: Run, url: str):
    done = run("call", "misfit", "--url", url)
    assert done.stderr == "error: Tool 'misfit' failed: no query [InvalidArguments]\n"


def test_a_failure_shows_its_trace_and_its_warnings_before_it_ends_with_1(run: Run, url: str, admin: str):
    done = run("call", "undone", "--url", url, "--trace", "--admin", admin)
    assert (done.exit_code, done.stdout) == (1, "")
    first, second, *rest = done.stderr.splitlines()
    assert first.split() == ["research", "composition", "12.50", "ms", "1", "->", "2"]
    assert second.startswith("└─ news  tool news_search")
    assert rest[0] == "warning: the news were late"
    assert rest[1].startswith("error: Tool 'undone' failed: Failed at step 'pay': the till is shut.")
    assert rest[1].endswith("[UpstreamUnavailable]")
    assert len(rest) == 2, "the sentence has the step and the hint already"


def test_json_has_all_that_weft_tells_of_a_failure_and_its_trace(run: Run, url: str):
    told = json.loads(run("call", "undone", "--url", url, "--json").stdout)
    assert told == {"error": UNDONE, "warnings": ["the news were late"], "traceId": ID}
    other = json.loads(run("call", "refuse", "--url", url, "--json").stdout)
    assert (other["error"]["origin"], other["warnings"], other["traceId"]) == ("upstream", [], None)


def test_a_mistyped_tool_is_told_the_nearest_and_ends_with_2(run: Run, url: str):
    done = run("call", "ecko", "--url", url)
    assert done.exit_code == 2
    assert "Tool not found: ecko" in done.stderr
    assert "did you mean 'echo'?" in done.stderr


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (["--input", "bees"], "a text is written with quotes"),
        (["--input", "{}", "text=1"], "given twice"),
        (["--timeout", "soon"], "--timeout"),
        (["--stdio"], "--stdio needs a command"),
        (["python", "server.py"], "needs --stdio"),
        (["--header", "nonsense"], "'NAME: VALUE'"),
    ],
)
def test_wrong_input_ends_with_2_and_says_what_to_write(typed: list[str], told: str, run: Run):
    done = run("call", "echo", *typed)
    assert done.exit_code == 2
    assert told in done.stderr


def test_a_server_that_is_not_there_ends_with_1(run: Run):
    done = run("call", "echo", "--url", "http://127.0.0.1:9/mcp")
    assert done.exit_code == 1
    assert "UpstreamUnavailable" in done.stderr


def test_a_trace_that_cannot_be_had_is_a_warning(run: Run, url: str):
    done = run("call", "warned", "--url", url, "--trace", "--admin", "http://127.0.0.1:9")
    assert (done.exit_code, done.stdout) == (0, "[1,2]\n")
    assert "there is no trace" in done.stderr
    assert "told no trace id" in run("call", "echo", "text=1", "--url", url, "--trace").stderr


def test_a_server_is_started_for_the_call_with_stdio(tmp_path: Path):
    done = process("call", "add", "a=1", "b=41", "--stdio", "--", sys.executable, str(CHILD), cwd=tmp_path)
    assert (done.returncode, done.stdout.strip()) == (0, "42") or done.stdout.strip() == '"42"', done.stderr
