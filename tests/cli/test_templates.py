"""`weft templates`: listing, showing, keeping and measuring, in this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.conftest import Run

TOOLS = '''
import weft as w

@w.python_tool
async def shout(text: str) -> dict[str, str]:
    """Say it loudly."""
    print("this must not stand in a result")
    return {"said": text.upper()}

@w.python_tool
async def fail(text: str) -> dict[str, str]:
    """Say no."""
    raise RuntimeError(f"no {text}")
'''
GREETING: dict[str, Any] = {
    "name": "greeting",
    "description": "Say hello.",
    "steps": [
        {"id": "first", "tool": "shout", "parameters": {"text": "{{input.name}}"}},
        {"id": "second", "tool": "shout", "parameters": {"text": "hello {{first.said}}"}, "depends_on": ["first"]},
    ],
    "output": "{{second.said}}",
}
TEMPLATE = {
    "id": "greeting-v1",
    "name": "Greeting",
    "composition": GREETING,
    "metadata": {"category": "automation", "tags": ["kind"]},
}


@pytest.fixture
def shop(folder: Path) -> Path:
    """A folder with a weft.yaml, Python tools and a store that keeps."""
    (folder / "tools.py").write_text(TOOLS)
    settings = {"registry": {"source": "tools.py"}, "stores": {"default": {"type": "sqlite", "path": "weft.db"}}}
    (folder / "weft.yaml").write_text(yaml.safe_dump(settings))
    (folder / "greeting.json").write_text(json.dumps(GREETING))
    (folder / "template.yaml").write_text(yaml.safe_dump(TEMPLATE, sort_keys=False))
    return folder


def test_those_that_come_with_weft_are_listed_without_any_settings(run: Run):
    done = run("templates", "list", "--search", "demo order")
    assert done.exit_code == 0
    assert done.stdout.splitlines()[1].split()[:2] == ["demo-order-v1", "automation"]
    found = json.loads(run("templates", "list", "--category", "analysis", "--json").stdout)["templates"]
    assert {one["metadata"]["category"] for one in found} == {"analysis"}
    assert run("templates", "list", "--tag", "nobody-has-this").stderr == "no template fits\n"


def test_show_says_what_is_missing_and_who_would_have_it(run: Run):
    told = run("templates", "show", "gather-context-v1").stdout
    assert "✗ git_log  is not here; would come from git [uvx mcp-server-git]" in told
    assert "query (string): " in told
    assert "weft templates run gather-context-v1 --input '{" in told


def test_show_prints_the_document_as_a_start_for_ones_own(run: Run, folder: Path):
    document = run("templates", "show", "demo-order-v1", "--document").stdout
    (folder / "mine.json").write_text(document)
    assert run("validate", "mine.json").exit_code == 0
    assert json.loads(document)["name"] == "demo_order"


def test_a_template_that_is_not_there_is_a_wrong_input(run: Run):
    done = run("templates", "show", "demo-ordr-v1")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "did you mean 'demo-order-v1'?" in done.stderr


def test_a_template_is_kept_replaced_and_deleted(run: Run, shop: Path):
    assert run("templates", "add", "template.yaml").exit_code == 0
    shown = run("templates", "show", "greeting-v1").stdout
    assert "✓ shout" in shown
    assert "second: shout  after first" in shown
    again = run("templates", "add", "template.yaml")
    assert (again.exit_code, "--replace puts yours in its place" in again.stderr) == (2, True)
    assert "is replaced" in run("templates", "add", "template.yaml", "--replace").stderr
    assert run("templates", "delete", "greeting-v1").exit_code == 0
    assert run("templates", "delete", "greeting-v1").exit_code == 2


def test_a_workflow_document_is_kept_under_an_id(run: Run, shop: Path):
    bare = run("templates", "add", "greeting.json")
    assert (bare.exit_code, "--id my-workflow-v1 --category automation" in bare.stderr) == (2, True)
    done = run("templates", "add", "greeting.json", "--id", "hello-v1", "--category", "analysis", "--json")
    made = json.loads(done.stdout)
    assert (made["id"], made["name"], made["description"]) == ("hello-v1", "greeting", "Say hello.")
    assert made["composition"] == GREETING


def test_what_comes_with_weft_is_never_replaced(run: Run, shop: Path):
    done = run("templates", "add", "template.yaml", "--id", "demo-order-v1", "--replace")
    assert (done.exit_code, "cannot be changed" in done.stderr) == (2, True)


def test_a_store_in_memory_keeps_nothing_and_the_lines_to_add_are_told(run: Run, shop: Path):
    (shop / "weft.yaml").write_text("{}")
    done = run("templates", "add", "template.yaml")
    assert done.exit_code == 2
    assert "[NotKept]" in done.stderr
    lines = done.stderr.split("`")[1]
    (shop / "weft.yaml").write_text(lines)
    assert run("templates", "add", "template.yaml").exit_code == 0


@pytest.mark.parametrize(
    ("file", "text", "told"),
    [
        ("list.json", "[]", "list.json"),
        ("other.json", "{}", "neither a workflow document nor a template"),
        ("missing.json", None, "missing.json: error: cannot read the file"),
        ("wrong.json", json.dumps({**TEMPLATE, "metadata": {"category": "cooking"}}), "wrong.json:1:"),
        ("steps.json", json.dumps({**TEMPLATE, "composition": {"steps": [{"id": "a"}]}}), "at /composition/steps/0"),
    ],
)
def test_a_file_that_is_no_template_is_told_with_its_place(
    run: Run, shop: Path, file: str, text: str | None, told: str
):
    if text is not None:
        (shop / file).write_text(text)
    done = run("templates", "add", file)
    assert (done.exit_code, done.stdout) == (2, "")
    assert told in done.stderr


@pytest.mark.req("WFL-37")
def test_runs_and_what_they_tell_outlive_the_command(run: Run, shop: Path):
    run("templates", "add", "template.yaml")
    assert run("templates", "stats").stderr == "no template was run yet\n"
    for _ in range(2):
        assert run("templates", "run", "greeting-v1", "--input", '{"name": "bee"}').exit_code == 0
    told = run("templates", "stats", "greeting-v1").stdout
    assert told.startswith("greeting-v1  2 runs, 100 % well")
    assert "first   2     100 %" in told
    assert "greeting-v1  automation  2     100 %" in run("templates", "stats").stdout
    runs = json.loads(run("templates", "runs", "greeting-v1", "--json").stdout)["runs"]
    assert [(one["template"], one["status"]) for one in runs] == [("greeting-v1", "succeeded")] * 2
    assert "2 succeeded" in run("templates", "runs").stdout
    assert run("templates", "runs", "--status", "failed").stderr == "there are no runs\n"
    assert run("templates", "runs", "--status", "broken").exit_code == 2


def test_two_places_are_refused(run: Run, shop: Path):
    assert "[TwoPlaces]" in run("templates", "list", "-c", "weft.yaml", "--url", "http://127.0.0.1:1").stderr
    assert "[NoUrl]" in run("templates", "list", "--header", "a: b").stderr
