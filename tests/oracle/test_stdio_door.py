"""A client that starts the gateway itself, and speaks to it over stdio, gets what a client over HTTP gets."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import mcp_types as t
import pytest
import yaml
from mcp import Client, StdioServerParameters

from tests.oracle.conftest import Era, command, connected
from tests.oracle.test_changes import following, listed, text
from tests.waiting import until


def weft(folder: Path, upstream: str) -> StdioServerParameters:
    """Return how a client starts the gateway in front of one server."""
    (folder / "weft.yaml").write_text(yaml.safe_dump({"servers": {upstream: command(upstream)}}))
    arguments = ["serve", "--stdio", "-c", str(folder / "weft.yaml"), "--log-level", "error"]
    return StdioServerParameters(command=str(Path(sys.executable).parent / "weft"), args=arguments)


@pytest.fixture(params=["legacy_stdio", "modern_stdio"])
def upstream(request: pytest.FixtureRequest) -> str:
    """Give the name of a server that the gateway starts itself."""
    return request.param


async def test_calls_progress_questions_and_cancellation_work_over_stdio(tmp_path: Path, era: Era, upstream: str):
    async def on_elicit(context: Any, params: t.ElicitRequestParams) -> t.ElicitResult:
        return t.ElicitResult(action="accept", content={"size": 7})

    seen: list[float] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    async with connected(weft(tmp_path, upstream), era, elicitation_callback=on_elicit) as client:
        result = await client.call_tool(f"{upstream}_echo", {"label": "x"})
        assert result.structured_content["heard"] == {"label": "x"}
        await client.call_tool(f"{upstream}_steps", {}, progress_callback=on_progress)
        assert seen == [1, 2, 3]
        assert text(await client.call_tool(f"{upstream}_elicit", {})) == "action=accept, content={'size': 7}"
        call = asyncio.create_task(client.call_tool(f"{upstream}_wait", {"folder": str(tmp_path)}))
        await until((tmp_path / "started").exists)
        call.cancel()
        await until((tmp_path / "cancelled").exists)
        await asyncio.gather(call, return_exceptions=True)


async def test_the_first_answer_tells_what_the_servers_offer_although_they_were_still_starting(
    tmp_path: Path, era: Era
):
    upstream = "legacy_stdio"
    mode = "legacy" if era == "legacy" else "auto"
    async with Client(weft(tmp_path, upstream), mode=mode, cache=None) as client:
        assert client.server_capabilities.completions is not None
        assert client.server_capabilities.resources is not None
        assert client.server_capabilities.resources.subscribe
        assert f"This is {upstream}." in (client.instructions or "")


async def test_changes_are_told_over_stdio(tmp_path: Path, era: Era, upstream: str):
    uri = f"{upstream.replace('_', '-')}://texts/changing"
    async with following(weft(tmp_path, upstream), era, uri) as (client, heard):
        grown = text(await client.call_tool(f"{upstream}_grow", {}))
        await until(lambda: "notifications/tools/list_changed" in heard.methods())
        await listed(client, grown)
