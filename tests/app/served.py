"""A gateway as its users meet it: in this process on free ports, or as the program `weft serve`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import yaml

from tests.doors.serving import Answer, Client
from tests.waiting import until
from weft.app.running import Running
from weft.config import load_config
from weft.doors.listener import Listener, bind

PATIENCE = 30.0
WITNESS = Path(__file__).parent / "children" / "witness.py"
META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
ASKABLE: dict[str, Any] = {**META, "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}}
EVENTS = "application/json, text/event-stream"


def written(folder: Path, config: Mapping[str, Any], registry: Mapping[str, Any] | None = None) -> Path:
    """Write the files of a gateway, and return the one to start it with."""
    if registry is not None:
        (folder / "registry.json").write_bytes(orjson.dumps(registry))
    path = folder / "weft.yaml"
    replace(path, yaml.safe_dump(dict(config), sort_keys=False))
    return path


def replace(path: Path, text: str) -> None:
    """Put a new file into the place of another, whole."""
    new = path.with_name(f".{path.name}.new")
    new.write_text(text)
    new.replace(path)


def registry(*tools: Mapping[str, Any]) -> dict[str, Any]:
    """Return a registry of these tools."""
    return {"schemaVersion": "1.0", "tools": list(tools)}


def pipeline(name: str, *tools: str) -> dict[str, Any]:
    """Return a composition that calls tools one after the other."""
    steps = [{"id": f"s{at}", "operation": {"tool": {"name": tool}}} for at, tool in enumerate(tools)]
    return {"name": name, "description": name, "spec": {"pipeline": {"steps": steps}}}


def witness(seen: Path, *more: str, **entry: Any) -> dict[str, Any]:
    """Return the entry of a child that writes down what it sees."""
    return {"command": [sys.executable, "-IS", str(WITNESS), str(seen), *more], "era": "legacy", **entry}


def seen_by(file: Path) -> list[dict[str, Any]]:
    """Return what a witness has written down."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def messages_to(file: Path) -> list[dict[str, Any]]:
    """Return the messages that a witness got, each with the moment at which it came."""
    return [{**json.loads(one["line"]), "at": one["at"]} for one in seen_by(file) if "line" in one]


def alive(pid: int) -> bool:
    """Tell whether a process runs; one that only waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def children_of(pid: int) -> set[int]:
    """Return the processes that a process has started itself."""
    return {int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


def parent_of(pid: int) -> int:
    """Return the process that has started a process."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@dataclass
class Place:
    """Where a gateway serves, and how to ask there."""

    port: int
    admin_port: int

    async def ask(
        self, method: str, path: str, *, body: bytes | None = None, admin: bool = False, **headers: Any
    ) -> Answer:
        """Return the answer to one request, on a connection of its own."""
        async with self.connected(admin=admin) as client:
            client.request(method, path, body=body, **headers)
            return await client.answer()

    @contextlib.asynccontextmanager
    async def connected(self, *, admin: bool = False) -> AsyncGenerator[Client]:
        """Connect."""
        port = self.admin_port if admin else self.port
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
        try:
            yield Client(reader, writer)
        finally:
            writer.close()

    async def post(self, method: str, params: Mapping[str, Any], *, view: str = "", **headers: str) -> Answer:
        """Return the answer to a request of a modern client."""
        async with self.connected() as client:
            client.request("POST", f"/mcp{view}", **modern(method, params, **headers))
            return await client.answer()

    async def call(self, tool: str, arguments: Mapping[str, Any] | None = None, **headers: str) -> dict[str, Any]:
        """Return the result of a tool."""
        found = await self.post("tools/call", {"name": tool, "arguments": arguments or {}}, **headers)
        assert found.status == 200, found.body
        return message_of(found)["result"]

    async def tools(self, view: str = "") -> list[str]:
        """Return the names of all tools."""
        listed = await self.post("tools/list", {}, view=view)
        return [tool["name"] for tool in message_of(listed)["result"]["tools"]]

    async def has(self, *names: str) -> None:
        """Wait until these are among the tools."""
        async with asyncio.timeout(PATIENCE):
            while not set(names) <= set(await self.tools()):  # noqa: ASYNC110 - it happens in another process, or task
                await asyncio.sleep(0.05)

    async def ready(self) -> dict[str, Any]:
        """Return what /readyz says."""
        return (await self.ask("GET", "/readyz")).json

    async def metric(self, name: str, **labels: str) -> float:
        """Return the number that a scrape shows."""
        page = (await self.ask("GET", "/metrics")).body.decode()
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        lines = [line for line in page.splitlines() if re.match(rf"{name}(\{{| )", line)]
        return sum(float(line.rpartition(" ")[2]) for line in lines if all(one in line for one in wanted))


def modern(method: str, params: Mapping[str, Any], **headers: str) -> dict[str, Any]:
    """Return body and headers of a request of a modern client."""
    meta = {**META, **params.get("_meta", {})}
    body = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}})
    named = {"Mcp-Name": params["name"]} if "name" in params else {}
    told = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, **named}
    return {"body": body, "content-type": "application/json", "accept": EVENTS, **told, **headers}


def message_of(answer: Answer) -> dict[str, Any]:
    """Return the response in an answer, whether it came by itself or at the end of a stream."""
    if answer.headers["content-type"].startswith("application/json"):
        return answer.json
    data = [line[6:] for line in answer.body.splitlines() if line.startswith(b"data: ")]
    return next(message for line in data if "id" in (message := orjson.loads(line)))


@dataclass
class House(Place):
    """A gateway in this process."""

    folder: Path
    running: Running
    listener: Listener

    @property
    def config(self) -> Path:
        """The file of its settings."""
        return self.folder / "weft.yaml"

    @property
    def registry(self) -> Path:
        """The file of its compositions."""
        return self.folder / "registry.json"


@contextlib.asynccontextmanager
async def house(
    folder: Path,
    config: Mapping[str, Any] | None = None,
    compositions: Mapping[str, Any] | None = None,
    **given: Any,
) -> AsyncGenerator[House]:
    """Run a gateway in this process, with its listeners at free ports."""
    path = written(folder, config or {}, compositions)
    env: Mapping[str, str] = given.pop("env", {})
    running = Running(load_config(path, env), env=env, **given)
    listeners: list[Listener] = []
    try:
        await running.start()
        listeners += [running.listener(bind("127.0.0.1", 0)), running.admin(bind("127.0.0.1", 0))]
        for listener in listeners:
            await listener.start()
        public, admin = listeners
        yield House(public.address[1], admin.address[1], folder, running, public)
    finally:
        for listener in listeners:
            await listener.drain(0)
        await running.close()


@dataclass
class Program(Place):
    """`weft serve`, as a process."""

    process: asyncio.subprocess.Process
    said: list[str] = field(default_factory=list[str])

    @property
    def pid(self) -> int:
        """Its number."""
        return self.process.pid

    def signal(self, number: int) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    async def ended(self) -> int:
        """Return its exit code."""
        async with asyncio.timeout(PATIENCE):
            return await self.process.wait()

    async def says(self, words: str) -> None:
        """Wait until it has said something."""
        await until(lambda: any(words in line for line in self.said))


@contextlib.asynccontextmanager
async def program(
    folder: Path, config: Mapping[str, Any], *arguments: str, env: Mapping[str, str] | None = None
) -> AsyncGenerator[Program]:
    """Run `weft serve`, from when it serves; what it says is kept, and it is killed if it does not end."""
    async with started(folder, config, "--port", "0", "--admin-port", "0", *arguments, env=env) as process:
        said: list[str] = []
        assert process.stderr is not None
        reading = asyncio.create_task(_kept(process.stderr, said))
        try:
            await until(lambda: any("operators at" in line for line in said) or reading.done())
            ports = [int(port) for line in said for port in re.findall(r"http://127\.0\.0\.1:(\d+)", line)]
            assert len(ports) >= 2, "\n".join(said)
            yield Program(ports[0], ports[1], process, said)
        finally:
            if process.returncode is None:
                process.terminate()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(PATIENCE):
                        await process.wait()
            if process.returncode is None:
                process.kill()
            # Whoever has stderr open still is a process that was left behind.
            await asyncio.wait_for(reading, PATIENCE)


@contextlib.asynccontextmanager
async def started(
    folder: Path, config: Mapping[str, Any], *arguments: str, env: Mapping[str, str] | None = None
) -> AsyncGenerator[asyncio.subprocess.Process]:
    """Start `weft serve`, whatever becomes of it."""
    path = written(folder, config)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "weft.cli",
        "serve",
        "-c",
        str(path),
        *arguments,
        env={**os.environ, **(env or {})},
        cwd=folder,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        await asyncio.wait_for(process.communicate(), PATIENCE)


async def _kept(stream: asyncio.StreamReader, said: list[str]) -> None:
    async for line in stream:
        said.append(line.decode().rstrip())
