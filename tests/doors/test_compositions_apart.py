"""What a caller's own documents may not do to others: share their state, crowd them out, look behind policy."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.app.served import pipeline, registry
from tests.doors.composing import STRICT, WAITS, Api, api, composition, key_of, step, template
from weft.errors import Problem
from weft.gateway import draft, drafts
from weft.gateway.admitting import RunLimits, TooManyRuns
from weft.gateway.draft import few
from weft.gateway.draft_state import own_name
from weft.ports import Principal
from weft.workflows.recorded import new_run

RULES = {"failureThreshold": 1, "failureWindowSeconds": 600, "resetTimeoutSeconds": 600, "store": "default"}


def breaker(inner: Any, scope: str, name: str = "payments") -> dict[str, Any]:
    return {"circuitBreaker": {"name": name, "inner": inner, "scope": scope, **RULES}}


async def ran(one: Api, *steps: dict[str, Any], **more: Any) -> tuple[str, list[str]]:
    """Run steps, and return how that ended, with the codes of the errors."""
    told = await one.post("execute", {"composition": composition(*steps, **more)})
    return told["status"], [error["code"] for error in told["errors"]]


async def problems(one: Api, document: dict[str, Any], severity: str = "errors") -> list[tuple[str, str]]:
    """Return what is wrong with a document, each code with its place; it must not run for an error."""
    found = (await one.post("validate", {"composition": document}))[severity]
    if severity == "errors":
        refused = await one.ask("POST", "execute", {"composition": document})
        assert (refused.status, len(refused.json["errors"])) == (422, len(found))
    return [(each["code"], each["pointer"]) for each in found]


@pytest.mark.parametrize("scope", ["public", "tenant"])
async def test_a_draft_shares_no_circuit_with_the_registry_nor_with_another_tenant(tmp_path: Path, scope: str):
    red, blue = key_of(tmp_path, "red"), key_of(tmp_path, "blue")
    paid = {"name": "paid", "spec": breaker({"tool": "echo"}, scope)}
    async with api(tmp_path, STRICT, compositions=registry(paid)) as one:
        # The circuit is in another one, which is renamed as well.
        bad = {"id": "a", "operation": breaker(breaker({"tool": "refuse"}, scope), scope, "outer")}
        assert (await ran(one.as_holder_of(red), bad))[0] == "failed"
        assert (await ran(one.as_holder_of(red), bad))[1] == ["CircuitOpen"]
        inner = {"id": "a", "operation": breaker({"tool": "echo"}, scope)}
        assert (await ran(one.as_holder_of(red), inner))[1] == ["CircuitOpen"]
        for whose in (red, blue):
            assert await ran(one.as_holder_of(whose), step("a", "paid")) == ("succeeded", [])
        assert await ran(one.as_holder_of(blue), inner) == ("succeeded", [])


@pytest.mark.parametrize("named", [{"name": "slowly"}, {}])
async def test_a_throttle_of_a_draft_is_its_tenants_own(tmp_path: Path, named: dict[str, str]):
    red, blue = key_of(tmp_path, "red"), key_of(tmp_path, "blue")
    once = {"inner": {"tool": "echo"}, "rate": 1, "windowMs": 3_600_000, "onExceeded": "reject", **named}
    async with api(tmp_path, STRICT) as one:
        calls = {"id": "a", "operation": {"throttle": once}}
        assert (await ran(one.as_holder_of(red), calls))[0] == "succeeded"
        assert (await ran(one.as_holder_of(red), calls))[1] == ["Throttled"]
        assert (await ran(one.as_holder_of(blue), calls))[0] == "succeeded"


def test_no_two_tenants_mean_the_same_by_a_name():
    assert own_name("b|c", "a") != own_name("c", "a|b")
    assert own_name("x" * 128, "a") != own_name("x" * 128, "b")
    assert len(own_name("x" * 128, "a")) <= 128


async def test_thousands_of_wrong_names_are_told_in_a_short_answer(tmp_path: Path):
    async with api(tmp_path) as one:
        many = composition(
            *(step(f"s{at}", depends_on=[f"no{at}_{other}" for other in range(10)]) for at in range(1000))
        )
        refused = await one.ask("POST", "execute", {"composition": many})
        assert (refused.status, len(refused.json["errors"])) == (422, 101)
        last = refused.json["errors"][-1]
        assert (last["code"], last["value"], last["pointer"]) == ("MoreProblems", "9900", "/composition/steps")
        assert refused.json["errors"][0]["expected"].endswith("s19 and 980 more")
        assert len(refused.body) < 100_000
        unknown = composition(*(step(f"s{at}", f"no{at}") for at in range(300)))
        refused = await one.ask("POST", "execute", {"composition": unknown})
        assert [each["code"] for each in refused.json["errors"]] == ["UnknownName"] * 100 + ["MoreProblems"]
        assert refused.json["errors"][-1]["value"] == "200"


def test_errors_are_told_before_warnings_and_what_is_left_out_is_counted():
    weak = [Problem(code="W", message="w", severity="warning")] * 150
    told = few([*weak, Problem(code="E", message="e")])
    assert (told[0].code, len(told), told[-1].value, told[-1].severity) == ("E", 101, "51", "warning")
    assert few(weak[:100]) == weak[:100]


async def test_a_large_document_is_read_checked_and_compiled_beside_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    where: dict[str, set[int]] = {}

    def watched(name: str, work: Any) -> Any:
        def done(*args: Any, **given: Any) -> Any:
            where.setdefault(name, set()).add(threading.get_ident())
            return work(*args, **given)

        return done

    async with api(tmp_path) as one:
        live = one.gate.running.gateway.live
        monkeypatch.setattr(draft, "parse", watched("read", draft.parse))
        monkeypatch.setattr(drafts, "check", watched("check", drafts.check))
        monkeypatch.setattr(live, "compile", watched("compile", live.compile))
        large = composition(*(step(f"s{at}") for at in range(51)))
        told = await one.post("execute", {"composition": large})
        assert (told["success"], told["steps_executed"]) == (True, 51)
        await one.post("validate", {"composition": large})
        assert where.keys() == {"read", "check", "compile"}
        assert not any(threading.get_ident() in threads for threads in where.values())


async def test_one_caller_has_only_so_many_runs_that_nobody_waits_for(tmp_path: Path):
    ann, bob = key_of(tmp_path, "red", "ann"), key_of(tmp_path, "red", "bob")
    async with api(tmp_path, {**STRICT, "limits": {"perPrincipal": 2}}) as one:
        mine = one.as_holder_of(ann)
        for _ in range(2):
            await mine.begun()
        refused = await mine.ask("POST", "execute", {"composition": WAITS, "options": {"wait": False}})
        assert (refused.status, refused.json["code"], refused.headers["retry-after"]) == (429, "TooManyRuns", "1")
        await one.as_holder_of(bob).begun()
        one.up.let_go.set()


async def test_runs_that_are_only_beginning_count(tmp_path: Path):
    ann = key_of(tmp_path, "red", "ann")
    async with api(tmp_path, {**STRICT, "limits": {"perPrincipal": 3}}) as one:
        mine = one.as_holder_of(ann)
        body = {"composition": WAITS, "options": {"wait": False}}
        await mine.begun()
        await mine.begun()
        told = await asyncio.gather(*(mine.ask("POST", "execute", body) for _ in range(3)))
        assert sum(each.status == 202 for each in told) == 1
        one.up.let_go.set()


def test_a_tenant_has_less_than_all_places():
    ann, bob = Principal(subject="ann", tenant="red", method="key"), Principal(subject="b", method="key")
    limits = RunLimits(all=4, tenant=2, principal=2)
    runs = [new_run(Principal(subject=name, tenant="red", method="key"), "w", started=0.0) for name in "xy"]
    with pytest.raises(TooManyRuns, match="of this tenant"):
        limits.admit(ann, runs)
    limits.admit(bob, runs)


@pytest.mark.req("WFL-20")
async def test_a_template_does_not_run_without_the_tools_that_it_requires(tmp_path: Path):
    async with api(tmp_path) as one:
        needs = {"required_tools": ["echo", "nosuch"], "min_version": "9.0.0"}
        whole = template("needy", composition(step("a")), validation=needs, servers={"nosuch": "shop"})
        await one.post("templates", whole, status=201)
        told = await one.post("validate", {"template_id": "needy"})
        places = [(each["code"], each["pointer"], each["message"]) for each in told["errors"]]
        missing = "Tool not found: nosuch (shop would provide it)"
        assert places == [("UnknownName", "/validation/required_tools/1", missing)]
        assert [each["code"] for each in told["warnings"]] == ["VersionNotKnown"]
        refused = await one.ask("POST", "execute", {"template_id": "needy"})
        assert (refused.status, refused.json["errors"][0]["message"], one.up.calls) == (422, missing, 0)


async def test_what_would_fail_in_the_run_is_found_before(tmp_path: Path):
    inner = {**pipeline("maker", "echo"), "version": "1.0.0"}
    async with api(tmp_path, compositions=registry(inner)) as one:
        nested = {
            "id": "a",
            "operation": {"cache": {"store": "keept", "keyPaths": ["$"], "ttlSeconds": 1, "inner": {"tool": "echo"}}},
        }
        for document, code, place in [
            (composition(step("a"), store="nope"), "UnknownStore", "/store"),
            (composition(nested), "UnknownStore", "/steps/0/operation/cache/store"),
            (composition(step("a", {"name": "echo", "server": "nope"})), "UnknownName", "/steps/0/tool/name"),
            (composition(step("a", {"name": "ecko", "server": "up"})), "UnknownName", "/steps/0/tool/name"),
            (
                composition(step("a", undo={"tool": {"name": "echo", "server": "nope"}})),
                "UnknownName",
                "/steps/0/undo/tool/name",
            ),
            (
                composition(step("a", undo={"tool": "echo", "parameters": "text"})),
                "NoSoleProperty",
                "/steps/0/undo/tool",
            ),
            (
                composition(step("a"), undo={"echo": {"tool": "echo", "parameters": "text"}}),
                "NoSoleProperty",
                "/undo/echo/tool",
            ),
            (
                composition(step("a", parameters={"z": "{{context.nope}}"})),
                "UnknownReference",
                "/steps/0/parameters/z",
            ),
            (composition(step("a", "maker@1.0.0")), "VersionInName", "/steps/0/tool"),
        ]:
            assert await problems(one, document) == [(code, f"/composition{place}")], document
        assert one.up.calls == 0
        fine = composition(
            step("a", {"name": "echo", "server": "up"}, undo={"tool": "echo", "parameters": {"x": "{{output}}"}}),
            step("b", {"name": "maker", "version": "1.0.0"}, parameters={"who": "{{context.tenant}}"}),
        )
        assert (await one.post("validate", {"composition": fine}))["errors"] == []
        once = composition(step("a", at_most_once=True))
        assert await problems(one, once, "warnings") == [("AtMostOnceIgnored", "/composition/steps/0/at_most_once")]
        assert await problems(one, {**once, "store": "default"}, "warnings") == []
        assert (await ran(one, *fine["steps"]))[0] == "succeeded"


async def test_a_tool_of_a_server_that_a_caller_may_not_call_looks_as_if_it_were_not_there(tmp_path: Path):
    ann, bob = key_of(tmp_path, "red", "ann"), key_of(tmp_path, "red", "bob")
    rules = [{"name": "not for bob", "effect": "deny", "when": "principal.agentName == 'bob'", "tools": ["echo"]}]
    async with api(tmp_path, {**STRICT, "policy": rules}) as one:
        told: list[Any] = []
        for name in ("echo", "nope"):
            asked = {"composition": composition(step("a", {"name": name, "server": "up"}))}
            refused = await one.as_holder_of(bob).ask("POST", "execute", asked)
            assert refused.status == 422
            told.append([{**each, "message": "", "value": ""} for each in refused.json["errors"]])
        assert told[0] == told[1]
        assert told[0][0]["code"] == "UnknownName"
        assert one.up.calls == 0
        assert await ran(one.as_holder_of(ann), step("a", {"name": "echo", "server": "up"})) == ("succeeded", [])


async def test_the_limit_of_a_document_counts_bytes_as_they_are_sent(tmp_path: Path):
    async with api(tmp_path) as one:
        fits = composition(step("a", parameters={"x": "é" * 100_000}))
        assert (await one.post("validate", {"composition": fits}))["valid"] is True
        large = composition(step("a", parameters={"x": "é" * 140_000}))
        assert (await one.ask("POST", "execute", {"composition": large})).status == 413


async def test_what_is_no_tool_at_all_is_told_that_a_text_is_one(tmp_path: Path):
    async with api(tmp_path) as one:
        refused = await one.ask("POST", "execute", {"composition": composition({"id": "a", "tool": [1]})})
        assert refused.json["errors"][0]["expected"] == "a name, or an object with one"


async def test_what_is_compiled_is_compiled_again_for_what_is_offered_later(tmp_path: Path):
    async with api(tmp_path) as one:
        live = one.gate.running.gateway.live
        service = drafts.Drafts(live)
        document = draft.read_draft(composition(step("a")))
        principal = Principal()
        first = await service.compiled(principal, document)
        assert await service.compiled(principal, document) is first
        live.changed()
        await live.settle()
        assert await service.compiled(principal, document) is not first
