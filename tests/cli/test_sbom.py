"""`weft sbom export`: a bill of a real registry, printed or written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from weft.cli.sbom import command
from weft.errors import DocumentInvalid, NotFound

from .conftest import FIXTURES

REGISTRY = FIXTURES / "everything-registry.json"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(command, ["export", *(str(one) for one in arguments)])


@pytest.mark.req("REG-47")
def test_a_registry_is_exported_and_valid(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    done = run("--format", "cyclonedx", "--registry", REGISTRY)
    assert done.exit_code == 0, done.output
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(done.stdout) is None
    needs = {one["ref"]: one.get("dependsOn", []) for one in json.loads(done.stdout)["dependencies"]}
    assert "server:search-backend@2.0.0" in needs["tool:search@1.1.0"]
    assert "schema:Query@1.0.0" in needs["tool:search@1.0.0"]
    assert run("--format", "cyclonedx", "--registry", REGISTRY).stdout == done.stdout


def test_an_agent_is_exported_to_a_file(tmp_path: Path):
    file = tmp_path / "bill.json"
    done = run("--format", "spdx", "--registry", REGISTRY, "--agent", "research-agent@2.1.0", "-o", file)
    assert done.exit_code == 0, done.output
    assert "research-agent" in {one["name"] for one in json.loads(file.read_text())["packages"]}


def test_an_unknown_agent_and_a_broken_registry_are_refused(tmp_path: Path):
    assert isinstance(run("--format", "spdx", "--registry", REGISTRY, "--agent", "nobody").exception, NotFound)
    (tmp_path / "broken.json").write_text('{"schemaVersion": "2.0", "tools": [{}]}')
    done = run("--format", "spdx", "--registry", tmp_path / "broken.json")
    assert isinstance(done.exception, DocumentInvalid)
