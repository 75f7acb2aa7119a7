"""The client behind which weft stands when the official suite looks at it as a client.

    python -m tests.conformance.client URL        # the suite runs this, with the scenario's name in the environment

Starts `weft serve` in front of the scenario's server, connects the SDK's client of the same era to weft, and uses
everything that it finds there. Whatever the scenario's server sees came from weft.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import mcp_types as t
from mcp import Client
from mcp.shared.exceptions import MCPError

from scripts.programs import gateway

SAMPLES: dict[str, Any] = {"string": "text", "number": 1, "integer": 1, "boolean": True, "object": {}, "array": []}


def sample(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments that a schema may accept."""
    properties: Mapping[str, Any] = schema.get("properties") or {}
    return {name: SAMPLES.get(str(one.get("type")), "text") for name, one in properties.items()}


async def on_elicit(context: Any, params: t.ElicitRequestParams) -> t.ElicitResult:
    """Accept, with what the form proposes."""
    if not isinstance(params, t.ElicitRequestFormParams):
        return t.ElicitResult(action="decline")
    properties: dict[str, Any] = params.requested_schema.get("properties") or {}
    content = {name: one.get("default", SAMPLES.get(str(one.get("type")))) for name, one in properties.items()}
    return t.ElicitResult(action="accept", content=content)


def calls_for(tools: list[t.Tool]) -> list[tuple[str, dict[str, Any]]]:
    """Return the calls that the scenario asks for, or one of each tool."""
    context: dict[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    if "toolCalls" in context:
        return [(call["name"], call["arguments"]) for call in context["toolCalls"]]
    if os.environ["MCP_CONFORMANCE_SCENARIO"] == "json-schema-2020-12-preservation":
        [focal] = [tool for tool in tools if tool.name == "json_schema_2020_12_tool"]
        return [(tool.name, {"schema": focal.input_schema}) for tool in tools if tool is not focal]
    return [(tool.name, sample(tool.input_schema)) for tool in tools]


async def use(client: Client) -> None:
    """Use everything that there is."""
    tools = (await client.list_tools()).tools
    calls = [client.call_tool(name, arguments) for name, arguments in calls_for(tools)]
    for outcome in await asyncio.gather(*calls, return_exceptions=True):
        told = repr(outcome) if isinstance(outcome, BaseException) else outcome.model_dump_json(exclude_none=True)
        sys.stdout.write(f"{told}\n")  # The suite keeps it beside its verdict.
    with suppress(MCPError):
        for prompt in (await client.list_prompts()).prompts:
            await client.get_prompt(prompt.name, {one.name: "text" for one in prompt.arguments or []})
    with suppress(MCPError):
        for resource in (await client.list_resources()).resources:
            await client.read_resource(str(resource.uri))


async def main(url: str) -> None:
    """Meet the scenario's server through weft."""
    modern = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "").startswith("2026")
    with gateway({"scenario": {"url": url}}, folder=Path(tempfile.mkdtemp())) as door:
        mode = "2026-07-28" if modern else "legacy"
        async with Client(door, mode=mode, elicitation_callback=on_elicit, cache=None) as client:
            await use(client)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
