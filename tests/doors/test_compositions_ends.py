"""How runs end that do not simply succeed: late, cancelled, without what they may do without, not as promised."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.doors.composing import Api, api, composition, step, template
from tests.waiting import until
from weft.doors.composition_routes import BASE
from weft.patterns import workflow_durable
from weft.patterns.workflow_record import OPEN_WORKFLOWS
from weft.ports import Principal
from weft.workflows.recorded import new_run
from weft.workflows.runs import Runs

STORES = {"stores": {"default": {"type": "sqlite", "path": "weft.db"}}}
UNDO = {"tool": "echo", "parameters": {"undoes": "{{parameters.n}}"}}
MADE = step("make", parameters={"n": 7}, undo=UNDO)
ROLLBACK = {"error_handling": {"failure_strategy": "rollback"}}
HELD = composition(MADE, step("held", "wait", depends_on=["make"]), **ROLLBACK)


def durable(**more: Any) -> dict[str, Any]:
    return composition(MADE, step("held", "wait", depends_on=["make"]), store="default", **more)


async def ended(one: Api, run: str) -> dict[str, Any]:
    """Return a run once it has ended."""
    async with one.following(run) as stream:
        await stream.rest()
    return await one.get(f"runs/{run}")


def said(one: Api) -> list[dict[str, Any]]:
    """Return what the tools were given, in order."""
    return [message["params"]["arguments"] for message in one.up.messages]


@pytest.mark.req("WFL-14")
async def test_what_a_deadline_cut_short_is_undone_and_all_of_it_is_told(tmp_path: Path):
    async with api(tmp_path) as one:
        told = await one.post("execute", {"composition": HELD, "options": {"timeout": "300ms"}})
        kept = await one.get(f"runs/{told['run_id']}")
        assert told["status"] == kept["status"] == "rolled_back"
        assert [(each["id"], each["status"]) for each in kept["steps"]] == [("make", "undone"), ("held", "cancelled")]
        assert (told["errors"][0]["step"], told["errors"][0]["code"]) == (None, "DeadlineExceeded")
        assert told["duration_ms"] == kept["duration_ms"] > 0
        assert said(one) == [{"n": 7}, {}, {"undoes": 7}]


@pytest.mark.req("WFL-14", "WFL-16")
async def test_a_workflow_is_well_without_what_may_fail(tmp_path: Path):
    document = composition(step("bad", "refuse", on_error="continue"), step("good"))
    async with api(tmp_path) as one:
        await one.post("templates", template(document=document), status=201)
        for strategy in ("fail_fast", "partial_success"):
            asked = {"template_id": "mine", "options": {"error_strategy": strategy}}
            told = await one.post("execute", asked)
            assert (told["success"], told["status"], list(told["results"])) == (True, "succeeded", ["good"])
            assert told["errors"][0]["step"] == "bad"
        stats = await one.get("templates/mine/stats")
        assert (stats["success_rate"], stats["statuses"]) == (1.0, {"succeeded": 2})
        assert stats["steps"]["bad"]["successes"] == 0


async def test_an_output_that_cannot_be_made_is_told_beside_the_steps_that_failed(tmp_path: Path):
    document = composition(step("bad", "refuse", on_error="continue"), step("good"), output="{{good.nothing}}")
    async with api(tmp_path) as one:
        told = await one.post("execute", {"composition": document})
        assert (told["status"], [each["step"] for each in told["errors"]]) == ("failed", ["bad", None])
        assert "{{good.nothing}} has no value" in told["errors"][1]["message"]


@pytest.mark.parametrize(("more", "status"), [({}, "cancelled"), (ROLLBACK, "rolled_back")])
async def test_a_durable_run_of_this_process_is_cancelled_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any], status: str
):
    # Its owner does not look into the record for an hour.
    monkeypatch.setattr(workflow_durable, "LEASE", 3 * 3600.0)
    async with api(tmp_path, STORES) as one:
        run = await one.begun(durable(**more))
        await until(lambda: one.up.waiting)
        told = await one.post(f"runs/{run}/cancel")
        assert (told["status"], told["error"]) == (status, "WorkflowCancelled")
        assert one.up.waiting == 0
        assert said(one)[2:] == ([{"undoes": 7}] if more else [])
        again = await one.ask("POST", f"runs/{run}/cancel")
        assert (again.status, again.json["code"]) == (409, "RunNotRunning")


async def test_a_durable_run_is_cancelled_also_before_it_is_written(tmp_path: Path):
    async with api(tmp_path, STORES) as one:
        told = await one.post(f"runs/{await one.begun(durable())}/cancel")
        assert told["status"] == "cancelled"
        store = one.gate.running.keeping.stores.find("default")
        assert [key async for key, _ in store.scan(OPEN_WORKFLOWS)] == []


@pytest.mark.req("WFL-21")
@pytest.mark.parametrize("wait", [True, False])
async def test_the_time_of_a_request_ends_a_durable_run(tmp_path: Path, wait: bool):
    async with api(tmp_path, STORES) as one:
        options = {"timeout": "200ms", "wait": wait}
        asked = {"composition": durable(**ROLLBACK), "options": options}
        told = await one.post("execute", asked, status=200 if wait else 202)
        kept = await ended(one, told["run_id"])
        assert (kept["status"], kept["error"]) == ("rolled_back", "Timeout")
        assert (one.up.waiting, said(one)[-1]) == (0, {"undoes": 7})
        if wait:
            assert told["status"] == "rolled_back"


async def test_a_durable_run_goes_on_when_its_client_has_gone(tmp_path: Path):
    async with api(tmp_path, STORES) as one:
        async with one.gate.connected() as client:
            body = json.dumps({"composition": durable()}).encode()
            client.request("POST", f"{BASE}/execute", body=body, **one.headers(body))
            await until(lambda: one.up.waiting)
            (run,) = (await one.get("runs"))["runs"]
        one.up.let_go.set()
        assert (await ended(one, run["run_id"]))["status"] == "succeeded"


async def test_a_run_that_nobody_could_find_is_not_promised(tmp_path: Path):
    stores = {"default": {"type": "redis", "url": "redis://127.0.0.1:1/0", "timeout": "200ms"}}
    async with api(tmp_path, {"stores": stores}) as one:
        refused = await one.ask("POST", "execute", {"composition": composition(step("a")), "options": {"wait": False}})
        assert (refused.status, refused.json["code"]) == (503, "StoreUnavailable")
        assert int(refused.headers["retry-after"]) > 0
        assert one.up.calls == 0


@pytest.mark.parametrize("store", [None, "default"])
async def test_an_output_is_what_the_document_promises_or_an_error(tmp_path: Path, store: str | None):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    document = composition(
        step("a", parameters={"n": "{{input.n}}"}), output={"n": "{{a.arguments.n}}"}, outputSchema=schema,
        **({} if store is None else {"store": store}),
    )  # fmt: skip
    async with api(tmp_path, STORES) as one:
        fine = await one.post("execute", {"composition": document, "input": {"n": 7}})
        assert (fine["success"], fine["output"]) == (True, {"n": 7})
        told = await one.post("execute", {"composition": document, "input": {"n": "seven"}})
        assert (told["success"], told["status"], told["output"]) == (False, "failed", None)
        assert [(each["step"], each["code"]) for each in told["errors"]] == [(None, "InvalidOutput")]
        assert "/n" in told["errors"][0]["message"]
        kept = await one.get(f"runs/{told['run_id']}")
        assert (kept["status"], kept["error"]) == ("failed", "InvalidOutput")


async def test_an_output_is_what_was_promised_also_where_another_gateway_goes_on(tmp_path: Path):
    schema = {"type": "object", "properties": {"held": {"type": "object", "required": ["nothing"]}}}
    async with api(tmp_path, STORES) as one:
        run = await one.begun(durable(outputSchema=schema))
        await until(lambda: one.up.waiting)
        await one.gate.running.compositions.close(drain=0)
        await one.gate.running.gateway.engine.close(drain=0)
    async with api(tmp_path, STORES) as other:
        await until(lambda: other.up.waiting)
        other.up.let_go.set()
        kept = await ended(other, run)
        assert (kept["status"], kept["error"]) == ("failed", "InvalidOutput")


@pytest.mark.parametrize("store", [None, "default"])
async def test_a_workflow_knows_its_run_by_the_id_that_its_caller_knows(tmp_path: Path, store: str | None):
    more = {} if store is None else {"store": store}
    async with api(tmp_path, STORES) as one:
        told = await one.post(
            "execute", {"composition": composition(step("a"), output="{{context.request_id}}", **more)}
        )
        assert told["output"] == told["run_id"]


async def test_the_end_of_a_run_that_was_interrupted_is_the_end_of_its_stream(tmp_path: Path):
    async with api(tmp_path, STORES) as one:
        store = one.gate.running.keeping.stores.find("default")
        dead = Runs(store)
        run = await dead.begin(new_run(Principal(), "lost", started=0.0))
        await store.delete(f"v1|run-owner|{dead.me}")
        async with one.following(run.run_id) as stream:
            (event,) = await stream.rest()
        assert (event["id"], event["event"]) == ("end", "run_ended")
        assert json.loads(event["data"])["status"] == "interrupted"
