"""Loading: `python -m bench.registry.loading FILE` reads and checks one registry in a fresh process.

It does what `weft validate` and the gateway do, and prints what that cost.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from weft.app.registries import content_of
from weft.config.sections import StartupChecks
from weft.gateway.sources import Loaded

STATUS = Path("/proc/self/status")


def load(path: Path) -> dict[str, float]:
    """Return the CPU seconds that a registry takes, and what the process needed in all.

    Raises:
        DocumentInvalid: the registry has errors.
    """
    checks = StartupChecks()
    began = time.process_time()
    content = content_of(Loaded(name=path.name, data=path.read_bytes(), path=path), severities=checks)
    ended = time.process_time()
    document = content.document
    return {
        "load_s": ended - began,
        "process_s": ended,
        "peak_MB": peak(),
        "problems": len(content.problems),
        "tools": len(document.tools),
        "agents": len(document.agents),
    }


def peak() -> float:
    """Return the most MB of memory that this process has had resident.

    What `getrusage` says of that is at least what the parent had when it started this process.
    """
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024 / 1e6


if __name__ == "__main__":
    print(json.dumps(load(Path(sys.argv[1]))))
