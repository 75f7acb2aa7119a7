"""How much is measured: all of it, or a little to see that it works."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How often, and how much each time.

    Short turns follow each other quickly, so that what else the machine does meets both sides alike.
    """

    turns: int = 61
    calls: int = 500
    few_turns: int = 21
    warm: int = 10_000
    lasting: int = 100_000


FULL = Effort()
QUICK = Effort(turns=5, calls=200, few_turns=3, warm=1_000, lasting=2_000)
