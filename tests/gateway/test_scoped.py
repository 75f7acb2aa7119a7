"""Two agents, two versions, one gateway: who sees and calls what, down to the steps of compositions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import weft as w
from tests.gateway.served import call, gateway, whole
from weft.errors import LimitExceeded, NotFound
from weft.gateway.access import Access
from weft.gateway.callers import Nobody
from weft.gateway.gateway import Gateway
from weft.gateway.live import Content, Event, Naming
from weft.gateway.policy import Policy, Rule
from weft.gateway.quotas import Quota, Quotas
from weft.gateway.scope import Rules
from weft.ports import ANONYMOUS, Principal

STRICT = Rules(unknown_caller="deny", undeclared_dependency="deny")


@w.python_tool(name="fetch")
async def fetch_one(url: str) -> dict[str, str]:
    """Fetch, the old way."""
    return {"by": "1.2.3", "url": url}


@w.python_tool(name="fetch")
async def fetch_two(url: str) -> dict[str, str]:
    """Fetch, the new way."""
    return {"by": "2.0.0", "url": url}


@w.python_tool
async def charge(url: str) -> dict[str, str]:
    """Take money."""
    return {"charged": url}


def virtual(name: str, version: str, server: str, server_version: str, **more: Any) -> dict[str, Any]:
    source = {"server": server, "serverVersion": server_version, "tool": more.pop("tool", name)}
    return {"name": name, "version": version, "source": source, **more}


def composed(name: str, *steps: str, depends: list[tuple[str, str]] | None = None) -> dict[str, Any]:
    listed = [{"id": f"s{at}", "operation": {"tool": {"name": step}}} for at, step in enumerate(steps)]
    made: dict[str, Any] = {"name": name, "version": "1.0.0", "spec": {"pipeline": {"steps": listed}}}
    if depends is not None:
        made["depends"] = [{"type": "tool", "name": one, "version": version} for one, version in depends]
    return made


def agent(name: str, *depends: tuple[str, str], url: str | None = None) -> dict[str, Any]:
    listed = [{"type": "tool", "name": one, "version": version} for one, version in depends]
    extension = {"uri": "urn:agentgateway:sbom", "params": {"depends": listed}}
    told = {"name": name, "version": "1.0.0", "capabilities": {"extensions": [extension]}}
    return told if url is None else {**told, "url": url}


REGISTRY: dict[str, Any] = {
    "schemaVersion": "2.0",
    "tools": [
        virtual("fetch", "1.2.3", "web", "1.0.0", deprecated=True, deprecationMessage="use 2.0.0"),
        virtual("fetch", "2.0.0", "web", "2.0.0"),
        virtual("charge", "1.0.0", "bank", "1.0.0"),
        composed("buy", "charge", depends=[("charge", "1.0.0")]),
        composed("read", "fetch", depends=[("fetch", "1.2.3")]),
        composed("sly", "charge", depends=[("fetch", "2.0.0")]),
    ],
    "agents": [
        agent("old", ("fetch", "1.2.3")),
        agent("new", ("fetch", "2.0.0"), ("buy", "1.0.0"), ("read", "1.0.0"), ("sly", "1.0.0")),
    ],
}
SERVERS = {"web@1.0.0": [fetch_one], "web@2.0.0": [fetch_two], "bank@1.0.0": [charge]}


def who(name: str, version: str | None = "1.0.0") -> Nobody:
    made = Principal(subject=name, agent_name=name, agent_version=version, method="key", strength="proven")
    return Nobody(principal=made)


async def listed(one: Gateway, caller: Nobody) -> dict[str, str | None]:
    found = await one.handle(None, "tools/list", {}, caller)
    return {tool["name"]: tool.get("_meta", {}).get("weft/version") for tool in found["tools"]}


async def value(one: Gateway, caller: Nobody, name: str) -> Any:
    result = await call(one, name, {"url": "x"}, caller=caller)
    return result["structuredContent"] if not result.get("isError") else result["_meta"]["weft/error"]["code"]


@pytest.mark.req("REG-40", "REG-33", "REG-3", "REG-11")
async def test_two_agents_call_two_versions_of_one_tool_at_the_same_moment() -> None:
    async with gateway(SERVERS, registry=REGISTRY, access=Access(rules=STRICT)) as one:
        assert await listed(one, who("old")) == {"fetch": "1.2.3"}
        assert await listed(one, who("new")) == {"fetch": "2.0.0", "buy": "1.0.0", "read": "1.0.0", "sly": "1.0.0"}
        first, second = await asyncio.gather(value(one, who("old"), "fetch"), value(one, who("new"), "fetch"))
        assert (first["by"], second["by"]) == ("1.2.3", "2.0.0")
        assert await listed(one, Nobody()) == {}
        assert await listed(one, who("stranger")) == {}


@pytest.mark.req("REG-33", "REG-32")
async def test_what_is_not_there_and_what_is_not_for_the_caller_look_the_same() -> None:
    async with gateway(SERVERS, registry=REGISTRY, access=Access(rules=STRICT)) as one:
        told: list[str] = []
        for name in ("charge", "chargf", "fetch@2.0.0"):
            with pytest.raises(NotFound) as refused:
                await call(one, name, {"url": "x"}, caller=who("old"))
            told.append(str(refused.value).replace(name, "NAME"))
        assert told[0] == told[1]
        assert "charge" not in told[2]
        for stranger in (Nobody(), who("stranger")):
            with pytest.raises(NotFound):
                await call(one, "fetch", {"url": "x"}, caller=stranger)


@pytest.mark.req("REG-41", "REG-32")
async def test_by_default_a_stranger_sees_all_in_the_newest_version_and_may_name_another() -> None:
    async with gateway(SERVERS, registry=REGISTRY) as one:
        assert (await listed(one, Nobody()))["fetch"] == "2.0.0"
        assert (await value(one, Nobody(), "fetch"))["by"] == "2.0.0"
        assert (await value(one, Nobody(), "fetch@1.2.3"))["by"] == "1.2.3"
        with pytest.raises(NotFound):
            await value(one, Nobody(), "fetch@9.9.9")


@pytest.mark.req("REG-42")
async def test_a_tool_tells_its_version_and_that_it_is_deprecated() -> None:
    async with gateway(SERVERS, registry=REGISTRY, access=Access(rules=STRICT)) as one:
        (tool,) = (await one.handle(None, "tools/list", {}, who("old")))["tools"]
        assert tool["_meta"] == {"weft/version": "1.2.3", "weft/deprecated": "use 2.0.0"}


@pytest.mark.req("REG-33", "REG-29")
async def test_an_undeclared_tool_is_called_with_a_finding_or_silently_or_not_at_all() -> None:
    for undeclared, findings in (("allow", 0), ("warn", 1)):
        rules = Rules(undeclared_dependency=undeclared)  # pyright: ignore[reportArgumentType]  (both are modes)
        async with gateway(SERVERS, registry=REGISTRY, access=Access(rules=rules)) as one:
            assert "charge" not in await listed(one, who("old"))
            assert await value(one, who("old"), "charge") == {"charged": "x"}
            counted = one.telemetry.metrics.snapshot()["findings"]
            assert counted == ({"UndeclaredDependency": findings} if findings else {})


async def test_a_composition_calls_the_version_that_it_depends_on_for_callers_that_have_neither() -> None:
    async with gateway(SERVERS, registry=REGISTRY, access=Access(rules=STRICT)) as one:
        assert (await value(one, who("new"), "read"))["by"] == "1.2.3"
        assert await value(one, who("new"), "buy") == {"charged": "x"}
        with pytest.raises(NotFound):
            await value(one, who("old"), "buy")


async def test_a_composition_does_not_call_what_it_does_not_declare() -> None:
    async with gateway(SERVERS, registry=REGISTRY) as one:
        assert await value(one, who("new"), "sly") == "StepDenied"
        assert await value(one, Nobody(), "sly") == "StepDenied"


async def test_a_step_that_the_caller_must_have_itself_is_denied_to_those_who_do_not() -> None:
    rule = Rule(name="own right", caller_must_also_have=True, tools=("charge",))
    rules = Rules(unknown_caller="deny", undeclared_dependency="deny")
    async with gateway(SERVERS, registry=REGISTRY, access=Access(rules=rules, policy=Policy([rule]))) as one:
        assert await value(one, who("new"), "buy") == "StepDenied"
        assert (await value(one, who("new"), "read"))["by"] == "1.2.3"


@pytest.mark.req("REG-40")
async def test_the_policy_comes_before_dependencies_and_knows_what_a_server_says_of_its_tools() -> None:
    @w.python_tool(annotations={"readOnlyHint": True})
    async def look() -> str:
        """Look."""
        return "seen"

    @w.python_tool(annotations={"readOnlyHint": False})
    async def change() -> str:
        """Change."""
        return "changed"

    rule = Rule(name="read", effect="allow", when="tool.annotations.readOnlyHint == true")
    async with gateway({"web": [look, change]}, access=Access(policy=Policy([rule]))) as one:
        assert list(await listed(one, Nobody())) == ["look"]
        with pytest.raises(NotFound):
            await call(one, "change")
    away = Rule(name="gone", effect="deny", when="principal.agentName == 'old'")
    async with gateway(SERVERS, registry=REGISTRY, access=Access(policy=Policy([away]))) as one:
        assert await listed(one, who("old")) == {}
        assert "fetch" in await listed(one, who("new"))


async def test_a_quota_refuses_one_caller_and_not_another() -> None:
    quotas = Quotas([Quota(name="few", calls=2, per=3600.0, tools=("fetch",))])
    async with gateway(SERVERS, registry=REGISTRY, access=Access(quotas=quotas)) as one:
        for _ in range(2):
            await value(one, who("old"), "fetch")
        with pytest.raises(LimitExceeded, match="few") as refused:
            await value(one, who("old"), "fetch")
        assert refused.value.retry_after
        assert (await value(one, who("new"), "fetch"))["by"] == "2.0.0"
        assert one.telemetry.metrics.snapshot()["limits"]["QuotaExceeded"] == 1


async def test_steps_of_compositions_count_for_the_quota_of_the_tool_that_they_call() -> None:
    quotas = Quotas([Quota(name="till", calls=2, per=3600.0, tools=("charge",), by="tool")])
    async with gateway(SERVERS, registry=REGISTRY, access=Access(quotas=quotas)) as one:
        assert [await value(one, who("new"), "buy") for _ in range(2)] == [{"charged": "x"}] * 2
        assert await value(one, who("new"), "buy") == "QuotaExceeded"
        with pytest.raises(LimitExceeded, match="till"):
            await value(one, Nobody(), "charge")


async def test_another_server_frees_no_tool_of_a_rule_by_having_one_of_its_name() -> None:
    @w.python_tool(name="charge")
    async def other() -> str:
        """Something else."""
        return "other"

    rule = Rule(name="no", effect="deny", tools=("charge",))
    async with gateway({"bank": [charge], "web": [other]}, access=Access(policy=Policy([rule]))) as one:
        assert await listed(one, Nobody()) == {}
        with pytest.raises(NotFound):
            await call(one, "bank_charge", {"url": "x"})


async def test_off_loopback_a_caller_is_unknown_only_where_somebody_is_registered() -> None:
    rules = Rules(unknown_caller="deny", written=False, loopback=False)
    async with gateway(SERVERS, registry=REGISTRY, access=Access(rules=rules)) as one:
        assert await listed(one, Nobody()) == {}
    async with gateway(SERVERS, registry={**REGISTRY, "agents": []}, access=Access(rules=rules)) as one:
        assert "fetch" in await listed(one, Nobody())


async def test_a_tool_whose_server_does_not_have_it_is_not_listed() -> None:
    gone = virtual("gone", "1.0.0", "web", "1.0.0", tool="nothing_here")
    async with gateway(SERVERS, registry={**REGISTRY, "tools": [*REGISTRY["tools"], gone], "agents": []}) as one:
        assert "gone" not in await listed(one, Nobody())
        assert any("nothing_here" in problem for problem in one.report()["problems"])


async def test_a_wrong_name_among_thousands_of_tools_is_soon_told() -> None:
    tools = [virtual(f"tool_number_{number}", "1.0.0", "web", "1.0.0", tool="fetch") for number in range(3000)]
    async with gateway(SERVERS, registry={"schemaVersion": "2.0", "tools": tools}) as one:
        with pytest.raises(NotFound) as refused:
            await call(one, "tool_nunber_17")
        assert "tool_number_1" in str(refused.value.hint)


async def test_who_may_see_what_changes_while_it_is_served_and_clients_are_told() -> None:
    async with gateway(SERVERS, registry=REGISTRY, access=Access(rules=STRICT)) as one:
        told: list[Event] = []
        one.subscribe(told.append)
        deny = Access(
            rules=STRICT, policy=Policy([Rule(name="off", effect="deny", when="principal.agentName == 'old'")])
        )
        await one.live.configure(Naming(), deny)
        assert await listed(one, who("old")) == {}
        assert {event.method for event in told} >= {"notifications/tools/list_changed"}
        told.clear()
        agents = [agent("old", ("charge", "1.0.0")), REGISTRY["agents"][1]]
        await one.live.load(Content(whole({**REGISTRY, "agents": agents})))
        await one.live.configure(Naming(), Access(rules=STRICT))
        assert await listed(one, who("old")) == {"charge": "1.0.0"}
        assert {event.method for event in told} >= {"notifications/tools/list_changed"}


async def test_a_right_that_is_lost_is_lost_for_the_steps_that_are_left() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    @w.python_tool
    async def wait(url: str) -> dict[str, str]:
        """Wait."""
        begun.set()
        await go_on.wait()
        return {"url": url}

    tools = [virtual("wait", "1.0.0", "slow", "1.0.0"), *REGISTRY["tools"]]
    tools.append(composed("long", "wait", "charge", depends=[("wait", "1.0.0"), ("charge", "1.0.0")]))
    registry = {**REGISTRY, "tools": tools, "agents": [agent("old", ("long", "1.0.0"))]}
    async with gateway({**SERVERS, "slow@1.0.0": [wait]}, registry=registry, access=Access(rules=STRICT)) as one:
        calling = asyncio.create_task(value(one, who("old"), "long"))
        await begun.wait()
        off = Policy([Rule(name="off", effect="deny", when="principal.agentName == 'old'")])
        await one.live.configure(Naming(), Access(rules=STRICT, policy=off))
        go_on.set()
        assert await calling == "StepDenied"


async def test_an_agent_is_known_by_the_address_of_its_card() -> None:
    registry = {**REGISTRY, "agents": [agent("old", ("fetch", "1.2.3"), url="https://a.example/card")]}
    async with gateway(SERVERS, registry=registry) as one:
        assert one.live.agent_at("https://a.example/card") == ("old", "1.0.0")
        assert one.live.agent_at("https://b.example/card") is None
    assert ANONYMOUS.agent_name is None
