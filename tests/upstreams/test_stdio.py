"""The wire to a child: many requests at once, and whatever a child may write between its answers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.upstreams.stdio_wires import HASTY, PUPPET, Wire, nothing_left, puppet
from weft.errors import DeadlineExceeded, InputError, UpstreamProtocolError, UpstreamUnavailable
from weft.upstreams.stdio import StdioLimits


@pytest.fixture(autouse=True)
async def clean() -> AsyncGenerator[None]:
    async with nothing_left():
        yield


async def test_an_answer_comes_back_under_the_id_of_its_caller():
    async with puppet() as wire:
        assert await wire.ask("echo", id="abc", text="é\n☃") == {
            "jsonrpc": "2.0",
            "id": "abc",
            "result": {"text": "é\n☃"},
        }


async def test_requests_in_flight_with_the_same_id_get_each_its_own_answer():
    async with puppet() as wire:
        asked = [asyncio.create_task(wire.ask("hold", id=1, n=n)) for n in range(50)]
        await asyncio.sleep(0)
        await wire.result("release")
        assert [answer["result"]["n"] for answer in await asyncio.gather(*asked)] == list(range(50))
        assert all(answer["id"] == 1 for answer in await asyncio.gather(*asked))


async def test_an_error_of_the_server_is_an_answer():
    async with puppet() as wire:
        assert (await wire.ask("dance"))["error"]["code"] == -32601


async def test_what_json_cannot_carry_is_the_callers_mistake_and_is_not_sent():
    async with puppet() as wire:
        with pytest.raises(InputError, match="cannot be written as JSON"):
            await wire.ask("echo", value=object())
        assert [one["method"] for one in await wire.received()] == ["received"]


async def test_messages_larger_than_a_pipe_pass_in_both_directions():
    async with puppet() as wire:
        text = "x" * 3_000_000
        answers = await asyncio.gather(*(wire.result("echo", text=text, n=n) for n in range(3)))
        assert [(len(answer["text"]), answer["n"]) for answer in answers] == [(3_000_000, n) for n in range(3)]


@pytest.mark.parametrize(
    "raw",
    [
        "Welcome to my server!\n",
        "\n\r\n  \n",
        '{"jsonrpc": "2.0", "id": 1, "res\n',
        "\xff\xfe\x00\n",
        "[1]\n",
        "42\n",
        '{"level": "info"}\n',
        '{"jsonrpc": "2.0", "method": 5, "id": 1}\n',
        "[" * 2000 + "\n",
        '"\\ud800"\n',
    ],
)
async def test_garbage_between_answers_is_skipped_and_counted(raw: str):
    async with puppet() as wire:
        assert (await wire.ask("say", raw=raw))["result"] is None
        assert await wire.result("echo", n=1) == {"n": 1}
        assert wire.transport.counters.garbage_lines == raw.count("\n")
        assert wire.heard == []


async def test_a_sample_of_garbage_is_kept_in_a_form_safe_to_log():
    async with puppet() as wire:
        await wire.ask("say", raw="\x1b[31mtoken=hunter2hunter2\n")
        assert wire.transport.counters.garbage_sample == "\\x1b[31mtoken=[redacted]"


async def test_a_child_that_only_babbles_is_stopped():
    async with puppet() as wire:
        asked = asyncio.create_task(wire.ask("hold"))
        with pytest.raises(Exception, match="21 lines in a row that are no messages: bla"):
            await wire.ask("say instead", raw="bla\n" * 30)
        with pytest.raises(Exception, match="21 lines in a row"):
            await asked
        assert "21 lines in a row" in str(await wire.end())


async def test_garbage_in_small_doses_never_stops_a_child():
    async with puppet() as wire:
        for _ in range(5):
            await wire.ask("say", raw="bla\n" * 20)
        assert wire.transport.counters.garbage_lines == 100


@pytest.mark.parametrize(
    ("ids", "unknown", "late"), [(["99", '"1"', "null", "true", "1.0", "[1]", "{}", "-1", "0"], 9, 0), (["1"], 0, 1)]
)
async def test_a_reply_that_nobody_waits_for_is_dropped_and_counted(ids: list[str], unknown: int, late: int):
    async with puppet() as wire:
        await wire.result("echo")
        raw = "".join(f'{{"jsonrpc": "2.0", "id": {one}, "result": 0}}\n' for one in ids)
        assert await wire.result("say", raw=raw) is None
        assert (wire.transport.counters.unknown_replies, wire.transport.counters.late_replies) == (unknown, late)


async def test_the_first_of_two_replies_wins():
    async with puppet() as wire:
        replies = "".join(f'{{"jsonrpc": "2.0", "id": ID, "result": {n}}}\n' for n in (1, 2))
        assert await wire.result("say instead", raw=replies) == 1
        await wire.result("echo")
        assert wire.transport.counters.late_replies == 1


@pytest.mark.parametrize("members", ["", ', "result": 1, "error": {}'])
async def test_a_reply_with_neither_or_both_of_result_and_error_fails_its_request_at_once(members: str):
    async with puppet() as wire:
        with pytest.raises(UpstreamProtocolError):
            await wire.ask("say instead", raw=f'{{"jsonrpc": "2.0", "id": ID{members}}}\n')


async def test_a_cancelled_request_is_cancelled_at_the_server_and_its_late_reply_dropped():
    async with puppet() as wire:
        await wire.result("echo")
        asked = asyncio.create_task(wire.ask("hold", id="mine"))
        await asyncio.sleep(0)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        got = await wire.received()
        assert got[1]["id"] == 2
        assert (got[2]["method"], got[2]["params"]["requestId"]) == ("notifications/cancelled", 2)
        await wire.result("release")
        assert wire.transport.counters.late_replies == 1


async def test_a_late_answer_is_an_error_at_the_deadline_and_the_request_is_cancelled():
    async with puppet() as wire:
        with pytest.raises(DeadlineExceeded, match="did not answer hold"):
            await wire.ask("hold", within=0.05)
        assert [one["method"] for one in await wire.received()] == ["hold", "notifications/cancelled", "received"]


async def test_the_handshake_is_never_cancelled():
    async with puppet() as wire:
        asked = asyncio.create_task(wire.ask("initialize"))
        await asyncio.sleep(0)
        asked.cancel()
        await asyncio.wait([asked])
        assert [one["method"] for one in await wire.received()] == ["initialize", "received"]


async def test_a_request_whose_deadline_is_past_is_not_sent():
    async with puppet() as wire:
        with pytest.raises(DeadlineExceeded, match="before echo was sent"):
            await wire.ask("echo", within=-1)
        assert [one["method"] for one in await wire.received()] == ["received"]


async def test_a_notification_is_sent_but_a_cancellation_is_left_to_the_wire():
    async with puppet() as wire:
        await wire.transport.notify({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
        await wire.transport.notify({"jsonrpc": "2.0", "method": "notifications/initialized"})
        assert [one["method"] for one in await wire.received()] == ["notifications/initialized", "received"]


def progress(token: object, n: int = 1) -> dict[str, Any]:
    return {"method": "notifications/progress", "params": {"progressToken": token, "progress": n}}


async def test_progress_goes_to_the_request_with_its_token_and_all_else_to_the_common_listener():
    async with puppet() as wire:
        first: list[Any] = []
        second: list[Any] = []
        held = [
            asyncio.create_task(wire.ask("hold", on_message=told, _meta={"progressToken": token}))
            for told, token in ((first.append, "1"), (second.append, 1))
        ]
        await asyncio.sleep(0)
        messages = [progress("1"), progress(1, 7), progress(True), progress([1]), {"method": "notifications/message"}]
        await wire.ask("send", messages=messages)
        await wire.result("release")
        await asyncio.gather(*held)
        await wire.ask("send", messages=[progress("1", 9)])
    assert [one["params"]["progress"] for one in first] == [1]
    assert [one["params"]["progress"] for one in second] == [7]
    assert [one.get("params", {}).get("progressToken") for one in wire.heard] == [True, [1], None, "1"]


async def test_a_listener_that_fails_harms_no_call():
    async with puppet() as wire:

        def broken(message: object) -> None:
            raise RuntimeError("broken")

        asked = wire.ask("send", on_message=broken, _meta={"progressToken": "t"}, messages=[progress("t")])
        assert (await asked)["result"] is None
        assert wire.transport.counters.failed_handlers == 1


ELICIT: dict[str, Any] = {"id": "s1", "method": "elicitation/create", "params": {}}


async def test_a_request_of_the_server_is_refused_when_nobody_handles_it():
    async with puppet() as wire:
        await wire.ask("send", messages=[ELICIT, {"id": 2, "method": "ping"}])
        replies = [one for one in await wire.received() if "method" not in one]
        assert [(one["id"], one.get("result"), one.get("error", {}).get("code")) for one in replies] == [
            ("s1", None, -32601),
            (2, {}, None),
        ]


async def test_a_request_of_the_server_is_answered_by_its_handler_while_others_go_on():
    may_answer = asyncio.Event()

    async def handler(message: dict[str, Any]) -> dict[str, Any]:
        if message["params"].get("fail"):
            raise RuntimeError("secret detail")
        await may_answer.wait()
        return {"result": {"action": "accept"}}

    async with puppet(on_request=handler) as wire:
        await wire.ask("send", messages=[ELICIT, {**ELICIT, "id": "s2", "params": {"fail": True}}])
        assert await wire.result("echo", n=1) == {"n": 1}
        may_answer.set()
        await asyncio.sleep(0)
        replies = {one["id"]: one for one in await wire.received() if "method" not in one}
        assert replies["s1"]["result"] == {"action": "accept"}
        assert replies["s2"]["error"] == {"code": -32603, "message": "weft could not answer: RuntimeError"}


async def test_the_server_may_cancel_its_request_and_may_not_have_too_many():
    ended: list[Any] = []

    async def handler(message: dict[str, Any]) -> dict[str, Any]:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(message["id"])
        return {}

    async with puppet(on_request=handler, limits=StdioLimits(server_requests=2, patience=HASTY)) as wire:
        cancel = {"method": "notifications/cancelled", "params": {"requestId": 1}}
        await wire.ask("send", messages=[{**ELICIT, "id": one} for one in (1, "1", 3)])
        await wire.ask("send", messages=[cancel])
        await asyncio.sleep(0)
        assert ended == [1]
        replies = [(one["id"], one["error"]["code"]) for one in await wire.received() if "method" not in one]
        assert replies == [(3, -32000)]


async def test_a_child_gets_only_listed_variables_no_shell_no_other_files_and_a_group_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary")
    monkeypatch.setenv("LC_TIME", "C")
    read, write = os.pipe()
    os.set_inheritable(write, True)
    try:
        async with puppet(command=[*PUPPET, "$HOME;*"], env={"MODE": "given"}, cwd=tmp_path) as wire:
            world = await wire.result("world")
            assert world["argv"] == ["$HOME;*"]
            assert world["group"] == wire.transport.pid != os.getpgid(0)
            assert world["env"]["MODE"] == "given"
            # The C locale coercion of Python itself adds LC_CTYPE.
            known = {
                "PATH",
                "HOME",
                "USER",
                "LOGNAME",
                "LANG",
                "LANGUAGE",
                "TZ",
                "TMPDIR",
                "MODE",
                "LC_TIME",
                "LC_CTYPE",
            }
            assert set(world["env"]) <= known | {name for name in os.environ if name.startswith("LC_")}
            assert set(world["fds"]) == {"0", "1", "2"}
    finally:
        os.close(read)
        os.close(write)


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["no-such-program-here"], r"command not found: no-such-program-here \(it is not on the PATH"),
        (["/tmp"], "cannot run /tmp: Permission denied"),
        (["a\0b"], "cannot run a\0b: embedded null byte"),
    ],
)
async def test_a_command_that_cannot_run_is_told_at_the_start(command: list[str], told: str):
    with pytest.raises(UpstreamUnavailable, match=told):
        await Wire(command).transport.start()


async def test_a_file_that_may_not_be_run_is_told_at_the_start(tmp_path: Path):
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    with pytest.raises(UpstreamUnavailable, match=r"cannot run .*program: Permission denied"):
        await Wire([str(program)]).transport.start()


async def test_a_folder_that_is_not_there_is_told_at_the_start(tmp_path: Path):
    with pytest.raises(UpstreamUnavailable, match="its folder does not exist"):
        await Wire(cwd=tmp_path / "none").transport.start()


async def test_a_wire_that_is_not_started_or_is_closed_says_so():
    wire = Wire()
    with pytest.raises(UpstreamUnavailable, match="not started"):
        await wire.ask("echo")
    await wire.transport.start()
    await wire.transport.close()
    await wire.transport.close()
    with pytest.raises(UpstreamUnavailable, match="has ended: closed"):
        await wire.ask("echo")
    with pytest.raises(UpstreamUnavailable, match="started before"):
        await wire.transport.start()
