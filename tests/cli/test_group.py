"""The command line as a whole: help, errors, signals, pipes."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from weft.cli import group, weft
from weft.cli.group import COMMANDS

from .conftest import Run, process


def test_help_groups_the_commands_by_what_they_are_for(run: Run):
    help = run("--help")
    assert help.exit_code == 0
    assert help.stdout.index("Run:") < help.stdout.index("demo") < help.stdout.index("Author:")
    assert all(name in help.stdout for name in COMMANDS)


def test_help_loads_neither_pydantic_nor_cel(tmp_path: Path):
    script = (
        "import sys\nfrom weft.cli import weft\n"
        "try: weft.main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'pydantic', 'cel_expr_python', 'yaml', 'jsonschema_rs', 'weft.app'} & set(sys.modules)\n"
        "print(heavy, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stderr == "set()\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_explains_itself_with_an_example(name: str, run: Run):
    help = run(name, "--help")
    assert help.exit_code == 0
    assert "Example:" in help.stdout
    assert f"weft {name}" in help.stdout


def test_version(run: Run):
    assert run("--version").stdout.startswith("weft 0.")


def test_a_mistyped_command_is_told_the_nearest(run: Run):
    wrong = run("vaildate")
    assert wrong.exit_code == 2
    assert "'validate'" in wrong.stderr


def test_an_unexpected_exception_is_one_line_and_a_request(run: Run, monkeypatch: pytest.MonkeyPatch):
    def broken(_path: Path) -> None:
        raise RuntimeError("on\nfire")

    monkeypatch.setattr("weft.app.load", broken)
    done = run("validate", "x.json")
    assert done.exit_code == 1
    assert done.stderr.count("\n") == 1
    assert "RuntimeError: on fire" in done.stderr
    assert "report" in done.stderr


def test_weft_debug_adds_the_traceback(run: Run, monkeypatch: pytest.MonkeyPatch):
    def broken(_path: Path) -> None:
        raise RuntimeError("fire")

    monkeypatch.setattr("weft.app.load", broken)
    monkeypatch.setenv("WEFT_DEBUG", "1")
    assert "Traceback" in run("validate", "x.json").stderr


def test_no_color_is_honoured(folder: Path, monkeypatch: pytest.MonkeyPatch):
    (folder / "a.json").write_text("{}")
    coloured = CliRunner().invoke(weft, ["validate", "a.json"], color=True)
    assert "\x1b[" in coloured.stdout
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in CliRunner().invoke(weft, ["validate", "a.json"], color=True).stdout


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other signals")
def test_ctrl_c_stops_a_run_with_one_line(tmp_path: Path):
    (tmp_path / "tools.py").write_text(
        "import asyncio, sys\nimport weft as w\n@w.python_tool\nasync def slow() -> int:\n"
        "    print('begun', file=sys.stderr, flush=True)\n    await asyncio.sleep(60)\n    return 1\n"
    )
    command = [sys.executable, "-m", "weft.cli", "run", "slow", "--tools", "tools.py"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        assert running.stderr.readline() == "begun\n"
        running.send_signal(signal.SIGINT)
        began = time.monotonic()
        out, err = running.communicate(timeout=20)
    assert (running.returncode, out, err) == (group.INTERRUPTED, "", "Stopped.\n")
    assert time.monotonic() - began < 15


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no head")
def test_a_reader_that_leaves_early_is_no_error(tmp_path: Path):
    command = f"{sys.executable} -m weft.cli schema | head -c 1"
    done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.stderr) == ("{", "")


def test_weft_works_as_a_program_in_an_empty_folder(tmp_path: Path):
    done = process("--help", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.startswith("Usage: weft ")
