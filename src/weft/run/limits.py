"""What one root call may spend; every branch of it spends from the same."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Defaults that a trusted composition never meets, and a hostile one does."""

    timeout: float = 60.0
    max_timeout: float = 3600.0
    steps: int = 1000
    calls: int = 1000
    concurrent: int = 64
    rows: int = 1_000_000
    spans: int = 10_000
    warnings: int = 100
    background: int = 256
