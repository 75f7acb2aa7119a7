"""Who may do what with compositions over HTTP: the same as with the tools that do it, decided, counted and recorded."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.app.served import message_of, written
from tests.doors.composing import ECHO, STRICT, WAITS, Api, api, composition, key_of, step, template
from tests.doors.test_compositions_workers import crew
from tests.waiting import until
from weft.doors.composition_routes import ROUTES
from weft.gateway.composition_tools import composition_tools
from weft.ir.entities import OWN_TOOLS

PROBLEM = "application/problem+json"
RUN_ECHO: dict[str, Any] = {"composition": ECHO, "input": {"text": "x"}}
RIGHTS = {
    "composition_execute": {"execute", "listRuns", "getRun", "cancelRun", "followRun"},
    "composition_validate": {"validate"},
    "composition_list_templates": {"listTemplates"},
    "composition_get_template": {"getTemplate", "getTemplateStats"},
    "composition_create_template": {"createTemplate", "replaceTemplate"},
    "composition_delete_template": {"deleteTemplate"},
}
"""Which routes take the right to which tool."""


def denied(*tools: str, **more: Any) -> dict[str, Any]:
    """Return a policy that denies tools."""
    return {"policy": [{"name": "not these", "effect": "deny", "tools": list(tools), **more}]}


async def refused(one: Api, run: str, names: Iterable[str] | None = None) -> set[str]:
    """Ask for every route, or for some, and return which of them were refused."""
    bodies: dict[str, Any] = {
        "createTemplate": template("another"),
        "replaceTemplate": template(),
        "execute": RUN_ECHO,
        "validate": {"composition": ECHO},
    }
    found: set[str] = set()
    # What forgets and ends comes last.
    last = ("cancelRun", "followRun", "deleteTemplate")
    for route in sorted(ROUTES, key=lambda one: last.index(one.name) if one.name in last else -1):
        if names is not None and route.name not in names:
            continue
        path = route.path.replace("{id}", run if route.path.startswith("runs") else "mine")
        answer = await one.ask(route.method, path, bodies.get(route.name))
        if answer.status == 403:
            assert (answer.headers["content-type"], answer.json["code"]) == (PROBLEM, "NotAllowed")
            found.add(route.name)
        else:
            assert answer.status in (200, 201, 204), (route.name, answer)
    return found


def agent(name: str, *tools: str) -> dict[str, Any]:
    """Return an agent that depends on tools of weft's own."""
    depends = [{"type": "tool", "name": tool} for tool in tools]
    extension = {"uri": "urn:agentgateway:sbom", "params": {"depends": depends}}
    return {
        "name": name,
        "version": "1.0.0",
        "description": name,
        "capabilities": {"extensions": [extension]},
    }


def recorded(folder: Path) -> list[tuple[Any, ...]]:
    """Return the calls in the audit log: tool, decision, outcome, reason."""
    lines = [json.loads(line) for line in (folder / "audit.log").read_text().splitlines()]
    return [(one["tool"], one["decision"], one["outcome"], one["reason"]) for one in lines if one["kind"] == "call"]


@pytest.mark.parametrize("tool", RIGHTS)
async def test_a_route_takes_the_right_to_the_tool_that_does_the_same(tmp_path: Path, tool: str):
    keys = {name: key_of(tmp_path, "red", name) for name in ("host", "guest")}
    config = {**STRICT, **denied(tool, when="principal.agentName == 'guest'")}
    async with api(tmp_path, config) as one:
        host, guest = one.as_holder_of(keys["host"]), one.as_holder_of(keys["guest"])
        await host.post("templates", template(), status=201)
        run = (await host.post("execute", RUN_ECHO))["run_id"]
        wanted = RIGHTS[tool]
        assert await refused(guest, run, wanted) == wanted
        # A run that is over is nobody's to end.
        others = {route.name for route in ROUTES} - wanted - {"cancelRun"}
        assert await refused(guest, run, others) == set()


@pytest.mark.parametrize("tools", [False, True])
async def test_what_the_policy_denies_is_not_done_whether_or_not_clients_have_the_tools(tmp_path: Path, tools: bool):
    keys = {name: key_of(tmp_path, "red", name) for name in ("host", "guest")}
    config = {
        **STRICT,
        **denied("composition_*", when="principal.agentName == 'guest'"),
        "compositions": {"tools": tools},
    }
    async with api(tmp_path, config) as one:
        host, guest = one.as_holder_of(keys["host"]), one.as_holder_of(keys["guest"])
        await host.post("templates", template(), status=201)
        run = await host.begun()
        await until(lambda: one.up.waiting)
        calls = one.up.calls
        assert await refused(guest, run) == {route.name for route in ROUTES} - {"getOpenapi"}
        assert [card["id"] for card in (await host.get("templates?search=mine"))["templates"]] == ["mine"]
        assert one.up.calls == calls
        assert [one["status"] for one in (await host.get("runs"))["runs"]] == ["running"]
        assert (await host.post(f"runs/{run}/cancel"))["status"] == "cancelled"


async def test_rules_that_allow_other_tools_only_deny_these(tmp_path: Path):
    config = {"policy": [{"name": "echo alone", "effect": "allow", "tools": ["echo", "composition_validate"]}]}
    async with api(tmp_path, config) as one:
        assert (await one.post("validate", {"composition": ECHO}))["valid"] is True
        assert (await one.ask("POST", "execute", RUN_ECHO)).status == 403


async def test_a_caller_that_nobody_knows_is_refused_where_the_registry_says_so(tmp_path: Path):
    config = {"registry": {"validation": {"runtime": {"unknownCaller": "deny"}}}}
    registered = {"schemaVersion": "2.0", "tools": [], "agents": [agent("clerk", "composition_list_templates")]}
    async with api(tmp_path, config, compositions=registered) as one:
        assert (await one.ask("GET", "templates")).status == 403
        clerk = await one.ask("GET", "templates", **{"X-Agent-Name": "clerk", "X-Agent-Version": "1.0.0"})
        assert clerk.status == 200


async def test_an_agent_is_held_to_the_tools_of_weft_that_it_depends_on(tmp_path: Path):
    keys = {name: key_of(tmp_path, "red", name) for name in ("clerk", "runner")}
    config = {
        **STRICT,
        "registry": {"validation": {"runtime": {"undeclaredDependency": "deny"}}},
        "compositions": {"tools": True},
    }
    agents = [agent("clerk", "composition_list_templates", "composition_create_template")]
    agents.append(agent("runner", "composition_execute"))
    registered = {"schemaVersion": "2.0", "tools": [], "agents": agents}
    async with api(tmp_path, config, compositions=registered) as one:
        clerk, runner = one.as_holder_of(keys["clerk"]), one.as_holder_of(keys["runner"])
        await clerk.post("templates", template(), status=201)
        assert (await clerk.ask("DELETE", "templates/mine")).status == 403
        assert (await clerk.ask("GET", "runs")).status == 403
        assert (await runner.get("runs"))["runs"] == []
        assert (await runner.ask("DELETE", "templates/mine")).status == 403
        listed = message_of(await one.gate.post("tools/list", {}, **runner.headers()))["result"]["tools"]
        assert [tool["name"] for tool in listed] == ["composition_execute"]


async def test_a_call_that_nobody_foresaw_is_counted_as_a_finding(tmp_path: Path):
    registered = {"schemaVersion": "2.0", "tools": [], "agents": [agent("clerk")]}
    async with api(tmp_path, compositions=registered) as one:
        who = {"X-Agent-Name": "clerk", "X-Agent-Version": "1.0.0"}
        assert (await one.ask("GET", "templates", **who)).status == 200
        assert await one.gate.metric("weft_findings_total", finding="UndeclaredDependency") == 1


async def test_quotas_count_what_is_done_over_http_and_by_tools_together(tmp_path: Path):
    quota = {"name": "few", "calls": 2, "per": "1h", "tools": ["composition_execute"]}
    async with api(tmp_path, {"quotas": [quota], "compositions": {"tools": True}}) as one:
        await one.gate.has("composition_execute")
        await one.gate.call("composition_execute", RUN_ECHO)
        run = await one.begun()
        await until(lambda: one.up.waiting)
        late = await one.ask("POST", "execute", RUN_ECHO)
        assert (late.status, late.headers["content-type"], late.json["code"]) == (429, PROBLEM, "QuotaExceeded")
        assert int(late.headers["retry-after"]) > 60
        # Who has used up a quota can still see what became of it, and end it.
        assert (await one.get(f"runs/{run}"))["status"] == "running"
        assert (await one.post(f"runs/{run}/cancel"))["status"] == "cancelled"
        assert len((await one.get("runs"))["runs"]) == 2


async def test_the_audit_log_has_each_use_and_each_refusal(tmp_path: Path):
    quota = {"name": "one", "calls": 1, "per": "1h", "tools": ["composition_create_template"]}
    config = {**denied("composition_delete_template"), "quotas": [quota], "audit": {"file": "audit.log"}}
    async with api(tmp_path, config) as one:
        await one.post("templates", template(), status=201)
        assert (await one.ask("POST", "templates", template("second"))).status == 429
        assert (await one.ask("DELETE", "templates/mine")).status == 403
        assert (await one.ask("GET", "templates/nothing")).status == 404
        ran = await one.post("execute", {"composition": composition(step("bad", "refuse"))})
        await one.get(f"runs/{ran['run_id']}")
    known = "the caller is not registered"
    assert recorded(tmp_path) == [
        ("composition_create_template", "allow", "ok", f"{known} (HTTP POST templates)"),
        (
            "composition_create_template",
            "deny",
            "denied",
            "QuotaExceeded: quota 'one': too many calls in 3600 s (limit 1) (HTTP POST templates)",
        ),
        ("composition_delete_template", "deny", "denied", "rule 'not these' (HTTP DELETE templates/{id})"),
        ("composition_get_template", "allow", "error", f"{known} (HTTP GET templates/{{id}})"),
        ("composition_execute", "allow", "error", f"{known} (HTTP POST execute)"),
        ("composition_execute", "allow", "ok", f"{known} (HTTP GET runs/{{id}})"),
    ]
    lines = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
    assert [one["trace"] for one in lines if "POST execute" in one.get("reason", "")] == [ran["trace_id"]]


async def test_only_who_began_a_run_may_end_it(tmp_path: Path):
    ann, bob = (key_of(tmp_path, "red", name) for name in ("ann", "bob"))
    async with api(tmp_path, {**STRICT, "audit": {"file": "audit.log"}}) as one:
        mine, other = one.as_holder_of(ann), one.as_holder_of(bob)
        run = await mine.begun()
        await until(lambda: one.up.waiting)
        answer = await other.ask("POST", f"runs/{run}/cancel")
        assert (answer.status, answer.json["code"]) == (403, "NotAllowed")
        assert (await other.get(f"runs/{run}"))["status"] == "running"
        assert (await mine.post(f"runs/{run}/cancel"))["status"] == "cancelled"
    told = [how for how in recorded(tmp_path) if "cancel" in how[3]]
    assert [how[1:3] for how in told] == [("deny", "denied"), ("allow", "ok")]


async def test_nor_through_another_worker(tmp_path: Path):
    ann, bob = (key_of(tmp_path, "red", name) for name in ("ann", "bob"))
    async with crew(tmp_path, **STRICT) as (here, there):
        run = await there.as_holder_of(ann).begun(WAITS)
        await until(lambda: there.up.waiting)
        assert (await here.as_holder_of(bob).ask("POST", f"runs/{run}/cancel")).status == 403
        assert (await here.as_holder_of(ann).post(f"runs/{run}/cancel"))["status"] == "cancelled"


async def test_a_policy_that_changes_holds_from_then_on(tmp_path: Path):
    async with api(tmp_path) as one:
        assert (await one.ask("GET", "templates")).status == 200
        written(tmp_path, {"servers": {"up": {"url": one.up.url}}, **denied("composition_*")})
        assert one.gate.running.file is not None
        await one.gate.running.file.refresh()
        assert (await one.ask("GET", "templates")).status == 403


async def test_the_tools_that_an_agent_may_depend_on_are_those_that_there_are(tmp_path: Path):
    async with api(tmp_path) as one:
        assert {tool.name for tool in composition_tools(one.gate.running.compositions)} == OWN_TOOLS
    assert set(RIGHTS) == OWN_TOOLS
