"""server.json of the MCP registry: imported as servers that can be started, exported as remotes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from weft.cli.export import command as export
from weft.cli.import_ import command as import_
from weft.config import load_config
from weft.config.mcpservers import Imported, import_servers
from weft.errors import InputError, NotFound
from weft.registry.serverjson import server_json

STDIO = {"transport": {"type": "stdio"}}


def _imported(**fields: Any) -> Imported:
    return import_servers({"name": "io.github.ada/weather", "description": "d", "version": "1.0.0", **fields})


def _package(**fields: Any) -> Imported:
    return _imported(packages=[{"registryType": "npm", "identifier": "@a/b", "version": "1.2.3", **STDIO, **fields}])


@pytest.mark.parametrize(
    ("package", "command"),
    [
        ({}, "npx -y @a/b@1.2.3"),
        ({"runtimeHint": "bunx"}, "bunx -y @a/b@1.2.3"),
        ({"registryType": "pypi", "identifier": "b"}, "uvx b@1.2.3"),
        ({"registryType": "nuget", "identifier": "B"}, "dnx B@1.2.3 --yes"),
        ({"registryType": "oci", "identifier": "ghcr.io/a/b"}, "docker run -i --rm ghcr.io/a/b:1.2.3"),
        ({"registryType": "oci", "identifier": "h:5000/a/b:9", "version": None}, "docker run -i --rm h:5000/a/b:9"),
        ({"packageArguments": [{"type": "positional", "value": "start"}]}, "npx -y @a/b@1.2.3 start"),
        ({"packageArguments": [{"type": "named", "name": "--port", "value": "8"}]}, "npx -y @a/b@1.2.3 --port 8"),
        ({"runtimeArguments": [{"type": "positional", "value": "--quiet"}]}, "npx -y --quiet @a/b@1.2.3"),
    ],
)
def test_a_package_becomes_the_command_line_of_its_runtime(package: dict[str, Any], command: str):
    made = _package(**package)
    assert " ".join(made.servers["weather"]["command"]) == command


def test_what_a_person_must_give_becomes_a_variable():
    made = _package(
        environmentVariables=[
            {"name": "API_KEY", "isRequired": True, "isSecret": True, "description": "Your key"},
            {"name": "UNITS", "default": "metric"},
            {"name": "MODE", "value": "fast"},
            {"name": "EXTRA"},
        ],
        packageArguments=[
            {"type": "named", "name": "--dir", "isRequired": True, "valueHint": "dir"},
            {"type": "named", "name": "--level", "valueHint": "n"},
            {
                "type": "positional",
                "valueHint": "path",
                "value": "{root}/x",
                "variables": {"root": {"isRequired": True}},
            },
        ],
    )
    assert made.servers["weather"] == {
        "command": ["npx", "-y", "@a/b@1.2.3", "--dir", "${env:WEATHER_DIR}", "${env:WEATHER_ROOT}/x"],
        "env": {"API_KEY": "${env:API_KEY}", "UNITS": "${env:UNITS:-metric}", "MODE": "fast"},
    }
    assert made.variables.keys() == {"API_KEY", "WEATHER_DIR", "WEATHER_ROOT"}
    assert made.variables["API_KEY"] == "server weather: Your key"
    assert [note for note in made.notes if "optional" in note] == [
        "weather: the variable EXTRA is optional, and was left out",
        "weather: the argument --level is optional, and was left out",
    ]


def test_a_container_is_given_its_variables():
    made = _package(registryType="oci", identifier="a/b:1", environmentVariables=[{"name": "K", "isRequired": True}])
    assert made.servers["weather"]["command"] == ["docker", "run", "-i", "--rm", "-e", "K", "a/b:1"]


def test_a_file_from_elsewhere_chooses_neither_the_program_nor_our_variables():
    made = _package(
        runtimeHint="bash",
        runtimeArguments=[{"type": "positional", "value": "${env:AWS_SECRET}"}],
        environmentVariables=[{"name": "X", "value": "${AWS_SECRET}"}, {"name": "Y", "default": "${env:AWS}"}],
    )
    entry = made.servers["weather"]
    assert entry["command"] == ["npx", "-y", "$${env:AWS_SECRET}", "@a/b@1.2.3"]
    assert entry["env"] == {"X": "$${AWS_SECRET}", "Y": "${env:Y}"}
    assert any("bash" in note for note in made.notes)
    assert _package(identifier="--evil").servers == {}


def test_a_remote_becomes_an_endpoint():
    made = _imported(
        remotes=[
            {"type": "sse", "url": "https://h.example/sse"},
            {
                "type": "streamable-http",
                "url": "https://{region}.h.example/mcp",
                "variables": {"region": {"default": "eu"}},
                "headers": [
                    {"name": "Authorization", "value": "Bearer {token}", "variables": {"token": {"isSecret": True}}},
                    {"name": "Accept", "value": "*/*"},
                ],
            },
        ]
    )
    assert made.servers == {
        "weather": {
            "url": "https://${env:WEATHER_REGION:-eu}.h.example/mcp",
            "transport": "streamable-http",
            "headers": {"Authorization": "Bearer ${env:WEATHER_TOKEN}"},
        }
    }
    assert any("https://h.example/sse" in note for note in made.notes)
    assert any("Accept" in note for note in made.notes)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"packages": [{"registryType": "mcpb", "identifier": "https://h/x.mcpb"}]}, "'mcpb' was left out"),
        ({"packages": [{"registryType": "npm", "identifier": "a", "transport": {"type": "sse"}}]}, "serves sse"),
        ({"packages": []}, "neither a package"),
    ],
)
def test_what_cannot_be_started_is_told(fields: dict[str, Any], said: str):
    made = _imported(**fields)
    assert made.servers == {}
    assert any(said in note for note in made.notes)


def test_the_answer_of_a_registry_is_taken_whole():
    one = {"name": "a.b/c", "remotes": [{"type": "streamable-http", "url": "https://h.example/mcp"}]}
    made = import_servers({"servers": [{"server": one, "_meta": {}}, {"server": {**one, "name": "x.y/c"}}]})
    assert list(made.servers) == ["c", "c-2"]


def test_an_imported_file_makes_settings_that_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    value = {"name": "a.b/c", "packages": [{"registryType": "npm", "identifier": "c", "version": "1.0.0"}]}
    Path("server.json").write_text(json.dumps(value))
    done = CliRunner().invoke(import_, ["server.json", "-o", "weft.yaml"])
    assert done.exit_code == 0, done.output
    assert load_config(Path("weft.yaml"), {}).servers["c"].argv == ("npx", "-y", "c@1.0.0")


def test_a_view_is_exported_as_a_remote_and_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    views = {"research": {"description": "Finds\n and " + "reads " * 40}}
    Path("weft.yaml").write_text(json.dumps({"listen": {"publicUrl": "https://h.example/"}, "views": views}))
    done = CliRunner().invoke(export, ["server.json", "--name", "com.example/research", "--view", "research"])
    made = json.loads(done.stdout)
    assert made["remotes"] == [{"type": "streamable-http", "url": "https://h.example/mcp/research"}]
    assert len(made["description"]) <= 100
    assert import_servers(made).servers["research"]["url"] == "https://h.example/mcp/research"
    done = CliRunner().invoke(export, ["server.json", "--name", "com.example/all", "-o", "out.json"])
    assert json.loads(Path("out.json").read_text())["remotes"][0]["url"] == "https://h.example/mcp"
    done = CliRunner().invoke(export, ["server.json", "--name", "com.example/x", "--view", "reserch"])
    assert isinstance(done.exception, NotFound)


def test_tools_are_listed_for_whoever_publishes_and_a_name_must_be_one():
    made = server_json(name="a.b/c", url="https://h.example/mcp", version="1.0.0", description="d", tools=["b", "a"])
    assert made["_meta"]["io.modelcontextprotocol.registry/publisher-provided"] == {"weft": {"tools": ["a", "b"]}}
    with pytest.raises(InputError, match="not a name"):
        server_json(name="tools", url="https://h.example/mcp", version="1", description="d")
