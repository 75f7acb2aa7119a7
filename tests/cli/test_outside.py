"""What comes from outside: results that are not JSON, code that misbehaves, streams that are closed or full."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import Run

TOOLS = """
import sys
import weft as w

class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no text")

class End(BaseException):
    pass

def nested():
    value = []
    for _ in range(100_000):
        value = [value]
    return value

def cyclic():
    value = []
    value.append(value)
    return value

@w.python_tool
def nan() -> float: return float("nan")
@w.python_tool
def infinite() -> dict: return {"a": [float("-inf")]}
@w.python_tool
def a_set() -> dict: return {"a": {1, 2}}
@w.python_tool
def circle() -> list: return cyclic()
@w.python_tool
def deep() -> list: return nested()
@w.python_tool
def huge() -> int: return 10**5000
@w.python_tool
def number_key() -> dict: return {"a": [{1: 2}]}
@w.python_tool
def none_key() -> dict: return {None: 2}
@w.python_tool
def mute() -> int: raise Mute()
@w.python_tool
def leaves() -> int: sys.exit(5)
@w.python_tool
def ends() -> int: raise End("over")
@w.python_tool
def loud() -> int: raise ValueError("one\\ntwo \\x1b[31mred\\x9b \\u202eé 漢")
@w.python_tool
def one() -> int: return 1

branches = w.composition("branches", "A branch leaves.", w.scatter_gather(leaves, one))
steps = w.composition("steps", "A step fails.", w.pipeline(loud))
dropped = w.composition("dropped", "A branch fails.", w.scatter_gather(one, loud))
"""


@pytest.fixture
def tools(folder: Path) -> Path:
    """A file of tools that do what no tool should."""
    path = folder / "tools.py"
    path.write_text(TOOLS)
    return path


@pytest.mark.parametrize(
    ("tool", "why"),
    [
        ("nan", "out of range float"),
        ("infinite", "out of range float"),
        ("a_set", "type set"),
        ("circle", "circular reference"),
        ("deep", "it nests too deeply"),
        ("huge", "4300 digits"),
        ("number_key", "the key 1 is not a text"),
        ("none_key", "the key None is not a text"),
    ],
)
def test_a_result_that_is_not_json_is_refused_with_the_reason(run: Run, tools: Path, tool: str, why: str):
    done = run("run", tool, "--tools", tools)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("error: the result is not JSON: ")
    assert why in done.stderr
    assert done.stderr.count("\n") == 1
    told = run("run", tool, "--tools", tools, "--json", "--trace")
    assert (told.exit_code, json.loads(told.stdout)["error"]["code"]) == (1, "NotJson")


@pytest.mark.parametrize(
    ("tool", "sentence"),
    [
        ("mute", "Mute, whose text cannot be shown"),
        ("leaves", "it called sys.exit(5)"),
        ("ends", "End: over"),
    ],
)
def test_whatever_a_tool_raises_is_its_failure_in_one_line(run: Run, tools: Path, tool: str, sentence: str):
    done = run("run", tool, "--tools", tools)
    assert (done.exit_code, done.stdout) == (1, "")
    assert f"error: Tool '{tool}' failed: {sentence}" in done.stderr
    assert done.stderr.count("\n") == 1
    told = run("run", tool, "--tools", tools, "--json")
    assert (told.exit_code, json.loads(told.stdout)["error"]["code"]) == (1, "ToolFailed")


def test_a_branch_that_calls_sys_exit_is_dropped_like_any_that_fails(tools: Path):
    done = started("run branches --registry tools.py", tools.parent)
    assert done.returncode == 0
    assert "it called sys.exit(5)" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_case_whose_tool_calls_sys_exit_fails_and_the_others_run(run: Run, tools: Path):
    cases = [{"name": name, "tool": name, "input": {}, "expect": {"value": 1}} for name in ("leaves", "one")]
    (tools.parent / "a.weft-test.json").write_text(json.dumps({"registry": "tools.py", "cases": cases}))
    done = run("test")
    assert (done.exit_code, "1 passed, 1 failed" in done.stdout) == (1, True)
    assert "sys.exit(5)" in done.stdout


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("raise BaseException('boo')", "error: BaseException: boo"),
        ("class Mute(Exception):\n    def __str__(self): raise RuntimeError\nraise Mute", "Mute, whose text cannot"),
    ],
)
@pytest.mark.parametrize(
    "command",
    ["run x --tools m.py", "run x --registry m.py", "validate m.py", "compile -o - m.py", "graph x --registry m.py"],
)
def test_whatever_a_module_raises_is_a_problem_of_its_file(
    run: Run, folder: Path, text: str, sentence: str, command: str
):
    (folder / "m.py").write_text(text)
    done = run(*command.split())
    assert done.exit_code == 2
    assert sentence in done.stderr + done.stdout
    assert f"m.py:{text.count(chr(10)) + 1}: " in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


def test_a_case_file_whose_tools_cannot_be_imported_is_a_problem(run: Run, folder: Path):
    (folder / "m.py").write_text("raise BaseException('boo')")
    case = {"name": "a", "tool": "a", "expect": {"value": 1}}
    (folder / "a.weft-test.json").write_text(json.dumps({"registry": "m.py", "cases": [case]}))
    done = run("test")
    assert (done.exit_code, "m.py:1: error: BaseException: boo" in done.stderr) == (2, True)


def test_control_characters_of_a_tool_are_escaped_and_the_rest_is_kept(run: Run, tools: Path):
    escaped = "one\\ntwo \\x1b[31mred\\x9b \\u202eé 漢"
    failed = run("run", "steps", "--registry", tools, "--trace")
    assert failed.exit_code == 1
    assert [escaped in line for line in failed.stderr.splitlines()] == [True, True, False, False, False]
    shown = failed.stderr.splitlines()[2:4]
    assert shown[0].startswith("error: ")
    assert shown[1].startswith("    two \\x1b[31mred\\x9b \\u202eé 漢"), "no line of a tool's can pass for one of ours"
    warned = run("run", "dropped", "--registry", tools)
    assert (warned.exit_code, warned.stderr.count("\n")) == (0, 1)
    assert warned.stderr.startswith("warning: ")
    assert escaped in warned.stderr


def test_control_characters_in_a_problem_are_escaped(run: Run, folder: Path):
    (folder / "a.json").write_text(json.dumps({"tools": [{"name": "a", "x\n\x1b[2J\x7f": 1}]}))
    done = run("validate", "a.json")
    assert done.exit_code == 2
    assert "at /tools/0/x\\n\\x1b[2J\\x7f\n" in done.stdout
    assert "\x1b" not in done.stdout


def test_a_long_pointer_is_cut_for_people_and_whole_in_json(run: Run, folder: Path):
    key = "k" * 100_000
    (folder / "a.json").write_text(json.dumps({"tools": [{"name": "a", key: 1}]}))
    assert len(run("validate", "a.json").stdout) < 1000
    assert "kkk...\n" in run("validate", "a.json").stdout
    problems = json.loads(run("validate", "--json", "a.json").stdout)["errors"]
    assert [one["pointer"] for one in problems] == [f"/tools/0/{key}"]


def started(command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run weft in a shell, which can close and redirect streams."""
    line = f"{sys.executable} -m weft.cli {command}"
    return subprocess.run(line, shell=True, cwd=cwd, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has another shell")
@pytest.mark.parametrize("command", ["fmt - <&-", "validate - <&-", "run one --tools tools.py --input - <&-"])
def test_a_closed_stdin_is_told_in_one_line(tools: Path, command: str):
    done = started(command, tools.parent)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: cannot read stdin: it is closed [UnreadableFile]\n"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has another shell")
@pytest.mark.parametrize("command", ["run one --tools tools.py", "run one --tools tools.py --json", "schema"])
def test_a_closed_stdout_is_told_in_one_line(tools: Path, command: str):
    done = started(f"{command} >&-", tools.parent)
    assert (done.returncode, done.stderr) == (2, "error: cannot write the result: stdout is closed [UnwritableFile]\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is full")
@pytest.mark.parametrize("command", ["run one --tools tools.py", "schema", "--help"])
def test_a_full_disk_is_told_in_one_line(tools: Path, command: str):
    done = started(f"{command} >/dev/full", tools.parent)
    told = "error: cannot write the result: no space left on device [UnwritableFile]\n"
    assert (done.returncode, done.stderr) == (2, told)
    assert started("run gone 2>/dev/full", tools.parent).returncode == 2
