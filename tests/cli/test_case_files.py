"""`weft test`: case files."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import Run

Write = Callable[..., Path]

REGISTRY = """
schemaVersion: "1.0"
tools:
  - name: research
    inputType: string
    spec:
      pipeline:
        steps:
          - operation: {scatterGather: {targets: [web, papers], timeoutMs: 2000}}
          - operation: {filter: {predicate: "item.score > 0.5"}}
"""
HEAD = """
registry: ./registry.yaml
mocks:
  web: [{title: W, score: 0.9}]
  papers: [{title: P, score: 0.8}, {title: Q, score: 0.1}]
cases:
"""


@pytest.fixture
def cases(folder: Path) -> Write:
    """Write a case file beside its registry."""
    (folder / "registry.yaml").write_text(REGISTRY)

    def write(text: str, name: str = "a.weft-test.yaml") -> Path:
        (folder / name).write_text(HEAD + text)
        return folder / name

    return write


def case(expect: str, more: str = "") -> str:
    return f"  - {{name: it, tool: research, input: bees, {more} expect: {{{expect}}}}}\n"


@pytest.mark.parametrize(
    "text",
    [
        case("value: [{title: W, score: 0.9}, {title: P, score: 0.8}]"),
        case("contains: [{title: P}]"),
        case("contains: [{title: W}, {title: P}], warnings: []"),
        case("calls: [web, papers]"),
        case("calls: {web: 1, fetch: 0}"),
        case("contains: [{title: P}], warnings: [Target 'web' failed]", "mocks: {web: {$down: refused}},"),
        case("warnings: 1", "mocks: {web: {$late: {seconds: 5, answer: []}}},"),
        case("error: ExecutionFailed", "mocks: {web: {$error: no}, papers: {$error: no}},"),
        case("error: All 2 scatter targets failed", "mocks: {web: {$error: no}, papers: {$down: no}},"),
        case("error: Scatter-gather timeout", "mocks: {web: {$late: {seconds: 9}}, papers: {$late: {seconds: 9}}},"),
    ],
)
def test_a_case_passes_when_all_is_as_expected(run: Run, cases: Write, text: str):
    cases(text)
    done = run("test")
    assert done.stdout == "✓ a.weft-test.yaml: it\n1 passed, 0 failed\n"
    assert done.exit_code == 0


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (case("value: [{title: W, score: 0.9}]"), ("value at $[1]", "nothing", '{"title": "P", "score": 0.8}')),
        (case("value: [{title: W, score: 1}, {title: P}]"), ("value at $[0].score", "1", "0.9")),
        (case("contains: [{title: P}, {title: W}]"), ("item 1 of $", 'an item with {"title": "W"}', "[")),
        (case("error: boom"), ("outcome", "the error boom", "[")),
        (
            case("value: 1", "mocks: {web: {$error: a}, papers: {$error: b}},"),
            ("outcome", "a value", "ExecutionFailed: All"),
        ),
        (case("warnings: [x]"), ("warnings", '["x"]', "[]")),
        (case("calls: [papers, web]"), ("calls", '["papers", "web"]', '["web", "papers"]')),
        (case("calls: {web: 2}"), ("calls of web", "2", "1")),
        (case("contains: []", "mocks: {web: {$answers: []}},"), ("answers of web", "at most 0 calls", "1 calls")),
    ],
)
def test_a_case_fails_with_the_place_what_was_expected_and_what_came(
    run: Run, cases: Write, text: str, told: tuple[str, str, str]
):
    what, expected, got = told
    cases(text)
    done = run("test")
    assert done.exit_code == 1
    assert f"    {what}\n      - expected {expected}\n      + got      {got}" in done.stdout
    assert done.stdout.endswith("0 passed, 1 failed\n")


def test_true_is_not_1_and_1_is_1_0(run: Run, cases: Write):
    more = "mocks: {web: [{score: 1.0, ok: true}], papers: []},"
    cases(case("value: [{score: 1, ok: 1}]", more))
    done = run("test")
    assert "$[0].ok" in done.stdout
    assert "$[0].score" not in done.stdout


def test_late_answers_cost_no_time(run: Run, cases: Write):
    cases(case("warnings: 1", "mocks: {web: {$late: {seconds: 3600}}},"))
    began = time.monotonic()
    assert run("test").exit_code == 0
    assert time.monotonic() - began < 10


def test_python_tools_that_really_wait_are_waited_for(run: Run, cases: Write, folder: Path):
    (folder / "slow.py").write_text(
        "import asyncio\nimport weft as w\n@w.python_tool\nasync def web(query: str) -> list[object]:\n"
        "    await asyncio.sleep(0.05)\n    await asyncio.to_thread(print, 'x')\n    return [{'score': 1}]\n"
    )
    text = HEAD.replace("mocks:", "tools: ./slow.py\nmocks:").replace("  web: [{title: W, score: 0.9}]\n", "")
    (folder / "a.weft-test.yaml").write_text(text + case("contains: [{score: 1}], warnings: [], calls: {web: 1}"))
    done = run("test")
    assert (done.exit_code, done.stdout) == (0, "✓ a.weft-test.yaml: it\n1 passed, 0 failed\n")


def test_a_composition_that_takes_a_text_takes_it_as_the_sole_property_too(run: Run, cases: Write):
    cases("  - {name: it, tool: research, input: {topic: bees}, expect: {calls: {web: 1}}}\n")
    assert run("test").exit_code == 0


@pytest.mark.parametrize(
    ("text", "place", "sentence"),
    [
        (case("valeu: 1"), ":7:", "did you mean 'value'?"),
        ("  - {name: it, tool: resaerch, expect: {value: 1}}\n", ":7:", "did you mean 'research'?"),
        (case(""), ":7:", "nothing is expected"),
        (case("error: x, value: 1"), ":7:", "has no value"),
        (case("value: 1", "mocks: {web: {$dwon: x}},"), ":7:", "did you mean '$down'?"),
        ("  - {tool: research, expect: {value: 1}}\n", ":7:", "missing key 'name'"),
        ("  []\n", "", "at least 1"),
        (case("calls: 3"), ":7:", "calls are a list of tools"),
    ],
)
def test_a_file_that_is_wrong_exits_with_2_and_the_place(run: Run, cases: Write, text: str, place: str, sentence: str):
    cases(text)
    done = run("test")
    assert done.exit_code == 2
    assert f"a.weft-test.yaml{place}" in done.stderr
    assert sentence in done.stderr


def test_a_registry_that_is_not_there_is_a_problem_of_the_line_that_names_it(run: Run, folder: Path):
    (folder / "a.weft-test.yaml").write_text("cases: [{name: a, tool: b, expect: {value: 1}}]\nregistry: gone.json\n")
    assert "a.weft-test.yaml:2:11: error: cannot read the file" in run("test").stderr


def test_problems_of_the_registry_are_told_with_their_own_places(run: Run, cases: Write, folder: Path):
    cases(case("value: 1"))
    (folder / "registry.yaml").write_text("tools:\n  - {name: research, spce: x}\n")
    assert "registry.yaml:2:" in run("test").stderr


def test_one_wrong_file_does_not_stop_the_others(run: Run, cases: Write):
    cases(case("valeu: 1"), "bad.weft-test.yaml")
    cases(case("calls: {web: 1}"), "good.weft-test.yaml")
    done = run("test")
    assert (done.exit_code, done.stdout) == (2, "✓ good.weft-test.yaml: it\n1 passed, 0 failed\n")


def test_files_are_found_below_the_paths_but_not_in_hidden_folders(run: Run, cases: Write, folder: Path):
    cases(case("calls: {web: 1}"))
    for name in ("sub", ".hidden", "node_modules"):
        (folder / name).mkdir()
        text = (HEAD + case("calls: {web: 1}")).replace("./registry", "../registry")
        (folder / name / "b.weft-test.yaml").write_text(text)
    assert run("test").stdout.endswith("2 passed, 0 failed\n")
    assert run("test", "sub").stdout.endswith("1 passed, 0 failed\n")
    assert run("test", "a.weft-test.yaml").stdout.endswith("1 passed, 0 failed\n")


def test_json_is_a_case_file_too(run: Run, folder: Path):
    (folder / "registry.yaml").write_text(REGISTRY)
    told: dict[str, Any] = {
        "registry": "./registry.yaml",
        "mocks": {"web": [], "papers": []},
        "cases": [{"name": "none", "tool": "research", "input": "x", "expect": {"value": []}}],
    }
    (folder / "a.weft-test.json").write_text(json.dumps(told))
    assert run("test").stdout.endswith("1 passed, 0 failed\n")


def test_json_tells_passed_failed_cases_and_problems(run: Run, cases: Write):
    cases(case("value: 1") + case("calls: {web: 1}"))
    done = run("test", "--json")
    told = json.loads(done.stdout)
    assert (done.exit_code, told["passed"], told["failed"], told["problems"]) == (1, 1, 1, [])
    assert told["cases"][0]["mismatches"][0]["what"] == "value at $"


def test_no_case_files_at_all_is_input_that_is_wrong(run: Run):
    done = run("test")
    assert (done.exit_code, "no case files under ." in done.stderr) == (2, True)
    assert run("test", "gone.weft-test.yaml").exit_code == 2


@pytest.mark.parametrize("cases", [[3], [{"name": "a", "tool": "a", "expect": 3}]])
def test_what_is_no_object_is_told_without_the_names_of_classes(run: Run, folder: Path, cases: list[object]):
    (folder / "a.weft-test.json").write_text(json.dumps({"registry": "r.json", "cases": cases}))
    done = run("test")
    assert done.exit_code == 2
    assert "3 is not an object" in done.stderr
    assert "expected" in done.stderr
    assert "Written" not in done.stderr
    assert "(Expect)" not in done.stderr
