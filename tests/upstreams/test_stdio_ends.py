"""How children end: by themselves, by force, with all they started, and without anything left."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator

import pytest

from tests.upstreams.stdio_wires import CHILDREN, HASTY, lives, nothing_left, puppet, running_loop
from tests.waiting import until
from weft.errors import DeadlineExceeded, UpstreamDied, UpstreamMessageTooLarge, UpstreamUnavailable
from weft.upstreams.stdio import StdioLimits


@pytest.fixture(autouse=True)
async def clean() -> AsyncGenerator[None]:
    async with nothing_left():
        yield


async def test_a_child_that_exits_fails_its_calls_with_status_and_last_words_without_secrets():
    async with puppet(env={"KEY_OF_CONFIG": "s3cr3t-of-config"}) as wire:
        held = asyncio.create_task(wire.ask("hold"))
        await asyncio.sleep(0)
        stderr = "x" * 5000 + "\nAPI_TOKEN=abc123 s3cr3t-of-config\n\x1b[31mboom\n"
        with pytest.raises(UpstreamDied) as died:
            await wire.ask("die", status=3, stderr=stderr)
        with pytest.raises(UpstreamDied, match="exit status 3") as other:
            await held
        # Each call notes on its own error where it passed.
        assert other.value is not died.value
        assert died.value.retryable == "unknown-outcome"
        assert died.value.message.endswith("API_TOKEN=[redacted] [redacted]\nboom")
        assert "exit status 3" in died.value.message
        assert 2000 < len(died.value.message) < 2200
        assert [one.status for one in wire.exits] == [3]
        with pytest.raises(UpstreamUnavailable, match="has ended: exit status 3"):
            await wire.ask("echo")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
async def test_a_child_that_a_signal_kills_is_told_by_the_signals_name(number: signal.Signals):
    async with puppet() as wire:
        with pytest.raises(UpstreamDied, match=f"killed by {number.name}"):
            await wire.ask("signal", number=number)


async def test_an_answer_written_before_the_end_still_arrives():
    async with puppet() as wire:
        assert await wire.result("answer and die") == "last words"
        assert (await wire.end()).status == 0


async def test_a_child_that_closes_its_stdout_is_stopped():
    async with puppet() as wire:
        with pytest.raises(UpstreamDied, match="killed by SIGTERM"):
            await wire.ask("close stdout")


async def test_closing_ends_a_polite_child_by_the_end_of_its_input():
    async with puppet() as wire:
        held = asyncio.create_task(wire.ask("hold"))
        await wire.result("echo")
        await wire.transport.close()
        assert wire.exits[0].status == 0
        with pytest.raises(UpstreamDied, match="weft closed it"):
            await held


async def test_closing_kills_an_obstinate_child_and_all_that_it_started():
    async with puppet() as wire:
        await wire.result("obstinate")
        grandchild = await wire.result("fork")
        await wire.transport.close()
        assert wire.exits[0].status == -signal.SIGKILL
        await until(lambda: not lives(grandchild))


async def test_what_a_child_started_does_not_outlive_its_crash():
    async with puppet() as wire:
        grandchild = await wire.result("fork")
        with pytest.raises(UpstreamDied):
            await wire.ask("die", status=1)
        await until(lambda: not lives(grandchild))


async def test_closing_goes_on_when_its_caller_is_cancelled():
    async with puppet() as wire:
        await wire.result("obstinate")
        closing = asyncio.create_task(wire.transport.close())
        await asyncio.sleep(0.01)
        closing.cancel()
        assert (await wire.end()).status == -signal.SIGKILL


@pytest.mark.parametrize("end", ["SIGKILL", "SIGTERM", "return"])
async def test_nothing_outlives_a_gateway_that_ends_without_closing(end: str):
    gateway = await asyncio.create_subprocess_exec(
        sys.executable, str(CHILDREN / "gateway.py"), end, running_loop(), stdin=PIPE, stdout=PIPE, stderr=PIPE
    )
    assert gateway.stdout is not None
    pids = [int(one) for one in (await gateway.stdout.readline()).split()]
    assert [lives(pid) for pid in pids] == [True, True]
    if end != "return":
        gateway.send_signal(signal.Signals[end])
    _, stderr = await gateway.communicate(b"return\n")
    assert stderr == b""
    await until(lambda: not any(lives(pid) for pid in pids))


async def test_a_full_pipe_holds_a_request_only_to_its_deadline_and_a_silent_child_is_stopped():
    limits = StdioLimits(silent_timeouts=3, probe=0.1, patience=HASTY)
    async with puppet(limits=limits) as wire:
        asleep = asyncio.create_task(wire.ask("sleep"))
        await asyncio.sleep(0)
        big = "x" * 2_000_000
        with pytest.raises(DeadlineExceeded, match="did not answer echo"):
            await wire.ask("echo", within=0.05, text=big)
        for _ in range(2):
            with pytest.raises(DeadlineExceeded, match="took no input for echo"):
                await wire.ask("echo", within=0.05)
        with pytest.raises(UpstreamDied, match="3 requests in a row timed out and it was silent"):
            await asleep
        assert (await wire.end()).status == -signal.SIGTERM


async def test_a_request_that_waits_to_be_written_when_the_child_goes_was_not_sent():
    async with puppet() as wire:
        asleep = asyncio.create_task(wire.ask("sleep", text="x" * 2_000_000))
        await asyncio.sleep(0)
        waiting = asyncio.create_task(wire.ask("echo"))
        await asyncio.sleep(0)
        await wire.transport.close()
        with pytest.raises(UpstreamDied) as died:
            await waiting
        assert died.value.retryable == "yes"
        with pytest.raises(UpstreamDied):
            await asleep


async def test_slow_tools_of_a_child_that_shows_life_never_stop_it():
    async with puppet(limits=StdioLimits(silent_timeouts=2, probe=5, patience=HASTY)) as wire:
        for _ in range(5):
            with pytest.raises(DeadlineExceeded):
                await wire.ask("hold", within=0.01)
        assert await wire.result("echo", n=1) == {"n": 1}
        assert wire.exits == []


async def test_a_child_that_asks_without_reading_the_answers_costs_a_bounded_memory():
    limits = StdioLimits(unread=100_000, patience=HASTY)
    async with puppet(limits=limits) as wire:
        ask = '{"jsonrpc": "2.0", "id": "%s", "method": "x"}\n' % ("i" * 1000)
        await wire.result("say", raw=ask * 3000)
        assert wire.transport.counters.unwritten_messages > 1000
        assert await wire.result("echo", n=1) == {"n": 1}


async def test_the_end_of_a_child_is_noticed_also_where_the_system_has_no_handles_for_processes(
    monkeypatch: pytest.MonkeyPatch,
):
    def unknown(pid: int) -> int:
        raise OSError(errno.ENOSYS, "no such call")

    monkeypatch.setattr(os, "pidfd_open", unknown)
    async with nothing_left(), puppet() as wire:
        grandchild = await wire.result("fork")
        with pytest.raises(UpstreamDied, match="exit status 3"):
            await wire.ask("die", status=3)
        assert (await wire.end()).status == 3
        await until(lambda: not lives(grandchild))


async def test_a_line_without_end_kills_the_child_and_fails_its_calls_within_bounded_memory():
    limits = StdioLimits(line=8 * 1024 * 1024, patience=HASTY)
    async with puppet(limits=limits) as wire:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(UpstreamMessageTooLarge, match="limit 8388608 bytes"):
            await wire.ask("endless line")
        assert (await wire.end()).status == -signal.SIGKILL
        assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < 2 * limits.line


async def test_an_answer_in_the_same_breath_as_a_line_too_long_still_counts():
    async with puppet(limits=StdioLimits(line=1000, patience=HASTY)) as wire:
        raw = '{"jsonrpc": "2.0", "id": ID, "result": 1}\n' + "x" * 2000 + "\n"
        assert await wire.result("say instead", raw=raw) == 1
        assert "a line of over 1000 bytes" in str(await wire.end())


async def test_a_flood_on_stderr_never_blocks_the_child_and_hardly_reaches_the_log():
    async with puppet() as wire:
        await wire.ask("flood stderr", lines=50_000)
        assert 1 <= len(wire.logged) < 200
        with pytest.raises(UpstreamDied) as died:
            await wire.ask("die", status=1, stderr="the last line\n")
        assert died.value.message.endswith("the last line")
        assert len(died.value.message) < 2200


async def test_twenty_lives_leave_nothing_behind():
    async with nothing_left():
        for _ in range(4):
            wires = [puppet() for _ in range(5)]
            opened = await asyncio.gather(*(one.__aenter__() for one in wires))
            await asyncio.gather(*(one.result("echo") for one in opened))
            await asyncio.gather(*(one.__aexit__(None, None, None) for one in wires))
