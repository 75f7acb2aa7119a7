"""The audit log of a whole gateway: one record a call and a step, through crashes, and no secret in it or elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, Iterable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner

from tests.app.served import (
    ASKABLE,
    PATIENCE,
    Place,
    Program,
    house,
    message_of,
    modern,
    pipeline,
    program,
    registry,
    started,
    witness,
)
from tests.app.upstream import ANYTHING, Upstream, upstream
from tests.gateway.issuing import AUDIENCE, ISSUER, Issuer
from tests.waiting import until
from weft.app.auditing import Auditing, audit_of, key_beside, numbered
from weft.cli import weft
from weft.config.governance import Audit
from weft.doors.listener import Listener, bind
from weft.errors import InputError
from weft.gateway.keys import KeyFile, make_key
from weft.telemetry.audit import AuditLog, key_of
from weft.telemetry.auditchain import verify

AUDITED: dict[str, Any] = {"file": "audit.log", "checkpoints": "checkpoints"}


def records(path: Path) -> list[dict[str, Any]]:
    """Return what stands in a log, but for a line that is torn."""
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def calls(path: Path) -> list[dict[str, Any]]:
    """Return the calls and the steps that stand in a log."""
    return [one for one in records(path) if one["kind"] in ("call", "step")]


def verified(log: Path, *more: str) -> dict[str, Any]:
    """Return what `weft audit verify` says of a log."""
    key = log.with_name("audit.log.key")
    done = CliRunner().invoke(weft, ["audit", "verify", str(log), "--key", str(key), "--json", *more])
    return {"exit": done.exit_code, **json.loads(done.stdout)}


def same(text: str) -> str:
    return text


# Opening.


@pytest.mark.parametrize(
    ("name", "worker", "made"),
    [
        ("audit.log", None, "audit.log"),
        ("audit.log", 0, "audit.0.log"),
        ("audit.log", 12, "audit.12.log"),
        ("checkpoints", 1, "checkpoints.1"),
    ],
)
def test_each_of_several_workers_has_its_own_file(name: str, worker: int | None, made: str):
    assert numbered(Path("/x") / name, worker) == Path("/x") / made


@pytest.mark.parametrize("log", ["audit.log", "audit.0.log", "audit.1.log.000000000512"])
def test_the_key_of_a_log_is_found_beside_it(tmp_path: Path, log: str):
    key_of(tmp_path / "audit.key", create=True)
    assert key_beside(tmp_path / log) == tmp_path / "audit.key"
    key_of(tmp_path / "audit.log.key", create=True)
    assert key_beside(tmp_path / log) == tmp_path / "audit.log.key"
    assert key_beside(tmp_path / "other.log").name == "audit.key"
    (tmp_path / "audit.key").unlink()
    assert key_beside(tmp_path / "other.log").name == "other.log.key"


def test_there_is_no_log_unless_one_is_wanted():
    assert audit_of(None, worker=None, redact=same) is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"file": "none/audit.log"}, "none"),
        ({"file": "audit.log", "keyFile": "none/audit.key"}, "none/audit.key"),
        ({"file": "."}, "is"),
    ],
)
def test_a_log_that_cannot_be_written_is_told(tmp_path: Path, given: dict[str, str], said: str):
    wanted = {name: str(tmp_path / one) for name, one in given.items()}
    with pytest.raises(InputError, match=said):
        audit_of(Audit.model_validate(wanted), worker=None, redact=same)


async def test_checkpoints_that_cannot_be_kept_are_told_at_the_start(tmp_path: Path):
    given = Audit.model_validate({"file": str(tmp_path / "audit.log"), "checkpoints": str(tmp_path / "none" / "kept")})
    auditing = Auditing(given, redact=same)
    with pytest.raises(InputError, match="none/kept: no such file"):
        auditing.start()
    await auditing.close()


async def test_a_log_that_is_closed_is_written_to_by_nobody(tmp_path: Path):
    auditing = Auditing(Audit.model_validate({"file": str(tmp_path / "audit.log")}), redact=same)
    log = auditing.log
    assert isinstance(log, AuditLog)
    await auditing.close()
    await auditing.close()
    with (tmp_path / "other").open("wb") as other:  # It gets the number that the log's file had.
        with contextlib.suppress(OSError):
            log._write('"kind":"late"')  # pyright: ignore[reportPrivateUsage]  (the way that all records go)
        other.flush()
    assert (tmp_path / "other").read_bytes() == b""


@pytest.mark.parametrize("what", ["folder", "key", "changed"])
async def test_weft_does_not_begin_without_the_log_that_it_should_write(tmp_path: Path, what: str):
    given: dict[str, Any] = {"audit": {"file": "none/audit.log" if what == "folder" else "audit.log"}}
    if what != "folder":
        AuditLog(tmp_path / "audit.log", key_of(tmp_path / "audit.log.key", create=True)).close()
    if what == "key":
        (tmp_path / "audit.log.key").chmod(0o644)
    if what == "changed":
        data = await asyncio.to_thread((tmp_path / "audit.log").read_bytes)
        (tmp_path / "audit.log").write_bytes(data.replace(b'"begin"', b'"begun"'))
    async with started(tmp_path, given, "--port", "0", "--admin-port", "0") as process:
        async with asyncio.timeout(PATIENCE):
            _, said = await process.communicate()
        assert process.returncode == 2, said
    assert {"folder": b"no such file", "key": b"chmod 600", "changed": b"weft audit verify"}[what] in said
    assert b"serves MCP" not in said
    assert b"Traceback" not in said


# Calls.


async def test_calls_and_their_steps_are_recorded_in_their_trace(tmp_path: Path):
    async with upstream("echo") as up:
        given: dict[str, Any] = {"servers": {"up": {"url": up.url}}, "audit": AUDITED}
        async with house(tmp_path, given, registry(pipeline("twice", "echo", "echo"))) as gate:
            await gate.call("twice", {"q": "canary-value"}, **{"x-agent-name": "research"})
            await gate.call("echo", {"q": "canary-value"})
            assert (await gate.post("tools/call", {"name": "nothing", "arguments": {}})).status in (200, 400, 404)
            (trace,) = {one["id"] for one in (await gate.ask("GET", "/traces", admin=True)).json["traces"]} & {
                one["trace"] for one in calls(tmp_path / "audit.log") if one["tool"].startswith("twice")
            }
    told = calls(tmp_path / "audit.log")
    assert [(one["kind"], one["tool"].partition("@")[0], one["decision"]) for one in told] == [
        ("step", "echo", "allow"),
        ("step", "echo", "allow"),
        ("call", "twice", "allow"),
        ("call", "echo", "allow"),
        ("call", "nothing", "deny"),
    ]
    composed = told[2]
    assert [one["trace"] for one in told[:3]] == [trace] * 3
    assert composed["principal"] == "research (header, none)"
    assert [one.get("outcome") for one in told[:4]] == ["ok"] * 4
    assert len(composed["spec"]) == len(composed["arguments"]) == 64
    assert told[3]["principal"] == "anonymous"
    assert composed["arguments"] == told[3]["arguments"], "equal arguments have the same mark"
    assert composed["ms"] > 0
    assert b"canary" not in await asyncio.to_thread((tmp_path / "audit.log").read_bytes)
    end = verified(tmp_path / "audit.log", "--checkpoint", str(tmp_path / "checkpoints"))
    assert (end["exit"], end["faults"], end["checkpoint"]) == (0, [], end["records"] - 1)


async def test_a_composition_that_waits_for_an_answer_is_recorded_too(tmp_path: Path):
    given: dict[str, Any] = {"servers": {"child": witness(tmp_path / "seen")}, "audit": AUDITED}
    async with house(tmp_path, given, registry(pipeline("asks", "ask"))) as gate:
        call: dict[str, Any] = {"name": "asks", "arguments": {}, "_meta": ASKABLE}
        asked = message_of(await gate.post("tools/call", call))["result"]
        assert asked["resultType"] == "input_required"
        answers: dict[str, Any] = {key: {"action": "accept", "content": {}} for key in asked["inputRequests"]}
        again: dict[str, Any] = {**call, "inputResponses": answers, "requestState": asked["requestState"]}
        done = message_of(await gate.post("tools/call", again))["result"]
        assert not done.get("isError"), done
    told = [one for one in calls(tmp_path / "audit.log") if one["kind"] == "call"]
    assert [one["outcome"] for one in told] == ["input_required", "ok"]


async def test_a_call_that_cannot_be_recorded_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write = os.write

    def full(file: int, data: bytes) -> int:
        # Only the records of the log: the event loop writes to its own pipes.
        if data.startswith(b'{"n"'):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(file, data)

    async with upstream("echo") as up:
        given: dict[str, Any] = {"servers": {"up": {"url": up.url}}, "audit": {"file": "audit.log"}}
        async with house(tmp_path, given) as gate:
            assert gate.running.auditing.log is not None
            monkeypatch.setattr(gate.running.auditing.log, "_patience", 0.1)
            with monkeypatch.context() as broken:
                broken.setattr(os, "write", full)
                failed = await gate.post("tools/call", {"name": "echo", "arguments": {}})
            assert b"the audit log cannot be written: no space left" in failed.body
            assert not (await gate.call("echo")).get("isError"), "it goes on when there is room again"


# Processes.


async def keep_calling(gate: Place, answered: list[int]) -> None:
    """Call a tool over and over on one connection, until it breaks."""
    with contextlib.suppress(OSError, EOFError, asyncio.IncompleteReadError, AssertionError):
        async with gate.connected() as client:
            while True:
                client.request("POST", "/mcp", **modern("tools/call", {"name": "echo", "arguments": {"n": 1}}))
                answered.append((await client.answer()).status)


async def under_load(gate: Program, enough: int) -> int:
    """Kill a gateway in the midst of calls, and return how many it had answered."""
    answered: list[int] = []
    tasks = [asyncio.create_task(keep_calling(gate, answered)) for _ in range(8)]
    await until(lambda: len(answered) >= enough)
    gate.signal(signal.SIGKILL)
    await gate.ended()
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*tasks, return_exceptions=True)
    assert set(answered) == {200}
    return len(answered)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no kill -9")
async def test_a_gateway_that_is_killed_under_load_has_recorded_every_call_that_it_answered(tmp_path: Path):
    log = tmp_path / "audit.log"
    async with upstream("echo") as up:
        given: dict[str, Any] = {"servers": {"up": {"url": up.url}}, "audit": {"file": "audit.log"}}
        async with program(tmp_path, given) as gate:
            await gate.has("echo")
            answered = await under_load(gate, 300)
        told = verified(log)
        assert told["exit"] == 0
        assert [fault["code"] for fault in told["faults"]] in ([], ["torn"])
        assert len(calls(log)) >= answered
        async with program(tmp_path, given) as gate:
            await gate.has("echo")
            await gate.call("echo")
    told = verified(log)
    assert (told["exit"], told["faults"]) == (0, [])
    assert "opened" in [one["kind"] for one in records(log)]


async def test_two_workers_make_one_key_and_write_two_logs(tmp_path: Path):
    async with upstream("echo") as up:
        given: dict[str, Any] = {"servers": {"up": {"url": up.url}}, "audit": AUDITED}
        async with program(tmp_path, given, "--workers", "2") as gate:
            await gate.has("echo")
            await until(lambda: (tmp_path / "checkpoints.1").exists() and (tmp_path / "checkpoints.0").exists())
            for _ in range(20):
                await gate.call("echo")
    logs = [tmp_path / "audit.0.log", tmp_path / "audit.1.log"]
    assert sum(len(calls(log)) for log in logs) == 20
    key = key_of(tmp_path / "audit.log.key")
    assert all(verify([log], key).faults == [] for log in logs)
    for number, log in enumerate(logs):
        told = verified(log, "--checkpoint", str(tmp_path / f"checkpoints.{number}"))
        assert (told["exit"], told["checkpoint"]) == (0, told["records"] - 1)
    assert [one for one in await asyncio.to_thread(os.listdir, tmp_path) if "key" in one] == ["audit.log.key"]


# Secrets.

CANARY = "canary-9f8e7d6c5b4a"
LOGIN: dict[str, Any] = {
    "name": "login",
    "inputSchema": {
        "type": "object",
        "properties": {
            "user": {"type": "string"},
            "password": {"type": "string", "maxLength": 100},
            "code": {"type": "string", "writeOnly": True, "pattern": "^canary"},
        },
    },
}


class Leaky(Upstream):
    """A server whose tool `login` fails, and quotes all that it was given when it says why."""

    async def _result(self, method: str, params: dict[str, Any], receive: Any) -> dict[str, Any] | None:
        if method == "tools/list":
            return {"tools": [LOGIN, {"name": "echo", "inputSchema": ANYTHING}]}
        if method == "tools/call" and params["name"] == "login":
            said = f"nobody gets in with {' '.join(map(str, params['arguments'].values()))}"
            return {"content": [{"type": "text", "text": said}], "isError": True}
        return await super()._result(method, params, receive)


@contextlib.asynccontextmanager
async def leaky() -> AsyncGenerator[Leaky]:
    """Serve one at a free port."""
    made = Leaky()
    listener = Listener(made, sockets=[bind("127.0.0.1", 0)])
    await listener.start()
    made.url = f"http://127.0.0.1:{listener.address[1]}/mcp"
    try:
        yield made
    finally:
        await listener.drain(0)


async def shown(gate: Program) -> bytes:
    """Return all that operators are shown."""
    paths = ("/readyz", "/healthz", "/metrics", "/upstreams", "/traces")
    pages = [(await gate.ask("GET", path, admin=True)).body for path in paths]
    for call in (await gate.ask("GET", "/traces", admin=True)).json["traces"]:
        pages.append((await gate.ask("GET", f"/traces/{call['id']}", admin=True)).body)
    return b"\n".join([*pages, (await gate.ask("GET", "/metrics")).body, (await gate.ask("GET", "/readyz")).body])


def renaming() -> dict[str, Any]:
    """Return a composition in which nothing but the tool that it calls says what is secret."""
    mapped = {"schemaMap": {"mappings": {"code": {"path": "$.x"}}}}
    steps = [{"id": "map", "operation": mapped}, {"id": "login", "operation": {"tool": {"name": "login"}}}]
    return {"name": "renames", "description": "renames", "spec": {"pipeline": {"steps": steps}}}


def tried() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield calls with a secret that is known by its name, or by a mark in the schema, or that does not even fit."""
    for tool in ("login", "enter", "strict", "nothing"):
        yield tool, {"password": CANARY, "user": "ada"}
        yield tool, {"code": CANARY + "-code"}
        yield tool, {"password": CANARY * 20}
        yield tool, {"password": [CANARY], "code": {"x": CANARY}}
    yield "renames", {"x": CANARY}


def given_away(place: str, text: bytes, secrets: Iterable[str]) -> list[str]:
    """Return which secrets stand in a text, and where."""
    return [f"{secret} in {place}" for secret in secrets if secret.encode() in text]


@pytest.mark.parametrize("format", ["json", "text"])
async def test_no_secret_of_a_call_is_in_logs_traces_metrics_or_the_audit_log(tmp_path: Path, format: str):
    issuer = Issuer()
    (tmp_path / "jwks.json").write_bytes(issuer.key_set())
    key, api_key = make_key(agent="research", versions=["1.0.0"])
    KeyFile(tmp_path / "keys.json").add(key)
    token = issuer.token()
    secrets = [CANARY, api_key, api_key.split("_", 2)[2], token, token.rpartition(".")[2], token.split(".")[1]]
    compositions = [
        pipeline("enter", "login"),
        {**pipeline("strict", "login"), "inputSchema": LOGIN["inputSchema"]},
        renaming(),
    ]
    (tmp_path / "registry.json").write_bytes(orjson.dumps(registry(*compositions)))
    async with leaky() as up:
        given: dict[str, Any] = {
            "servers": {"up": {"url": up.url}, "child": witness(tmp_path / "seen")},
            "identity": {
                "keyFile": "keys.json",
                "jwt": [{"issuer": ISSUER, "audience": AUDIENCE, "jwks": "jwks.json"}],
            },
            "registry": {
                "source": "registry.json",
                "validation": {"runtime": {"inputValidation": "warn", "outputValidation": "warn"}},
            },
            "telemetry": {"logs": {"level": "debug", "format": format}},
            "audit": AUDITED,
        }
        async with program(tmp_path, given) as gate:
            await gate.has("login", "strict", "whisper")
            whos = [
                {"x-api-key": api_key},
                {"authorization": f"Bearer {api_key}"},
                {"authorization": f"Bearer {token}"},
            ]
            for who in whos:
                for tool, arguments in tried():
                    answer = await gate.post("tools/call", {"name": tool, "arguments": arguments}, **who)
                    assert answer.status in (200, 400, 404), answer.body
                await gate.call("whisper", {"text": f"trying with token={CANARY}"}, **who)
            refused = await gate.post("tools/call", {"name": "echo", "arguments": {}}, authorization=f"Bearer {token}x")
            assert refused.status == 401
            await gate.says("trying with")
            assert CANARY.encode() in up.traffic, "the tool itself was given it"
            pages = await shown(gate)
    found = given_away("what operators see", pages, secrets)
    found += given_away("the logs", "\n".join(gate.said).encode(), secrets)
    for name in ("audit.log", "audit.log.key", "checkpoints"):
        found += given_away(name, await asyncio.to_thread((tmp_path / name).read_bytes), secrets)
    assert found == []
    assert b"nobody gets in with" in pages, "what the tool said is there, without the secret"
    assert len(calls(tmp_path / "audit.log")) >= 3 * len(list(tried()))
