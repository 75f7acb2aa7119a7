"""`weft validate`: every problem, with its place."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from .conftest import FIXTURES, Run

BROKEN = """{
  "schemaVersion": "1.0",
  "tools": [
    {"name": "a", "spec": {"pipeline": {"stepps": []}}},
    {"name": "b", "spec": {"pipelin": {}}},
    {"name": "c", "spec": {"composition": "__gone"}},
    {"name": "d", "spec": {"tool": "elsewhere"}}
  ]
}
"""


@pytest.mark.parametrize(
    "name", ["algebra-research-pipeline.json", "algebra-extended-registry.json", "registry-v1.json"]
)
@pytest.mark.req("ALG-31")
def test_the_documents_of_the_seeds_are_valid(run: Run, name: str):
    done = run("validate", FIXTURES / name)
    assert done.exit_code == 0
    assert "is valid" in done.stdout


STATEFUL = """
schemaVersion: "1.0"
tools:
- {name: a, spec: {cache: {keyPaths: [$.q], ttlSeconds: 5, store: keptt, inner: {tool: x}}}}
- {name: b, spec: {cache: {keyPaths: [$.q], ttlSeconds: 5, inner: {tool: x}}}}
"""
SAGA = """
schemaVersion: "1.0"
tools: [{name: s, spec: {saga: {steps: [{id: p, action: {tool: x}}], store: STORE}}}]
"""
STORES = """
stores: {kept: {type: sqlite, path: ./k.db}, quick: {type: memory}, far: {type: redis, url: "redis://h", durable: true}}
"""


@pytest.fixture
def stateful(folder: Path) -> Path:
    """A registry with a mistyped store, the same in Python, sagas on several stores, and settings."""
    (folder / "weft.yaml").write_text(STORES)
    (folder / "r.yaml").write_text(STATEFUL)
    for store in ("kept", "quick", "far"):
        (folder / f"{store}.yaml").write_text(SAGA.replace("STORE", store))
    (folder / "r.py").write_text(
        "import weft as w\n"
        "it = w.composition('it', 'It.', w.cache(w.tool('x'), key='$.q', ttl=w.seconds(5), store='keptt'))\n"
    )
    return folder


@pytest.mark.req("STA-4")
def test_stores_that_patterns_name_are_looked_for_in_the_settings(run: Run, stateful: Path):
    assert run("validate", "r.yaml", "r.py").exit_code == 0, "without settings nobody knows the stores"
    done = run("validate", "-c", "weft.yaml", "--json", "r.yaml", "r.py")
    assert done.exit_code == 2
    errors = json.loads(done.stdout)["errors"]
    assert [(one["code"], one["file"], one["pointer"], one["suggestion"]) for one in errors] == [
        ("UnknownStore", "r.yaml", "/tools/0/spec/cache/store", "kept"),
        ("UnknownStore", "r.py", "/tools/0/spec/cache/store", "kept"),
    ]
    assert not (stateful / "k.db").exists(), "nothing was opened"


def test_a_saga_in_a_store_that_forgets_is_an_error_as_it_is_when_it_is_served(run: Run, stateful: Path):
    done = run("validate", "-c", "weft.yaml", "quick.yaml", "kept.yaml", "far.yaml")
    assert done.stdout.count("[StoreNotDurable]") == 1
    assert "quick.yaml:3:" in done.stdout
    assert "✓ kept.yaml is valid" in done.stdout
    assert "✓ far.yaml is valid" in done.stdout


def test_names_of_stores_are_checked_also_where_the_library_of_one_is_missing(
    run: Run, stateful: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "weft.stores.redis", None)
    done = run("validate", "-c", "weft.yaml", "r.yaml", "far.yaml")
    assert "Store 'keptt' not configured [UnknownStore]" in done.stdout
    assert done.stdout.count("did you mean 'kept'?") == 1
    assert "✓ far.yaml is valid" in done.stdout


@pytest.mark.req("ALG-56")
def test_every_problem_is_reported_in_one_run(run: Run, folder: Path):
    (folder / "r.json").write_text(BROKEN)
    done = run("validate", "r.json")
    assert done.exit_code == 2
    assert "r.json:4:51: error: unknown key 'stepps'" in done.stdout
    assert "at /tools/0/spec/pipeline/stepps" in done.stdout
    assert "did you mean 'steps'?" in done.stdout
    assert "did you mean 'pipeline'?" in done.stdout
    assert "Composition not found: __gone" in done.stdout
    assert "warning: Tool not found: elsewhere" in done.stdout


def test_the_last_line_counts(run: Run, folder: Path):
    (folder / "r.json").write_text(BROKEN)
    (folder / "s.json").write_text("{}")
    lines = run("validate", "r.json", "s.json").stdout.splitlines()
    assert lines[-3].startswith("✗ r.json: ")
    assert lines[-2] == "✓ s.json is valid"
    assert lines[-1].startswith("2 files: ")


def test_json_has_the_form_of_the_http_api(run: Run, folder: Path):
    (folder / "r.json").write_text(BROKEN)
    done = run("validate", "--json", "r.json")
    told = json.loads(done.stdout)
    assert (done.exit_code, told["valid"], list(told)) == (2, False, ["valid", "errors", "warnings"])
    places = [(one["file"], one["line"], one["pointer"]) for one in told["errors"]]
    assert ("r.json", 4, "/tools/0/spec/pipeline/stepps") in places
    assert [one["code"] for one in told["warnings"]] == ["UnknownName"]


def test_strict_refuses_what_is_not_canonical_and_names_the_places(run: Run, folder: Path):
    text = '{"compositions": [{"name": "a", "spec": {"tool": "x"}}]}'
    (folder / "r.json").write_text(text)
    assert run("validate", "r.json").exit_code == 0
    done = run("validate", "--strict", "r.json")
    assert done.exit_code == 2
    assert "schemaVersion is not written" in done.stdout
    assert "at /compositions\n" in done.stdout
    assert "at /compositions/0/spec/tool" in done.stdout
    assert '{"name": "x"}' in done.stdout


def test_strict_compares_values_and_not_their_order(run: Run, folder: Path):
    text = '{"tools": [{"spec": {"tool": {"name": "x"}}, "name": "a"}],\n "schemaVersion": "1.0"}'
    (folder / "r.json").write_text(text)
    assert run("validate", "--strict", "r.json").exit_code == 0


def test_strict_takes_what_fmt_wrote(run: Run, folder: Path):
    copy = folder / "r.json"
    copy.write_bytes((FIXTURES / "algebra-extended-registry.json").read_bytes())
    assert run("validate", "--strict", "r.json").exit_code == 2
    run("fmt", "r.json")
    assert run("validate", "--strict", "r.json").exit_code == 0


def test_python_is_compiled_and_checked(run: Run, research: Path):
    assert run("validate", research.name).exit_code == 0


def test_stdin_is_a_document_too(run: Run):
    assert run("validate", "-", input="tools: []\n").exit_code == 0
    assert "<stdin>:1:9: error" in run("validate", "-", input='{"tools:').stdout


def test_a_file_that_is_not_there_does_not_hide_the_others(run: Run, folder: Path):
    (folder / "r.json").write_text(BROKEN)
    done = run("validate", "gone.json", "r.json")
    assert done.exit_code == 2
    assert "gone.json: error: cannot read the file" in done.stdout
    assert "stepps" in done.stdout


def test_the_settings_of_a_gateway_are_checked_as_such(folder: Path, run: Run):
    (folder / "weft.yaml").write_text("servers:\n  a: {url: 'http://127.0.0.1:1/mcp', comand: [x]}\n")
    found = run("validate", "weft.yaml")
    assert found.exit_code == 2
    assert "did you mean 'command'?" in found.stdout
    (folder / "weft.yaml").write_text("servers:\n  a: {url: 'http://127.0.0.1:1/mcp'}\n")
    assert run("validate", "weft.yaml").stdout == "✓ weft.yaml is valid\n"


def test_middleware_that_the_settings_name_is_imported(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    (folder / "layers_of_ours.py").write_text("async def seen(call, next):\n    return await next(call)\n")
    rules = (
        "middleware: [{use: 'layers_of_ours:%s'}]\ngroups:\n  g: {include: [a], middleware: [{use: 'nowhere:%s'}]}\n"
    )
    (folder / "weft.yaml").write_text(rules % ("sen", "f"))
    done = run("validate", "weft.yaml")
    assert done.exit_code == 2
    assert "did you mean 'seen'?" in done.stdout
    assert "at /groups/g/middleware/0/use" in done.stdout
    (folder / "weft.yaml").write_text(rules.partition("groups")[0] % "seen")
    assert run("validate", "weft.yaml").stdout == "✓ weft.yaml is valid\n"


def test_a_workflow_document_that_lacks_its_steps_is_told_of_them(run: Run, folder: Path):
    (folder / "flow.yaml").write_text("name: flow\nstep: [{id: found, tool: search}]\n")
    done = run("validate", "flow.yaml")
    assert done.exit_code == 2
    assert "did you mean 'steps'?" in done.stdout + done.stderr
    (folder / "registry.yaml").write_text("schemaVersion: '1.0'\nstep: []\n")
    assert "steps" not in run("validate", "registry.yaml").stdout
