"""A measured number beside the one that was promised."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number, and the most that it may be; without a limit it only tells."""

    name: str
    value: float
    limit: float | None
    unit: str
    detail: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def kept(self) -> bool:
        """Whether the promise is kept."""
        return self.limit is None or self.value <= self.limit

    def to_json(self) -> dict[str, Any]:
        """Return the figure as the result file has it."""
        told = {"name": self.name, "value": round(self.value, 3), "limit": self.limit, "unit": self.unit}
        return {**told, "kept": self.kept, **self.detail}

    def __str__(self) -> str:
        spread = self.detail.get("quartiles")
        told = f"[{spread[0]:.2f}, {spread[1]:.2f}]" if spread else ""
        line = f"{self.name:<62} {self.value:8.2f} {self.unit:<11} {told:<15}"
        return line.rstrip() if self.limit is None else f"{line} limit {self.limit:<6} {'ok' if self.kept else 'OVER'}"
