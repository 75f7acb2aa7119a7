"""Patterns stand on each other in the order of the seed's roadmap: timeout and retry first, saga last."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import weft as w
from weft.app import local
from weft.patterns import CATALOGUE
from weft.plan.compiler import no_stores
from weft.testing import Canned, FakeClock, down, in_turn

FOLDER = Path(w.__file__).parent / "patterns"
PRIORITY = {
    "timeout": 0, "retry": 0, "cache": 1, "idempotent": 1,
    "circuitBreaker": 2, "deadLetter": 2, "claimCheck": 2, "saga": 3,
}  # fmt: skip
"""As the seed's table has it."""
MODULES = {
    "timeout": "timeout", "retry": "retry", "cache": "cache", "idempotent": "idempotent",
    "circuit": "circuitBreaker", "dead_letter": "deadLetter", "claim_check": "claimCheck", "saga": "saga",
}  # fmt: skip
"""What the modules of each begin with."""


def pattern_of(module: str) -> str | None:
    """Return the pattern of the roadmap that a module belongs to, if it is one's."""
    return next((kind for start, kind in MODULES.items() if module == start or module.startswith(start + "_")), None)


def imported_by(file: Path) -> set[str]:
    """Return the patterns of the roadmap that a module imports."""
    names = [node.module or "" for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ImportFrom)]
    here = [name.removeprefix("weft.patterns.") for name in names if name.startswith("weft.patterns.")]
    return {kind for name in here if (kind := pattern_of(name)) is not None}


@pytest.mark.req("STA-60")
def test_no_pattern_needs_one_that_comes_later_and_all_of_the_roadmap_are_there():
    assert PRIORITY.keys() <= CATALOGUE.keys()
    files = {file: kind for file in FOLDER.glob("*.py") if (kind := pattern_of(file.stem)) is not None}
    assert set(files.values()) == PRIORITY.keys()
    wrong = [
        f"{file.name} imports {other}"
        for file, kind in files.items()
        for other in imported_by(file) - {kind}
        if PRIORITY[other] > PRIORITY[kind] or kind == "saga"
    ]
    assert wrong == []


@pytest.mark.req("STA-60")
async def test_the_first_of_the_roadmap_run_where_nothing_can_be_kept():
    op = w.timeout(w.retry(w.tool("a"), 2), w.seconds(5))
    document = w.compile(w.composition("it", "It.", op)).document
    tools = Canned({"a": in_turn(down(), "well")})
    engine = local(document, tools, clock=FakeClock(), stores=no_stores)
    assert await engine.execute("it", {}) == "well"
    await engine.close()
