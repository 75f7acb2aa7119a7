"""`POST /mcp/tools/call`, as somebody with curl meets it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from tests.doors.serving import Answer, asked, connected, serving
from weft.doors.plain import PlainDoor
from weft.errors import NotFound, UpstreamRefused, UpstreamUnavailable, WeftError
from weft.gateway.quotas import Quota, QuotaExceeded
from weft.gateway.results import failed, served
from weft.ports import Caller

CALL = "/mcp/tools/call"


class FakeGateway:
    """A gateway that answers what it is told to, and remembers what it was asked."""

    def __init__(self, result: Mapping[str, Any] | WeftError | None = None) -> None:
        self.result = result if result is not None else served({"sum": 3}, warnings=["b was late"], trace_id="t1")
        self.asked: list[tuple[str | None, str, Mapping[str, Any]]] = []
        self.callers: list[Caller] = []

    async def handle(self, view: str | None, method: str, params: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
        self.asked.append((view, method, params))
        self.callers.append(caller)
        if isinstance(self.result, WeftError):
            raise self.result
        return dict(self.result)


async def post(gateway: FakeGateway, body: object, path: str = CALL, **headers: str) -> Answer:
    sent = body if isinstance(body, bytes) else orjson.dumps(body)
    async with serving(PlainDoor(gateway)) as listener:
        return await asked(listener, "POST", path, body=sent, **{"content-type": "application/json", **headers})


@pytest.mark.req("ALG-55")
async def test_a_tool_is_called_by_name_with_arguments():
    gateway = FakeGateway()
    got = await post(gateway, {"tool": "add", "arguments": {"a": 1, "b": 2}})
    assert got.status == 200
    assert got.json == {
        "result": {"sum": 3},
        "content": [{"type": "text", "text": '{"sum":3}'}],
        "isError": False,
        "warnings": ["b was late"],
        "traceId": "t1",
    }
    assert gateway.asked == [(None, "tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})]


async def test_name_is_taken_for_tool_and_arguments_may_be_missing():
    gateway = FakeGateway()
    assert (await post(gateway, {"name": "now"})).status == 200
    assert gateway.asked[0][2] == {"name": "now", "arguments": {}}


async def test_a_value_that_is_no_object_comes_unwrapped():
    gateway = FakeGateway(served([1, 2], warnings=[], trace_id="t"))
    assert (await post(gateway, {"tool": "t"})).json["result"] == [1, 2]


async def test_a_view_is_named_in_the_path():
    gateway = FakeGateway()
    await post(gateway, {"tool": "t"}, path="/mcp/research/tools/call")
    assert gateway.asked[0][0] == "research"


async def test_the_callers_trace_goes_along():
    gateway = FakeGateway()
    await post(gateway, {"tool": "t"}, traceparent="00-1-2-01")
    assert gateway.callers[0].meta == {"traceparent": "00-1-2-01"}


async def test_a_tool_that_says_no_is_still_an_answer():
    gateway = FakeGateway(failed(UpstreamUnavailable("crm", "refused"), tool="t", trace_id="t1"))
    got = await post(gateway, {"tool": "t"})
    assert got.status == 200
    assert (got.json["result"], got.json["isError"], got.json["traceId"]) == (None, True, "t1")
    assert got.json["error"]["code"] == "UpstreamUnavailable"


async def test_a_tool_that_is_not_there_is_404_with_the_nearest_name():
    got = await post(FakeGateway(NotFound("Tool", "serch", ["search"])), {"tool": "serch"})
    assert got.status == 404
    assert got.json["error"]["hint"] == "did you mean 'search'?"


async def test_what_an_upstream_refuses_is_a_bad_gateway():
    refusal = UpstreamRefused("crm", "tools/call", {"code": -32000, "message": "no"})
    assert (await post(FakeGateway(refusal), {"tool": "t"})).status == 502


async def test_what_the_gateway_cannot_do_now_is_503():
    got = await post(FakeGateway(UpstreamUnavailable("crm", "refused", retry_after=7)), {"tool": "t"})
    assert (got.status, got.json["error"]["retryAfterMs"]) == (503, 7000)
    assert got.headers["retry-after"] == "7"


async def test_a_tool_that_is_called_too_often_is_429():
    got = await post(FakeGateway(QuotaExceeded(Quota(name="few", calls=1, per=60.0), 12.4)), {"tool": "t"})
    assert (got.status, got.json["error"]["code"], got.headers["retry-after"]) == (429, "QuotaExceeded", "13")


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"", 400, "empty"),
        (b"{", 400, "body:1:"),
        (b'{"tool": "a", "tool": "b"}', 400, "tool"),
        ([], 400, "object"),
        ({}, 400, "which tool"),
        ({"tool": 1}, 400, "which tool"),
        ({"tool": "a", "name": "b"}, 400, "once"),
        ({"tool": "a", "arguments": [1]}, 400, "arguments must be an object"),
        ({"tool": "a", "argument": {}}, 400, "argument"),
        (b'{"tool": "a", "arguments": ' + b'{"x":' * 100 + b"1" + b"}" * 101, 400, "64"),
        (b'{"tool": "a", "x": "' + b"y" * (1 << 20) + b'"}', 413, "1048576"),
    ],
)
async def test_a_body_that_is_none_says_what_is_wrong(body: object, status: int, said: str):
    gateway = FakeGateway()
    got = await post(gateway, body)
    assert got.status == status
    assert said in got.json["error"]["message"]
    assert gateway.asked == []


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", "InvalidJson"),
        (b'{"tool": "a", "arguments": ' + b'{"x":' * 100 + b"1" + b"}" * 101, "MaxDepth"),
        (b'{"tool": "a", "arguments": {"x": [' + b"1," * 100_000 + b"1]}}", "TooManyNodes"),
        (b'{"tool": "a", "x": "' + b"y" * (1 << 20) + b'"}', "BodyTooLarge"),
    ],
)
async def test_the_code_of_a_refusal_is_the_name_of_the_limit(body: bytes, code: str):
    assert (await post(FakeGateway(), body)).json["error"]["code"] == code


async def test_a_misspelt_key_is_answered_with_the_right_one():
    got = await post(FakeGateway(), {"tool": "a", "argument": {}})
    assert got.json["error"]["hint"] == "did you mean 'arguments'?"


@pytest.mark.parametrize(
    "kind", ["", "text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1"]
)
async def test_only_json_in_utf8_is_taken(kind: str):
    assert (await post(FakeGateway(), {"tool": "a"}, **{"content-type": kind})).status == 415


async def test_json_with_its_charset_is_taken():
    assert (
        await post(FakeGateway(), {"tool": "a"}, **{"content-type": "application/json; charset=UTF-8"})
    ).status == 200


async def test_a_compressed_body_is_not_taken():
    assert (await post(FakeGateway(), {"tool": "a"}, **{"content-encoding": "gzip"})).status == 415


async def test_a_tool_is_not_called_with_get():
    async with serving(PlainDoor(FakeGateway())) as listener:
        got = await asked(listener, "GET", CALL)
    assert (got.status, got.headers["allow"]) == (405, "POST")


async def test_a_client_that_goes_away_ends_the_call():
    entered, ended = asyncio.Event(), asyncio.Event()

    class Endless(FakeGateway):
        async def handle(
            self, view: str | None, method: str, params: Mapping[str, Any], caller: Caller
        ) -> dict[str, Any]:
            entered.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
            return {}

    async with serving(PlainDoor(Endless())) as listener:
        async with connected(listener) as client:
            client.request("POST", CALL, body=b'{"tool": "t"}', content_type="application/json")
            await entered.wait()
        async with asyncio.timeout(5):
            await ended.wait()
