"""`weft audit verify`: as its users type it, on logs that were written, changed, cut and put aside."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from weft.telemetry.audit import AuditLog, Entry, append_checkpoint, key_of

from .conftest import Run

Change = Callable[[list[bytes]], list[bytes]]


async def _write(path: Path, count: int, *, rotate: int = 1 << 20) -> None:
    log = AuditLog(path, key_of(path.with_name("audit.key"), create=True), rotate=rotate)
    for number in range(count):
        await log.record(Entry(principal="ada (key, proven)", tool=f"t{number}", decision="allow", outcome="ok"))
    append_checkpoint(path.with_name("checkpoints"), log.checkpoint())
    log.close()


@pytest.fixture
def log(folder: Path) -> Path:
    """A log of a beginning and five calls, with its key and a checkpoint beside it."""
    path = folder / "audit.log"
    asyncio.run(_write(path, 5))
    return path


def test_a_log_as_it_was_written_is_well(run: Run, log: Path):
    done = run("audit", "verify", log)
    assert done.exit_code == 0
    assert "6 records, as they were written" in done.stdout
    assert "cannot be seen without --checkpoint" in done.stderr
    done = run("audit", "verify", log, "--checkpoint", "checkpoints", "--key", "audit.key")
    assert (done.exit_code, "--checkpoint" in done.stderr) == (0, False)


CHANGES: list[tuple[Change, str, int]] = [
    (lambda lines: [*lines[:2], lines[2].replace(b'"t1"', b'"t9"'), *lines[3:]], "edited", 3),
    (lambda lines: [*lines[:2], *lines[3:]], "missing", 3),
    (lambda lines: [*lines[:2], lines[3], lines[2], *lines[4:]], "reordered", 4),
]


@pytest.mark.parametrize(("change", "code", "line"), CHANGES)
def test_a_change_is_named_with_its_line(run: Run, log: Path, change: Change, code: str, line: int):
    log.write_bytes(b"".join(change(log.read_bytes().splitlines(keepends=True))))
    done = run("audit", "verify", log)
    assert done.exit_code == 1
    assert f"{log}:{line}:" in done.stdout
    assert f"[{code}]" in done.stdout
    told = json.loads(run("audit", "verify", log, "--json").stdout)
    assert not told["intact"]
    assert (code, line) in [(fault["code"], fault["line"]) for fault in told["faults"]]


def test_an_end_that_was_cut_off_needs_a_checkpoint_to_be_seen(run: Run, log: Path):
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-2]))
    assert run("audit", "verify", log).exit_code == 0
    done = run("audit", "verify", log, "--checkpoint", "checkpoints")
    assert done.exit_code == 1
    assert "the log ends with record 3, and a checkpoint has seen record 5" in done.stdout


def test_a_torn_last_line_is_told_and_is_no_change(run: Run, log: Path):
    log.write_bytes(log.read_bytes() + b'{"n":6,"ti')
    done = run("audit", "verify", log)
    assert (done.exit_code, "[torn]" in done.stderr) == (0, True)


def test_files_that_were_put_aside_are_given_with_the_last_the_oldest_first(run: Run, folder: Path):
    path = folder / "audit.log"
    asyncio.run(_write(path, 20, rotate=1500))
    aside = sorted(folder.glob("audit.log.*"))
    assert len(aside) > 1
    assert run("audit", "verify", *aside, path).exit_code == 0
    assert "[unlinked]" in run("audit", "verify", aside[0], *aside[2:], path).stdout
    alone = run("audit", "verify", path)
    assert (alone.exit_code, aside[-1].name in alone.stderr) == (0, True)


def test_what_cannot_be_read_is_wrong_input_and_no_traceback(run: Run, log: Path):
    for arguments in (["none.log"], [log, "--key", "none.key"], [log, "--checkpoint", "none"], []):
        done = run("audit", "verify", *arguments)
        assert done.exit_code == 2, arguments
        assert "Traceback" not in done.output
    log.with_name("audit.key").chmod(0o644)
    assert f"chmod 600 {log.with_name('audit.key')}" in run("audit", "verify", log).stderr


@pytest.mark.parametrize("name", ["audit.log", "audit.0.log"])
def test_the_key_that_weft_serve_makes_is_found_beside_the_log(run: Run, log: Path, name: str):
    log.with_name("audit.key").rename(log.with_name("audit.log.key"))
    log.rename(log.with_name(name))
    assert run("audit", "verify", name).exit_code == 0


def test_another_key_finds_nothing_as_it_was_written(run: Run, log: Path):
    key_of(log.with_name("other.key"), create=True)
    assert run("audit", "verify", log, "--key", "other.key").exit_code == 1
