"""What the operating system says of this process: time, memory, open files."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc/self")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_STARTED: Final = time.time() - time.process_time()


def process_figures() -> dict[str, float]:
    """Return the figures that Prometheus knows by name; without /proc only some of them."""
    figures: dict[str, float] = {"cpu_seconds": time.process_time(), "start_time": _STARTED, "workers": 1}
    try:
        virtual, resident, *_ = (_PROC / "statm").read_text().split()
        figures |= {"virtual_bytes": int(virtual) * _PAGE, "resident_bytes": int(resident) * _PAGE}
        figures["open_fds"] = len(os.listdir(_PROC / "fd"))  # noqa: PTH208  (names only: no Path for each)
    except OSError:
        pass
    return figures
