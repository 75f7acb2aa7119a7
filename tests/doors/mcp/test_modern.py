"""The modern era over HTTP: what the headers and the envelope must say, and what a result carries."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.doors.mcp.fakes import META, Happened, Place, serving
from tests.doors.mcp.test_bad_inputs import error_of
from tests.waiting import until
from weft.doors.mcp.faults import Refusal
from weft.doors.mcp.headers import Fields, check_mirrored_fields

VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"


async def test_a_result_says_its_type_and_who_made_it_and_keeps_what_was_there() -> None:
    async with serving() as place:
        answer = await place.modern("tools/call", {"name": "echo", "arguments": {"text": "hi"}})
        assert answer.headers["content-type"] == "application/json"
        assert answer.json() == {
            "jsonrpc": "2.0",
            "id": 7,
            "result": {
                "content": [{"type": "text", "text": "hi"}],
                "resultType": "complete",
                "_meta": {"mine": 1, "io.modelcontextprotocol/serverInfo": {"name": "weft", "version": "0"}},
            },
        }


async def test_lists_and_discovery_are_private_and_say_for_how_long_they_hold() -> None:
    async with serving(ttl_ms=500) as place:
        for method in ("tools/list", "server/discover"):
            result = (await place.modern(method)).json()["result"]
            assert (result["ttlMs"], result["cacheScope"]) == (500, "private")
        assert result["supportedVersions"][0] == "2026-07-28"
        assert result["capabilities"] == place.gateway.offers
        assert result["instructions"] == "be kind"


async def test_questions_are_passed_on_as_they_are_and_not_to_be_kept() -> None:
    async with serving() as place:
        result = (await place.modern("tools/call", {"name": "modest"})).json()["result"]
        assert result["resultType"] == "input_required"
        assert result["requestState"] == "signed"
        assert "ttlMs" not in result
        again = {"name": "modest", "inputResponses": {"who": {"content": {"name": "Bo"}}}, "requestState": "signed"}
        answered = (await place.modern("tools/call", again)).json()["result"]
        assert answered["content"][0]["text"] == "Bo signed"


@pytest.mark.parametrize("wrong", [{"inputResponses": []}, {"requestState": 5}])
async def test_answers_of_the_wrong_kind_are_refused(wrong: dict[str, Any]) -> None:
    async with serving() as place:
        error_of(await place.modern("tools/call", {"name": "modest", **wrong}), 400, -32602)


@pytest.mark.parametrize(
    "headers",
    [
        {"MCP-Protocol-Version": "2025-11-25"},
        {"Mcp-Method": "tools/list"},
        {"Mcp-Method": "Tools/Call"},
        {"Mcp-Name": "other"},
        {"Mcp-Name": "=?base64?ZWNobw?="},
        {"Mcp-Name": "=?base64?!!!!?="},
        {"Mcp-Name": "=?base64?//8=?="},
    ],
)
async def test_a_header_that_says_something_else_than_the_body_is_a_mismatch(headers: dict[str, str]) -> None:
    async with serving() as place:
        answer = await place.modern("tools/call", {"name": "echo"}, headers=headers)
        assert next(iter(headers)).lower() in error_of(answer, 400, -32020).lower()
        assert place.gateway.seen == []


@pytest.mark.parametrize("header", ["MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"])
async def test_a_header_that_is_missing_or_doubled_is_a_mismatch(header: str) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "_meta": META}}
    headers = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", "echo")]
    common = [("Accept", "application/json"), ("Content-Type", "application/json")]
    async with serving() as place:
        without = [*common, *(pair for pair in headers if pair[0] != header)]
        doubled = [*common, *headers, *(pair for pair in headers if pair[0] == header)]
        answer = await place.http.post(place.url, json=body, headers=without)
        assert "is missing" in error_of(answer, 400, -32020)
        answer = await place.http.post(place.url, json=body, headers=doubled)
        assert "more than once" in answer.text or header == "MCP-Protocol-Version"
        error_of(answer, 400, -32020)


async def test_header_values_may_be_in_base64() -> None:
    async with serving() as place:
        answer = await place.modern("tools/call", {"name": "echo"}, headers={"Mcp-Name": "=?base64?ZWNobw==?="})
        assert answer.status_code == 200
        marked = "=?base64?" + base64.b64encode("café".encode()).decode() + "?="
        answer = await place.modern("tools/call", {"name": "café"}, headers={"Mcp-Name": marked})
        assert error_of(answer, 400, -32602) == "Unknown tool: café"


def test_white_space_around_a_header_value_is_not_part_of_it() -> None:
    fields = Fields([(b"mcp-protocol-version", b" v"), (b"mcp-method", b"tools/call\t"), (b"mcp-name", b"  echo ")])
    message = {"method": "tools/call", "params": {"name": "echo"}}
    check_mirrored_fields(fields, message, "v")
    with pytest.raises(Refusal, match="Mcp-Name"):
        check_mirrored_fields(fields, {**message, "params": {"name": " echo"}}, "v")


@pytest.mark.parametrize(
    ("arguments", "headers", "fits"),
    [
        ({"region": "eu"}, {"Mcp-Param-Region": "eu"}, True),
        ({"region": "eu"}, {"Mcp-Param-Region": "=?base64?ZXU=?="}, True),
        ({"region": "eu"}, {}, False),
        ({"region": "eu"}, {"Mcp-Param-Region": "us"}, False),
        ({"region": "eu"}, {"Mcp-Param-Region": "=?base64?ZXU?="}, False),
        ({}, {"Mcp-Param-Region": "eu"}, False),
        ({"region": None}, {}, True),
        ({"region": ["eu"]}, {}, True),
        ({"region": ["eu"]}, {"Mcp-Param-Region": "eu"}, False),
        ({"region": True}, {"Mcp-Param-Region": "true"}, True),
        ({"deep": {"n": 42}}, {"Mcp-Param-N": "42"}, True),
        ({"deep": {"n": 42}}, {"Mcp-Param-N": "42.0"}, True),
        ({"deep": {"n": 42}}, {"Mcp-Param-N": "42.5"}, False),
        ({"deep": {"n": 42}}, {"Mcp-Param-N": "4.2e1"}, False),
        ({}, {"Mcp-Param-Other": "whatever"}, True),
    ],
)
async def test_mirrored_arguments_are_checked_against_their_headers(
    arguments: dict[str, Any], headers: dict[str, str], fits: bool
) -> None:
    async with serving() as place:
        answer = await place.modern("tools/call", {"name": "regional", "arguments": arguments}, headers=headers)
        if fits:
            assert answer.status_code == 200
        else:
            assert "Mcp-Param-" in error_of(answer, 400, -32020)


async def raw(place: Place, params: Any, version: str = "2026-07-28") -> Any:
    message = {"jsonrpc": "2.0", "id": 9, "method": "tools/list", "params": params}
    return await place.post(message, {"MCP-Protocol-Version": version, "Mcp-Method": "tools/list"})


@pytest.mark.parametrize(
    "params",
    [
        None,
        {},
        {"_meta": 5},
        {"_meta": {VERSION: "2026-07-28"}},
        {"_meta": {CAPABILITIES: {}}},
        {"_meta": {VERSION: 5, CAPABILITIES: {}}},
        {"_meta": {VERSION: "2026-07-28", CAPABILITIES: []}},
        {"_meta": {**META, "io.modelcontextprotocol/logLevel": "loud"}},
    ],
)
async def test_an_envelope_that_is_not_whole_is_invalid_params(params: Any) -> None:
    async with serving() as place:
        answer = await raw(place, params)
        error_of(answer, 400, -32602)
        assert answer.json()["id"] == 9


async def test_a_client_need_not_say_its_name() -> None:
    async with serving() as place:
        assert (await raw(place, {"_meta": {VERSION: "2026-07-28", CAPABILITIES: {}}})).status_code == 200
        assert place.gateway.seen[0].info == {}


async def test_a_version_that_is_not_served_is_refused_with_those_that_are() -> None:
    async with serving() as place:
        for params in ({"_meta": {**META, VERSION: "2031-01-01"}}, {}):
            answer = await raw(place, params, "2031-01-01")
            error_of(answer, 400, -32022)
            data = answer.json()["error"]["data"]
            assert data["requested"] == "2031-01-01"
            assert data["supported"] == (await place.modern("server/discover")).json()["result"]["supportedVersions"]
        answer = await raw(place, {"_meta": {**META, VERSION: "2025-11-25"}}, "2025-11-25")
        assert "starts with initialize" in error_of(answer, 400, -32022)


async def test_a_notification_is_taken_and_cancels_nothing() -> None:
    async with serving() as place:
        headers = {"MCP-Protocol-Version": "2026-07-28"}
        message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
        answer = await place.post(message, headers)
        assert (answer.status_code, answer.content) == (202, b"")
        error_of(await place.post(message, {"MCP-Protocol-Version": "2031-01-01"}), 400, -32022)


async def test_what_the_client_puts_into_meta_goes_along_without_what_is_the_doors() -> None:
    async with serving() as place:
        meta = {"traceparent": "00-1-2-3", "progressToken": 5, "com.example/x": 1}
        await place.modern("tools/call", {"name": "echo"}, meta=meta, headers={"X-Principal": "anna"})
        caller = place.gateway.seen[0]
        assert caller.meta == {"traceparent": "00-1-2-3", "com.example/x": 1}
        assert caller.principal.subject == "anna"
        assert caller.relays_input
        assert place.gateway.wanted == [True]
        assert not caller.wants_progress, "the response has gone out"


async def test_a_client_that_takes_only_json_is_not_told_of_progress() -> None:
    async with serving() as place:
        meta = {"progressToken": 5}
        answer = await place.modern("tools/call", {"name": "busy"}, meta=meta, headers={"Accept": "application/json"})
        assert answer.headers["content-type"] == "application/json"
        assert place.gateway.wanted == [False]


async def test_no_log_messages_come_to_a_client_that_did_not_ask_for_them() -> None:
    async with serving() as place:
        answer = await place.modern("tools/call", {"name": "busy"})
        assert answer.headers["content-type"] == "application/json"


async def test_listening_needs_a_stream_and_a_filter() -> None:
    async with serving() as place:
        answer = await place.modern("subscriptions/listen", {}, headers={"Accept": "application/json"})
        error_of(answer, 406, -32600)
        error_of(await place.modern("subscriptions/listen", {}), 400, -32602)
        wrong = {"notifications": {"resourceSubscriptions": [5]}}
        error_of(await place.modern("subscriptions/listen", wrong), 400, -32602)


async def test_the_acknowledgement_comes_first_and_all_is_tagged() -> None:
    async with serving() as place:
        body = {
            "jsonrpc": "2.0",
            "id": "me",
            "method": "subscriptions/listen",
            "params": {"notifications": {"toolsListChanged": True, "promptsListChanged": False}, "_meta": META},
        }
        headers = {"Accept": "text/event-stream, application/json", "Content-Type": "application/json"}
        headers |= {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen"}
        async with place.http.stream("POST", place.url, json=body, headers=headers) as answer:
            assert answer.headers["x-accel-buffering"] == "no"
            lines = answer.aiter_lines()
            first = await anext(line async for line in lines if line.startswith("data:"))
            assert '"notifications":{"toolsListChanged":true}' in first
            place.gateway.happen(Happened("notifications/tools/list_changed"))
            second = await anext(line async for line in lines if line.startswith("data:"))
        for line in (first, second):
            assert '"io.modelcontextprotocol/subscriptionId":"me"' in line
        await until(lambda: len(place.gateway.listeners) == 1)
