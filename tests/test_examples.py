"""Every example does what its docstring says, every document in examples/ is valid, and their tests pass."""

from __future__ import annotations

import ast
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from weft.app import load, problems_of
from weft.patterns import CATALOGUE

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
PROGRAMS = sorted(EXAMPLES.glob("*.py"))
CASES = sorted(EXAMPLES.glob("*.weft-test.yaml"))
DOCUMENTS = [*sorted(EXAMPLES.glob("*.json")), *sorted(set(EXAMPLES.glob("*.yaml")) - set(CASES))]


def printed(*command: str) -> str:
    """Return what a program prints; fail with its complaint when it fails."""
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120, encoding="utf-8"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def promised(program: Path) -> str:
    """Return the output that the end of an example's docstring shows."""
    told = ast.get_docstring(ast.parse(program.read_text(encoding="utf-8"))) or ""
    assert "\n\nPrints:\n" in told, f"the docstring of {program.name} does not end in what it prints"
    return textwrap.dedent(told.split("\n\nPrints:\n")[1]).strip("\n") + "\n"


def snake(kind: str) -> str:
    """Return the name of a pattern as Python spells it."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in kind)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_an_example_prints_what_its_docstring_says(program: Path):
    assert printed(str(program)) == promised(program)


@pytest.mark.req("ALG-17")
def test_the_research_example_is_there():
    assert EXAMPLES / "research.py" in PROGRAMS


@pytest.mark.parametrize("kind", CATALOGUE)
def test_a_pattern_has_an_example(kind: str):
    program = EXAMPLES / f"{snake(kind)}.py"
    assert f"w.{snake(kind)}(" in program.read_text(encoding="utf-8")


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_an_example_has_cases_for_weft_test(program: Path):
    assert program.with_suffix(".weft-test.yaml") in CASES


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_a_document_written_by_hand_is_valid(document: Path):
    wrong = [problem for problem in problems_of(load(document)) if problem.severity == "error"]
    assert wrong == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_weft_validate_accepts_a_document_written_by_hand(document: Path):
    printed("-m", "weft.cli", "validate", str(document))


def test_weft_test_passes_over_all_examples():
    printed("-m", "weft.cli", "test", str(EXAMPLES))
