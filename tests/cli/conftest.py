"""What the tests of the command line share."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from weft.cli import weft

Run = Callable[..., Result]
FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"

RESEARCH = '''
import weft as w

@w.python_tool
async def search(query: str) -> list[dict[str, object]]:
    """Search."""
    return [{"title": f"{query} one", "score": 0.9}, {"title": "other", "score": 0.2}]

hits = w.named("hits", w.pipeline(search, w.map_each(w.schema_map(w.path(dict), {"t": w.path({"type": "object",
    "properties": {"title": {"type": "string"}}}).title}))))
research = w.composition("research", "Search and name.", w.pipeline(hits, w.tool("publish")), input=str)
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WEFT_DEBUG", raising=False)
    return tmp_path


@pytest.fixture
def run(folder: Path) -> Run:
    """Run a command of weft in the folder; stdout and stderr apart."""

    def invoke(*arguments: str | Path, input: str | bytes | None = None) -> Result:
        return CliRunner().invoke(weft, [str(one) for one in arguments], input=input)

    return invoke


def process(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run weft as its users do."""
    command = [sys.executable, "-m", "weft.cli", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=60, encoding="utf-8")


@pytest.fixture
def research(folder: Path) -> Path:
    """A Python file with one composition, one named part and one Python tool."""
    path = folder / "research.py"
    path.write_text(RESEARCH)
    return path
