"""Three orders by the demo's saga: one goes well, one is refused, and one outlives the gateway that began it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from weft.demo.gateway import ORDER_SERVERS, Open, demo_settings
from weft.errors import ExecutionFailed, NotFound, ToolFailed, WeftError
from weft.upstreams.results import value_of

if TYPE_CHECKING:
    from weft.upstreams.client import McpClient

TOOL = "order_saga"
LAST = "ship_order"
"""The step that waits while the gateway is killed."""
LOOK = 0.05
PATIENCE = 30.0
Connect: TypeAlias = "Callable[[str], AbstractAsyncContextManager[McpClient]]"
"""Connects an MCP client to a URL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordered:
    """What became of an order.

    `saga` is its record as operators see it, `left` what the three servers have of it. One that was cut off also has
    how its record stood then, what the client was told, and after how many seconds the other gateway had finished it.
    """

    order: dict[str, Any]
    result: dict[str, Any] | None = None
    error: str | None = None
    trace_id: str | None = None
    saga: dict[str, Any]
    left: dict[str, list[dict[str, Any]]]
    killed: dict[str, Any] | None = None

    @property
    def steps(self) -> dict[str, str]:
        """The status of each step."""
        return {step["id"]: step["status"] for step in self.saga["steps"]}


def order(number: int) -> dict[str, Any]:
    """Return an order of one beehive."""
    return {"order_id": f"o{number}", "sku": "HIVE-1", "quantity": 1, "amount": 189, "address": "Mill Lane 3"}


class Shop:
    """Orders through a gateway that is served in this process."""

    def __init__(self, one: Open, client: McpClient, connect: Connect) -> None:
        self._gateway = one
        self._client = client
        self._connect = connect

    async def well(self) -> Ordered:
        """Place an order of which every step succeeds."""
        return await self._placed(order(1))

    async def refused(self) -> Ordered:
        """Place an order that the carrier refuses."""
        await self._call("shipping_refuse", {"refuse": True})
        try:
            return await self._placed(order(2))
        finally:
            await self._call("shipping_refuse", {"refuse": False})

    async def cut_off(self, second: Second) -> Ordered:
        """Place an order at a second gateway, kill that one in the middle, and ask for the order here."""
        given = order(3)
        await self._call("shipping_hold", {"hold": True})
        async with self._connect(second.url) as other:
            placing = asyncio.create_task(_came(other, TOOL, given))
            try:
                stood = await self._until_waiting(given["order_id"], placing)
                second.kill()
                began = time.monotonic()
                told = await _told(placing)
            finally:
                placing.cancel()
        await self._call("shipping_hold", {"hold": False})
        # The order is known by its id: whoever asks again joins it, and nothing is done twice.
        placed = await self._call(TOOL, given)
        killed = {"pid": second.pid, "told": told, "steps": stood["steps"], "seconds": time.monotonic() - began}
        return await self._ended(given, result=placed, killed=killed)

    async def _placed(self, given: dict[str, Any]) -> Ordered:
        came = await _came(self._client, TOOL, given)
        trace_id = came.get("_meta", {}).get("weft/traceId")
        try:
            return await self._ended(given, result=value_of(came, tool=TOOL), trace_id=trace_id)
        except ToolFailed as error:
            return await self._ended(given, error=str(error.content), trace_id=trace_id)

    async def _ended(self, given: dict[str, Any], **facts: Any) -> Ordered:
        mine = {"order_id": given["order_id"]}
        left = {
            "stock": await self._call("inventory_stock", {"sku": given["sku"]}),
            "charges": await self._call("payment_charges", mine),
            "shipments": await self._call("shipping_list", mine),
        }
        return Ordered(order=given, saga=await self._record(given["order_id"]), left=left, **facts)

    async def _until_waiting(self, id: str, placing: asyncio.Task[Any]) -> dict[str, Any]:
        """Return the record of an order once its last step is under way; both gateways have the same store.

        Raises:
            ExecutionFailed: the call has ended before that.
        """
        while not placing.done():
            with contextlib.suppress(NotFound):
                record = await self._record(id)
                if any(step["id"] == LAST and step["status"] == "STARTED" for step in record["steps"]):
                    return record
            await asyncio.sleep(LOOK)
        raise ExecutionFailed(f"order '{id}' ended before the gateway was killed: {await _told(placing)}")

    async def _record(self, id: str) -> dict[str, Any]:
        return await self._gateway.gateway.keeping.operating.saga(id)

    async def _call(self, tool: str, arguments: dict[str, Any]) -> Any:
        return value_of(await _came(self._client, tool, arguments), tool=tool)


async def _came(client: McpClient, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return await client.call_tool(tool, arguments, deadline=asyncio.get_running_loop().time() + PATIENCE)


async def _told(placing: asyncio.Task[dict[str, Any]]) -> str:
    """Return what the client is told whose gateway is gone."""
    try:
        return str(await placing)
    except WeftError as error:
        return error.message


class Second:
    """A second gateway: `weft serve` as a process of its own, on the same store and the same files."""

    def __init__(self, process: asyncio.subprocess.Process, url: str) -> None:
        self.url = url
        self.pid = process.pid
        self._process = process

    def kill(self) -> None:
        """End it as a power cut would: it can neither finish nor write anything."""
        self._process.kill()


@contextlib.asynccontextmanager
async def second_gateway(data: Path) -> AsyncGenerator[Second]:
    """Run a second gateway with the order servers only, while the block lasts.

    Raises:
        ExecutionFailed: it does not start.
    """
    settings = demo_settings(data)
    settings["servers"] = {key: settings["servers"][key] for key in ORDER_SERVERS}
    settings |= {"admin": {"enabled": False}}
    file = data / "weft.yaml"
    file.write_text(json.dumps(settings), encoding="utf-8")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "weft.cli", "serve", "-c", str(file)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    said: list[str] = []
    try:
        url = await _url(process.stderr, said)
        reading = asyncio.create_task(_drained(process.stderr))
        try:
            yield Second(process, url)
        finally:
            reading.cancel()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _url(stream: asyncio.StreamReader, said: list[str]) -> str:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE):
            async for line in stream:
                said.append(line.decode(errors="replace").rstrip())
                if found := re.search(r"serves MCP at (\S+)", said[-1]):
                    return found[1]
    raise ExecutionFailed("the second gateway of the demo did not start: " + " ".join(said[-3:]))


async def _drained(stream: asyncio.StreamReader) -> None:
    while await stream.read(4096):
        pass
