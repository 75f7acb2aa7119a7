"""The audit log: every change to it is seen, a crash costs at most one record, and no value comes into it."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import random
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.cli.audit import command
from weft.errors import InfrastructureError, InputError
from weft.redaction import redact
from weft.telemetry.audit import AuditLog, Entry, append_checkpoint, key_of
from weft.telemetry.auditchain import Checkpoint, verify

KEY = b"0123456789abcdef"
CALL = Entry(principal="ada", tenant="blue", tool="search@1.0.0", spec="ab12", decision="allow", outcome="ok", ms=1.5)
DENIED = Entry(kind="security", principal="eve", tool="push@2.0.0", decision="deny", reason="not a dependency")
WRITER = """
import asyncio, sys
from pathlib import Path
from weft.telemetry.audit import AuditLog, Entry
async def main():
    log = AuditLog(Path(sys.argv[1]), b"0123456789abcdef")
    number = 0
    while True:
        number += 1
        await log.record(Entry(principal="ada", tool=f"t{number}", decision="deny" if number % 50 == 0 else "allow"))
        sys.stdout.write(f"{number}\\n")
        sys.stdout.flush()
asyncio.run(main())
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.log"


@pytest.fixture
def log(path: Path) -> Iterator[AuditLog]:
    log = AuditLog(path, KEY)
    yield log
    log.close()


def _records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def _data(path: Path) -> bytes:
    return path.read_bytes()


def _put(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _codes(path: Path, *checkpoints: Checkpoint) -> list[str]:
    return [fault.code for fault in verify([path], KEY, checkpoints=checkpoints).faults]


async def _filled(path: Path, count: int) -> Checkpoint:
    log = AuditLog(path, KEY)
    for number in range(count):
        await log.record(Entry(principal="ada", tool=f"t{number}", decision="allow", outcome="ok"))
    made = log.checkpoint()
    log.close()
    return made


async def test_a_record_says_who_called_what_and_how_it_went_and_no_value(log: AuditLog, path: Path):
    mark = log.fingerprint({"q": "canary", "n": 1})
    await log.record(Entry(principal="ada", tool="t@1.0.0", decision="allow", arguments=mark, trace="f" * 32, ms=2.0))
    told = _records(path)[-1]
    assert told | {"n": 1, "principal": "ada", "tool": "t@1.0.0", "decision": "allow", "arguments": mark} == told
    assert told.keys() == {"n", "time", "kind", "principal", "tool", "decision", "arguments", "ms", "trace", "h"}
    assert b"canary" not in _data(path)
    assert log.fingerprint({"n": 1, "q": "canary"}) == mark != log.fingerprint({"n": 2, "q": "canary"})
    assert log.fingerprint({"n": 2**70})


async def test_only_the_owner_can_read_the_file_and_only_one_process_write_it(log: AuditLog, path: Path):
    assert _mode(path) == 0o600
    with pytest.raises(InputError) as caught:
        AuditLog(path, KEY)
    assert caught.value.code == "AuditInUse"


@pytest.mark.parametrize("text", ["a\nb", "a\r\nb", "\x1b[2J", "\x7f\x9b", "a\u2028b", "a\u202eb", "\ud800", "\x00"])
async def test_nothing_that_others_say_breaks_a_line_or_steers_a_terminal(log: AuditLog, path: Path, text: str):
    await log.record(Entry(principal=text, tool=text, decision="allow", reason=text))
    data = _data(path)
    assert data.count(b"\n") == 2
    assert all(0x20 <= byte < 0x7F for byte in data.replace(b"\n", b""))
    assert _records(path)[-1]["principal"] == text
    assert _codes(path) == []


async def test_texts_are_redacted_and_cut(path: Path):
    log = AuditLog(path, KEY, redact=lambda text: text.replace("canary", "***"))
    await log.record(Entry(principal="canary", tool="x" * 10_000, decision="allow", reason="a canary sang"))
    log.close()
    assert b"canary" not in _data(path)
    assert len(_records(path)[-1]["tool"]) < 300


async def test_a_log_that_is_opened_again_goes_on_with_its_chain(path: Path):
    for _ in range(3):
        await _filled(path, 2)
    report = verify([path], KEY)
    assert (report.intact, report.faults, report.records) == (True, [], 9)
    assert [one["kind"] for one in _records(path)][:4] == ["begin", "call", "call", "opened"]


async def test_another_key_finds_nothing_as_it_was_written(path: Path):
    await _filled(path, 2)
    assert not verify([path], b"another key, as long").intact


Change = Callable[[list[bytes]], list[bytes]]
CHANGES: list[tuple[Change, str]] = [
    (lambda lines: [lines[0].replace(b"begin", b"begun"), *lines[1:]], "missing"),
    (lambda lines: [*lines[:2], lines[2].replace(b"t1", b"t9"), *lines[3:]], "edited"),
    (lambda lines: [*lines[:2], *lines[3:]], "missing"),
    (lambda lines: [*lines[:2], lines[3], lines[2], *lines[4:]], "reordered"),
    (lambda lines: [*lines[:3], lines[2], *lines[3:]], "reordered"),
    (lambda lines: lines[1:], "missing"),
    (lambda lines: [*lines[:2], b"x" * 100_000, *lines[2:]], "edited"),
    (lambda lines: [], "empty"),
]


@pytest.mark.parametrize(("change", "code"), CHANGES)
async def test_a_change_is_seen_and_named(path: Path, change: Change, code: str):
    await _filled(path, 5)
    lines = _data(path).splitlines()
    _put(path, b"".join(line + b"\n" for line in change(lines)))
    assert code in _codes(path)
    assert not verify([path], KEY).intact


async def test_an_end_that_was_cut_off_is_seen_only_with_a_checkpoint(path: Path):
    made = await _filled(path, 5)
    assert _codes(path, made) == []
    lines = _data(path).splitlines(keepends=True)
    _put(path, b"".join(lines[:-2]))
    assert _codes(path) == []
    assert _codes(path, made) == ["cut"]
    await _filled(path, 5)  # Going on does not hide it.
    assert _codes(path, made) == ["cut"]
    forged = Checkpoint(made.n, made.hash, made.time, "0" * 64)
    assert _codes(path, forged) == ["checkpoint"]


CHAIN: list[bytes] = []


@settings(deadline=None, max_examples=200)
@given(st.randoms(use_true_random=False))
def test_no_random_change_goes_unseen(tmp_path_factory: pytest.TempPathFactory, rng: random.Random):
    path = tmp_path_factory.mktemp("audit") / "audit.log"
    if not CHAIN:
        made = asyncio.run(_filled(path, 12))
        CHAIN.extend([path.read_bytes(), made.to_line().encode()])
    data, checkpoint = CHAIN[0], Checkpoint.read(CHAIN[1])
    assert checkpoint is not None
    changed = _tampered(data, rng)
    path.write_bytes(changed)
    report = verify([path], KEY, checkpoints=[checkpoint])
    assert report.intact is (changed == data)


def _tampered(data: bytes, rng: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    one, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    at = rng.randrange(len(data))
    kind = rng.choice(["byte", "cut", "delete", "swap", "repeat", "insert", "tail"])
    if kind == "byte":
        return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
    if kind == "cut":
        return data[:at]
    if kind == "tail":
        return data[at:]
    if kind == "insert":
        return data[:at] + rng.randbytes(rng.randrange(1, 20)) + data[at:]
    if kind == "swap":
        lines[one], lines[other] = lines[other], lines[one]
    elif kind == "delete":
        del lines[min(one, other) : max(one, other) + 1]
    else:
        lines.insert(one, lines[other])
    return b"".join(lines)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no kill -9")
def test_a_killed_process_loses_at_most_the_record_it_was_writing(path: Path):
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        told = [child.stdout.readline() for _ in range(200)]
        child.send_signal(signal.SIGKILL)
        told += child.stdout.readlines()
    said = max(int(line) for line in told if line.endswith("\n"))
    report = verify([path], KEY)
    assert report.intact
    assert report.last >= said
    asyncio.run(_filled(path, 1))
    assert verify([path], KEY).faults == []


async def test_a_torn_line_is_told_and_then_mended_and_recorded(path: Path):
    await _filled(path, 3)
    with path.open("ab") as file:
        file.write(b'{"n":4,"ti')
    report = verify([path], KEY)
    assert [fault.code for fault in report.faults] == ["torn"]
    assert report.intact
    await _filled(path, 1)
    assert verify([path], KEY).faults == []
    assert [one["torn"] for one in _records(path) if "torn" in one] == [10]


async def test_a_log_whose_end_was_changed_is_not_written_to(path: Path):
    await _filled(path, 3)
    _put(path, _data(path).replace(b'"t2"', b'"t9"'))
    with pytest.raises(InputError) as caught:
        AuditLog(path, KEY)
    assert caught.value.code == "AuditChanged"
    assert "weft audit verify" in str(caught.value.hint)


async def test_full_files_are_put_aside_and_the_chain_goes_on(path: Path):
    log = AuditLog(path, KEY, rotate=2000)
    for _ in range(30):
        await log.record(CALL)
    made = log.checkpoint()
    log.close()
    files = [*sorted(one for one in path.parent.iterdir() if one != path), path]
    assert len(files) > 3
    report = verify(files, KEY, checkpoints=[made])
    assert (report.intact, report.faults) == (True, [])
    assert all(_mode(one) == 0o600 for one in files)
    assert [fault.code for fault in verify([files[0], *files[2:]], KEY).faults] == ["unlinked"]
    alone = verify(files[-1:], KEY)
    assert (alone.faults, alone.after) == ([], files[-2].name)


class Sink:
    """A disk that is full for a while: `os.write` fails, or writes only a part."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, failures: int, partly: bool = False) -> None:
        self.failures, self.partly, self._write = failures, partly, os.write
        monkeypatch.setattr(os, "write", self)

    def __call__(self, file: int, data: bytes) -> int:
        # Only the records of the log: the event loop writes to its own pipes.
        if not data.startswith(b'{"n"') or self.failures <= 0:
            return self._write(file, data)
        self.failures -= 1
        if self.partly:
            return self._write(file, data[:10])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("partly", [False, True])
async def test_a_full_disk_makes_callers_wait_until_there_is_room(
    log: AuditLog, path: Path, monkeypatch: pytest.MonkeyPatch, partly: bool
):
    Sink(monkeypatch, failures=3, partly=partly)
    await log.record(CALL)
    assert _codes(path) == []
    assert len(_records(path)) == 2


async def test_a_disk_that_stays_full_refuses_the_call(path: Path, monkeypatch: pytest.MonkeyPatch):
    log = AuditLog(path, KEY, patience=0.1)
    Sink(monkeypatch, failures=10**9)
    with pytest.raises(InfrastructureError, match="no space left") as caught:
        await log.record(CALL)
    assert caught.value.code == "AuditUnavailable"
    log.close()


async def test_records_may_be_dropped_by_choice_which_is_counted_and_events_of_security_never(
    path: Path, monkeypatch: pytest.MonkeyPatch
):
    log = AuditLog(path, KEY, when_full="drop", patience=0.1)
    sink = Sink(monkeypatch, failures=10**9)
    for _ in range(3):
        await log.record(CALL)
    with pytest.raises(InfrastructureError):
        await log.record(DENIED)
    sink.failures = 0
    await log.record(CALL)
    log.close()
    assert log.dropped == 3
    report = verify([path], KEY)
    assert (report.faults, report.dropped, report.records) == ([], 3, 2)


async def test_an_event_of_security_is_on_the_disk_before_its_caller_goes_on(
    log: AuditLog, monkeypatch: pytest.MonkeyPatch
):
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    await log.record(CALL)
    assert synced == []
    await asyncio.gather(*(log.record(DENIED) for _ in range(10)))
    assert 1 <= len(synced) <= 10

    def failing(file: int) -> None:
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(InfrastructureError):
        await log.record(DENIED)


async def test_checkpoints_are_given_out_from_time_to_time(log: AuditLog, tmp_path: Path):
    given = asyncio.Event()
    loop = asyncio.get_running_loop()
    kept = tmp_path / "checkpoints"

    def export(one: Checkpoint) -> None:
        append_checkpoint(kept, one)
        loop.call_soon_threadsafe(given.set)

    task = loop.create_task(log.keep(flush_every=0.01, checkpoint_every=0.01, export=export))
    async with asyncio.timeout(20):
        await given.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    one = Checkpoint.read(kept.read_bytes().splitlines()[0])
    assert one is not None
    assert one.genuine(KEY)


def test_a_key_is_made_once_for_its_owner_alone(tmp_path: Path):
    key = key_of(tmp_path / "audit.key", create=True)
    assert key_of(tmp_path / "audit.key") == key
    assert len(key) == 64
    (tmp_path / "audit.key").chmod(0o644)
    with pytest.raises(InputError, match="others may read"):
        key_of(tmp_path / "audit.key")
    with pytest.raises(InputError, match="cannot read"):
        key_of(tmp_path / "none.key")


MAKER = """
import sys
from pathlib import Path
from weft.telemetry.audit import key_of
sys.stdin.readline()
print(key_of(Path(sys.argv[1]), create=True).decode())
"""


def test_several_processes_that_begin_at_once_make_one_key(tmp_path: Path):
    path = tmp_path / "audit.key"
    started = [
        subprocess.Popen(
            [sys.executable, "-c", MAKER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    for one in started:
        assert one.stdin is not None
        one.stdin.write("\n")
        one.stdin.flush()
    keys = {one.communicate(timeout=60)[0] for one in started}
    assert keys == {path.read_text()}
    assert [one.name for one in tmp_path.iterdir()] == ["audit.key"]


def test_a_key_that_another_process_made_meanwhile_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "audit.key"
    key = key_of(path, create=True)

    def not_there(_path: Path) -> bool:
        return False

    monkeypatch.setattr(Path, "exists", not_there)
    assert key_of(path, create=True) == key


async def _kept(log: AuditLog, export: Callable[[Checkpoint], object], happened: Callable[[], bool]) -> None:
    task = asyncio.create_task(log.keep(flush_every=0.001, checkpoint_every=0.0, export=export))
    async with asyncio.timeout(20):
        while not happened():  # noqa: ASYNC110 - only the log tells
            await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_checkpoints_that_cannot_be_kept_are_told_once_and_tried_again(
    log: AuditLog, caplog: pytest.LogCaptureFixture
):
    caplog.set_level("INFO")
    tries = 0

    def export(one: Checkpoint) -> None:
        nonlocal tries
        tries += 1
        if tries <= 3:
            raise PermissionError(errno.EACCES, "permission denied")

    await _kept(log, export, lambda: "kept again" in caplog.text)
    assert caplog.text.count("a checkpoint of the audit log cannot be kept") == 1


async def test_records_that_are_dropped_are_told_to_the_operator(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    caplog.set_level("INFO")
    log = AuditLog(path, KEY, when_full="drop")
    sink = Sink(monkeypatch, failures=10**9)
    await log.record(CALL)
    await _kept(log, lambda one: None, lambda: "records are dropped from the audit log" in caplog.text)
    sink.failures = 0
    assert log.add(CALL)
    log.close()
    assert "the audit log is written again" in caplog.text


async def test_names_that_come_again_and_again_are_redacted_each_time(path: Path):
    log = AuditLog(path, KEY, redact=lambda text: text.replace("canary", "***"))
    for _ in range(3):
        await log.record(Entry(principal="canary", tool="t", decision="allow"))
    log.close()
    assert [one["principal"] for one in _records(path)[1:]] == ["***"] * 3


async def test_a_secret_at_the_end_of_a_long_text_is_redacted_before_the_text_is_cut(path: Path):
    log = AuditLog(path, KEY, redact=redact)
    await log.record(Entry(principal="a", tool="t", decision="deny", reason="x" * 240 + " password=canary-and-more"))
    log.close()
    assert b"canary" not in _data(path)


def _verified(*arguments: str | Path) -> Result:
    return CliRunner().invoke(command, ["verify", *(str(one) for one in arguments)])


@pytest.fixture
def kept(path: Path) -> Path:
    """A log of five records, its key and a checkpoint beside it."""
    path.with_name("audit.key").write_bytes(KEY)
    path.with_name("audit.key").chmod(0o600)
    append_checkpoint(path.with_name("checkpoints"), asyncio.run(_filled(path, 5)))
    return path


def test_the_command_says_that_a_log_is_whole_and_what_it_cannot_see(kept: Path):
    done = _verified(kept)
    assert (done.exit_code, "6 records, as they were written" in done.stdout) == (0, True)
    assert "--checkpoint" in done.stderr
    done = _verified(kept, "--checkpoint", kept.with_name("checkpoints"), "--json")
    assert json.loads(done.stdout) | {"intact": True, "records": 6, "checkpoint": 5} == json.loads(done.stdout)


def test_the_command_names_the_place_of_a_change(kept: Path):
    kept.write_bytes(kept.read_bytes().replace(b'"t2"', b'"t9"'))
    done = _verified(kept)
    assert done.exit_code == 1
    assert f"{kept}:4: record 3 is not as it was written [edited]" in done.stdout
    cut = kept.read_bytes().splitlines(keepends=True)[:-1]
    kept.write_bytes(b"".join(cut))
    told = json.loads(_verified(kept, "--checkpoint", kept.with_name("checkpoints"), "--json").stdout)
    assert [fault["code"] for fault in told["faults"]] == ["edited", "cut"]


def test_what_cannot_be_read_is_wrong_input(kept: Path):
    assert json.loads(_verified(kept.with_name("none"), "--json").stdout)["error"]["code"] == "UnreadableFile"
    kept.with_name("checkpoints").write_text("{}\n")
    done = _verified(kept, "--checkpoint", kept.with_name("checkpoints"), "--json")
    assert (done.exit_code, json.loads(done.stdout)["error"]["code"]) == (2, "NotACheckpoint")
