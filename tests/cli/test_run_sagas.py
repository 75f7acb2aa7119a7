"""`weft run` that is stopped in the middle of a saga says that the saga goes on, and what became of it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from weft.cli import group

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has other signals")
REGISTRY = """
import asyncio, pathlib, sys
import weft as w

@w.python_tool
async def charge(id: str) -> dict[str, str]:
    print("begun", file=sys.stderr, flush=True)
    while not pathlib.Path("go").exists():
        await asyncio.sleep(0.02)
    return {"paid": id}

order = w.composition(
    "order", "It.", w.saga(w.saga_step("charge", charge), id=w.path({}).id, store="orders", ALLOW), input=dict
)
"""
SQLITE = "stores: {orders: {type: sqlite, path: ./orders.db}}"
MEMORY = "stores: {orders: {type: memory}}"


@contextmanager
def running(folder: Path, stores: str, *more: str) -> Generator[subprocess.Popen[str]]:
    """Run an order whose charge waits for a file, until it has begun."""
    (folder / "weft.yaml").write_text(stores)
    (folder / "shop.py").write_text(REGISTRY.replace("ALLOW", f"allow_volatile={stores == MEMORY}"))
    asked = ["run", "order", "-c", "weft.yaml", "--registry", "shop.py", "--input", '{"id": "o1"}', *more]
    command = [sys.executable, "-m", "weft.cli", *asked]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        while (line := process.stderr.readline()) != "begun\n":
            assert line, "it ended"
        yield process


def test_ctrl_c_in_a_saga_tells_that_it_goes_on_and_how_it_ended(tmp_path: Path):
    with running(tmp_path, SQLITE) as process:
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        told = process.stderr.readline()
        assert told == "Saga 'o1' goes on for at most 5 seconds; Ctrl-C leaves it as it is.\n"
        (tmp_path / "go").touch()
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (group.INTERRUPTED, "", "Saga 'o1' is COMPLETED.\nStopped.\n")


@pytest.mark.parametrize(
    ("stores", "expected"),
    [
        (SQLITE, "Saga 'o1' is RUNNING: a gateway with store 'orders' goes on with it; `weft saga show "),
        (MEMORY, "Saga 'o1' is RUNNING, and lost: store 'orders' forgets it with this process."),
    ],
)
def test_a_saga_that_does_not_end_in_time_is_told_of_with_where_to_look(tmp_path: Path, stores: str, expected: str):
    with running(tmp_path, stores, "--timeout", "100ms") as process:
        _, err = process.communicate(timeout=30)
    assert process.returncode == 1
    assert expected in err
    assert "did not finish before its deadline" in err
