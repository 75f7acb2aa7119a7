"""Golden files: what is generated, kept to be read and compared; `WEFT_SNAPSHOTS=write` writes them anew."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).parent / "snapshots"


def is_golden(name: str, text: str) -> bool:
    """Tell whether a text is the one that was kept."""
    path = FOLDER / name
    if os.environ.get("WEFT_SNAPSHOTS") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text + "\n", encoding="utf-8")
    return path.read_text(encoding="utf-8") == text + "\n"
