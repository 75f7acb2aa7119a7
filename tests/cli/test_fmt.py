"""`weft fmt`: canonical form, in place."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path

import pytest

from .conftest import FIXTURES, Run

LOOSE = '{"compositions": [{"name": "a", "spec": {"tool": "x"}}]}'
CANONICAL = """{
  "schemaVersion": "1.0",
  "tools": [
    {
      "name": "a",
      "spec": {
        "tool": {
          "name": "x"
        }
      }
    }
  ]
}
"""


def test_a_document_is_rewritten_in_place(run: Run, folder: Path):
    (folder / "r.json").write_text(LOOSE)
    done = run("fmt", "r.json")
    assert (done.exit_code, done.stdout) == (0, "")
    assert (folder / "r.json").read_text() == CANONICAL


@pytest.mark.parametrize("name", [one.name for one in sorted(FIXTURES.glob("algebra-*.json"))])
def test_formatting_twice_changes_nothing(run: Run, folder: Path, name: str):
    copy = folder / name
    copy.write_bytes((FIXTURES / name).read_bytes())
    run("fmt", name)
    once = copy.read_bytes()
    run("fmt", name)
    assert copy.read_bytes() == once
    assert run("fmt", "--check", name).exit_code == 0


def test_check_changes_nothing_and_exits_with_1(run: Run, folder: Path):
    (folder / "r.json").write_text(LOOSE)
    done = run("fmt", "--check", "r.json")
    assert (done.exit_code, done.stdout) == (1, "Would rewrite r.json\n")
    assert (folder / "r.json").read_text() == LOOSE


def test_yaml_stays_yaml_and_a_pipe_stays_a_pipe(run: Run, folder: Path):
    (folder / "r.yaml").write_text("compositions:\n- {name: a, spec: {tool: x}}\n")
    run("fmt", "r.yaml")
    assert (folder / "r.yaml").read_text().startswith("schemaVersion: '1.0'\ntools:\n- name: a\n")
    assert run("fmt", "-", input=LOOSE).stdout == CANONICAL


def test_an_invalid_document_is_left_as_it_is(run: Run, folder: Path):
    text = '{"tools": [{"name": "a", "spce": 1}]}'
    (folder / "r.json").write_text(text)
    (folder / "s.json").write_text(LOOSE)
    done = run("fmt", "r.json", "s.json")
    assert done.exit_code == 2
    assert "did you mean 'spec'?" in done.stderr
    assert (folder / "r.json").read_text() == text
    assert (folder / "s.json").read_text() == CANONICAL


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such modes")
def test_the_mode_of_the_file_and_a_link_to_it_are_kept(run: Run, folder: Path):
    target, link = folder / "real.json", folder / "r.json"
    target.write_text(LOOSE)
    target.chmod(0o640)
    link.symlink_to(target)
    run("fmt", "r.json")
    assert link.is_symlink()
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert target.read_text() == CANONICAL
    assert [one.name for one in sorted(folder.iterdir())] == ["r.json", "real.json"]


def test_a_file_that_may_not_be_written_is_left_alone(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch):
    (folder / "r.json").write_text(LOOSE)
    # Root may write anything, and tests may run as root.
    monkeypatch.setattr("weft.cli.files.os.access", lambda _path, _mode: False)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    done = run("fmt", "r.json")
    assert (done.exit_code, done.stderr) == (2, "error: cannot write r.json: permission denied [UnwritableFile]\n")
    assert (folder / "r.json").read_text() == LOOSE


def test_what_will_be_lost_is_counted(run: Run):
    text = '# one\n$note: n\ntools:\n  - name: a # two\n    description: "# none"\n    inputSchema: {$defs: {}}\n'
    done = run("fmt", "-", input=text)
    assert "1 $-key and 2 comments will be lost" in done.stderr
    assert "$defs" in done.stdout


def test_nothing_is_said_when_nothing_is_lost(run: Run):
    assert run("fmt", "-", input=CANONICAL).stderr == ""


def test_fmt_changes_the_spelling_and_not_the_meaning(run: Run, folder: Path):
    copy = folder / "r.json"
    copy.write_bytes((FIXTURES / "algebra-research-pipeline.json").read_bytes())
    run("fmt", "r.json")
    names = [tool["name"] for tool in json.loads(copy.read_text())["tools"]]
    assert names == ["research_pipeline", "__web_normalized", "__arxiv_normalized", "__internal_normalized"]
