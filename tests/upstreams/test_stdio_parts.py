"""Parts of the stdio wire that need no child: lines, what is redacted, and when a child is started again."""

from __future__ import annotations

import asyncio
import time

import pytest

from weft.errors import UpstreamUnavailable
from weft.testing import FakeClock
from weft.upstreams.child import Supervisor
from weft.upstreams.lines import Lines
from weft.upstreams.process import environment, told_status
from weft.upstreams.stderr import Stderr, redact


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_lines_are_the_same_however_they_are_cut(size: int):
    text = b"one\n\ntwo three\r\n" + b"x" * 500 + b"\nrest"
    lines = Lines(limit=500)
    found = [bytes(line) for at in range(0, len(text), size) for line in lines.feed(text[at : at + size])]
    assert found == [b"one", b"", b"two three\r", b"x" * 500]
    assert not lines.overflowed


@pytest.mark.parametrize(
    "chunks", [[b"a\n", b"x" * 11], [b"a\n" + b"x" * 11 + b"\nb\n"], [b"a\nxxxxxx", b"xxxxx\nb\n"]]
)
def test_a_line_over_the_limit_ends_the_reading_after_the_lines_before_it(chunks: list[bytes]):
    lines = Lines(limit=10)
    assert [bytes(line) for chunk in chunks for line in lines.feed(chunk)] == [b"a"]
    assert lines.overflowed
    assert lines.feed(b"c\n") == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("MY_API_KEY=abc next", "MY_API_KEY=[redacted] next"),
        ('{"password": "a b c", "user": "u"}', '{"password": [redacted], "user": "u"}'),
        ("Authorization: Bearer abc.def", "Authorization: Bearer [redacted]"),
        ("got bearer abcdefgh1234", "got bearer [redacted]"),
        ("postgres://joe:pw@host/db", "postgres://[redacted]@host/db"),
        ("key sk-abcdefghijklmnop1234 used", "key [redacted] used"),
        ("ghp_abcdefghijklmnopqrstuvwx", "[redacted]"),
        ("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc", "jwt [redacted]"),
        ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nafter", "[redacted]\nafter"),
        ("-----BEGIN PRIVATE KEY-----\ncut off", "[redacted]"),
        ("an ordinary line: 5 tokens read", "an ordinary line: 5 tokens read"),
    ],
)
def test_what_looks_like_a_secret_is_not_shown(text: str, shown: str):
    assert redact(text) == shown


@pytest.mark.parametrize("unit", ["a", "token", 'token="', "eyJ-", "://a:", "bearer ", "-----BEGIN ", "token   "])
def test_no_text_takes_long_to_redact(unit: str):
    text = unit * (65536 // len(unit))
    began = time.process_time()
    redact(text)
    assert time.process_time() - began < 0.5


def test_the_first_line_of_a_full_ring_is_not_shown_because_it_may_be_half_a_secret():
    stderr = Stderr(now=lambda: 0.0)
    stderr.feed(b"password=" + b"hunter2" * 10_000 + b"\nthe end\n")
    assert stderr.tail() == "the end"


def test_the_log_gets_a_burst_then_a_few_lines_a_second_and_how_many_it_missed():
    now = [0.0]
    logged: list[str] = []
    stderr = Stderr(now=lambda: now[0], log=logged.append)
    stderr.feed(b"a\n" * 100)
    assert logged == ["a"] * 20
    now[0] = 0.1
    stderr.feed(b"b\n")
    assert logged[20:] == ["(80 lines of stderr not logged)", "b"]


def test_the_environment_is_what_is_listed_and_what_is_given():
    source = {"PATH": "/bin", "LC_ALL": "C", "OPENAI_API_KEY": "k", "LD_PRELOAD": "x", "HTTPS_PROXY": "p"}
    assert environment({"A": "1", "PATH": "/own"}, source) == {"PATH": "/own", "LC_ALL": "C", "A": "1"}


def test_an_exit_status_is_told_in_words():
    assert [told_status(one) for one in (0, 3, -9, -64)] == [
        "exit status 0",
        "exit status 3",
        "killed by SIGKILL",
        "killed by SIGRTMAX",
    ]


async def test_a_child_that_dies_slowly_is_restarted_after_pauses_that_double_up_to_a_limit():
    clock = FakeClock()
    supervisor = Supervisor("s", clock=clock)
    enough = asyncio.Event()

    async def life() -> str:
        if len(clock.pauses) == 10:
            enough.set()
            await asyncio.Event().wait()
        supervisor.started()
        clock.time += 20
        return "exit status 1"

    task = asyncio.create_task(supervisor.keep(life))
    await enough.wait()
    task.cancel()
    assert clock.pauses == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30]
    assert not supervisor.quarantined


async def test_five_deaths_in_a_minute_bring_quarantine_fast_failure_and_a_probe_every_thirty_seconds():
    clock = FakeClock()
    supervisor = Supervisor("s", clock=clock)
    enough = asyncio.Event()

    async def life() -> str:
        if len(clock.pauses) == 7:
            enough.set()
            await asyncio.Event().wait()
        return "exit status 1"

    task = asyncio.create_task(supervisor.keep(life))
    await enough.wait()
    task.cancel()
    assert clock.pauses == [0.2, 0.4, 0.8, 1.6, 30, 30, 30]
    with pytest.raises(UpstreamUnavailable, match="in quarantine after 5 deaths in 60 s; the last: exit status 1"):
        supervisor.check()


def test_a_probe_that_succeeds_ends_the_quarantine_and_one_more_death_soon_brings_it_back():
    clock = FakeClock()
    supervisor = Supervisor("s", clock=clock)
    for _ in range(5):
        supervisor.died("boom")
    with pytest.raises(UpstreamUnavailable) as refused:
        supervisor.check()
    assert refused.value.retry_after == 30
    clock.time += 30
    supervisor.started()
    supervisor.check()
    clock.time += 59
    assert supervisor.died("boom") == 30
    assert supervisor.quarantined


def test_a_child_that_lived_for_a_minute_is_restarted_at_once_again():
    clock = FakeClock()
    supervisor = Supervisor("s", clock=clock)
    for _ in range(3):
        supervisor.died("boom")
    supervisor.started()
    clock.time += 61
    assert supervisor.died("boom") == 0.2
