"""The whole way of the registry seed: load, check and connect; a list by who asks; calls, a virtual tool, a saga."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import soon
from weft.cli.remote import Remote, connected
from weft.config import Config
from weft.demo.documents import Documents
from weft.demo.gateway import FOLDER, ORDER_SERVERS, REGISTRY, Open, demo_settings, served
from weft.demo.orders import order
from weft.errors import DocumentInvalid, ToolFailed, UpstreamRefused
from weft.ir.read import read_file
from weft.upstreams.client import McpClient
from weft.upstreams.results import value_of

PATIENCE = 30.0
AGENT = "research-agent@2.1.0"
OLD, NEW = "document-service@1.2.0", "document-service@2.0.0"
MINE = {"search_documents": "1.0.0", "search_all": "1.0.0", "order_saga": "1.0.0"}
SEARCHES: list[dict[str, Any]] = [
    {
        "name": "search_documents",
        "version": version,
        "source": {"server": "document-service", "serverVersion": server.partition("@")[2], "tool": "search_documents"},
    }
    for version, server in (("1.0.0", OLD), ("2.0.0", NEW))
]
SEARCH_ALL: dict[str, Any] = {
    "name": "search_all",
    "version": "1.0.0",
    "spec": {
        "scatterGather": {
            "targets": [{"tool": "search_documents"}, {"tool": "arxiv_search"}],
            "aggregation": {"ops": [{"flatten": True}]},
        }
    },
    "depends": [
        {"type": "tool", "name": "search_documents", "version": "1.0.0"},
        {"type": "tool", "name": "arxiv_search", "version": "1.0.0"},
    ],
}


def registry() -> dict[str, Any]:
    """Return the orders of the demo, two versions of a document service, and the agent of the seed."""
    demo = read_file(REGISTRY).value
    orders = ("inventory_", "payment_", "shipping_", "order_", "arxiv_")
    depends = [{"type": "tool", "name": name, "version": version} for name, version in MINE.items()]
    extension = {"uri": "urn:agentgateway:sbom", "params": {"depends": depends}}
    agent = next(one for one in demo["agents"] if one["name"] == "researcher")
    card = {**agent, "name": "research-agent", "version": "2.1.0", "capabilities": {"extensions": [extension]}}
    documents = [
        {
            "name": "document-service",
            "version": "1.2.0",
            "provides": [{"tool": "search_documents", "version": "1.0.0"}],
        },
        {
            "name": "document-service",
            "version": "2.0.0",
            "provides": [{"tool": "search_documents", "version": "2.0.0"}],
        },
    ]
    servers = [one for one in demo["servers"] if f"{one['name']}_".startswith(orders)]
    tools = [one for one in demo["tools"] if one["name"].startswith(orders)]
    return {
        "schemaVersion": "2.0",
        "schemas": demo["schemas"],
        "servers": [*documents, *servers],
        "tools": [*SEARCHES, SEARCH_ALL, *tools],
        "agents": [card],
    }


def config(folder: Path, document: Mapping[str, Any]) -> Config:
    """Return the settings of a gateway that serves this registry; only the old document service has the word zebra."""
    path = folder / "registry.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    Documents(str(folder / f"{OLD}.db")).create_document("Zebras", "A zebra crossing is a safe place for bees.")
    settings = demo_settings(folder)
    servers = settings["servers"]
    plain = servers["document-service@1.0.0"]["command"]
    settings["servers"] = {key: servers[key] for key in (*ORDER_SERVERS, "arxiv@1.0.0")}
    settings["servers"] |= {key: {"command": [*plain, "--data", str(folder / f"{key}.db")]} for key in (OLD, NEW)}
    settings["registry"] = {**settings["registry"], "source": f"file://{path}"}
    return Config.model_validate(settings, context=FOLDER)


@asynccontextmanager
async def gateway(folder: Path) -> AsyncGenerator[tuple[Open, McpClient]]:
    """Serve the registry over HTTP, and connect as its agent."""
    async with served(config(folder, registry())) as one:
        await one.gateway.gateway.ready()
        async with connected(Remote(one.url, None, (), agent=AGENT)) as client:
            yield one, client


async def called(client: McpClient, tool: str, arguments: dict[str, Any]) -> Any:
    return value_of(await client.call_tool(tool, arguments, deadline=soon()), tool=tool)


@pytest.mark.req("REG-43")
async def test_a_registry_is_served_from_its_file_to_its_sagas(tmp_path: Path):
    async with gateway(tmp_path) as (one, client):
        report = one.gateway.report()
        assert {server["state"] for server in report["upstreams"].values()} == {"ready"}
        assert (report["problems"], report["degraded"]) == ([], [])

        listed = await client.list_tools(deadline=soon())
        assert {tool["name"]: tool["_meta"]["weft/version"] for tool in listed} == MINE

        found = await called(client, "search_documents", {"query": "zebra"})
        assert [hit["title"] for hit in found] == ["Zebras"], "by the server of the version that the agent depends on"
        with pytest.raises(UpstreamRefused, match="Unknown tool: payment_charge"):
            await called(client, "payment_charge", {"order_id": "o1", "amount": 5})
        async with connected(Remote(one.url, None, ())) as anyone:
            assert await called(anyone, "search_documents", {"query": "zebra"}) == [], "the newest one knows none"

            both = await called(client, "search_all", {"query": "bees"})
            assert {"id" if "id" in hit else "arxiv_id" for hit in both} == {"id", "arxiv_id"}, "from both servers"

            placed = await called(client, "order_saga", order(1))
            assert placed == {"order_id": "o1", "reservation_id": "R-1", "charge_id": "C-1", "shipment_id": "S-1"}
            await called(anyone, "shipping_refuse", {"refuse": True})
            with pytest.raises(ToolFailed, match="Saga step 'Ship Order' failed, compensation required: "):
                await called(client, "order_saga", order(2))
            charges = await called(anyone, "payment_charges", {})
            stock = await called(anyone, "inventory_stock", {"sku": "HIVE-1"})
        assert [charge["status"] for charge in charges] == ["charged", "refunded"]
        assert [item["available"] for item in stock] == [3], "of four, the first order has one"


@pytest.mark.req("REG-43")
async def test_a_registry_that_needs_what_is_not_there_is_not_served(tmp_path: Path):
    broken = registry()
    broken["tools"].remove(SEARCHES[0])
    with pytest.raises(DocumentInvalid, match="search_documents"):
        async with served(config(tmp_path, broken)):
            pass
