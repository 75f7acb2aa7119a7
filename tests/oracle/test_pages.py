"""Lists of many pages: the gateway reads all pages of a server, and gives its own."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from scripts.programs import gateway
from tests.oracle.conftest import Era, connected
from tests.oracle.upstream import Pages
from tests.upstreams.listening import listening

NAMES = [f"page_tool_{number:04}" for number in range(1050)]


@pytest.fixture(scope="module", params=["legacy", "modern"])
def long_list(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """Give the URL of a gateway in front of a server of 1,050 tools in pages of 50."""
    with listening(Pages().server().streamable_http_app()) as port:
        servers = {"pages": {"url": f"http://127.0.0.1:{port}/mcp", "era": request.param}}
        with gateway(servers, folder=tmp_path_factory.mktemp("pages")) as url:
            yield url


async def test_every_tool_of_every_page_is_listed_once_and_in_order(long_list: str, era: Era):
    async with connected(long_list, era) as client:
        page = await client.list_tools()
        pages = [[tool.name for tool in page.tools]]
        while page.next_cursor:
            page = await client.list_tools(cursor=page.next_cursor)
            pages.append([tool.name for tool in page.tools])
    assert [name for page in pages for name in page] == NAMES
    assert len(pages) > 1


async def test_a_tool_of_the_last_page_can_be_called(long_list: str, era: Era):
    async with connected(long_list, era) as client:
        result = await client.call_tool(NAMES[-1], {"n": 1})
    assert result.structured_content["heard"] == {"n": 1}
