"""`weft serve`: what it says when it cannot begin."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import process

SETTINGS = """
registry: {source: ./registry.yaml}
listen: {port: 0}
admin: {enabled: false}
"""
REGISTRY = """
schemaVersion: "1.0"
tools: [{name: a, spec: {cache: {keyPaths: [$.q], ttlSeconds: 5, store: requests, inner: {tool: x}}}}]
"""


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """A gateway whose registry names a store that there is not."""
    (tmp_path / "weft.yaml").write_text(SETTINGS)
    (tmp_path / "registry.yaml").write_text(REGISTRY)
    return tmp_path


def test_each_problem_of_a_registry_that_cannot_be_served_is_told_once(broken: Path):
    done = process("serve", cwd=broken)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("UnknownStore") == 1
    assert "registry.yaml:3:" in done.stderr.splitlines()[0]


def test_with_logs_as_json_the_problems_are_a_line_of_them_and_nothing_else_is_said(broken: Path):
    done = process("serve", "--log-format", "json", cwd=broken)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = map(json.loads, done.stderr.splitlines())
    (problem,) = line["problems"]
    assert (line["level"], line["code"]) == ("error", "DocumentInvalid")
    assert "Store 'requests' not configured [UnknownStore]" in problem
    assert "stack" not in line
