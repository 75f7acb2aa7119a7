"""The pages about the gateway are true: settings that they show are taken, and what they list is all that there is."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, cast

import click
import pytest
import yaml

from weft.cli.connecting import ways_to
from weft.cli.group import COMMANDS, weft
from weft.cli.remote import URL
from weft.config import Config, load_config
from weft.doors.admin import AdminDoor
from weft.doors.fronts import admin_front, public_front
from weft.doors.mcp.methods import LEGACY_METHODS, MODERN_METHODS, VERSIONS
from weft.doors.sites import Site
from weft.gateway.results import ERROR, TRACE, WARNINGS
from weft.telemetry.exposition import render
from weft.telemetry.metrics import Metrics
from weft.upstreams.process import INHERITED
from weft.upstreams.results import WRAPPED

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
GUIDE = sorted((DOCS / "guide").glob("*.md"))
FENCE = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECTIONS = {field.alias or name for name, field in Config.model_fields.items()}


def text_of(page: str) -> str:
    """Return the text of a page."""
    return (DOCS / page).read_text(encoding="utf-8")


def blocks(page: Path, language: str) -> list[str]:
    """Return the blocks of a page that are in a language."""
    return [text for found, text in FENCE.findall(page.read_text(encoding="utf-8")) if found == language]


def settings() -> list[Any]:
    """Return every block of the guide that is a part of weft.yaml."""
    shown = [(page, text) for page in GUIDE for text in blocks(page, "yaml")]
    return [pytest.param(text, id=page.stem) for page, text in shown if yaml.safe_load(text).keys() <= SECTIONS]


@pytest.mark.parametrize("text", settings())
def test_settings_that_the_guide_shows_are_taken(text: str, tmp_path: Path):
    file = tmp_path / "weft.yaml"
    file.write_text(text, encoding="utf-8")
    for name in re.findall(r"\w+\.pem", text):
        (tmp_path / name).touch()
    config = load_config(file, dict.fromkeys(re.findall(r"\$\{env:(\w+)\}", text), "0123456789"))
    assert [str(problem) for problem in config.problems if problem.severity == "error"] == []


def test_the_guide_shows_settings_of_every_kind():
    shown = {key for page in GUIDE for text in blocks(page, "yaml") for key in yaml.safe_load(text)}
    assert {"listen", "registry", "servers", "views"} <= shown


@pytest.mark.parametrize("page", [*GUIDE, DOCS / "reference" / "http.md"], ids=lambda page: page.stem)
def test_json_that_a_page_shows_is_json(page: Path):
    for text in blocks(page, "json5"):
        assert isinstance(json.loads(text), dict)


@pytest.mark.parametrize("page", ["docs/guide/clients.md", "README.md"])
def test_clients_are_pointed_at_the_gateway_as_the_demo_says(page: str):
    text = (ROOT / page).read_text(encoding="utf-8")
    ways = dict(ways_to(URL, tool="brief", arguments={"query": "bees"}))
    wanted = ["Claude Desktop (claude_desktop_config.json)", "VS Code (.vscode/mcp.json)", "MCP Inspector"]
    assert [way for way in wanted if ways[way] not in text] == []


def test_every_metric_is_in_the_guide():
    page, _ = render([Metrics().snapshot()])
    families = re.findall(r"^# TYPE (\S+) ", page.decode(), re.MULTILINE)
    assert families
    assert [name for name in families if f"`{name}`" not in text_of("guide/operating.md")] == []


async def nothing(*_: Any) -> Any:
    """Stand in for a door."""


def test_every_path_is_in_the_reference():
    health: Any = nothing
    public = public_front(nothing, nothing, health=health, site=Site(), metrics=nothing)
    admin = admin_front(AdminDoor(health), health=health, metrics=nothing)
    # The guards say themselves what there is, to whoever asks for something else.
    routes = {*cast("Any", public)._routes, *cast("Any", admin)._routes}
    assert {"/mcp", "/mcp/tools/call", "/reload", "/readyz"} <= routes
    assert [path for path in routes if f"`{path}`" not in text_of("reference/http.md")] == []


def test_every_method_and_version_is_in_the_reference():
    page = text_of("reference/http.md")
    assert [method for method in MODERN_METHODS | LEGACY_METHODS if f"`{method}`" not in page] == []
    assert [version for version in VERSIONS if version not in text_of("guide/serving.md")] == []


def test_what_weft_puts_into_results_is_in_the_guide():
    page = text_of("guide/serving.md")
    assert [key for key in (ERROR, TRACE, WARNINGS, WRAPPED) if f"| `{key}` |" not in page] == []


def test_what_children_inherit_is_in_the_guide():
    assert [name for name in INHERITED if f"`{name}`" not in text_of("guide/servers.md")] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_a_command_is_in_its_section(name: str):
    command = weft.get_command(click.Context(weft), name)
    assert command is not None
    section = text_of("reference/cli.md").split(f"\n## weft {name}\n")[1].split("\n## ")[0]
    options = [option.opts[-1] for option in command.params if isinstance(option, click.Option)]
    shared = "are those of `weft call`" in section
    assert [option for option in options if option not in section and not shared] == []
