"""`weft export server.json`: a view as others register it, printed or written, and nothing of what is behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from weft.config.mcpservers import import_servers

from .conftest import Run

CANARY = "canary-9f8e7d6c5b4a"
SETTINGS: dict[str, Any] = {
    "listen": {"publicUrl": "https://tools.example.com/"},
    "servers": {"web": {"url": "https://inside.example.net/mcp", "headers": {"X-Pass": "${env:WEB_PASS}"}}},
    "views": {"research": {"include": ["web_*"], "description": "Finds and\nreads papers."}},
}


@pytest.fixture
def settings(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A gateway with a server, a secret and a view."""
    monkeypatch.setenv("WEB_PASS", CANARY)
    path = folder / "weft.yaml"
    path.write_text(json.dumps(SETTINGS))
    return path


@pytest.mark.usefixtures("settings")
def test_the_gateway_is_printed_as_a_remote_that_weft_itself_can_import(run: Run):
    done = run("export", "server.json", "--name", "com.example/tools", "--version", "2.0.0")
    assert (done.exit_code, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert (told["name"], told["version"]) == ("com.example/tools", "2.0.0")
    assert told["remotes"] == [{"type": "streamable-http", "url": "https://tools.example.com/mcp"}]
    assert import_servers(told).servers["tools"]["url"] == "https://tools.example.com/mcp"
    assert run("export", "server.json", "--name", "com.example/tools", "--version", "2.0.0").stdout == done.stdout


@pytest.mark.usefixtures("settings")
def test_nothing_of_the_servers_behind_is_in_it(run: Run):
    done = run("export", "server.json", "--name", "com.example/tools")
    for inside in (CANARY, "inside.example.net", "WEB_PASS"):
        assert inside not in done.output


def test_a_view_is_written_to_a_file_with_its_description_in_one_line(run: Run, settings: Path):
    done = run("export", "server.json", "--name", "com.example/r", "--view", "research", "-c", settings, "-o", "r.json")
    assert (done.exit_code, "Wrote r.json" in done.stdout) == (0, True)
    told = json.loads(settings.with_name("r.json").read_text())
    assert told["remotes"][0]["url"] == "https://tools.example.com/mcp/research"
    assert told["description"] == "Finds and reads papers."


def test_without_a_public_url_the_address_is_that_of_the_listener_and_that_is_told(run: Run):
    done = run("export", "server.json", "--name", "com.example/tools")
    assert done.exit_code == 0
    assert json.loads(done.stdout)["remotes"][0]["url"].startswith("http://127.0.0.1:")
    assert "listen.publicUrl is not set" in done.stderr


@pytest.mark.usefixtures("settings")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--name", "com.example/tools", "--view", "reserch"], "research"),
        (["--name", "tools"], "com.example/tools"),
        ([], "--name"),
        (["--name", "com.example/tools", "-c", "none.yaml"], "none.yaml"),
        (["--name", "com.example/tools", "-o", "none/server.json"], "none"),
    ],
)
def test_what_is_wrong_is_told_with_what_to_do(run: Run, arguments: list[str], said: str):
    done = run("export", "server.json", *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_another_form_is_not_known(run: Run):
    done = run("export", "server.xml", "--name", "com.example/tools")
    assert done.exit_code == 2
    assert "server.json" in done.stderr
