"""`weft init`: a project that works at once."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from weft.config import load_config

from .conftest import Run, process

SECTION = re.compile(r"^# ((?:identity|policy|lock|audit):.*|  - .*)$", re.MULTILINE)
"""A line of a section that is commented out."""


def test_the_new_project_is_valid_and_its_tests_pass(run: Run, folder: Path):
    made = run("init")
    assert made.exit_code == 0, made.stderr
    assert "weft serve" in made.stderr
    valid = run("validate", "registry.yaml")
    assert (valid.exit_code, "warning" in valid.stdout) == (0, False)
    tested = run("test")
    assert tested.exit_code == 0, tested.stdout
    assert "2 passed, 0 failed" in tested.stdout


def test_the_settings_of_the_new_project_load_without_a_warning(run: Run, folder: Path):
    run("init", "my-tools")
    config = load_config(folder / "my-tools" / "weft.yaml", {})
    assert (config.problems, config.unused()) == ((), [])
    assert config.registry.path == folder / "my-tools" / "registry.yaml"
    assert [server.argv[1:] for server in config.servers.values()] == [
        ("-m", "weft.demo.documents"), ("-m", "weft.demo.summarize"),
    ]  # fmt: skip


@pytest.mark.req("REG-40")
def test_the_sections_that_are_commented_out_hold_when_they_are_not(run: Run, folder: Path):
    run("init")
    settings = folder / "weft.yaml"
    text, count = SECTION.subn(r"\1", settings.read_text(encoding="utf-8"))
    assert count == 5, "four sections, one of two lines"
    settings.write_text(text, encoding="utf-8")
    assert run("validate", "weft.yaml").stdout == "✓ weft.yaml is valid\n"
    config = load_config(settings, {})
    assert (config.problems, config.unused()) == ((), [])
    assert (config.identity.anonymous, config.lock.mode, len(config.policy)) == ("deny", "warn", 1)
    assert config.identity.key_file == folder / "keys.json"

    assert run("key", "create", "--agent", "helper@1.0.0").exit_code == 0
    assert process("lock", cwd=folder).returncode == 0
    serve = [sys.executable, "-m", "weft.cli", "serve", "--stdio", "--log-level", "warning"]
    listed = process("tools", "--stdio", "--", *serve, cwd=folder)
    assert listed.stderr == "4 tools\n", "and no warning: every tool is as it was locked"
    names = [line.split()[0] for line in listed.stdout.splitlines()]
    assert names == ["brief", "search_documents", "get_document", "summarize"], "create_document does not only read"
    called = process("call", "brief", "query=bees", "--stdio", "--", *serve, cwd=folder)
    assert "summary" in json.loads(called.stdout), called.stderr
    verified = run("audit", "verify", "audit.log", "--key", "audit.log.key")
    assert verified.exit_code == 0, verified.output
    assert '"brief"' in (folder / "audit.log").read_text(encoding="utf-8")


def test_a_folder_with_a_project_is_left_alone(run: Run, folder: Path):
    (folder / "registry.yaml").write_text("mine")
    refused = run("init")
    assert refused.exit_code == 2
    assert "registry.yaml" in refused.stderr
    assert [path.name for path in folder.iterdir()] == ["registry.yaml"]
    assert (folder / "registry.yaml").read_text() == "mine"


def test_a_readme_that_is_there_stays_as_it_is(run: Run, folder: Path):
    (folder / "README.md").write_text("mine")
    made = run("init", "--json")
    assert "README.md" not in json.loads(made.stdout)["files"]
    assert (folder / "README.md").read_text() == "mine"
    assert (folder / "weft.yaml").exists()
