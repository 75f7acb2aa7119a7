"""A registry with a warning for each of its many compositions."""

from __future__ import annotations

import pytest

from weft.errors import Problem
from weft.ir.document import Document
from weft.plan.typeflow import TypeFlow


def test_problems_are_not_compared_with_all_that_were_found_before(monkeypatch: pytest.MonkeyPatch):
    compared = 0
    same = Problem.__eq__

    def counted(self: Problem, other: object) -> bool:
        nonlocal compared
        compared += 1
        return same(self, other)

    monkeypatch.setattr(Problem, "__eq__", counted)
    flow = TypeFlow(Document(), None)
    for _ in range(2):
        for number in range(500):
            flow.warning("TypeMismatch", "does not fit", number)
    assert len(flow.problems) == 500
    assert compared < 2000
