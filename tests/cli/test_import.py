"""`weft import`: the servers of other clients become servers of weft.yaml, without their secrets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from weft.config import load_config

from .conftest import Run

CLAUDE: dict[str, Any] = {
    "mcpServers": {
        "github": {
            "command": "npx",
            "args": ["-y", "@modelcontextprotocol/server-github", "--api-key", "canary1", "--level=2"],
            "env": {"GITHUB_TOKEN": "canary2", "DEBUG": "1", "RETRIES": 3},
            "autoApprove": [],
        },
        "my server!": {"command": "cmd", "args": ["/c", "npx", "-y", "foo"], "env": {"GITHUB_TOKEN": "canary3"}},
        "web": {
            "url": "https://h.example/mcp?api_key=canary4&b=1",
            "headers": {"Authorization": "Bearer canary5", "Accept": "*/*", "X-Team": "blue"},
        },
    }
}
VSCODE = """{
  // comments and a comma too many, as editors allow
  "inputs": [{"type": "promptString", "id": "api-key", "password": true}],
  "servers": {
    "one": {"type": "http", "url": "https://h.example/mcp", "headers": {"X-Key": "${input:api-key}"}},
    "two": {"type": "sse", "url": "https://h.example/sse"}, /* old */
    "three": {"type": "stdio", "command": "${workspaceFolder}/run", "args": ["${env:MODE}", "a // b"],
      "envFile": ".env"},
  },
}"""


@pytest.fixture
def claude(folder: Path) -> Path:
    path = folder / "claude_desktop_config.json"
    path.write_text(json.dumps(CLAUDE))
    return path


def imported(run: Run, *arguments: str | Path, input: str | None = None) -> dict[str, Any]:
    done = run("import", *arguments, "--json", input=input)
    assert done.exit_code == 0, done.stdout
    return json.loads(done.stdout)


def test_servers_are_printed_with_references_and_the_variables_to_set(run: Run, claude: Path):
    told = imported(run, claude)
    assert told["servers"] == {
        "github": {
            "command": [
                "npx", "-y", "@modelcontextprotocol/server-github", "--api-key", "${env:GITHUB_API_KEY}", "--level=2",
            ],
            "env": {"GITHUB_TOKEN": "${env:GITHUB_TOKEN}", "DEBUG": "1", "RETRIES": "3"},
        },
        "my-server": {
            "command": ["cmd", "/c", "npx", "-y", "foo"],
            "env": {"GITHUB_TOKEN": "${env:MY_SERVER_GITHUB_TOKEN}"},
        },
        "web": {
            "url": "https://h.example/mcp?api_key=${env:WEB_API_KEY}&b=1",
            "headers": {"Authorization": "Bearer ${env:WEB_TOKEN}", "X-Team": "blue"},
        },
    }  # fmt: skip
    assert set(told["variables"]) == {
        "GITHUB_API_KEY", "GITHUB_TOKEN", "MY_SERVER_GITHUB_TOKEN", "WEB_API_KEY", "WEB_TOKEN",
    }  # fmt: skip
    assert len(told["notes"]) == 3  # a name, autoApprove, Accept


def test_no_value_of_a_secret_is_shown_or_written(run: Run, claude: Path, folder: Path):
    printed, written = run("import", claude), run("import", claude, "-o", "weft.yaml")
    told = printed.output + written.output + (folder / "weft.yaml").read_text()
    assert "GITHUB_TOKEN" in printed.stderr
    assert "canary" not in told


def test_what_is_written_loads_and_gives_the_servers_what_they_had(run: Run, claude: Path, folder: Path):
    run("import", claude, "-o", "weft.yaml")
    names = ("GITHUB_API_KEY", "GITHUB_TOKEN", "MY_SERVER_GITHUB_TOKEN", "WEB_API_KEY", "WEB_TOKEN")
    config = load_config(folder / "weft.yaml", {name: f"<{name}>" for name in names})
    assert config.problems == ()
    assert config.servers["github"].argv[-2:] == ("<GITHUB_API_KEY>", "--level=2")
    assert config.servers["web"].headers["Authorization"] == "Bearer <WEB_TOKEN>"


def test_the_file_of_vs_code_is_read_with_its_comments_and_inputs(run: Run, folder: Path):
    (folder / "mcp.json").write_text(VSCODE)
    told = imported(run, "mcp.json")
    assert told["servers"] == {
        "one": {
            "url": "https://h.example/mcp", "transport": "streamable-http", "headers": {"X-Key": "${env:API_KEY}"},
        },
        "two": {"url": "https://h.example/sse", "transport": "sse"},
        "three": {"command": ["./run", "${env:MODE}", "a // b"]},
    }  # fmt: skip
    assert set(told["variables"]) == {"API_KEY", "MODE"}
    assert "envFile" in told["notes"][0]


def test_servers_are_added_after_those_of_a_file_whose_text_stays_as_it_is(run: Run, claude: Path, folder: Path):
    before = "# mine\nservers:\n    # keep\n    a: {command: [x]}   # this\n\n# end\nviews: {}\n"
    (folder / "weft.yaml").write_text(before)
    assert run("import", claude, "-o", "weft.yaml").exit_code == 0
    after = (folder / "weft.yaml").read_text()
    assert [line for line in after.splitlines() if line in before.splitlines()] == before.splitlines()
    assert "    a: {command: [x]}   # this\n    github:\n" in after


@pytest.mark.parametrize(
    "before", ["", "# only this\n", "drain: 1s\n", "drain: 1s", "servers:\n", "servers:\nviews: {}\n"]
)
def test_servers_are_added_where_there_were_none(run: Run, claude: Path, folder: Path, before: str):
    (folder / "weft.yaml").write_text(before)
    assert run("import", claude, "-o", "weft.yaml").exit_code == 0
    text = (folder / "weft.yaml").read_text()
    assert text.startswith(before.partition("views")[0])
    assert text.count("servers:") == 1


def test_a_server_of_the_same_name_is_refused_and_nothing_is_written(run: Run, claude: Path, folder: Path):
    (folder / "weft.yaml").write_text("servers: {github: {command: [x]}}\n")
    refused = run("import", claude, "-o", "weft.yaml")
    assert refused.exit_code == 2
    assert "github" in refused.stderr
    assert (folder / "weft.yaml").read_text() == "servers: {github: {command: [x]}}\n"


def test_a_file_in_which_nothing_can_be_put_in_between_is_refused(run: Run, claude: Path, folder: Path):
    (folder / "weft.yaml").write_text("servers: {a: {command: [x]}}\n")
    refused = run("import", claude, "-o", "weft.yaml")
    assert (refused.exit_code, "paste" in refused.stderr) == (2, True)
    assert (folder / "weft.yaml").read_text() == "servers: {a: {command: [x]}}\n"


def test_stdin_is_read(run: Run):
    told = imported(run, "-", input='{"mcpServers": {"true": {"command": "x"}}}')
    assert told["servers"] == {"true": {"command": ["x"]}}
    printed = run("import", "-", input='{"mcpServers": {"true": {"command": "x"}}}')
    assert printed.stdout == 'servers:\n  "true":\n    command: ["x"]\n'


def test_a_client_s_own_file_is_found(run: Run, folder: Path):
    (folder / ".cursor").mkdir()
    (folder / ".cursor" / "mcp.json").write_text('{"mcpServers": {"a": {"url": "https://h.example/"}}}')
    assert list(imported(run, "--from", "cursor")["servers"]) == ["a"]


def test_what_cannot_be_carried_over_is_told(run: Run):
    entries = {
        "off": {"command": "x", "disabled": True},
        "socket": {"type": "ws", "url": "wss://h"},
        "nothing": {},
        "well": {"command": "x", "args": ["${weird:thing}"]},
    }
    told = imported(run, "-", input=json.dumps({"mcpServers": entries}))
    assert list(told["servers"]) == ["well"]
    assert told["servers"]["well"]["command"] == ["x", "$${weird:thing}"]
    assert [note.partition(":")[0] for note in told["notes"]] == ["off", "socket", "nothing", "well"]


@pytest.mark.parametrize(
    ("document", "code"),
    [
        ({"name": "io.x/y", "packages": []}, "NoServers"),
        ({"apiVersion": "toolhive.stacklok.dev/v1alpha1"}, "NoServers"),
        ({"tools": []}, "NoServers"),
        ({"mcpServers": {}}, "NoServers"),
        ([], "WrongTopLevel"),
    ],
)
def test_a_file_of_another_kind_gets_a_sentence(run: Run, document: Any, code: str):
    refused = run("import", "-", input=json.dumps(document))
    assert (refused.exit_code, f"[{code}]" in refused.stderr) == (2, True)
