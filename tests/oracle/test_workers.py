"""Several processes of the gateway on one port: a call goes on wherever its client comes next."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import mcp_types as t
import pytest

from scripts.programs import gateway
from tests.oracle.conftest import connected
from tests.oracle.upstream import Oracle
from tests.upstreams.listening import listening


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """Give the URL of a gateway of two processes, in front of a server that asks in the middle of its calls."""
    with listening(Oracle("legacy_http").server().streamable_http_app()) as port:
        servers = {"legacy_http": {"url": f"http://127.0.0.1:{port}/mcp", "era": "legacy"}}
        with gateway(servers, folder=tmp_path_factory.mktemp("workers"), workers=2) as url:
            yield url


async def on_elicit(context: Any, params: t.ElicitRequestParams) -> t.ElicitResult:
    raise AssertionError("the question comes back as a result")


async def once(url: str, answers: t.InputResponses | None, state: str | None) -> Any:
    """Call on a connection of its own, which either worker may get."""
    async with connected(url, "modern", elicitation_callback=on_elicit) as client:
        return await client.session.call_tool(
            "legacy_http_thrice", {}, input_responses=answers, request_state=state, allow_input_required=True
        )


async def test_a_call_that_asks_three_times_goes_on_whichever_worker_gets_the_answers(two_workers: str):
    for _ in range(4):
        result = await once(two_workers, None, None)
        for n in range(3):
            assert isinstance(result, t.InputRequiredResult)
            [key] = result.input_requests or {}
            answer = t.ElicitResult(action="accept", content={"size": n})
            result = await once(two_workers, {key: answer}, result.request_state)
        assert isinstance(result, t.CallToolResult)
        told = "; ".join(f"action=accept, content={{'size': {n}}}" for n in range(3))
        assert [block.text for block in result.content if isinstance(block, t.TextContent)] == [told]
