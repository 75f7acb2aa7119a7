"""Run the benchmarks, print them, and write `bench/results`: all, or the parts that are named.

`python -m bench [engine] [gateway] [registry] [state] [workflows] [groups] [--quick]`; --quick measures little, to see
that it works, and writes nothing.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from bench import engine
from bench.gateway.effort import FULL, QUICK
from bench.page import PAGE, RESULTS, with_tables

NEEDED = ("aiohttp", "uvicorn", "uvloop")
"""What the yardstick is made of: the bench extra."""


def _engine(quick: bool) -> dict[str, Any]:
    return asyncio.run(engine.measured())


def _gateway(quick: bool) -> dict[str, Any]:
    _check_possible()
    from bench.gateway.run import measured  # noqa: PLC0415

    return measured(QUICK if quick else FULL)


def _registry(quick: bool) -> dict[str, Any]:
    _check_possible()
    from bench.registry.run import measured  # noqa: PLC0415

    return measured(QUICK if quick else FULL)


def _state(quick: bool) -> dict[str, Any]:
    if find_spec("redis") is None or find_spec("asyncpg") is None:
        raise Impossible("redis or asyncpg is not installed: pip install 'weft[all]'")
    from bench.state.run import measured  # noqa: PLC0415

    return asyncio.run(measured(QUICK if quick else FULL))


def _workflows(quick: bool) -> dict[str, Any]:
    from bench.workflows import measured  # noqa: PLC0415

    return asyncio.run(measured(QUICK if quick else FULL))


def _groups(quick: bool) -> dict[str, Any]:
    from bench.groups import measured  # noqa: PLC0415

    return asyncio.run(measured(QUICK if quick else FULL))


def _check_possible() -> None:
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise Impossible(f"{', '.join(missing)} is not installed: pip install 'weft[bench]'")
    from bench.gateway.processes import measurable  # noqa: PLC0415

    if not measurable():
        raise Impossible("this system has no /proc/self/schedstat, which tells the CPU time of a process")


class Impossible(Exception):
    """A part that cannot be measured here."""


PARTS: dict[str, Callable[[bool], dict[str, Any]]] = {
    "engine": _engine,
    "gateway": _gateway,
    "registry": _registry,
    "state": _state,
    "workflows": _workflows,
    "groups": _groups,
}


def main(arguments: list[str]) -> int:
    """Run the parts; exit 1 when a promise is not kept, or a part cannot be measured."""
    named = [argument for argument in arguments if argument != "--quick"]
    quick, kept = "--quick" in arguments, True
    if unknown := set(named) - set(PARTS):
        print(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}", file=sys.stderr)
        return 2
    for name in named or PARTS:
        try:
            told = PARTS[name](quick)
        except Impossible as reason:
            print(f"{name}: cannot be measured: {reason}", file=sys.stderr)
            kept = False
            continue
        kept &= all(figure["kept"] for figure in told["figures"])
        if not quick:
            RESULTS.mkdir(exist_ok=True)
            (RESULTS / f"{name}.json").write_text(json.dumps(told, indent=2) + "\n")
            PAGE.write_text(with_tables(PAGE.read_text(), {name: told}))
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
