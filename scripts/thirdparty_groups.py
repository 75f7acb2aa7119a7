"""Groups, met with a client that nobody here wrote: the MCP Inspector lists them and calls their actions."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from scripts.inspector import TOOL_FAILED, Asked, Found, call, inspect
from scripts.programs import ROOT, gateway

EXAMPLE: Final = ROOT / "examples" / "grouped_tools.py"
DETAILS: Final = ("full", "brief", "index")
ERAS: Final = ("legacy", "modern")


def meet_groups(npm: Path, commands: Mapping[str, list[str]], repository: Path, folder: Path) -> Iterator[Found]:
    """Gather servers in one group each of full, brief and index, and serve the example's ten actions."""
    groups = {detail: _group(detail) for detail in DETAILS}
    servers = {name: {"command": command} for name, command in commands.items()}
    with gateway(servers, folder=folder / "groups", sections={"groups": groups}) as url:
        for era in ERAS:
            for detail in DETAILS:
                target = (url, "--protocol-era", era)
                yield from inspect(npm, f"group, {detail}", f"HTTP, {era}", target, _of_a_group(detail, repository))
    with gateway({}, folder=folder / "example", sections={"registry": {"source": str(EXAMPLE)}}) as url:
        for era in ERAS:
            yield from inspect(npm, EXAMPLE.name, f"HTTP, {era}", (url, "--protocol-era", era), _of_the_example())
    yield from inspect(npm, EXAMPLE.name, "stdio", _started_by_client(folder / "example"), _of_the_example())


def _group(detail: str) -> dict[str, Any]:
    brief: dict[str, Any] = {"format": "toon"} if detail != "full" else {}
    return {"servers": ["everything", "time", "git"], "detail": detail, **brief}


def _of_a_group(name: str, repository: Path) -> Iterator[Asked]:
    # Strictly: an error in a tool's schema that some client would stumble over ends it with another code.
    yield Asked("tools/list", ["--strict"], f'"name": "{name}"', called="tools/list --strict")
    yield call(name, "inspected", action="echo", message="inspected")
    yield call(name, "is 42", action="get-sum", a=2, b=40)
    yield call(name, "Say hello", action="git_log", repo_path=repository, max_count=1)
    yield call(
        name, "21:00:00+09:00", action="convert_time", source_timezone="UTC", time="12:00", target_timezone="Asia/Tokyo"
    )
    yield call(name, "'messge' is no field of echo", ends=TOOL_FAILED, action="echo", messge="inspected")
    yield call(name, "did you mean 'git_log'?", ends=TOOL_FAILED, action="git_lg")
    if name != "full":
        yield call(name, "repo_path", action="help", of="git_log")


def _of_the_example() -> Iterator[Asked]:
    yield Asked("tools/list", ["--strict"], "projects.archive", called="tools/list --strict")
    yield call("platform", "Ada", action="users.get", id=1)
    yield call("platform", '"owner": 1', action="projects.assign", id=1, owner=1)
    yield call("platform", "'id' is missing", ends=TOOL_FAILED, action="users.get")
    yield call("platform", "there is no user 7", ends=TOOL_FAILED, action="users.get", id=7)


def _started_by_client(folder: Path) -> list[str]:
    weft = str(Path(sys.executable).parent / "weft")
    entry = {"command": weft, "args": ["serve", "--stdio", "-c", str(folder / "weft.yaml")]}
    settings = folder / "mcp.json"
    settings.write_text(json.dumps({"mcpServers": {"weft": entry}}))
    return ["--config", str(settings), "--server", "weft"]
