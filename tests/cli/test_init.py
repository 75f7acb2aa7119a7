"""`weft init`: a project that works at once."""

from __future__ import annotations

import json
from pathlib import Path

from weft.config import load_config

from .conftest import Run


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
