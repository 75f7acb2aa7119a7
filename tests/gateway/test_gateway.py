"""The gateway in front of real MCP servers: what is listed, and what calls do."""

from __future__ import annotations

import asyncio
from typing import Any, TypedDict

import pytest

import weft as w
from tests.gateway.served import Client, call, document, gateway, server, tools_of
from weft.dsl.local import LocalTools
from weft.errors import InputError, NotFound
from weft.expr.schemas import compile_schema
from weft.gateway.gateway import Gateway
from weft.gateway.live import Content, Event, Naming
from weft.gateway.views import ViewRule
from weft.run.limits import Limits
from weft.upstreams.spec import ServerSpec

READS = {"readOnlyHint": True, "openWorldHint": False}


class Paper(TypedDict):
    title: str
    score: float


@w.python_tool(annotations=READS)
async def web_search(query: str, limit: int = 10) -> list[Paper]:
    """Search the web."""
    return [{"title": f"{query} {number}", "score": number / 10} for number in range(limit)]


@w.python_tool(annotations=READS)
async def arxiv_search(query: str) -> list[Paper]:
    """Search papers."""
    return [{"title": f"paper on {query}", "score": 0.95}]


@w.python_tool(annotations={"readOnlyHint": False, "destructiveHint": True})
async def delete_all() -> dict[str, int]:
    """Delete everything."""
    return {"deleted": 3}


@w.python_tool
async def broken(query: str) -> list[Paper]:
    """Fail."""
    raise ValueError(f"no index for {query}")


FIND = {
    "name": "find",
    "description": "Search everywhere.",
    "inputSchema": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
    "spec": {
        "scatterGather": {
            "targets": [{"tool": {"name": "web_search"}}, {"tool": {"name": "arxiv_search"}}],
            "aggregation": {"ops": [{"flatten": True}, {"sort": {"field": "$.score", "order": "desc"}}]},
        }
    },
}


@pytest.mark.req("ALG-52")
async def test_tools_of_servers_and_compositions_are_one_list() -> None:
    async with gateway({"web": [web_search], "arxiv": [arxiv_search]}, FIND) as one:
        listed = await tools_of(one)
        assert list(listed) == ["find", "web_search", "arxiv_search"]
        assert listed["find"]["description"] == "Search everywhere."
        assert listed["find"]["inputSchema"] == FIND["inputSchema"]
        assert listed["web_search"]["description"] == "Search the web."
        found = await call(one, "find", {"query": "bees"})
        assert found["structuredContent"]["result"][0] == {"title": "paper on bees", "score": 0.95}
        assert len(found["structuredContent"]["result"]) == 11
        assert found["_meta"]["weft/wrapped"] is True
        assert len(found["_meta"]["weft/traceId"]) == 32
        relayed = await call(one, "web_search", {"query": "bees", "limit": 1})
        assert relayed["structuredContent"] == {"result": [{"title": "bees 0", "score": 0.0}]}


@pytest.mark.req("ALG-52")
async def test_a_composition_comes_before_a_tool_of_its_name_which_gets_a_prefix() -> None:
    composed = {
        "name": "web_search",
        "spec": {"pipeline": {"steps": [{"id": "s", "operation": {"tool": {"name": "arxiv_search"}}}]}},
    }
    async with gateway({"web": [web_search], "arxiv": [arxiv_search]}, composed) as one:
        assert set(await tools_of(one)) == {"web_search", "arxiv_search", "web_web_search"}
        result = await call(one, "web_search", {"query": "x"})
        assert result["structuredContent"]["result"][0]["title"] == "paper on x"
        raw = await call(one, "web_web_search", {"query": "x", "limit": 1})
        assert raw["structuredContent"]["result"][0]["title"] == "x 0"


async def test_a_composition_tells_what_its_results_look_like() -> None:
    async with gateway({"web": [web_search], "arxiv": [arxiv_search]}, FIND) as one:
        schema = (await tools_of(one))["find"]["outputSchema"]
        assert schema["type"] == "object"
        assert schema["properties"]["result"]["type"] == "array"
        assert schema["required"] == ["result"]


@pytest.mark.parametrize(
    ("steps", "read_only", "destructive"),
    [(["web_search"], True, False), (["web_search", "delete_all"], False, True), ([], True, False)],
)
async def test_annotations_follow_from_what_is_called(steps: list[str], read_only: bool, destructive: bool) -> None:
    operations: list[Any] = [{"tool": {"name": name}} for name in steps]
    operations.append({"schemaMap": {"mappings": {"a": {"literal": 1}}}})
    pipeline = {"pipeline": {"steps": [{"id": f"s{at}", "operation": one} for at, one in enumerate(operations)]}}
    inner = {"name": "__inner", "spec": pipeline}
    outer = {
        "name": "outer",
        "spec": {"pipeline": {"steps": [{"id": "s", "operation": {"composition": {"name": "__inner"}}}]}},
    }
    async with gateway({"web": [web_search, delete_all]}, inner, outer) as one:
        listed = await tools_of(one)
        assert "__inner" not in listed
        hints = listed["outer"]["annotations"]
        assert (hints["readOnlyHint"], hints["destructiveHint"]) == (read_only, destructive)


async def test_a_virtual_tool_has_its_own_name_words_defaults_and_fields() -> None:
    virtual = {
        "name": "quick_search",
        "description": "Three hits.",
        "source": {"server": "web", "tool": "web_search", "defaults": {"limit": 3}, "hideFields": ["limit"]},
    }
    async with gateway({"web": [web_search]}, virtual) as one:
        listed = (await tools_of(one))["quick_search"]
        assert listed["description"] == "Three hits."
        assert list(listed["inputSchema"]["properties"]) == ["query"]
        assert listed["annotations"]["readOnlyHint"] is True
        result = await call(one, "quick_search", {"query": "bees"})
        assert len(result["structuredContent"]["result"]) == 3
        refused = await call(one, "quick_search", {"query": "bees", "limit": 9})
        assert refused["isError"] is True
        assert "takes no argument 'limit'" in refused["content"][0]["text"]


async def test_a_default_that_is_not_hidden_is_told_and_may_be_overridden() -> None:
    virtual = {"name": "web_search", "source": {"server": "web", "tool": "web_search", "defaults": {"limit": 2}}}
    async with gateway({"web": [web_search]}, virtual) as one:
        listed = await tools_of(one)
        assert list(listed) == ["web_search"], "a tool that is described anew is one tool"
        assert listed["web_search"]["inputSchema"]["properties"]["limit"]["default"] == 2
        assert len((await call(one, "web_search", {"query": "x"}))["structuredContent"]["result"]) == 2
        assert len((await call(one, "web_search", {"query": "x", "limit": 5}))["structuredContent"]["result"]) == 5


async def test_a_virtual_tool_may_shape_its_output() -> None:
    virtual = {
        "name": "titles",
        "source": {"server": "web", "tool": "web_search"},
        "outputTransform": {"mapEach": {"inner": {"schemaMap": {"mappings": {"t": {"path": "$.title"}}}}}},
    }
    async with gateway({"web": [web_search]}, virtual) as one:
        result = await call(one, "titles", {"query": "x", "limit": 1})
        assert result["structuredContent"] == {"result": [{"t": "x 0"}]}


async def test_two_versions_of_a_server_run_side_by_side() -> None:
    @w.python_tool(name="web_search")
    async def newer(query: str) -> list[Paper]:
        return [{"title": f"new {query}", "score": 1.0}]

    old = {"name": "old", "source": {"server": "web", "serverVersion": "1.0.0", "tool": "web_search"}}
    pinned = {"name": "newest", "source": {"server": "web", "tool": "web_search"}}
    async with gateway({"web@1.0.0": [web_search], "web@2.0.0": [newer]}, old, pinned) as one:
        listed = set(await tools_of(one))
        assert listed == {"old", "newest", "web_1_0_0_web_search", "web_2_0_0_web_search"}
        assert (await call(one, "old", {"query": "x", "limit": 1}))["structuredContent"]["result"][0]["title"] == "x 0"
        for name in ("newest", "web_2_0_0_web_search"):
            assert (await call(one, name, {"query": "x"}))["structuredContent"]["result"][0]["title"] == "new x"


async def test_a_composition_may_use_a_prefixed_name() -> None:
    composed = {
        "name": "both",
        "spec": {
            "scatterGather": {"targets": [{"tool": {"name": "a_web_search"}}, {"tool": {"name": "b_web_search"}}]}
        },
    }
    async with gateway({"a": [web_search], "b": [web_search]}, composed) as one:
        result = await call(one, "both", {"query": "x", "limit": 2})
        assert len(result["structuredContent"]["result"]) == 4


async def test_views_show_what_they_include_and_may_hide_what_their_compositions_use() -> None:
    views = {
        "research": ViewRule(include=("find", "*_search"), hide_raw=True),
        "safe": ViewRule(exclude=("delete_*",)),
    }
    servers = {"web": [web_search, delete_all], "arxiv": [arxiv_search]}
    async with gateway(servers, FIND, naming=Naming(views=views)) as one:
        assert list(one.views()) == ["research", "safe"]
        assert list(await tools_of(one, "research")) == ["find"]
        assert set(await tools_of(one, "safe")) == {"find", "web_search", "arxiv_search"}
        with pytest.raises(NotFound, match="delete_all"):
            await call(one, "delete_all", view="safe")
        with pytest.raises(NotFound, match="View"):
            await tools_of(one, "reserch")
        found = await call(one, "find", {"query": "x"}, view="research")
        assert found["isError"] is False


async def test_a_failure_tells_the_model_which_step_failed_and_why() -> None:
    composed = {
        "name": "look",
        "spec": {"pipeline": {"steps": [{"id": "first", "operation": {"tool": {"name": "broken"}}}]}},
    }
    async with gateway({"web": [broken]}, composed) as one:
        result = await call(one, "look", {"query": "bees"})
        assert result["isError"] is True
        text = result["content"][0]["text"]
        assert "Failed at step 'first': Tool 'broken' failed" in text
        assert "no index for bees" in text
        assert result["_meta"]["weft/error"]["code"] == "ToolFailed"


async def test_what_a_branch_lost_is_a_warning() -> None:
    composed = {
        "name": "look",
        "spec": {"scatterGather": {"targets": [{"tool": {"name": "broken"}}, {"tool": {"name": "arxiv_search"}}]}},
    }
    async with gateway({"web": [broken], "arxiv": [arxiv_search]}, composed) as one:
        result = await call(one, "look", {"query": "bees"})
        assert result["isError"] is False
        assert any("broken" in warning for warning in result["_meta"]["weft/warnings"])


async def test_arguments_that_do_not_fit_are_told_with_their_place() -> None:
    async with gateway({"web": [web_search], "arxiv": [arxiv_search]}, FIND) as one:
        result = await call(one, "find", {"query": 7})
        assert result["isError"] is True
        assert "/query" in result["content"][0]["text"]
        with pytest.raises(InputError, match="arguments must be an object"):
            await one.handle(None, "tools/call", {"name": "find", "arguments": [1]}, Client())
        with pytest.raises(InputError, match="name must be a string"):
            await one.handle(None, "tools/call", {"name": 7}, Client())


async def test_an_unknown_tool_is_not_found_with_the_nearest_name() -> None:
    async with gateway({"web": [web_search]}) as one:
        with pytest.raises(NotFound) as caught:
            await call(one, "web_serch")
        assert caught.value.hint == "did you mean 'web_search'?"


async def test_a_client_that_wants_it_is_told_of_each_step() -> None:
    async with gateway({"web": [web_search], "arxiv": [arxiv_search]}, FIND) as one:
        client = Client(progress=True)
        await call(one, "find", {"query": "x"}, caller=client)
        assert [told["progress"] for told in client.heard] == [1, 2]
        assert {told["message"].split(":")[0] for told in client.heard} == {"web_search", "arxiv_search"}
        silent = Client()
        await call(one, "find", {"query": "x"}, caller=silent)
        assert silent.heard == []


async def test_a_call_that_takes_too_long_is_ended() -> None:
    @w.python_tool
    async def slow() -> str:
        await asyncio.sleep(30)
        return "late"

    composed = {
        "name": "waits",
        "spec": {"pipeline": {"steps": [{"id": "s", "operation": {"tool": {"name": "slow"}}}]}},
    }
    async with gateway({"web": [slow]}, composed, limits=Limits(timeout=0.2)) as one:
        for name in ("slow", "waits"):
            result = await call(one, name)
            assert result["isError"] is True
            assert result["_meta"]["weft/error"]["code"] == "DeadlineExceeded"


async def test_lists_come_in_pages_and_a_strange_cursor_is_refused() -> None:
    async with gateway({"web": [web_search]}) as one:
        for cursor in ("x", "d2VmdDo5OTk5", "", 7, "é"):
            with pytest.raises(InputError, match="no cursor of this list"):
                await one.handle(None, "tools/list", {"cursor": cursor}, Client())


async def test_a_new_registry_replaces_the_old_one_and_calls_in_flight_keep_theirs() -> None:
    began, go = asyncio.Event(), asyncio.Event()

    @w.python_tool
    async def slow() -> str:
        began.set()
        await go.wait()
        return "done"

    def composed(text: str) -> dict[str, Any]:
        steps = [
            {"id": "s", "operation": {"tool": {"name": "slow"}}},
            {"id": "t", "operation": {"schemaMap": {"mappings": {"v": {"literal": text}}}}},
        ]
        return {"name": "versioned", "spec": {"pipeline": {"steps": steps}}}

    async with gateway({"web": [slow]}, composed("old")) as one:
        events: list[Event] = []
        one.subscribe(events.append)
        running = asyncio.ensure_future(call(one, "versioned"))
        await began.wait()
        await one.live.load(Content(document(composed("new"), {"name": "more", "spec": composed("x")["spec"]})))
        assert "more" in await tools_of(one)
        assert [event.method for event in events] == ["notifications/tools/list_changed"]
        go.set()
        assert (await running)["structuredContent"] == {"v": "old"}
        assert (await call(one, "versioned"))["structuredContent"] == {"v": "new"}


async def test_a_server_that_comes_and_goes_changes_the_list() -> None:
    async with server(web_search) as first, server(arxiv_search) as second, gateway({}) as one:
        changed = asyncio.Event()
        one.subscribe(lambda event: changed.set())
        await one.pool.replace([ServerSpec(name="web", url=first)])
        async with asyncio.timeout(10):
            await changed.wait()
        assert set(await tools_of(one)) == {"web_search"}
        changed.clear()
        await one.pool.replace([ServerSpec(name="web", url=first), ServerSpec(name="arxiv", url=second)])
        async with asyncio.timeout(10):
            await changed.wait()
        assert set(await tools_of(one)) == {"web_search", "arxiv_search"}
        assert one.report()["ready"] is True


async def test_a_server_that_is_away_is_named_and_the_rest_works() -> None:
    async with server(web_search) as url, gateway({}) as one:
        dead = ServerSpec(name="dead", url="http://127.0.0.1:1/mcp", start_timeout=1)
        await one.pool.replace([ServerSpec(name="web", url=url), dead])
        report = one.report()
        assert report["degraded"] == ["dead"]
        assert report["upstreams"]["dead"]["problem"]
        assert report["ready"] is True
        await one.live.settle()
        assert (await call(one, "web_search", {"query": "x"}))["isError"] is False


async def test_results_are_what_was_advertised() -> None:
    """The servers behind are weft's own: what they wrap is unwrapped on the way, in values and in schemas."""
    async with gateway({"web": [web_search], "arxiv": [arxiv_search]}, FIND) as one:
        listed = await tools_of(one)
        for name in ("find", "web_search", "arxiv_search"):
            result = await call(one, name, {"query": "x"})
            assert compile_schema(listed[name]["outputSchema"]).problems(result["structuredContent"]) == []
        item = listed["find"]["outputSchema"]["properties"]["result"]["items"]
        assert "title" in str(item), "what the servers say of their values has arrived"


@w.python_tool
async def liar() -> dict[str, int]:
    """Say one thing and do another."""
    return {"a": "text"}  # pyright: ignore[reportReturnType]  (that is the point)


async def test_a_result_that_is_not_what_the_registry_declares_is_an_error() -> None:
    declared = {
        "name": "strict",
        "outputSchema": {"type": "object", "properties": {"a": {"type": "integer"}}},
        "spec": {"pipeline": {"steps": [{"id": "s", "operation": {"tool": {"name": "liar"}}}]}},
    }
    async with gateway({"web": [liar]}, declared) as one:
        result = await call(one, "strict")
        assert result["isError"] is True
        assert result["_meta"]["weft/error"]["code"] == "InvalidOutput"
        assert "/a" in result["content"][0]["text"]


async def test_a_result_that_only_the_inferred_schema_doubts_is_served_with_a_warning() -> None:
    inferred = {
        "name": "loose",
        "spec": {"pipeline": {"steps": [{"id": "s", "operation": {"tool": {"name": "liar"}}}]}},
    }
    async with gateway({"web": [liar]}, inferred) as one:
        result = await call(one, "loose")
        assert result["structuredContent"] == {"a": "text"}
        assert any("outputSchema" in warning for warning in result["_meta"]["weft/warnings"])


async def test_a_name_that_no_server_has_is_told_when_all_have_answered() -> None:
    composed = {
        "name": "lost",
        "spec": {"pipeline": {"steps": [{"id": "s", "operation": {"tool": {"name": "web_serch"}}}]}},
    }
    async with gateway({"web": [web_search]}, composed) as one:
        assert any("web_serch" in problem and "web_search" in problem for problem in one.report()["problems"])
        result = await call(one, "lost")
        assert result["isError"] is True
        assert "did you mean 'web_search'?" in result["content"][0]["text"]


@w.python_tool
async def add(a: int, b: int = 1) -> int:
    """Add numbers."""
    return a + b


@w.python_tool
async def count(rows: list[int], /) -> int:
    """Count rows."""
    return len(rows)


async def test_arguments_of_a_function_are_checked_before_it_is_called() -> None:
    one = Gateway(content=Content(local=LocalTools([add])))
    await one.start()
    try:
        for wrong, told in (({"a": "x"}, "/a"), ({}, '"a"'), ({"a": 1, "b": None}, "/b")):
            result = await call(one, "add", wrong)
            assert result["isError"] is True
            assert result["_meta"]["weft/error"]["code"] == "InvalidArguments"
            assert told in result["content"][0]["text"]
        assert (await call(one, "add", {"a": 2}))["structuredContent"] == {"result": 3}
    finally:
        await one.close()


async def test_a_function_of_one_value_takes_it_as_the_property_that_is_advertised() -> None:
    one = Gateway(content=Content(local=LocalTools([count])))
    await one.start()
    try:
        assert (await tools_of(one))["count"]["inputSchema"]["required"] == ["input"]
        assert (await call(one, "count", {"input": [1, 2]}))["structuredContent"] == {"result": 2}
        assert (await call(one, "count", {"input": "no list"}))["isError"] is True
    finally:
        await one.close()


async def test_virtual_tools_that_cannot_work_are_told() -> None:
    virtual = [
        {"name": "a", "source": {"server": "wb", "tool": "web_search"}},
        {"name": "b", "source": {"server": "web", "tool": "web_serch"}},
        {"name": "c", "source": {"server": "web", "tool": "web_search", "hideFields": ["query"]}},
        {
            "name": "d",
            "source": {"server": "web", "tool": "web_search", "hideFields": ["query"], "defaults": {"query": "x"}},
        },
    ]
    async with gateway({"web": [web_search]}, *virtual) as one:
        assert one.report()["problems"] == [
            "'a': there is no server 'wb'; did you mean 'web'?",
            "'b': server 'web' has no tool 'web_serch'; did you mean 'web_search'?",
            "'c' hides 'query', which 'web_search' needs, and has no default for it: every call fails",
        ]


async def test_a_composition_that_names_a_tool_of_two_servers_is_told_which_it_gets() -> None:
    composed = {
        "name": "one",
        "spec": {"pipeline": {"steps": [{"id": "s", "operation": {"tool": {"name": "web_search"}}}]}},
    }
    async with gateway({"a": [web_search], "b": [web_search]}, composed) as one:
        assert one.report()["problems"] == [
            "'one' calls 'web_search', which 'a' and 'b' offer: that of 'a' is called; say which with `server`"
        ]
