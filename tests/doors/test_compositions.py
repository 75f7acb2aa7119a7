"""The HTTP API of compositions, at a whole gateway."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.app.served import pipeline, registry
from tests.doors.composing import ECHO, STRICT, WAITS, api, composition, key_of, step, template
from tests.waiting import until
from weft.doors.composition_routes import BASE

PROBLEM = "application/problem+json"


@pytest.mark.req("WFL-24")
async def test_templates_are_listed_by_category_tag_and_words(tmp_path: Path):
    async with api(tmp_path) as one:
        whole = (await one.get("templates"))["templates"]
        assert len(whole) >= 10
        assert all("composition" not in card and card["metadata"]["usage_count"] == 0 for card in whole)
        analysis = (await one.get("templates?category=analysis"))["templates"]
        assert {card["metadata"]["category"] for card in analysis} == {"analysis"}
        await one.post("templates", template(metadata={"category": "analysis", "tags": ["bees"]}), status=201)
        for query in ("tag=bees", "category=analysis&tag=bees", "search=mine+bees"):
            assert [card["id"] for card in (await one.get(f"templates?{query}"))["templates"]] == ["mine"]


@pytest.mark.req("WFL-25")
async def test_a_template_is_kept_read_replaced_and_forgotten(tmp_path: Path):
    async with api(tmp_path) as one:
        made = await one.ask("POST", "templates", template())
        assert (made.status, made.headers["location"]) == (201, f"{BASE}/templates/mine")
        kept = await one.ask("GET", "templates/mine")
        assert kept.headers["etag"] == made.headers["etag"]
        assert (kept.json["composition"], kept.json["missing_tools"]) == (ECHO, [])
        # What was read can be sent back as it is.
        renewed = await one.ask("PUT", "templates/mine", {**kept.json, "name": "Renewed"})
        assert (renewed.status, renewed.json["name"]) == (200, "Renewed")
        assert renewed.headers["etag"] != made.headers["etag"]
        assert (await one.ask("DELETE", "templates/mine")).status == 204
        for gone in (await one.ask("GET", "templates/mine"), await one.ask("DELETE", "templates/mine")):
            assert (gone.status, gone.headers["content-type"], gone.json["code"]) == (404, PROBLEM, "NotFound")


async def test_a_missing_template_is_404_with_the_nearest_name(tmp_path: Path):
    async with api(tmp_path) as one:
        await one.post("templates", template("weekly-digest-of-bees"), status=201)
        found = await one.ask("GET", "templates/weekly-digest-of-bee")
        assert (found.status, found.json["hint"]) == (404, "did you mean 'weekly-digest-of-bees'?")


async def test_a_template_that_was_changed_meanwhile_is_not_overwritten(tmp_path: Path):
    async with api(tmp_path) as one:
        first = (await one.ask("POST", "templates", template())).headers["etag"]
        second = (await one.ask("PUT", "templates/mine", template(name="b"), **{"if-match": first})).headers["etag"]
        for method, body in (("PUT", template(name="c")), ("DELETE", None)):
            for stale in (first, f"W/{second}", '"never"'):
                late = await one.ask(method, "templates/mine", body, **{"if-match": stale})
                assert (late.status, late.json["code"]) == (412, "TemplateChanged")
        assert (await one.get("templates/mine"))["name"] == "b"
        several = {"if-match": f"{first}, {second}"}
        third = await one.ask("PUT", "templates/mine", template(name="d"), **several)
        assert third.status == 200
        assert (await one.ask("DELETE", "templates/mine", **{"if-match": "*"})).status == 204


@pytest.mark.req("WFL-26", "WFL-21", "WFL-22")
async def test_a_template_runs_with_an_input_and_a_document_does(tmp_path: Path):
    async with api(tmp_path) as one:
        await one.post("templates", template(), status=201)
        for what in ({"template_id": "mine"}, {"composition": ECHO}):
            told = await one.post("execute", {**what, "input": {"text": "bees"}})
            assert (told["success"], told["output"], told["steps_executed"]) == (True, {"said": "bees"}, 2)
            assert (told["errors"], set(told["results"])) == ([], {"first", "second"})
            assert told["duration"].endswith(("ms", "s"))
        assert (await one.get("templates/mine/stats"))["usage_count"] == 1
        assert (await one.get("templates/mine"))["metadata"]["success_rate"] == 1.0


@pytest.mark.req("WFL-21")
async def test_options_override_the_document(tmp_path: Path):
    failing = composition(step("bad", "refuse"), step("good"))
    async with api(tmp_path) as one:
        told = await one.post(
            "execute", {"composition": failing, "options": {"error_strategy": "partial_success", "max_concurrency": 1}}
        )
        assert (told["success"], told["status"], list(told["results"])) == (False, "partial", ["good"])
        late = await one.post("execute", {"composition": WAITS, "options": {"timeout": "50ms"}})
        assert (late["success"], late["errors"][0]["code"]) == (False, "DeadlineExceeded")
        assert late["status"] == (await one.get(f"runs/{late['run_id']}"))["status"] == "failed"


async def test_a_workflow_that_ran_and_failed_is_an_answer(tmp_path: Path):
    async with api(tmp_path) as one:
        told = await one.post("execute", {"composition": composition(step("bad", "refuse"))})
        assert (told["success"], told["status"], told["errors"][0]["step"]) == (False, "failed", "bad")


@pytest.mark.req("WFL-23")
async def test_a_dry_run_tells_the_plan_and_calls_nothing(tmp_path: Path):
    async with api(tmp_path) as one:
        asked = {"composition": ECHO, "input": {"text": "bees"}, "options": {"dry_run": True}}
        told = await one.post("execute", asked)
        assert (told["dry_run"], told["plan"]["levels"]) == (True, [["first"], ["second"]])
        assert told["plan"]["steps"][0]["parameters"] == {"text": "bees"}
        assert one.up.calls == 0
        assert (await one.get("runs"))["runs"] == []


@pytest.mark.req("WFL-27")
async def test_validate_tells_every_reason_why_something_cannot_run(tmp_path: Path):
    wrong = composition(step("a", "ecko"), step("b", depends_on=["c"]))
    async with api(tmp_path) as one:
        await one.post("templates", template(), status=201)
        for fine in (ECHO, {"composition": ECHO}, {"template_id": "mine"}):
            assert await one.post("validate", fine) == {"valid": True, "errors": [], "warnings": []}
        for body, prefix in ((composition(step("a", "ecko")), ""), ({"composition": wrong}, "/composition")):
            told = await one.post("validate", body)
            assert told["valid"] is False
            assert all(one["pointer"].startswith(f"{prefix}/steps/") and one["message"] for one in told["errors"])
        (found,) = (await one.post("validate", composition(step("a", "ecko"))))["errors"]
        assert (found["code"], found["pointer"], found["suggestion"]) == ("UnknownName", "/steps/0/tool", "echo")
        assert one.up.calls == 0


async def test_a_run_that_nobody_waits_for_has_an_address(tmp_path: Path):
    async with api(tmp_path) as one:
        begun = await one.ask("POST", "execute", {"composition": WAITS, "options": {"wait": False}})
        assert (begun.status, begun.json["status"]) == (202, "running")
        path = begun.headers["location"].removeprefix(f"{BASE}/")
        assert (await one.get(path))["status"] == "running"
        await until(lambda: one.up.waiting)
        ended = await one.post(f"{path}/cancel")
        assert (ended["status"], ended["step_counts"]) == ("cancelled", {"succeeded": 1, "cancelled": 1})
        again = await one.ask("POST", f"{path}/cancel")
        assert (again.status, again.json["code"]) == (409, "RunNotRunning")
        assert one.up.waiting == 0


async def test_runs_that_were_promised_do_not_make_room_for_others_and_end_with_the_gateway(tmp_path: Path):
    async with api(tmp_path, {"limits": {"background": 1}}) as one:
        ids = [await one.begun() for _ in range(3)]
        await until(lambda: one.up.waiting == 3)
        assert {(await one.get(f"runs/{id}"))["status"] for id in ids} == {"running"}
        await one.gate.running.compositions.close(drain=0)
        assert {(await one.get(f"runs/{id}"))["status"] for id in ids} == {"cancelled"}


async def test_a_run_ends_with_the_client_that_waits_for_it(tmp_path: Path):
    async with api(tmp_path) as one:
        async with one.gate.connected() as client:
            body = b'{"composition": {"name": "w", "steps": [{"id": "held", "tool": "wait"}]}}'
            client.request("POST", f"{BASE}/execute", body=body, **one.headers(body))
            await until(lambda: one.up.waiting)
            (run,) = (await one.get("runs"))["runs"]
        await until(lambda: not one.up.waiting)
        async with asyncio.timeout(10):
            while (found := await one.get(f"runs/{run['run_id']}"))["status"] == "running":
                pass
        assert found["status"] == "cancelled"


async def test_runs_are_listed_a_page_at_a_time(tmp_path: Path):
    async with api(tmp_path) as one:
        await one.post("templates", template(), status=201)
        ids = [
            (await one.post("execute", {"template_id": "mine", "input": {"text": str(at)}}))["run_id"]
            for at in range(3)
        ]
        await one.post("execute", {"composition": composition(step("a"))})
        page = await one.get("runs?template=mine&status=succeeded&limit=2")
        assert [run["run_id"] for run in page["runs"]] == [ids[2], ids[1]]
        last = await one.get(f"runs?template=mine&status=succeeded&limit=2&before={page['next']}")
        assert ([run["run_id"] for run in last["runs"]], last["next"]) == ([ids[0]], None)


async def test_another_tenant_sees_nothing_of_templates_and_runs(tmp_path: Path):
    ann, bob = (key_of(tmp_path, tenant) for tenant in ("red", "blue"))
    async with api(tmp_path, STRICT) as one:
        red, blue = one.as_holder_of(ann), one.as_holder_of(bob)
        assert (await one.ask("GET", "templates")).status == 401
        await red.post("templates", template(), status=201)
        run = await red.begun()
        assert "mine" not in [card["id"] for card in (await blue.get("templates"))["templates"]]
        assert (await blue.get("runs"))["runs"] == []
        for method, path, body in (
            ("GET", "templates/mine", None),
            ("PUT", "templates/mine", template()),
            ("DELETE", "templates/mine", None),
            ("GET", "templates/mine/stats", None),
            ("POST", "execute", {"template_id": "mine", "input": {"text": "x"}}),
            ("POST", "validate", {"template_id": "mine"}),
            ("GET", f"runs/{run}", None),
            ("POST", f"runs/{run}/cancel", None),
            ("GET", f"runs/{run}/events", None),
        ):
            answer = await blue.ask(method, path, body)
            assert (answer.status, answer.json["code"]) == (404, "NotFound"), (method, path)
            assert "mine" not in answer.json.get("hint", "")
        await blue.post("templates", template(name="Blue"), status=201)
        assert (await red.get("templates/mine"))["name"] == "Mine"
        assert (await red.post(f"runs/{run}/cancel"))["status"] == "cancelled"


async def test_a_tool_that_a_caller_may_not_call_is_unknown_to_it(tmp_path: Path):
    ann, bob = (key_of(tmp_path, "red", agent) for agent in ("ann", "bob"))
    rules = [{"name": "not for bob", "effect": "deny", "when": "principal.agentName == 'bob'", "tools": ["echo"]}]
    async with api(tmp_path, {**STRICT, "policy": rules}) as one:
        asked = {"composition": composition(step("a"))}
        assert (await one.as_holder_of(ann).post("execute", asked))["success"] is True
        refused = await one.as_holder_of(bob).ask("POST", "execute", asked)
        assert (refused.status, refused.json["errors"][0]["code"]) == (422, "UnknownName")
        assert one.up.calls == 1


async def test_a_401_says_where_tokens_come_from_and_that_is_there(tmp_path: Path):
    key_of(tmp_path, "red")
    async with api(tmp_path, STRICT) as one:
        refused = await one.ask("GET", "runs")
        assert (refused.headers["content-type"], refused.json["code"]) == (PROBLEM, "Unauthenticated")
        url = refused.headers["www-authenticate"].partition('resource_metadata="')[2].rstrip('"')
        assert (await one.gate.ask("GET", "/" + url.split("/", 3)[3])).status == 200


async def test_too_many_requests_at_once_are_a_problem_with_a_time_to_come_back(tmp_path: Path):
    key = key_of(tmp_path, "red")
    async with api(tmp_path, {**STRICT, "limits": {"perPrincipal": 1}}) as one:
        red = one.as_holder_of(key)
        async with red.following(await red.begun()):
            refused = await red.ask("GET", "runs")
        assert (refused.status, refused.json["code"]) == (429, "TooManyRequests")
        assert (refused.headers["content-type"], int(refused.headers["retry-after"]) > 0) == (PROBLEM, True)


async def test_a_store_that_is_away_is_503_with_a_time_to_come_back(tmp_path: Path):
    stores = {"default": {"type": "redis", "url": "redis://127.0.0.1:1/0", "timeout": "200ms"}}
    async with api(tmp_path, {"stores": stores}) as one:
        away = await one.ask("GET", "templates")
        assert (away.status, away.headers["content-type"]) == (503, PROBLEM)
        assert int(away.headers["retry-after"]) > 0
        # A run is worth more than its record.
        assert (await one.post("execute", {"composition": composition(step("a"))}))["success"] is True


@pytest.mark.req("WFL-33")
async def test_runs_are_counted_by_status_and_steps_by_what_became_of_them(tmp_path: Path):
    bad = composition(step("bad", "refuse"), step("after", depends_on=["bad"]))
    async with api(tmp_path) as one:
        for _ in range(2):
            await one.post("execute", {"composition": ECHO, "input": {"text": "x"}})
        await one.post("execute", {"composition": bad, "options": {"error_strategy": "partial_success"}})
        counted: dict[str, Any] = {
            status: await one.gate.metric("weft_workflow_runs_total", status=status)
            for status in ("succeeded", "partial", "failed")
        }
        assert counted["succeeded"] == 2
        assert sum(counted.values()) == 3
        steps = [
            await one.gate.metric("weft_workflow_steps_total", status=status)
            for status in ("succeeded", "failed", "skipped")
        ]
        assert steps == [4, 1, 1]


async def test_a_composition_of_the_registry_is_a_tool_of_a_workflow_unless_it_is_too_old(tmp_path: Path):
    inner = {**pipeline("inner", "echo"), "version": "1.2.0"}
    async with api(tmp_path, compositions=registry(inner)) as one:
        document = composition(step("a", "inner", parameters={"x": 1}))
        told = await one.post("execute", {"composition": document})
        assert told["results"]["a"]["arguments"] == {"x": 1}
        newer = {"required_tools": ["inner"], "min_version": "1.3.0"}
        await one.post("templates", template("newer", document, validation=newer), status=201)
        refused = await one.ask("POST", "execute", {"template_id": "newer"})
        assert (refused.status, refused.json["code"]) == (422, "ToolTooOld")
        assert (await one.post("validate", {"template_id": "newer"}))["errors"][0]["code"] == "ToolTooOld"


async def test_numbers_beyond_64_bits_come_back_as_they_were_sent(tmp_path: Path):
    async with api(tmp_path) as one:
        document = composition(step("a", parameters={"n": 10**30}))
        assert (await one.ask("POST", "templates", template("large", document))).status == 201
        kept = json.loads((await one.ask("GET", "templates/large")).body)
        assert kept["composition"] == document


async def test_a_page_of_another_origin_may_ask_where_that_is_configured(tmp_path: Path):
    site = "https://pages.example"
    async with api(tmp_path, {"listen": {"allowedOrigins": [site]}}) as one:
        asked = {"origin": site, "access-control-request-headers": "if-match, content-type"}
        told = await one.ask("OPTIONS", "templates/mine", **asked)
        assert "PUT" in told.headers["access-control-allow-methods"]
        assert told.headers["access-control-allow-headers"] == "if-match, content-type"
        read = await one.ask("GET", "templates", origin=site)
        assert {"etag", "location"} <= set(read.headers["access-control-expose-headers"].split(", "))
