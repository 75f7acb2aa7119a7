"""weft migrate, and fmt and validate with registries of both versions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.registry.registries import SOUND
from weft.app import load, problems_of
from weft.errors import errors_in

from .conftest import FIXTURES, Run

V1: dict[str, Any] = {
    "schemaVersion": "1.0",
    "tools": [
        {"name": "search", "source": {"target": "web", "tool": "find"}, "defaults": {"limit": 5}},
        {"name": "fetch", "version": "1.2", "source": {"server": "web", "serverVersion": "2.0.0", "tool": "fetch"}},
    ],
    "compositions": [
        {"name": "both", "spec": {"pipeline": {"steps": [{"operation": "search"}, {"operation": "fetch"}]}}}
    ],
}


def written(folder: Path, document: dict[str, Any], name: str = "old.json") -> Path:
    (folder / name).write_text(json.dumps(document), encoding="utf-8")
    return folder / name


@pytest.mark.req("REG-49")
def test_a_registry_of_version_1_becomes_one_of_version_2_that_is_valid(run: Run, folder: Path):
    done = run("migrate", written(folder, V1), "-o", "new.json")
    assert (done.exit_code, done.stderr) == (0, "")
    made = json.loads((folder / "new.json").read_text())
    assert problems_of(load(folder / "new.json")) == []
    assert made["servers"] == [
        {"name": "web", "version": "1.0.0", "provides": [{"tool": "search", "version": "1.0.0"}]},
        {"name": "web", "version": "2.0.0", "provides": [{"tool": "fetch", "version": "1.2.0"}]},
    ]
    assert made["tools"][0]["source"] == {
        "server": "web", "serverVersion": "1.0.0", "tool": "find", "defaults": {"limit": 5},
    }  # fmt: skip
    assert made["tools"][2]["depends"] == [
        {"type": "tool", "name": "search", "version": "1.0.0"},
        {"type": "tool", "name": "fetch", "version": "1.2.0"},
    ]


@pytest.mark.req("REG-49")
def test_what_a_person_must_decide_is_told(run: Run, folder: Path):
    told = run("migrate", written(folder, V1), "-o", "new.json").stdout.splitlines()
    assert told == [
        "Decide: tool 'search' had no version: 1.0.0 is written",
        "Decide: tool 'fetch' had the version '1.2': 1.2.0 is written",
        "Decide: tool 'both' had no version: 1.0.0 is written",
        "Decide: which version of server 'web' this was written for is not said: 1.0.0 is written",
        "✓ Written to new.json: 3 tools",
    ]


@pytest.mark.req("REG-49")
def test_tools_that_only_upstreams_know_stay_until_somebody_says_where_they_are(run: Run, folder: Path):
    bare = {"schemaVersion": "1.0", "tools": [{"name": "t", "spec": {"tool": "summarize"}}]}
    old = written(folder, bare)
    open_ = run("migrate", old, "-o", "new.json", "--json")
    assert "nobody says where summarize is" in json.loads(open_.stdout)["decisions"][1]
    assert errors_in(problems_of(load(folder / "new.json"))) == []
    run("migrate", old, "-o", "new.json", "--from", "summarize=llm@2.0.0")
    made = json.loads((folder / "new.json").read_text())
    assert problems_of(load(folder / "new.json")) == []
    assert made["servers"] == [
        {"name": "llm", "version": "2.0.0", "provides": [{"tool": "summarize", "version": "1.0.0"}]}
    ]


@pytest.mark.req("REG-49")
def test_a_tool_without_a_server_is_not_guessed(run: Run, folder: Path):
    old = written(folder, {"schemaVersion": "1.0", "tools": [{"name": "email", "description": "Sends"}]})
    done = run("migrate", old, "-o", "new.json")
    assert done.exit_code == 2
    assert not (folder / "new.json").exists()
    assert "no server is known for email" in done.stderr
    assert run("migrate", old, "-o", "new.json", "--from", "*=mail").exit_code == 0
    assert problems_of(load(folder / "new.json")) == []


@pytest.mark.req("REG-49")
@pytest.mark.parametrize(
    "name", ["registry-v1.json", "algebra-extended-registry.json", "algebra-research-pipeline.json"]
)
def test_the_documents_of_the_seeds_migrate_without_an_error(run: Run, folder: Path, name: str):
    assert run("migrate", FIXTURES / name, "-o", "new.yaml").exit_code == 0
    assert errors_in(problems_of(load(folder / "new.yaml"))) == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--from", "summarize"], "does not say where"),
        (["--from", "summarize=llm@latest"], "another one tomorrow"),
    ],
)
def test_a_wrong_option_is_told(run: Run, folder: Path, arguments: list[str], told: str):
    done = run("migrate", written(folder, V1), "-o", "-", *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert told in done.stderr


def test_a_registry_that_is_of_version_2_is_left_alone(run: Run, folder: Path):
    done = run("migrate", written(folder, SOUND), "-o", "new.json")
    assert (done.exit_code, "already" in done.stderr) == (2, True)


@pytest.mark.req("REG-1")
def test_validate_tells_that_a_registry_is_of_version_1(run: Run):
    done = run("validate", FIXTURES / "registry-v1.json")
    assert done.exit_code == 0
    assert "OldRegistry" in done.stdout
    assert "is valid (1 warning)" in done.stdout


@pytest.mark.req("REG-19", "REG-22")
def test_validate_takes_a_registry_and_tells_everything_in_one_run(run: Run, folder: Path):
    broken = json.loads(json.dumps(SOUND).replace('"#Query:1.0.0"', '"#Qery:1.0.0"'))
    broken["tools"][2]["depends"][0]["name"] = "fecth"
    assert run("validate", written(folder, SOUND)).exit_code == 0
    done = run("validate", "--json", written(folder, broken, "broken.json"))
    assert done.exit_code == 2
    errors = {one["code"] for one in json.loads(done.stdout)["errors"]}
    assert {"UnknownRef", "UnknownName"} <= errors


def test_fmt_keeps_references_and_what_is_included(run: Run, folder: Path):
    written(folder, {"schemas": SOUND["schemas"]}, "schemas.json")
    main = {"$include": ["schemas.json"], "schemaVersion": "2.0", "tools": SOUND["tools"][:2]}
    path = written(folder, main)
    assert run("fmt", path).exit_code == 0
    made = json.loads(path.read_text())
    assert list(made) == ["schemaVersion", "$include", "tools"]
    assert made == main
    assert run("validate", "--strict", path).exit_code == 0


@pytest.mark.req("REG-25", "REG-28")
def test_validate_takes_its_severities_from_weft_yaml(run: Run, folder: Path):
    lone: dict[str, Any] = {"name": "Lone", "version": "1.0.0", "schema": {}}
    unused = {**SOUND, "schemas": [*SOUND["schemas"], lone]}
    path = written(folder, unused)
    (folder / "weft.yaml").write_text("registry: {validation: {startup: {unusedSchema: error}}}\n")
    assert run("validate", path).exit_code == 0
    done = run("validate", "-c", "weft.yaml", path)
    assert (done.exit_code, "UnusedSchema" in done.stdout) == (2, True)


@pytest.mark.req("REG-3")
def test_run_takes_a_tool_in_one_of_its_versions(run: Run, folder: Path):
    def picks(version: str, field: str) -> dict[str, Any]:
        spec = {"schemaMap": {"mappings": {"value": {"path": f"$.{field}"}}}}
        return {"name": "pick", "version": version, "spec": spec}

    document = {"schemaVersion": "2.0", "tools": [picks("1.9.0", "old"), picks("1.10.0", "new")]}
    registry = written(folder, document)
    for name, value in (("pick", "b"), ("pick@1.9.0", "a"), ("pick@1.10.0", "b")):
        done = run("run", name, "--registry", registry, "--input", '{"old": "a", "new": "b"}')
        assert json.loads(done.stdout) == {"value": value}
    missing = run("run", "pick@2.0.0", "--registry", registry)
    assert (missing.exit_code, "pick@1.10.0" in missing.stderr) == (2, True)
