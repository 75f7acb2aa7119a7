"""A fake world for tests of compositions: canned tools, a clock that jumps, failures on demand.

world = FakeWorld(tools={"search": [down, down, "found"]})
assert await world.run(w.tool("search")) == "found"
"""

from weft.testing.answers import answers_of
from weft.testing.canned import Answer, Answers, Canned, Late, down, in_turn, refusal
from weft.testing.cases import CaseFile, read_case_file
from weft.testing.clock import FakeClock
from weft.testing.verdicts import Verdict, run_case
from weft.testing.world import FakeWorld

__all__ = [
    "Answer",
    "Answers",
    "Canned",
    "CaseFile",
    "FakeClock",
    "FakeWorld",
    "Late",
    "Verdict",
    "answers_of",
    "down",
    "in_turn",
    "read_case_file",
    "refusal",
    "run_case",
]
