"""The six composition tools, as clients of both eras meet them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

import weft as w
from tests.app.served import House, house, message_of, registry
from tests.gateway.served import server
from weft.errors import ExecutionFailed
from weft.gateway.results import ERROR

pytestmark = pytest.mark.req("WFL-28")

MODES = ["legacy", "2026-07-28"]
NAMES = [
    "composition_execute",
    "composition_validate",
    "composition_list_templates",
    "composition_get_template",
    "composition_create_template",
    "composition_delete_template",
]
GREETING: dict[str, Any] = {
    "name": "greeting",
    "steps": [
        {"id": "first", "tool": "shout", "parameters": {"text": "{{input.name}}"}},
        {"id": "second", "tool": "shout", "parameters": {"text": "hello {{first.said}}"}},
    ],
    "output": "{{second.said}}",
}
TEMPLATE: dict[str, Any] = {
    "id": "greeting-v1",
    "name": "Greeting",
    "composition": GREETING,
    "metadata": {"category": "automation", "tags": ["kind"]},
}


@w.python_tool
async def shout(text: str) -> dict[str, str]:
    """Say it loudly."""
    if text == "nothing":
        raise ExecutionFailed("there is nothing to shout", code="Silent")
    return {"said": text.upper()}


@contextlib.asynccontextmanager
async def gateway(folder: Path, *tools: dict[str, Any], **config: Any) -> AsyncGenerator[House]:
    """Serve the composition tools, in front of a server that shouts."""
    async with server(shout) as url:
        settings = {"servers": {"voice": {"url": url}}, "compositions": {"tools": True}, **config}
        async with house(folder, settings, registry(*tools)) as one:
            await one.has("shout")
            yield one


@contextlib.asynccontextmanager
async def client(folder: Path, mode: Any, **given: Any) -> AsyncGenerator[Client]:
    """Connect to a gateway that has the tools."""
    async with gateway(folder) as one, Client(f"http://127.0.0.1:{one.port}/mcp", mode=mode, **given) as made:
        yield made


def text_of(answer: types.CallToolResult) -> str:
    """Return what a model reads first."""
    block = answer.content[0]
    assert isinstance(block, types.TextContent)
    return block.text


async def given(client: Client, tool: str, /, **arguments: Any) -> Any:
    """Return what a tool gives; it must have gone well."""
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, answer
    assert json.loads(text_of(answer)) == answer.structured_content
    return answer.structured_content


@pytest.mark.parametrize("mode", MODES)
async def test_they_are_listed_with_schemas_and_say_what_they_do(tmp_path: Path, mode: str):
    async with client(tmp_path, mode) as one:
        tools = {tool.name: tool for tool in (await one.list_tools()).tools}
    assert set(tools) == {*NAMES, "shout"}
    for name in NAMES:
        assert tools[name].output_schema is not None
        assert tools[name].input_schema["additionalProperties"] is False
    reading = {name for name in NAMES if (hints := tools[name].annotations) and hints.read_only_hint}
    assert reading == {"composition_validate", "composition_list_templates", "composition_get_template"}
    breaking = {name for name in NAMES if (hints := tools[name].annotations) and hints.destructive_hint}
    assert breaking == {"composition_execute", "composition_delete_template"}
    assert "depends_on" in (tools["composition_execute"].description or "")


async def test_without_the_setting_there_are_none(tmp_path: Path):
    async with gateway(tmp_path, compositions={"tools": False}) as one:
        assert await one.tools() == ["shout"]


@pytest.mark.parametrize("mode", MODES)
async def test_a_composition_runs_and_tells_of_each_step(tmp_path: Path, mode: str):
    heard: list[tuple[float, float | None, str]] = []

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, (message or "").partition(" (")[0]))

    async with client(tmp_path, mode) as one:
        answer = await one.call_tool(
            "composition_execute", {"composition": GREETING, "input": {"name": "bee"}}, progress_callback=progressed
        )
    told = answer.structured_content
    assert told is not None
    assert (told["success"], told["output"], told["steps_executed"]) == (True, "HELLO BEE", 2)
    assert heard == [(1, 2, "first: done"), (2, 2, "second: done")]


@pytest.mark.parametrize("mode", MODES)
async def test_a_template_is_made_found_run_and_deleted(tmp_path: Path, mode: str):
    async with client(tmp_path, mode) as one:
        made = await given(one, "composition_create_template", **TEMPLATE)
        assert made["validation"]["required_tools"] == ["shout"]
        listed = await given(one, "composition_list_templates", tag="kind")
        assert [card["id"] for card in listed["templates"]] == ["greeting-v1"]
        found = await given(one, "composition_get_template", template_id="greeting-v1")
        assert (found["composition"], found["missing_tools"]) == (GREETING, [])
        plan = await given(
            one, "composition_execute", template_id="greeting-v1", input={"name": "x"}, options={"dry_run": True}
        )
        assert plan["plan"]["levels"] == [["first"], ["second"]]
        ran = await given(one, "composition_execute", template_id="greeting-v1", input={"name": "bee"})
        assert ran["output"] == "HELLO BEE"
        assert await given(one, "composition_delete_template", template_id="greeting-v1") == {"deleted": "greeting-v1"}
        gone = await one.call_tool("composition_get_template", {"template_id": "greeting-v1"})
        assert gone.is_error
        assert "greeting-v1" in text_of(gone)


async def test_a_document_that_is_wrong_comes_back_with_the_place_and_what_was_meant(tmp_path: Path):
    wrong = {"name": "greeting", "steps": [{"id": "first", "tool": "shoutt", "parameters": {"text": "x"}}]}
    async with client(tmp_path, "2026-07-28") as one:
        checked = await given(one, "composition_validate", composition=wrong)
        answer = await one.call_tool("composition_execute", {"composition": wrong})
    (error,) = checked["errors"]
    place = "/composition/steps/0/tool"
    assert (error["code"], error["pointer"], error["suggestion"]) == ("UnknownName", place, "shout")
    assert answer.is_error
    assert text_of(answer).startswith(f"{place}: error: Tool not found: shoutt")
    assert "did you mean 'shout'?" in text_of(answer)
    assert answer.meta is not None
    assert answer.meta[ERROR]["problems"] == checked["errors"]


async def test_a_run_that_fails_is_an_error_with_all_that_was_done(tmp_path: Path):
    failing = {**GREETING, "steps": [*GREETING["steps"], {"id": "third", "tool": "shout",
               "parameters": {"text": "nothing"}, "depends_on": ["second"]}]}  # fmt: skip
    async with client(tmp_path, "2026-07-28") as one:
        answer = await one.call_tool("composition_execute", {"composition": failing, "input": {"name": "bee"}})
    assert answer.is_error
    assert "step 'third'" in text_of(answer)
    assert answer.structured_content is not None
    assert answer.structured_content["success"] is False
    assert [step["status"] for step in answer.structured_content["steps"]] == ["succeeded", "succeeded", "failed"]


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("composition_list_templates", {"category": "cooking"}, "/category"),
        ("composition_get_template", {}, "template_id"),
        ("composition_get_template", {"template_id": "gather-contxt-v1"}, "did you mean 'gather-context-v1'?"),
        ("composition_delete_template", {"template_id": "gather-context-v1"}, "comes with weft"),
        ("composition_create_template", {"id": "x"}, "missing key 'composition'"),
        ("composition_create_template", {**TEMPLATE, "composition": {"steps": "none"}}, "/composition/steps"),
        ("composition_create_template", {**TEMPLATE, "id": "gather-context-v1"}, "give yours another id"),
        ("composition_execute", {}, "template_id or composition"),
        ("composition_execute", {"composition": GREETING, "options": {"dryrun": True}}, "did you mean 'dry_run'?"),
        ("composition_execute", {"composition": GREETING, "options": {"timeout": "soon"}}, "/options/timeout"),
    ],
)
async def test_what_is_asked_wrongly_is_told_so_that_it_can_be_mended(
    tmp_path: Path, name: str, arguments: dict[str, Any], told: str
):
    async with client(tmp_path, "2026-07-28") as one:
        answer = await one.call_tool(name, arguments)
    assert answer.is_error
    assert told in text_of(answer)


@pytest.mark.parametrize("mode", MODES)
async def test_a_step_that_asks_reaches_the_person_behind_the_client(tmp_path: Path, mode: str):
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    asking = {
        "name": "asking",
        "steps": [
            {"id": "who", "elicit": {"message": "Who are you?", "schema": schema}},
            {"id": "greet", "tool": "shout", "parameters": {"text": "{{who.name}}"}},
        ],
        "output": "{{greet.said}}",
    }

    async def anna(context: Any, params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"name": "Anna"})

    async with client(tmp_path, mode, elicitation_callback=anna) as one:
        assert (await given(one, "composition_execute", composition=asking))["output"] == "ANNA"


async def test_policy_and_quotas_hold_for_their_names(tmp_path: Path):
    policy = [{"name": "no-runs", "effect": "deny", "when": "true", "tools": ["composition_execute"]}]
    quotas = [{"name": "few", "calls": 1, "per": "1h", "tools": ["composition_list_templates"]}]
    async with (
        gateway(tmp_path, policy=policy, quotas=quotas) as one,
        Client(f"http://127.0.0.1:{one.port}/mcp", mode="2026-07-28") as mcp,
    ):
        assert "composition_execute" not in await one.tools()
        with pytest.raises(MCPError, match="Unknown tool: composition_execute"):
            await mcp.call_tool("composition_execute", {"composition": GREETING})
        await given(mcp, "composition_list_templates")
        with pytest.raises(MCPError):
            await mcp.call_tool("composition_list_templates", {})


async def test_a_composition_cannot_call_them_and_the_registry_keeps_its_names(tmp_path: Path):
    spec = {"pipeline": {"steps": [{"id": "s", "operation": {"tool": {"name": "shout"}}}]}}
    mine = {"name": "composition_validate", "description": "Mine.", "spec": spec}
    async with gateway(tmp_path, mine) as one:
        names = await one.tools()
        assert {"composition_validate", "weft_composition_validate"} <= set(names)
        steps = [{"id": "again", "tool": "composition_list_templates"}]
        told = await one.call("weft_composition_validate", {"composition": {"name": "deep", "steps": steps}})
        assert told["structuredContent"]["valid"] is False
        assert told["structuredContent"]["errors"][0]["code"] == "NotAStep"


async def test_calls_are_audited_under_the_name_of_the_tool(tmp_path: Path):
    async with gateway(tmp_path, audit={"file": "audit.log"}) as one:
        await one.call("composition_execute", {"composition": GREETING, "input": {"name": "bee"}})
    lines = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
    called = [(one["kind"], one["tool"]) for one in lines if one["kind"] in ("call", "step")]
    assert called == [("step", "shout"), ("step", "shout"), ("call", "composition_execute")]


async def test_a_registered_agent_is_held_to_what_it_depends_on(tmp_path: Path):
    depends = {"depends": [{"type": "tool", "name": "loud", "version": "1.0.0"}]}
    card = {"capabilities": {"extensions": [{"uri": "urn:agentgateway:sbom", "params": depends}]}}
    registered = {
        "schemaVersion": "2.0",
        "tools": [{"name": "loud", "version": "1.0.0", "description": "Loud.", "spec": {"tool": {"name": "shout"}}}],
        "agents": [{"name": "crier", "version": "1.0.0", "description": "It cries.", **card}],
    }
    strict = {"registry": {"validation": {"runtime": {"undeclaredDependency": "deny"}}}}
    async with server(shout) as url:
        config = {"servers": {"voice": {"url": url}}, "compositions": {"tools": True}, **strict}
        async with house(tmp_path, config, registered) as one:
            await one.has("composition_execute")
            crier = {"X-Agent-Name": "crier", "X-Agent-Version": "1.0.0"}
            params: dict[str, Any] = {"name": "composition_list_templates", "arguments": {}}
            answer = await one.post("tools/call", params, **crier)
            assert "Unknown tool: composition_list_templates" in message_of(answer)["error"]["message"]
