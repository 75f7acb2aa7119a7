"""Put servers that nobody here wrote behind weft, and call them through it; then with a client that nobody here wrote.

    python -m scripts.thirdparty               # through weft; part of `make conformance`
    python -m scripts.thirdparty --direct      # the servers and the Inspector alone

`@modelcontextprotocol/server-everything` comes from npm, `mcp-server-time` and `mcp-server-git` from PyPI into
environments of their own, the MCP Inspector's CLI from npm; all into build/thirdparty/. Writes
build/thirdparty/summary.json, and ends with 1 when a check fails.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, TypeAlias

import mcp_types as t
from mcp import Client, StdioServerParameters
from pydantic import BaseModel

from scripts.inspector import INSPECTOR, Asked, Found, inspect
from scripts.nodejs import install, node
from scripts.programs import BUILD, gateway
from scripts.thirdparty_groups import meet_groups

HOME = BUILD / "thirdparty"
NPM = HOME / "npm"
EVERYTHING = "@modelcontextprotocol/server-everything"
NPM_PINS = (f"{EVERYTHING}@2026.8.31", f"{INSPECTOR}@2.12.0")
PYPI_PINS = {"time": "mcp-server-time==2026.10.19", "git": "mcp-server-git==2026.10.19"}
REPOSITORY = HOME / "repository"

Mode: TypeAlias = Literal["legacy", "2026-07-28"]
Check: TypeAlias = Callable[[Client], Awaitable[BaseModel | str]]


def prepare() -> dict[str, list[str]]:
    """Install everything, and return the command of each server."""
    install(NPM, *NPM_PINS)
    for name, pin in PYPI_PINS.items():
        _venv(HOME / name, pin)
    _repository()
    return {
        "everything": [node(NPM), str(NPM / "node_modules" / EVERYTHING / "dist" / "index.js")],
        "time": [str(HOME / "time" / "bin" / "mcp-server-time"), "--local-timezone", "UTC"],
        "git": [str(HOME / "git" / "bin" / "mcp-server-git"), "--repository", str(REPOSITORY)],
    }


def _venv(folder: Path, pin: str) -> None:
    note = folder / "installed.txt"
    if note.exists() and note.read_text() == pin:
        return
    print(f"Installing {pin} into {folder} ...", flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
    subprocess.run([str(folder / "bin" / "pip"), "install", "--quiet", pin], check=True)
    note.write_text(pin)


def _repository() -> None:
    if (REPOSITORY / ".git").exists():
        return
    REPOSITORY.mkdir(parents=True, exist_ok=True)
    (REPOSITORY / "hello.txt").write_text("hello\n")
    author = ["-c", "user.name=weft", "-c", "user.email=weft@example.invalid"]
    for words in (["init", "-q", "-b", "main"], ["add", "hello.txt"], [*author, "commit", "-q", "-m", "Say hello"]):
        subprocess.run(["git", *words], cwd=REPOSITORY, check=True)


def _call(tool: str, arguments: Mapping[str, Any], expect: str) -> tuple[str, Check, str]:
    async def check(client: Client) -> BaseModel | str:
        return await client.call_tool(tool, dict(arguments))

    return f"tools/call {tool}", check, expect


async def _progress(client: Client) -> BaseModel | str:
    seen: list[float] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    await client.call_tool(
        "trigger-long-running-operation", {"duration": 0.4, "steps": 4}, progress_callback=on_progress
    )
    return f"progress {seen}"


async def _prompt(client: Client) -> BaseModel | str:
    return await client.get_prompt("args-prompt", {"city": "Utrecht"})


async def _complete(client: Client) -> BaseModel | str:
    reference = t.PromptReference(name="completable-prompt")
    return await client.complete(reference, {"name": "department", "value": "Eng"})


async def _template(client: Client) -> BaseModel | str:
    return await client.read_resource("demo://resource/dynamic/text/7")


async def _read(client: Client) -> BaseModel | str:
    listed = await client.list_resources()
    return await client.read_resource(str(listed.resources[0].uri))


def _lists(*names: str) -> tuple[str, Check, str]:
    async def check(client: Client) -> BaseModel | str:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        return "all there" if set(names) <= tools else f"missing {set(names) - tools}"

    return "tools/list", check, "all there"


CHECKS: dict[str, list[tuple[str, Check, str]]] = {
    "everything": [
        _lists("echo", "get-sum", "get-structured-content", "get-tiny-image"),
        _call("echo", {"message": "warp and weft"}, "warp and weft"),
        _call("get-sum", {"a": 2, "b": 40}, "42"),
        _call("get-structured-content", {"location": "Chicago"}, "temperature"),
        _call("get-tiny-image", {}, "image/png"),
        _call("get-annotated-message", {"messageType": "success"}, "priority"),
        _call("get-resource-reference", {"resourceType": "Text", "resourceId": 1}, "demo://resource/dynamic/text/1"),
        ("progress of trigger-long-running-operation", _progress, "[1.0, 2.0, 3.0, 4.0]"),
        ("resources/read", _read, "contents"),
        ("resources/read of a template", _template, "Resource 7"),
        ("prompts/get args-prompt", _prompt, "Utrecht"),
        ("completion/complete", _complete, "Engineering"),
    ],
    "time": [
        _lists("get_current_time", "convert_time"),
        _call("get_current_time", {"timezone": "Europe/Amsterdam"}, "Europe/Amsterdam"),
        _call(
            "convert_time",
            {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"},
            "21:00:00+09:00",
        ),
        _call("get_current_time", {"timezone": "Mars/Olympus"}, "Mars/Olympus"),
    ],
    "git": [
        _lists("git_status", "git_log"),
        _call("git_status", {"repo_path": str(REPOSITORY)}, "nothing to commit"),
        _call("git_log", {"repo_path": str(REPOSITORY), "max_count": 1}, "Say hello"),
    ],
}


async def _meet(client: Client, server: str, label: str) -> list[Found]:
    found: list[Found] = []
    for name, check, expect in CHECKS[server]:
        try:
            got = await asyncio.wait_for(_shown(check, client), 30)
        except Exception as error:
            got = f"{type(error).__name__}: {error}"
        found.append(Found(server, label, name, expect in got, got[:2000]))
    return found


async def _shown(check: Check, client: Client) -> str:
    got = await check(client)
    return got if isinstance(got, str) else got.model_dump_json(by_alias=True, exclude_none=True)


async def meet_directly(commands: Mapping[str, list[str]]) -> list[Found]:
    """Call each server over stdio, without weft."""
    found: list[Found] = []
    for server, (command, *arguments) in commands.items():
        async with Client(StdioServerParameters(command=command, args=arguments), cache=None) as client:
            found += await _meet(client, server, f"SDK, {client.protocol_version}, direct")
    return found


async def meet_through(url: str) -> list[Found]:
    """Call all servers through the gateway, with a client of either era."""
    found: list[Found] = []
    modes: tuple[Mode, ...] = ("legacy", "2026-07-28")
    for mode in modes:
        async with Client(url, mode=mode, cache=None) as client:
            for server in CHECKS:
                found += await _meet(client, server, f"SDK, {client.protocol_version}")
    return found


def asked() -> list[Asked]:
    """Return what the Inspector does with server-everything."""
    return [
        Asked("tools/list", [], '"echo"'),
        Asked("tools/call", ["--tool-name", "echo", "--tool-arg", "message=inspected"], "inspected"),
        Asked("resources/list", [], "architecture.md"),
        Asked("resources/templates/list", [], "demo://resource/dynamic/text/{resourceId}"),
        Asked("resources/read", ["--uri", "demo://resource/static/document/features.md"], "contents"),
        Asked("prompts/list", [], "simple-prompt"),
        Asked("prompts/get", ["--prompt-name", "args-prompt", "--prompt-args", "city=Delft"], "Delft"),
    ]


def _started_by_client() -> list[str]:
    """Return how the Inspector starts weft itself, as a desktop client does."""
    weft = str(Path(sys.executable).parent / "weft")
    entry = {"command": weft, "args": ["serve", "--stdio", "-c", str(HOME / "run" / "weft.yaml")]}
    settings = HOME / "run" / "mcp.json"
    settings.write_text(json.dumps({"mcpServers": {"weft": entry}}))
    return ["--config", str(settings), "--server", "weft"]


@contextmanager
def _through(commands: Mapping[str, list[str]]) -> Generator[str]:
    with gateway({name: {"command": command} for name, command in commands.items()}, folder=HOME / "run") as url:
        yield url


def main() -> int:
    """Run what was asked for."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--direct", action="store_true", help="without weft")
    chosen = options.parse_args()
    commands = prepare()
    if chosen.direct:
        found = [
            *asyncio.run(meet_directly(commands)),
            *inspect(NPM, "everything", "direct", commands["everything"], asked()),
        ]
    else:
        with _through(commands) as url:
            found = [*asyncio.run(meet_through(url)), *inspect(NPM, "everything", "HTTP", [url], asked())]
        found += inspect(NPM, "everything", "stdio", _started_by_client(), asked())
        found += meet_groups(NPM, commands, REPOSITORY, HOME / "run")
    (HOME / "summary.json").write_text(json.dumps([asdict(one) for one in found], indent=2) + "\n")
    for one in found:
        print(f"{'passed' if one.passed else 'FAILED':<8}{one.server:<18}{one.client:<32}{one.check}")
        if not one.passed:
            print(f"        {one.seen}")
    print(f"{sum(one.passed for one in found)} of {len(found)} checks passed")
    return 0 if all(one.passed for one in found) else 1


if __name__ == "__main__":
    sys.exit(main())
