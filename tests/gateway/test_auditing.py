"""Auditing of calls: one record each, who and how sure, never a value; events of security on the disk."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.documents import PATTERNS
from weft.errors import InfrastructureError
from weft.gateway import auditing
from weft.gateway.auditing import Auditor, principal_text, spec_hash
from weft.ir.document import ToolDef
from weft.ir.normalise import parse
from weft.ir.read import read
from weft.ports import ANONYMOUS, Principal
from weft.telemetry.audit import AuditLog
from weft.telemetry.auditchain import verify

KEY = b"0123456789abcdef"
ADA = Principal(
    subject="ada", tenant="blue", agent_name="research", agent_version="2.1.0", method="jwt", strength="proven"
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.log"


@pytest.fixture
def log(path: Path) -> Iterator[AuditLog]:
    log = AuditLog(path, KEY, patience=0.1)
    yield log
    log.close()


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()][1:]


async def test_without_a_log_nothing_is_done():
    auditor = Auditor(None)
    assert not auditor.on
    await auditor.call(ADA, "search@1.0.0", None, decision="deny")
    auditor.security("quarantined", tool="search")
    await auditor.close()


async def test_a_call_and_its_steps_are_recorded_with_all_but_the_values(log: AuditLog, path: Path):
    auditor = Auditor(log)
    assert auditor.on
    labelled = ADA.labelled({"name": "inspector", "version": "1"})
    given = {"q": "canary"}
    await auditor.call(
        labelled,
        "search@1.0.0",
        "ab12",
        decision="allow",
        reason="rule 'readers'",
        arguments=given,
        outcome="ok",
        ms=1.23456,
        trace_id="f" * 32,
    )
    await auditor.step(ADA, "fetch@2.0.0", None, decision="deny", reason="not a dependency")
    call, step = records(path)
    assert (
        call
        | {
            "kind": "call",
            "principal": "research@2.1.0 of ada (jwt, proven)",
            "tenant": "blue",
            "label": "inspector 1",
            "tool": "search@1.0.0",
            "spec": "ab12",
            "decision": "allow",
            "reason": "rule 'readers'",
            "arguments": log.fingerprint(given),
            "outcome": "ok",
            "ms": 1.235,
            "trace": "f" * 32,
        }
        == call
    )
    assert (step["kind"], step["tool"], step["decision"]) == ("step", "fetch@2.0.0", "deny")
    assert b"canary" not in await asyncio.to_thread(path.read_bytes)
    assert verify([path], KEY).faults == []


@pytest.mark.parametrize(
    ("principal", "text"),
    [
        (ANONYMOUS, "anonymous"),
        (Principal(subject="ada", method="key", strength="proven"), "ada (key, proven)"),
        (Principal(subject="bot", agent_name="bot", method="header", strength="none"), "bot (header, none)"),
        (
            Principal(subject="eve (jwt, proven)", method="header", strength="none"),
            "eve%20%28jwt%2C%20proven%29 (header, none)",
        ),
        (Principal(subject="a\n\x1b[2J\u202e", method="key", strength="proven"), "a%0A%1B%5B2J%E2%80%AE (key, proven)"),
    ],
)
def test_who_it_was_is_told_so_that_no_name_can_feign_it(principal: Principal, text: str):
    assert principal_text(principal) == text


def failing(monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write

    def full(file: int, data: bytes) -> int:
        # Only the records of the log: the event loop writes to its own pipes.
        if data.startswith(b'{"n"'):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(file, data)

    monkeypatch.setattr(os, "write", full)


async def test_a_call_that_cannot_be_recorded_fails(log: AuditLog, monkeypatch: pytest.MonkeyPatch):
    failing(monkeypatch)
    with pytest.raises(InfrastructureError) as caught:
        await Auditor(log).call(ADA, "search@1.0.0", None, decision="allow", outcome="ok")
    assert caught.value.code == "AuditUnavailable"


async def test_an_event_is_written_at_once_and_brought_to_the_disk_beside(
    log: AuditLog, path: Path, monkeypatch: pytest.MonkeyPatch
):
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    auditor = Auditor(log)
    auditor.security("quarantined", server="web", tool="search", reason="its description changed")
    (told,) = records(path)
    assert told | {"kind": "security", "event": "quarantined", "server": "web", "tool": "search"} == told
    assert (told["decision"], told["principal"], synced) == ("deny", "anonymous", [])
    await auditor.close()
    assert len(synced) == 1


async def test_a_flood_of_events_is_counted_instead_of_filling_the_disk(
    log: AuditLog, path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(auditing, "AT_ONCE", 3)
    auditor = Auditor(log)
    for number in range(10):
        auditor.security("refused", reason=f"number {number}")
    auditor.security("quarantined", tool="search")
    await auditor.close()
    told = records(path)
    assert [(one["event"], one.get("reason"), one.get("count")) for one in told] == [
        ("refused", "number 0", None),
        ("refused", "number 1", None),
        ("refused", "number 2", None),
        ("quarantined", None, None),
        ("refused", "number 9", 7),
    ]


async def test_what_came_after_a_flood_is_recorded_again(log: AuditLog, path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(auditing, "AT_ONCE", 1)
    monkeypatch.setattr(auditing, "SECOND", 0.0)
    auditor = Auditor(log)
    for _ in range(3):
        auditor.security("refused")
    async with asyncio.timeout(20):
        while len(records(path)) < 2:  # noqa: ASYNC110 - nobody announces it
            await asyncio.sleep(0)
    auditor.security("refused")
    await auditor.close()
    assert [one.get("count") for one in records(path)] == [None, 2, None]


async def test_an_event_that_cannot_be_recorded_is_logged(
    log: AuditLog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    failing(monkeypatch)
    auditor = Auditor(log)
    auditor.security("refused")
    await auditor.close()
    assert "an event of security is not recorded: the audit log cannot be written: no space left" in caplog.text


def defined(text: str) -> ToolDef:
    assert PATTERNS, "what closes the union of operations"
    (tool,) = parse(read(text)).document.tools
    return tool


def test_the_hash_of_a_definition_is_that_of_its_meaning():
    source = '"source": {"server": "web", "tool": "find"}'
    one = defined(f'{{"schemaVersion": "1.0", "tools": [{{"name": "a", "description": "x", {source}}}]}}')
    again = defined(f'{{"tools": [{{{source}, "description": "x",\n "name": "a"}}], "schemaVersion": "1.0"}}')
    other = defined(f'{{"schemaVersion": "1.0", "tools": [{{"name": "a", "description": "y", {source}}}]}}')
    assert spec_hash(one) == spec_hash(again) != spec_hash(other)
    assert len(spec_hash(one)) == 64
