"""`weft templates run`: results on stdout, steps on stderr, and a clean end."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.cli.test_templates import GREETING, shop
from weft.cli.templates_progress import Board, Lines

__all__ = ["shop"]

SLOW = '''
import asyncio
from pathlib import Path

import weft as w

@w.python_tool
async def write(text: str) -> dict[str, str]:
    """Write a line."""
    with Path("notes.txt").open("a") as file:
        file.write(text)
    return {}

@w.python_tool
async def wait() -> dict[str, str]:
    """Wait for ever."""
    await asyncio.Event().wait()
    return {}
'''
WAITING: dict[str, Any] = {
    "name": "waiting",
    "steps": [
        {
            "id": "first",
            "tool": "write",
            "parameters": {"text": "done,"},
            "undo": {"tool": "write", "parameters": {"text": "undone"}},
        },
        {"id": "second", "tool": "wait", "depends_on": ["first"]},
        {"id": "third", "tool": "wait", "depends_on": ["second"]},
    ],
    "error_handling": {"failure_strategy": "rollback"},
}
NAME = '{"name": "bee"}'


def failing(**more: Any) -> str:
    """Return a document of which a part fails."""
    steps = [
        {"id": "good", "tool": "shout", "parameters": {"text": "x"}},
        {"id": "bad", "tool": "fail", "parameters": {"text": "way"}},
        {"id": "lost", "tool": "shout", "parameters": {"text": "{{bad.said}}"}},
    ]
    return json.dumps({"name": "failing", "steps": steps, **more})


def test_the_output_is_on_stdout_and_the_steps_are_on_stderr(run: Run, shop: Path):
    done = run("templates", "run", "greeting.json", "--input", NAME)
    assert (done.exit_code, done.stdout) == (0, '"HELLO BEE"\n')
    lines = [re.sub(r"[\d.]+ ?ms", "T", line) for line in done.stderr.splitlines() if "must not" not in line]
    assert lines == ["first: done (T)", "second: done (T)", "✓ 2 steps in T"]


def test_json_has_the_whole_result(run: Run, shop: Path):
    told = json.loads(run("templates", "run", "greeting.json", "--input", NAME, "--json").stdout)
    assert (told["success"], told["output"], told["results"]["first"]) == (True, "HELLO BEE", {"said": "BEE"})


@pytest.mark.req("WFL-23")
def test_a_dry_run_prints_what_would_be_done(run: Run, shop: Path):
    done = run("templates", "run", "greeting.json", "--input", NAME, "--dry-run")
    first, second, _, last = done.stdout.splitlines()
    assert first == '1. first: shout {"text":"bee"}'
    assert second == '2. second: shout {"text":"hello {{first.said}}"}'
    assert last == "at most 1 at once; fail_fast"
    assert "done" not in done.stderr


def test_a_workflow_that_fails_ends_with_1_and_says_where(run: Run, shop: Path):
    (shop / "failing.json").write_text(failing())
    done = run("templates", "run", "failing.json")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "    step bad: " in done.stderr
    assert "no way" in done.stderr


def test_a_part_that_went_well_is_printed_and_is_not_a_success(run: Run, shop: Path):
    (shop / "failing.json").write_text(failing())
    done = run("templates", "run", "failing.json", "--strategy", "partial_success")
    assert (done.exit_code, json.loads(done.stdout)) == (1, {"good": {"said": "X"}})
    assert "lost: skipped: " in done.stderr


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["greeting.json"], '"name" is a required property'),
        (["greeting.json", "--input", "[1]"], "--input: [1] is not an object"),
        (["greeting.json", "--input", NAME, "--timeout", "soon"], "--timeout: "),
        (["greeting.json", "--input", NAME, "--max-concurrency", "0"], "--max-concurrency"),
        (["greeting.json", "--input", NAME, "--strategy", "hope"], "--strategy"),
        (["greting-v1", "--input", NAME], "Template not found: greting-v1"),
        (["./no-such.json"], "cannot read the file"),
        (["mistyped.yaml", "--input", NAME], "mistyped.yaml:3:12: error: Tool not found: shoutt"),
    ],
)
def test_what_is_typed_wrongly_ends_with_2_and_nothing_is_run(run: Run, shop: Path, given: list[str], told: str):
    (shop / "mistyped.yaml").write_text("name: mistyped\nsteps:\n  - {tool: shoutt, id: first}\n")
    done = run("templates", "run", *given)
    assert (done.exit_code, done.stdout) == (2, "")
    assert told in done.stderr


def test_ctrl_c_ends_the_run_undoes_what_was_done_and_says_so(shop: Path):
    (shop / "tools.py").write_text(SLOW)
    (shop / "waiting.json").write_text(json.dumps(WAITING))
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "weft.cli", "templates", "run", "waiting.json"]
    process = subprocess.Popen(command, cwd=shop, stdin=slave, stdout=subprocess.PIPE, stderr=slave)
    os.close(slave)
    shown, deadline = "", time.monotonic() + 60
    try:
        while "Stopped." not in shown and time.monotonic() < deadline:
            shown += os.read(master, 4096).decode(errors="replace")
            if "second  running" in shown and process.poll() is None and "cancelled" not in shown:
                process.send_signal(signal.SIGINT)
                shown = shown.replace("second  running", "second began")
        assert process.wait(30) == 130
    finally:
        process.kill()
        process.communicate()
        os.close(master)
    assert "the run was cancelled (undone: first; stopped in its middle: second; not begun: third)" in shown
    assert (shop / "notes.txt").read_text() == "done,undone"


class Clock:
    """A clock that stands still until it is told."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


STORY: list[tuple[str, dict[str, Any]]] = [
    ("run_started", {"steps": ["fetch", "fold", "store"]}),
    ("step_started", {"id": "fetch", "status": "running"}),
    ("step_retried", {"id": "fetch", "status": "running", "error": {"code": "Away", "message": "gone"}}),
    ("step_ended", {"id": "fetch", "status": "succeeded", "duration_ms": 1520.0}),
    ("step_ended", {"id": "fold", "status": "skipped", "because": "its condition does not hold"}),
    ("step_started", {"id": "store", "status": "running"}),
]


def told(display: Lines) -> None:
    """Tell the story."""
    for kind, data in STORY:
        display.hear({"event": kind, "data": data})


def test_without_a_terminal_there_is_a_line_for_what_happened(capsys: pytest.CaptureFixture[str]):
    told(Lines())
    assert capsys.readouterr().err.splitlines() == [
        "fetch: attempt 1 failed, it is tried again: gone [Away]",
        "fetch: done (1.5 s)",
        "fold: skipped: its condition does not hold",
    ]


def test_in_a_terminal_each_step_keeps_its_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("LINES", "10")
    monkeypatch.setenv("NO_COLOR", "1")
    clock = Clock()
    board = Board(now=clock)
    told(board)
    capsys.readouterr()
    clock.now = 2.25
    board.draw()
    assert capsys.readouterr().err.replace("\x1b[2K", "").splitlines() == [
        "\x1b[3F✓ fetch  done         1.5 s  retry 1",
        "- fold   skipped             its condition does not hold",
        "● store  running      2.2 s",
    ]


def test_a_terminal_that_is_too_low_gets_lines(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LINES", "3")
    board = Board()
    told(board)
    board.draw()
    assert capsys.readouterr().err.splitlines()[1] == "fetch: done (1.5 s)"


def test_a_workflow_document_runs_as_any_tool_does_and_keeps_its_form(run: Run, shop: Path):
    done = run("run", "greeting.json", "--tools", "tools.py", "--input", NAME)
    assert (done.exit_code, done.stdout) == (0, '"HELLO BEE"\n')
    assert "hello" not in run("graph", "greeting.json").stdout
    assert 'n3["second<br/>shout"]' in run("graph", "greeting.json").stdout
    assert run("fmt", "greeting.json").exit_code == 0
    formatted = json.loads((shop / "greeting.json").read_text())
    assert (formatted["name"], formatted["steps"][1]["dependsOn"]) == ("greeting", ["first"])
    assert run("fmt", "--check", "greeting.json").exit_code == 0
    assert run("templates", "run", "greeting.json", "--input", NAME).stdout == '"HELLO BEE"\n'
    assert GREETING["output"] == formatted["output"]


def test_a_file_with_several_tools_does_not_say_which(run: Run, folder: Path):
    tools = [{"name": name, "description": name, "spec": {"tool": {"name": "x"}}} for name in ("a", "b")]
    (folder / "two.json").write_text(json.dumps({"schemaVersion": "1.0", "tools": tools}))
    done = run("run", "two.json")
    assert (done.exit_code, "two.json has a, b [NotOneTool]" in done.stderr) == (2, True)
