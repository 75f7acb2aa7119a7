"""Groups in the gateway: one tool for many, and each call is a call of the tool that is meant."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import weft as w
from tests.gateway.served import Client, call, document, gateway, tools_of
from tests.gateway.test_scoped import REGISTRY, SERVERS, STRICT, who
from weft.errors import ExecutionFailed, LimitExceeded, NotFound
from weft.expr.schemas import compile_schema
from weft.gateway.access import Access
from weft.gateway.auditing import Auditor
from weft.gateway.gathering import gathered
from weft.gateway.live import Content, Event, Naming
from weft.gateway.policy import Policy, Rule, ToolFacts
from weft.gateway.quotas import Quota, Quotas
from weft.gateway.tools import Tool
from weft.gateway.views import ViewRule
from weft.groups.calling import Handler, ToolCall
from weft.groups.middleware.around import Around
from weft.groups.rule import GroupRule, ResponseRule
from weft.telemetry.audit import AuditLog
from weft.upstreams.sound import sound

READS = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}


@w.python_tool(annotations=READS)
async def doc_search(query: str, limit: int = 10) -> list[dict[str, Any]]:
    """Search the documents. All of them."""
    return [{"title": f"{query} {at}", "score": at, "body": "x" * 50} for at in range(limit)]


@w.python_tool(annotations=READS)
async def doc_get(id: str) -> dict[str, str]:
    """Return one document."""
    return {"id": id, "title": "Bees", "body": "They fly."}


@w.python_tool(annotations={"readOnlyHint": False, "destructiveHint": True})
async def doc_delete(id: int) -> dict[str, int]:
    """Delete a document."""
    return {"deleted": id}


@w.python_tool
async def act(action: str) -> str:
    """Do something."""
    return action


TITLES = {
    "name": "doc_titles",
    "description": "The titles that a search finds.",
    "inputSchema": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
    "spec": {
        "pipeline": {
            "steps": [
                {"id": "find", "operation": {"tool": {"name": "doc_search"}}},
                {"id": "pick", "operation": {"mapEach": {"inner": {"schemaMap": {"mappings": {"t": "$.title"}}}}}},
            ]
        }
    },
    "metadata": {"tags": ["titles", "reading"]},
}
DOCS: dict[str, Any] = {"docs": [doc_search, doc_get, doc_delete]}
GROUP = GroupRule(name="documents", title="Documents", description="All about documents.", include=("doc_*",))


def naming(*rules: GroupRule, **given: Any) -> Naming:
    return Naming(groups=rules, **given)


def text(result: dict[str, Any]) -> str:
    return result["content"][0]["text"]


@pytest.mark.req("GRP-8", "GRP-10", "GRP-11", "GRP-16")
async def test_a_group_is_one_tool_in_the_list_in_the_place_of_its_tools() -> None:
    async with gateway(DOCS, TITLES, naming=naming(GROUP)) as one:
        listed = await tools_of(one)
        assert list(listed) == ["documents"]
        tool = listed["documents"]
        fields = tool["inputSchema"]["properties"]
        assert fields["action"]["enum"] == ["doc_titles", "doc_search", "doc_get", "doc_delete"]
        assert fields["query"]["description"].endswith("Required for: doc_titles, doc_search")
        assert fields["limit"]["description"].endswith("For: doc_search")
        assert {"string", "integer"} <= {one["type"] for one in fields["id"]["anyOf"]}
        assert tool["inputSchema"]["required"] == ["action"]
        assert tool["annotations"]["destructiveHint"] is True
        assert tool["annotations"]["readOnlyHint"] is False
        assert tool["description"].startswith("All about documents.")
        assert tool["_meta"]["weft/group"]["actions"] == 4
        assert "outputSchema" not in tool
        flat = GroupRule(name="documents", include=("doc_*",), keep_tools=True)
        await one.live.configure(naming(flat), one.live.access)
        singly = await tools_of(one)
        assert list(singly) == ["doc_titles", "doc_search", "doc_get", "doc_delete", "documents"]
        alone = sum(
            len(json.dumps(tool, separators=(",", ":"))) for name, tool in singly.items() if name != "documents"
        )
        assert tool["_meta"]["weft/group"]["bytes"] == alone


@pytest.mark.req("GRP-22", "GRP-23", "GRP-24", "GRP-25")
async def test_a_call_is_the_call_of_the_action_or_says_what_would_be_right() -> None:
    async with gateway(DOCS, TITLES, naming=naming(GROUP)) as one:
        good = await call(one, "documents", {"action": "doc_get", "id": "a"})
        assert good["structuredContent"] == {"id": "a", "title": "Bees", "body": "They fly."}
        composed = await call(one, "documents", {"action": "doc_titles", "query": "bee"})
        assert composed["structuredContent"]["result"][0] == {"t": "bee 0"}
        missing = await call(one, "documents", {"id": "a"})
        assert missing["isError"] is True
        assert "action" in text(missing)
        assert "doc_delete" in text(missing)
        unknown = await call(one, "documents", {"action": "doc_gett", "id": "a"})
        assert unknown["isError"] is True
        assert "'doc_get'" in text(unknown)
        wrong = await call(one, "documents", {"action": "doc_delete", "id": "a", "limit": 3})
        assert wrong["isError"] is True
        assert '"a"' in text(wrong)
        assert "integer" in text(wrong)
        assert "limit" in text(wrong)
        assert "doc_search" in text(wrong)
        assert wrong["_meta"]["weft/error"]["code"] == "InvalidArguments"


async def test_tools_of_a_group_can_still_be_called_by_their_own_names() -> None:
    async with gateway(DOCS, naming=naming(GROUP)) as one:
        assert (await call(one, "doc_get", {"id": "a"}))["structuredContent"]["id"] == "a"


async def test_a_group_gathers_by_server_and_tag_and_gives_actions_names_of_their_own() -> None:
    by_tag = GroupRule(name="reading", tags=frozenset({"reading"}))
    by_server = GroupRule(
        name="docs_api", servers=("docs",), exclude=("*_delete",), actions={"documents.find": "doc_search"}
    )
    async with gateway(DOCS, TITLES, naming=naming(by_tag, by_server)) as one:
        listed = await tools_of(one)
        assert list(listed) == ["doc_delete", "reading", "docs_api"]
        assert listed["reading"]["inputSchema"]["properties"]["action"]["enum"] == ["doc_titles"]
        assert listed["docs_api"]["inputSchema"]["properties"]["action"]["enum"] == ["documents.find", "doc_get"]
        found = await call(one, "docs_api", {"action": "documents.find", "query": "bee", "limit": 1})
        assert found["structuredContent"]["result"][0]["title"] == "bee 0"


async def test_what_cannot_be_in_a_group_stays_a_tool_and_is_told() -> None:
    rules = (
        GroupRule(name="all", include=("*",), actions={"gone": "doc_gte"}),
        GroupRule(name="nothing", include=("zzz_*",)),
        GroupRule(name="act", include=("doc_*",)),
    )
    async with gateway({**DOCS, "acts": [act]}, naming=naming(*rules)) as one:
        assert list(await tools_of(one)) == ["acts_act", "all", "act"]
        told = "\n".join(one.live.problems)
        assert "'gone' is of a tool 'doc_gte' that is not there; did you mean 'doc_get'?" in told
        assert "'acts_act' is served by itself, since it has a field 'action' of its own" in told
        assert "group 'nothing' is not served: no tool is there that it gathers" in told
        assert "group 'act'" not in told, "no server takes the name of a group"
        other = GroupRule(name="all", include=("*",), discriminator="do")
        await one.live.configure(naming(other), one.live.access)
        assert list(await tools_of(one)) == ["all"]
        assert text(await call(one, "all", {"do": "act", "action": "sing"})) == "sing"
        taken = GroupRule(name="doc_titles", include=("doc_*",))
        await one.live.load(Content(document(TITLES)))
        await one.live.configure(naming(taken), one.live.access)
        assert "group 'doc_titles' is not served: there is a tool of that name" in one.live.problems


async def test_views_have_groups_over_what_they_show() -> None:
    views = {
        "flat": ViewRule(grouped=False),
        "some": ViewRule(include=("doc_get", "doc_search")),
        "named": ViewRule(include=("documents",), exclude=("*_delete",)),
        "without": ViewRule(exclude=("documents",)),
    }
    async with gateway(DOCS, naming=naming(GROUP, views=views)) as one:
        assert list(await tools_of(one, "flat")) == ["doc_search", "doc_get", "doc_delete"]
        assert list(await tools_of(one, "without")) == ["doc_search", "doc_get", "doc_delete"]
        for view in ("some", "named"):
            listed = await tools_of(one, view)
            assert list(listed) == ["documents"]
            assert listed["documents"]["inputSchema"]["properties"]["action"]["enum"] == ["doc_search", "doc_get"]
        refused = await call(one, "documents", {"action": "doc_delete", "id": 1}, view="some")
        assert refused["isError"] is True
        with pytest.raises(NotFound):
            await call(one, "documents", {"action": "doc_get", "id": "a"}, view="flat")
        only = GroupRule(name="documents", include=("doc_*",), views=("some",))
        await one.live.configure(naming(only, views=views), one.live.access)
        assert list(await tools_of(one)) == ["doc_search", "doc_get", "doc_delete"]
        assert list(await tools_of(one, "some")) == ["documents"]


async def test_a_group_has_for_each_agent_what_its_tools_are_for_that_agent() -> None:
    rule = GroupRule(name="web", include=("*",))
    async with gateway(SERVERS, registry=REGISTRY, naming=naming(rule), access=Access(rules=STRICT)) as one:
        for name, actions in {"old": ["fetch"], "new": ["fetch", "buy", "read", "sly"]}.items():
            listed = await one.handle(None, "tools/list", {}, who(name))
            assert [tool["name"] for tool in listed["tools"]] == ["web"]
            assert sorted(listed["tools"][0]["inputSchema"]["properties"]["action"]["enum"]) == sorted(actions)
        by = [
            (await call(one, "web", {"action": "fetch", "url": "x"}, caller=who(name)))["structuredContent"]["by"]
            for name in ("old", "new")
        ]
        assert by == ["1.2.3", "2.0.0"]
        refused = [
            text(await call(one, "web", {"action": name, "url": "x"}, caller=who("old"))).replace(name, "NAME")
            for name in ("charge", "chargf")
        ]
        assert refused[0] == refused[1]
        assert "buy" not in refused[0]
        with pytest.raises(NotFound):
            await call(one, "web", {"action": "fetch", "url": "x"}, caller=who("stranger"))
        assert (await one.handle(None, "tools/list", {}, who("stranger")))["tools"] == []


async def test_policy_and_quotas_are_those_of_the_tool_that_is_meant() -> None:
    policy = Policy([Rule(name="no deleting", effect="deny", tools=("doc_delete",))])
    access = Access(policy=policy, quotas=Quotas([Quota(name="one", calls=1, per=60.0, tools=("doc_get",))]))
    async with gateway(DOCS, naming=naming(GROUP), access=access) as one:
        listed = await tools_of(one)
        assert listed["documents"]["inputSchema"]["properties"]["action"]["enum"] == ["doc_search", "doc_get"]
        assert (await call(one, "documents", {"action": "doc_delete", "id": 1}))["isError"] is True
        await call(one, "documents", {"action": "doc_get", "id": "a"})
        with pytest.raises(LimitExceeded):
            await call(one, "documents", {"action": "doc_get", "id": "a"})


async def test_calls_through_a_group_are_recorded_as_calls_of_their_tools(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.log", b"0123456789abcdef")
    policy = Policy([Rule(name="no deleting", effect="deny", tools=("doc_delete",))])
    async with gateway(DOCS, naming=naming(GROUP), auditor=Auditor(log), access=Access(policy=policy)) as one:
        await call(one, "documents", {"action": "doc_get", "id": "a"})
        assert [entry["tool"] for entry in one.telemetry.traces.recent(5)] == ["doc_get"]
        await call(one, "documents", {"action": "doc_delete", "id": 1})
    log.close()
    told = [json.loads(line) for line in (tmp_path / "audit.log").read_bytes().splitlines()[1:]]
    assert [(one["tool"], one["decision"], one["outcome"]) for one in told] == [
        ("doc_get", "allow", "ok"),
        ("doc_delete", "deny", "denied"),
        ("documents", "allow", "error"),
    ]
    assert "as 'doc_get' of 'documents'" in told[0]["reason"]
    assert "no deleting" in told[1]["reason"]


@pytest.mark.req("GRP-15")
async def test_a_brief_group_tells_little_and_explains_what_is_asked_for() -> None:
    brief = GroupRule(name="documents", include=("doc_*",), format="toon", detail="brief")
    async with gateway(DOCS, TITLES, naming=naming(brief)) as one:
        tool = (await tools_of(one))["documents"]
        assert tool["inputSchema"]["properties"]["action"]["enum"][-1] == "help"
        assert "description" not in tool["inputSchema"]["properties"]["query"]
        assert "doc_search|" in tool["description"]
        help_ = await call(one, "documents", {"action": "help", "of": "doc_search"})
        assert help_["isError"] is False
        told = json.dumps(help_["structuredContent"])
        assert "Search the documents. All of them." in told
        assert '"limit"' in told
        assert (await call(one, "documents", {"action": "help", "of": "nothing"}))["isError"] is True


async def test_a_model_says_which_fields_it_wants_and_long_lists_are_cut() -> None:
    rule = GroupRule(name="documents", include=("doc_*",), response=ResponseRule(max_items=3))
    async with gateway(DOCS, naming=naming(rule)) as one:
        found = await call(one, "documents", {"action": "doc_search", "query": "bee", "_select": ["title"]})
        assert found["structuredContent"]["result"] == [{"title": f"bee {at}"} for at in range(3)]
        assert "3 of 10" in found["content"][-1]["text"]
        assert "_select" in (await tools_of(one))["documents"]["inputSchema"]["properties"]
        closed = GroupRule(name="documents", include=("doc_*",), response=ResponseRule(select=False))
        await one.live.configure(naming(closed), one.live.access)
        assert "_select" not in (await tools_of(one))["documents"]["inputSchema"]["properties"]
        refused = await call(one, "documents", {"action": "doc_get", "id": "a", "_select": ["id"]})
        assert refused["isError"] is True


@pytest.mark.req("GRP-17")
async def test_middleware_stands_around_tools_compositions_and_groups_the_outermost_first() -> None:
    order: list[str] = []

    def marked(mark: str) -> Any:
        async def middleware(call: ToolCall, next: Handler) -> Any:
            order.append(f"{mark} {call.name}")
            result = await next(call)
            order.append(f"{mark} after")
            return result

        return middleware

    async def shouting(call: ToolCall, next: Handler) -> Any:
        call.arguments = {**call.arguments, "query": call.arguments["query"].upper()}
        return await next(call)

    rule = GroupRule(name="documents", include=("doc_*",), middleware=(marked("group"),))
    middleware = (
        Around(("*",), marked("first")),
        Around(("doc_*",), marked("second")),
        Around(("doc_titles",), shouting),
    )
    async with gateway(DOCS, TITLES, naming=naming(rule, middleware=middleware)) as one:
        await call(one, "documents", {"action": "doc_get", "id": "a"})
        called = "doc_get"
        assert order[:3] == [f"first {called}", f"second {called}", f"group {called}"]
        assert order[3:] == ["group after", "second after", "first after"]
        order.clear()
        composed = await call(one, "doc_titles", {"query": "bee"})
        assert composed["structuredContent"]["result"][0] == {"t": "BEE 0"}
        assert order == ["first doc_titles", "second doc_titles", "second after", "first after"]


async def test_middleware_may_refuse_or_answer_itself() -> None:
    async def refusing(call: ToolCall, next: Handler) -> Any:
        raise ExecutionFailed("not on Sundays", code="Sunday", hint="come back tomorrow")

    async def answering(call: ToolCall, next: Handler) -> Any:
        return {"answer": 42} if call.tool == "doc_search" else "text"

    middleware = (Around(("doc_get",), refusing), Around(("doc_search", "doc_delete"), answering))
    async with gateway(DOCS, naming=naming(middleware=middleware)) as one:
        refused = await call(one, "doc_get", {"id": "a"})
        assert refused["isError"] is True
        assert "not on Sundays" in text(refused)
        assert refused["_meta"]["weft/error"]["code"] == "Sunday"
        assert (await call(one, "doc_search", {"query": "a"}))["structuredContent"] == {"answer": 42}
        told = await call(one, "doc_delete", {"id": 1})
        assert told["content"][0]["text"] == "text"


async def test_progress_of_a_server_reaches_the_client_of_a_group() -> None:
    group = w.group("slow", description="Slowly.")

    @group.action
    async def count(to: int, call: ToolCall) -> int:
        """Count."""
        for at in range(to):
            call.progress(at + 1, to)
        return to

    assert count is not None
    async with gateway({}, naming=naming()) as one:
        w.attach(one, group)
        await one.live.settle()
        client = Client(progress=True)
        done = await call(one, "slow", {"action": "count", "to": 2}, caller=client)
        assert done["structuredContent"] == {"result": 2}
        assert [heard["progress"] for heard in client.heard] == [1, 2]


async def test_clients_hear_when_what_a_group_gathers_changes() -> None:
    heard: list[Event] = []
    async with gateway(DOCS, naming=naming(GROUP)) as one:
        one.subscribe(heard.append)
        smaller = GroupRule(name="documents", include=("doc_get",))
        await one.live.configure(naming(smaller), one.live.access)
        assert "notifications/tools/list_changed" in {event.method for event in heard}
        assert list(await tools_of(one)) == ["doc_search", "doc_delete", "documents"]


async def test_what_a_group_lists_is_a_schema_that_takes_its_calls() -> None:
    async with gateway(DOCS, TITLES, naming=naming(GROUP)) as one:
        check = compile_schema((await tools_of(one))["documents"]["inputSchema"])
        for arguments in ({"action": "doc_get", "id": "a"}, {"action": "doc_delete", "id": 1, "_select": ["deleted"]}):
            assert check.accepts(arguments)
            assert "isError" not in (found := await call(one, "documents", arguments)) or not found["isError"]
        for arguments in ({"action": "nope"}, {}, {"action": "doc_get", "id": "a", "unknown": 1}):
            assert not check.accepts(arguments)
            assert (await call(one, "documents", arguments))["isError"] is True


def _nested(levels: int) -> dict[str, Any]:
    inner = _nested(levels - 1) if levels else {}
    return {"type": "object", "properties": {"in": inner}}


DEEP = _nested(300)


def test_an_item_that_is_nested_too_deeply_loses_what_is_so() -> None:
    mended = sound({"name": "deep", "description": "d", "inputSchema": DEEP, "_meta": {"a": [1]}}, "tools")
    assert mended == {"name": "deep", "description": "d", "inputSchema": {"type": "object"}, "_meta": {"a": [1]}}


def tool_of(name: str, schema: Any) -> Tool:
    return Tool(name, {"name": name, "inputSchema": schema}, ToolFacts(name))


@pytest.mark.parametrize(
    "schema",
    [
        {"required": ["action"]},
        {"allOf": [{"properties": {"action": {"type": "string"}}}]},
        {"$ref": "#/$defs/A", "$defs": {"A": {"type": "object", "properties": {"action": {}}}}},
        {"properties": {"_select": {}}},
    ],
)
def test_a_tool_that_needs_a_field_of_the_group_is_served_by_itself(schema: dict[str, Any]) -> None:
    tools = {"odd": tool_of("odd", {"type": "object", **schema}), "fine": tool_of("fine", {"type": "object"})}
    found, problems = gathered([GroupRule(name="all", include=("*",))], tools, servers=frozenset())
    assert list(found["all"].members) == ["fine"]
    assert "'odd' is served by itself" in problems[0]


def test_a_tool_of_which_no_action_can_be_made_does_not_cost_the_others() -> None:
    tools = {"odd": tool_of("odd", DEEP), "fine": tool_of("fine", {"type": "object"})}
    found, problems = gathered([GroupRule(name="all", include=("*",))], tools, servers=frozenset())
    assert list(found["all"].members) == ["fine"]
    assert "'odd' cannot be in it" in problems[0]


def test_help_keeps_clear_of_the_discriminator_and_of_other_names() -> None:
    tools = {name: tool_of(name, {"type": "object", "properties": {"_of": {}}}) for name in ("help", "other")}
    rule = GroupRule(name="all", include=("*",), discriminator="of", detail="brief")
    found, problems = gathered([rule], tools, servers=frozenset())
    assert not problems
    assert found["all"].listed["inputSchema"]["properties"]["of"]["enum"] == ["help", "other", "_help"]
    told = found["all"].meant({"of": "_help", "__of": "other"})
    assert isinstance(told, dict)
    assert told["action"] == "other"


async def test_rules_for_a_tool_hold_also_under_the_name_that_it_gets_beside_another() -> None:
    @w.python_tool(name="doc_get")
    async def other(id: str) -> str:
        """Return another document."""
        return id

    async def refusing(call: ToolCall, next: Handler) -> Any:
        raise ExecutionFailed("no", code="NotAllowed")

    middleware = (Around(("doc_get",), refusing), Around(("nothing", "*_nowhere"), refusing))
    async with gateway({"a": [doc_get], "b": [other]}, naming=naming(middleware=middleware)) as one:
        assert list(await tools_of(one)) == ["a_doc_get", "b_doc_get"]
        for name in ("a_doc_get", "b_doc_get"):
            assert (await call(one, name, {"id": "x"}))["isError"] is True
        told = "middleware[1] is for 'nothing', '*_nowhere', and nothing of such a name is served"
        assert told in one.live.problems


async def test_middleware_for_the_name_of_a_group_stands_around_calls_through_it() -> None:
    seen: list[str] = []

    async def noting(call: ToolCall, next: Handler) -> Any:
        seen.append(call.name)
        return await next(call)

    async with gateway(DOCS, naming=naming(GROUP, middleware=(Around(("documents",), noting),))) as one:
        await call(one, "documents", {"action": "doc_get", "id": "a"})
        await call(one, "doc_get", {"id": "a"})
        assert seen == ["doc_get"]


async def test_a_wrong_selection_of_an_allowed_action_is_no_denial(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.log", b"0123456789abcdef")

    async def refusing(call: ToolCall, next: Handler) -> Any:
        raise ExecutionFailed("no", code="NotAllowed")

    middleware = (Around(("doc_delete",), refusing),)
    async with gateway(DOCS, naming=naming(GROUP, middleware=middleware), auditor=Auditor(log)) as one:
        assert (await call(one, "documents", {"action": "doc_get", "id": "a", "_select": 5}))["isError"] is True
        assert (await call(one, "documents", {"action": "doc_delete", "id": 1}))["isError"] is True
    log.close()
    told = [json.loads(line) for line in (tmp_path / "audit.log").read_bytes().splitlines()[1:]]
    assert [(one["tool"], one["decision"], one["outcome"]) for one in told] == [
        ("documents", "allow", "error"),
        ("doc_delete", "deny", "denied"),
    ]


async def test_a_glob_of_a_view_does_not_pull_in_what_a_group_of_such_a_name_has() -> None:
    group = GroupRule(name="get_all", include=("doc_*",))
    views = {"gets": ViewRule(include=("get_*",)), "named": ViewRule(include=("get_all",))}
    async with gateway(DOCS, naming=naming(group, views=views)) as one:
        assert await tools_of(one, "gets") == {}
        assert list(await tools_of(one, "named")) == ["get_all"]


async def test_middleware_that_goes_on_with_another_call_is_told() -> None:
    async def other(call: ToolCall, next: Handler) -> Any:
        return await next(ToolCall("x", {}))

    async def nothing(call: ToolCall, next: Handler) -> Any:
        call.arguments = None  # pyright: ignore[reportAttributeAccessIssue] (a mistake that authors may make)
        return await next(call)

    middleware = (Around(("doc_get",), other), Around(("doc_search",), nothing))
    async with gateway(DOCS, naming=naming(middleware=middleware)) as one:
        for name in ("doc_get", "doc_search"):
            refused = await call(one, name, {"id": "a"})
            assert refused["_meta"]["weft/error"]["code"] == "MiddlewareFailed"


async def test_middleware_sees_all_of_a_result_before_it_is_cut_to_what_was_asked_for() -> None:
    async def hiding(call: ToolCall, next: Handler) -> Any:
        result = await next(call)
        secret = result["structuredContent"]["title"]
        return json.loads(json.dumps(result).replace(secret, "****"))

    rule = GroupRule(name="documents", include=("doc_*",), middleware=(hiding,))
    async with gateway(DOCS, naming=naming(rule)) as one:
        found = await call(one, "documents", {"action": "doc_get", "id": "Bees", "_select": ["id"]})
        assert found["structuredContent"] == {"id": "****"}
    group = w.group("papers")
    group.add("get", lambda: {"id": "Bees", "title": "Bees"})
    async with gateway({}, naming=naming(middleware=(Around(("papers",), hiding),))) as one:
        w.attach(one, group)
        await one.live.settle()
        found = await call(one, "papers", {"action": "get", "_select": ["id"]})
        assert found["structuredContent"] == {"id": "****"}


async def test_what_is_wrong_with_arguments_is_said_before_middleware_counts_the_call() -> None:
    seen: list[Any] = []

    async def noting(call: ToolCall, next: Handler) -> Any:
        seen.append((call.tool, call.action))
        return await next(call)

    async def spoiling(call: ToolCall, next: Handler) -> Any:
        call.arguments["id"] = 7
        return await next(call)

    group = w.group("papers").add("get", lambda: "paper")
    middleware = (Around(("*",), noting), Around(("doc_get",), spoiling))
    async with gateway(DOCS, naming=naming(GROUP, middleware=middleware)) as one:
        assert (await call(one, "documents", {"action": "doc_get", "id": 7}))["isError"] is True
        assert seen == []
        spoilt = await call(one, "documents", {"action": "doc_get", "id": "a"})
        assert spoilt["_meta"]["weft/error"]["code"] == "InvalidArguments"
        w.attach(one, group)
        await one.live.settle()
        await call(one, "papers", {"action": "get"})
        assert seen == [("doc_get", None), ("papers", "get")]


async def test_a_tool_that_is_a_group_already_is_in_no_other() -> None:
    group = w.group("papers", discriminator="do", response=w.ResponseRule(select=False)).add("get", lambda: "paper")
    async with gateway(DOCS, naming=naming(GroupRule(name="all", include=("*",)))) as one:
        w.attach(one, group)
        await one.live.settle()
        assert list(await tools_of(one)) == ["papers", "all"]
        assert one.live.problems == ()
