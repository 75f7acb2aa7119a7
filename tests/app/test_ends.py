"""How `weft serve` ends: in good order, against its will, or before it began; no process is ever left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.app.served import alive, children_of, modern, program, seen_by, started, witness
from tests.app.upstream import upstream
from tests.waiting import until

WORKERS = [pytest.param((), id="one process"), pytest.param(("--workers", "2"), id="two workers")]


def processes(seen: Path) -> set[int]:
    """Return all that children of the gateway ever started, themselves among them."""
    notes = [one for one in seen_by(seen) if "env" in one]
    return {pid for one in notes for pid in (one["pid"], one["child"]) if pid}


@pytest.mark.parametrize("arguments", WORKERS)
async def test_sigterm_lets_calls_end_refuses_new_ones_and_leaves_no_process(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    seen = tmp_path / "seen"
    async with upstream("echo", "wait") as up:
        servers = {"up": {"url": up.url}, "child": witness(seen, "with-a-child", include=["ping"])}
        async with program(tmp_path, {"servers": servers}, *arguments) as gate:
            assert "ping" in await gate.tools()
            started_here = 2 if arguments else 1
            await until(lambda: len(processes(seen)) == 2 * started_here)
            # A client that only listens must not hold up the end.
            async with gate.connected() as idle, gate.connected() as busy, gate.connected() as listener:
                idle.request("GET", "/healthz")
                assert (await idle.answer()).status == 200
                listener.request(
                    "POST", "/mcp", **modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
                )
                assert b" 200 " in await listener.reader.readline()
                busy.request("POST", "/mcp", **modern("tools/call", {"name": "wait", "arguments": {}}))
                await until(lambda: up.waiting == 1)
                gate.signal(signal.SIGTERM)
                await until(lambda: _refused(gate.port))
                if not arguments:  # of two workers, one may have had nothing to wait for
                    idle.request("POST", "/mcp", **modern("tools/list", {}))
                    refused = await idle.answer()
                    assert (refused.status, refused.headers["retry-after"]) == (503, "5")
                    assert refused.json["error"]["data"]["code"] == "ShuttingDown"
                assert gate.process.returncode is None
                before = asyncio.get_running_loop().time()
                up.let_go.set()
                assert b'"said"' in (await busy.answer()).body
                assert await gate.ended() == 0
                assert asyncio.get_running_loop().time() - before < 8, "the drain of 10 s was waited for"
            await until(lambda: not any(alive(pid) for pid in processes(seen)))
            assert not [line for line in gate.said if "Traceback" in line]


def _refused(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


@pytest.mark.parametrize("arguments", WORKERS)
async def test_killed_without_a_word_it_leaves_no_process(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    seen = tmp_path / "seen"
    async with program(tmp_path, {"servers": {"child": witness(seen, "with-a-child")}}, *arguments) as gate:
        assert "ping" in await gate.tools()
        await until(lambda: len(processes(seen)) == (4 if arguments else 2))
        workers = children_of(gate.pid) if arguments else set[int]()
        gate.signal(signal.SIGKILL)
        assert await gate.ended() == -signal.SIGKILL
        await until(lambda: not any(alive(pid) for pid in processes(seen) | workers))


async def test_a_client_that_does_not_end_is_given_up_after_the_drain(tmp_path: Path) -> None:
    async with (
        upstream("wait") as up,
        program(tmp_path, {"servers": {"up": {"url": up.url}}, "drain": "300ms"}) as gate,
        gate.connected() as client,
    ):
        client.request("POST", "/mcp", **modern("tools/call", {"name": "wait", "arguments": {}}))
        await until(lambda: up.waiting == 1)
        gate.signal(signal.SIGTERM)
        assert await gate.ended() == 0
        await until(lambda: up.waiting == 0)


async def _fails(folder: Path, config: dict[str, Any], *arguments: str) -> tuple[int, str]:
    """Return exit code and stderr of a gateway that does not come up."""
    async with started(folder, config, *arguments) as process, asyncio.timeout(30):
        _, stderr = await process.communicate()
        assert process.returncode is not None
        said = stderr.decode()
        assert "Traceback" not in said
        return process.returncode, said


async def test_a_port_in_use_is_told_in_a_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, said = await _fails(tmp_path, {}, "--port", port, "--admin-port", "0")
    assert code == 2
    assert f"cannot listen on 127.0.0.1:{port}" in said


@pytest.mark.parametrize("arguments", WORKERS)
async def test_a_registry_that_is_no_good_is_told_with_all_its_lines(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    file = tmp_path / "broken.json"
    file.write_text('{"schemaVersion": "1.0",\n "tools": [{"name": 7},\n {"nam": "b"}]}')
    code, said = await _fails(tmp_path, {}, "--registry", str(file), "--port", "0", "--admin-port", "0", *arguments)
    assert code == 2
    assert f"{file}:2" in said
    assert f"{file}:3" in said


@pytest.mark.parametrize("arguments", [("--port", "0"), ("--stdio",)], ids=" ".join)
async def test_a_configuration_that_is_no_good_is_told_with_all_its_lines(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    code, said = await _fails(tmp_path, {"listn": {}, "servers": {"a": {}}}, *arguments)
    assert code == 2
    assert "did you mean 'listen'" in said
    assert f"{tmp_path / 'weft.yaml'}:" in said


@pytest.mark.parametrize("arguments", [("--port", "0"), ("--stdio",), ("--port", "0", "--workers", "2")], ids=" ".join)
async def test_a_required_server_that_is_not_there_is_told_in_a_sentence(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    servers = {"gone": {"command": ["/no/such/program"], "required": True, "startTimeout": "2s"}}
    code, said = await _fails(tmp_path, {"servers": servers, "admin": {"port": 0}}, *arguments)
    assert code == 1
    assert "'gone' is unavailable: it is required" in said


async def test_an_address_of_the_network_is_refused_without_an_authenticator(tmp_path: Path) -> None:
    code, said = await _fails(tmp_path, {}, "--host", "0.0.0.0", "--port", "0", "--admin-port", "0")
    assert code == 2
    assert "--insecure" in said


async def test_a_gateway_on_stdio_ends_with_its_client_and_so_do_its_children(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    async with started(tmp_path, {"servers": {"child": witness(seen, "with-a-child")}}, "--stdio") as process:
        await until(lambda: len(processes(seen)) == 2)
        assert process.stdin is not None
        process.stdin.close()
        async with asyncio.timeout(20):
            assert await process.wait() == 0
        await until(lambda: not any(alive(pid) for pid in processes(seen)))


async def test_a_gateway_on_stdio_has_the_limits_of_its_configuration(tmp_path: Path) -> None:
    async with started(tmp_path, {"limits": {"depth": 5, "body": "1KiB"}}, "--stdio") as process, asyncio.timeout(30):
        assert process.stdin is not None
        assert process.stdout is not None
        deep = b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"a": [[[[[[]]]]]]}}\n'
        process.stdin.write(deep + b"x" * 2000 + b"\n")
        told = [(await process.stdout.readline()).decode() for _ in range(2)]
        assert "nested deeper than 5 levels" in told[0]
        assert "longer than 1024 bytes" in told[1]


async def test_a_gateway_on_stdio_ends_at_sigterm(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    async with started(tmp_path, {"servers": {"child": witness(seen, "with-a-child")}}, "--stdio") as process:
        await until(lambda: len(processes(seen)) == 2)
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(20):
            assert await process.wait() == 0
        await until(lambda: not any(alive(pid) for pid in processes(seen)))
        assert os.getpid() not in processes(seen)
