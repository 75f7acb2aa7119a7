"""`weft run`: one call, without a server."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from .conftest import FIXTURES, Run, process

DOUBLE = json.dumps(
    {
        "schemaVersion": "1.0",
        "tools": [
            {"name": "double", "inputType": "string", "spec": {"pipeline": {"steps": [{"operation": "echo"}]}}},
            {
                "name": "both",
                "spec": {"scatterGather": {"targets": ["left", "right"], "timeoutMs": 1000}},
            },
        ],
    }
)


@pytest.fixture
def registry(folder: Path) -> Path:
    """A registry where weft run looks for one, and answers for its tools."""
    (folder / "answers.yaml").write_text("echo: done\nleft: [1]\nright: [2]\n")
    path = folder / "registry.json"
    path.write_text(DOUBLE)
    return path


@pytest.mark.req("ALG-34")
@pytest.mark.usefixtures("registry")
def test_the_registry_of_the_folder_is_the_default(run: Run):
    done = run("run", "double", "--mock", "answers.yaml", "--input", '"x"')
    assert (done.exit_code, done.stdout, done.stderr) == (0, '"done"\n', "")


@pytest.mark.req("ALG-34")
@pytest.mark.usefixtures("registry")
def test_an_unknown_tool_is_told_the_nearest(run: Run):
    done = run("run", "duoble")
    assert done.exit_code == 2
    assert "Composition not found: duoble" in done.stderr
    assert "did you mean 'double'?" in done.stderr


def test_without_a_registry_the_reader_is_told_to_name_one(run: Run):
    done = run("run", "x")
    assert (done.exit_code, "--registry" in done.stderr) == (2, True)


@pytest.mark.req("ALG-17")
def test_the_research_pipeline_of_the_seed_runs_on_canned_answers(run: Run, folder: Path):
    answers: dict[str, Any] = {
        "web_search": [{"title": "W", "link": "http://w", "snippet": "s"}],
        "arxiv_search": [{"paper_title": "P", "arxiv_id": "1", "abstract": "a", "published_date": "2024"}],
        "internal_docs": {"$down": "refused"},
        "fetch_document": {"content": "text"},
        "summarize": {"summary": "short"},
    }
    (folder / "answers.json").write_text(json.dumps(answers))
    registry = FIXTURES / "algebra-research-pipeline.json"
    done = run("run", "research_pipeline", "--registry", registry, "--mock", "answers.json", "--input", '"bees"')
    assert (done.exit_code, done.stdout) == (0, '{"summary":"short"}\n')
    assert "warning: Target '__internal_normalized' failed: Upstream 'internal_docs' is unavailable" in done.stderr


def test_python_is_compiled_on_the_fly_with_its_own_tools(run: Run, research: Path, folder: Path):
    (folder / "answers.yaml").write_text("publish: published\n")
    done = run("run", "research", "--registry", research, "--mock", "answers.yaml", "--input", '{"topic": "x"}')
    assert (done.exit_code, done.stdout) == (0, '"published"\n')


def test_a_python_tool_can_be_called_by_itself(run: Run, research: Path):
    done = run("run", "search", "--tools", research, "--input", '"bees"')
    assert json.loads(done.stdout)[0]["title"] == "bees one"


def test_what_a_tool_prints_does_not_stand_in_the_result(run: Run, folder: Path):
    text = "import weft as w\n@w.python_tool\ndef loud() -> int:\n    print('noise')\n    return 1\n"
    (folder / "t.py").write_text(text)
    done = run("run", "loud", "--tools", "t.py")
    assert (done.stdout, done.stderr) == ("1\n", "noise\n")


@pytest.mark.usefixtures("registry")
def test_input_comes_from_a_file_or_from_stdin(run: Run, folder: Path):
    (folder / "in.json").write_text('{"topic": "x"}')
    for given, piped in (("@in.json", None), ("-", '{"topic": "x"}')):
        assert run("run", "double", "--mock", "answers.yaml", "--input", given, input=piped).exit_code == 0


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--input", "hello"], """--input '"hello"'"""),
        (["--input", '{"a":'], "ends too early"),
        (["--input", "@gone.json"], "cannot read the file"),
        (["--input", '{"a": 1, "b": 2}'], "2 properties"),
        (["--timeout", "5"], "--timeout"),
        (["--timeout", "2h"], "--timeout: 2h is longer than any call may take"),
        (["--input", "1e400"], "--input:1:1: error: the number is not finite [NonFiniteNumber]"),
        (["--input", "NaN"], "--input:1:1: error: the number is not finite [NonFiniteNumber]"),
        (["--input", "1 2"], """--input '"1 2"'"""),
        (["--trace-out", "t.png"], "neither .json nor .svg"),
        (["--tools", "gone.py"], "cannot read the file"),
        (["--registry", "gone.json"], "cannot read the file"),
        (["--mock", "gone.yaml"], "cannot read the file"),
    ],
)
def test_input_that_is_wrong_exits_with_2(run: Run, arguments: list[str], sentence: str):
    done = run("run", "double", *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert sentence in done.stderr


@pytest.mark.usefixtures("registry")
def test_the_longest_timeout_is_that_of_the_engine(run: Run):
    assert run("run", "double", "--mock", "answers.yaml", "--input", '"x"', "--timeout", "1h").exit_code == 0


def test_the_input_is_an_empty_object_unless_given(run: Run, folder: Path):
    (folder / "t.py").write_text("import weft as w\n@w.python_tool\ndef same(it: dict, /) -> dict:\n    return it\n")
    assert run("run", "same", "--tools", "t.py").stdout == "{}\n"


@pytest.mark.usefixtures("registry")
def test_input_that_does_not_fit_its_type_is_a_warning(run: Run):
    done = run("run", "double", "--mock", "answers.yaml", "--input", "5")
    assert done.exit_code == 0
    assert "warning: The input of 'double' does not fit" in done.stderr


@pytest.mark.usefixtures("registry")
def test_work_that_failed_exits_with_1_and_names_the_step(run: Run, folder: Path):
    (folder / "answers.yaml").write_text('echo: {$error: "no such page"}\n')
    done = run("run", "double", "--mock", "answers.yaml", "--input", '"x"')
    assert (done.exit_code, done.stdout) == (1, "")
    assert "error: Tool 'echo' failed: no such page" in done.stderr
    assert "in step step_0" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("registry")
def test_a_tool_that_nobody_has_fails_when_it_is_called(run: Run):
    done = run("run", "double", "--input", '"x"')
    assert (done.exit_code, "Tool not found: echo" in done.stderr) == (1, True)


@pytest.mark.usefixtures("registry")
def test_json_has_value_warnings_and_trace_or_the_error(run: Run, folder: Path):
    told = json.loads(run("run", "both", "--mock", "answers.yaml", "--json", "--trace").stdout)
    assert (told["value"], told["warnings"], told["trace"]["step"]) == ([1, 2], [], "both")
    (folder / "answers.yaml").write_text("left: {$down: gone}\nright: {$down: gone}\n")
    failed = run("run", "both", "--mock", "answers.yaml", "--json")
    assert failed.exit_code == 1
    assert json.loads(failed.stdout)["error"]["message"].startswith("All 2 scatter targets failed")


@pytest.mark.usefixtures("registry")
@pytest.mark.req("ALG-50")
def test_the_trace_is_a_tree_on_stderr_and_a_file(run: Run, folder: Path):
    done = run("run", "both", "--mock", "answers.yaml", "--trace", "--trace-out", "t.svg")
    assert "├─ left  tool" in done.stderr
    assert json.loads(done.stdout) == [1, 2]
    assert ElementTree.parse(folder / "t.svg").getroot().tag.endswith("svg")
    run("run", "both", "--mock", "answers.yaml", "--trace-out", "t.json")
    assert [one["step"] for one in json.loads((folder / "t.json").read_text())["children"]] == ["left", "right"]


@pytest.mark.usefixtures("registry")
def test_the_timeout_ends_a_call_that_takes_too_long(run: Run, folder: Path):
    (folder / "answers.yaml").write_text("echo: {$late: {seconds: 30, answer: x}}\n")
    began = time.monotonic()
    done = run("run", "double", "--mock", "answers.yaml", "--input", '"x"', "--timeout", "50ms", "--trace")
    assert (done.exit_code, "did not finish before its deadline" in done.stderr) == (1, True)
    assert "double  composition" in done.stderr
    assert time.monotonic() - began < 10


@pytest.mark.usefixtures("registry")
def test_answers_are_given_in_turn(run: Run, folder: Path):
    (folder / "answers.yaml").write_text("left: {$answers: [[1]]}\nright: {$answers: []}\n")
    done = run("run", "both", "--mock", "answers.yaml")
    assert (done.stdout, "called more often than it has answers" in done.stderr) == ("[1]\n", True)


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize(
    ("answers", "place", "sentence"),
    [
        ("echo: {$eror: x}", ":1:15", "did you mean '$error'?"),
        ("echo: {$error: x, more: 1}", ":1:25", "$error stands alone"),
        ("echo: {$answers: 1}", ":1:18", "$answers is a list"),
        ("echo: {$late: {secs: 1}}", ":1:22", "did you mean 'seconds'?"),
        ("- echo", ":1:1", "an object"),
    ],
)
def test_answers_that_are_written_wrongly_are_placed(run: Run, folder: Path, answers: str, place: str, sentence: str):
    (folder / "answers.yaml").write_text(answers)
    done = run("run", "double", "--mock", "answers.yaml")
    assert done.exit_code == 2
    assert f"answers.yaml{place}: error" in done.stderr
    assert sentence in done.stderr


def test_servers_of_a_config_have_the_tools(tmp_path: Path):
    (tmp_path / "weft.yaml").write_text("servers: {documents: {command: [python, -m, weft.demo.documents]}}\n")
    steps = [{"id": "find", "operation": {"tool": {"name": "search_documents"}}}]
    tool = {"name": "look", "spec": {"pipeline": {"steps": steps}}}
    (tmp_path / "registry.json").write_text(json.dumps({"schemaVersion": "1.0", "tools": [tool]}))
    config = str(tmp_path / "weft.yaml")
    done = process("run", "look", "-c", config, "--input", '{"query": "bees"}', cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "title" in json.loads(done.stdout)[0]
    wrong = process("run", "serch_documents", "-c", config, cwd=tmp_path)
    assert wrong.returncode == 2
    assert "did you mean 'search_documents'?" in wrong.stderr


KEPT = {"idempotent": {"inner": "echo", "keyPaths": ["$.id"], "store": "kept", "onDuplicate": "error"}}


def test_what_patterns_keep_is_forgotten_after_the_run_unless_settings_name_a_store(run: Run, folder: Path):
    tools = [{"name": "once", "spec": KEPT}]
    (folder / "registry.json").write_text(json.dumps({"schemaVersion": "1.0", "tools": tools}))
    (folder / "answers.yaml").write_text("echo: done\n")
    order = ("run", "once", "--mock", "answers.yaml", "--input", '{"id": 1}')
    assert [run(*order).exit_code for _ in range(2)] == [0, 0]
    (folder / "weft.yaml").write_text("stores: {kept: {type: sqlite, path: kept.db}}\n")
    with_store = (*order, "-c", "weft.yaml")
    assert run(*with_store).exit_code == 0
    again = run(*with_store)
    assert again.exit_code == 1
    assert "Duplicate request detected" in again.stderr
    (folder / "weft.yaml").write_text("stores: {kep: {type: memory}}\n")
    missing = run(*with_store)
    assert missing.exit_code == 2
    assert "Store 'kept' not configured; did you mean 'kep'?" in missing.stderr
    assert "    add it to weft.yaml:\n      stores:\n        kept:\n          type: sqlite\n" in missing.stderr


def test_a_tool_that_nobody_has_hints_at_the_servers_of_the_folder(run: Run, folder: Path):
    (folder / "flow.yaml").write_text("steps: [{id: found, tool: search_documents, parameters: {query: bees}}]")
    assert "-c weft.yaml" not in run("run", "flow.yaml").stderr
    (folder / "weft.yaml").write_text("servers: {}\n")
    done = run("run", "flow.yaml")
    assert done.exit_code == 1
    assert "Tool not found: search_documents" in done.stderr
    assert "-c weft.yaml connects to the servers of ./weft.yaml" in done.stderr
    assert "connects to the servers" not in run("run", "flow.yaml", "-c", "weft.yaml").stderr


def test_parameters_that_do_not_fit_a_tool_are_told_at_their_place(run: Run, folder: Path):
    (folder / "tools.py").write_text(
        "import weft as w\n\n\n@w.python_tool\nasync def greet(name: str) -> str:\n    return name\n"
    )
    (folder / "flow.yaml").write_text("steps:\n  - {id: hello, tool: greet, parameters: {nmae: Anna}}\n")
    done = run("run", "flow.yaml", "--tools", "tools.py")
    assert done.exit_code == 2
    assert "flow.yaml:2:23: error: what 'greet' is given does not fit" in done.stderr
