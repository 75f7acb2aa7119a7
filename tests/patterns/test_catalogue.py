"""Every pattern of the catalogue is whole: a source file, a test, a page, a running example, and JSON both ways."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic.alias_generators import to_snake

import weft as w
from tests.patterns.worlds import document
from weft.ir.operations import kind_of
from weft.patterns import CATALOGUE
from weft.patterns.contract import Operand, Pattern

ROOT = Path(__file__).resolve().parents[2]
P = w.path({})

SAMPLES: dict[str, Callable[[], Operand]] = {
    "pipeline": lambda: w.pipeline(
        w.tool("a"),
        w.step(
            w.tool("b"), id="second", input=w.construct(q=w.from_input(P.q), n=w.constant(1)), condition="previous.ok"
        ),
        output=w.from_step("second", P.x),
    ),
    "router": lambda: w.router(
        w.when("input.size > 1", w.tool("a")), w.when(w.holds(P.kind, w.eq("b")), w.tool("b")), otherwise=w.tool("c")
    ),
    "scatterGather": lambda: w.scatter_gather(
        w.tool("a"),
        w.agent("b", "skill"),
        aggregate=[w.flatten(), w.sort(P.n, "desc"), w.dedupe(P.id), w.limit(3), w.keep_lists()],
        timeout=w.seconds(5),
        fail_fast=True,
        min_success=1,
    ),
    "filter": lambda: w.filter(P.tags, w.one_of("a", "b")),
    "schemaMap": lambda: w.schema_map(
        P,
        {
            "path": P.a[0].b,
            "literal": w.literal({"a": [None, True]}),
            "coalesce": w.coalesce(P.a, P.b),
            "template": w.template("{a} {{b}}", a=P.a),
            "concat": w.concat(P.a, P.b, separator=" "),
            "nested": {"inner": P.c},
        },
    ),
    "mapEach": lambda: w.map_each(w.tool("a"), max_concurrency=3, on_error="null"),
    "enricher": lambda: w.enricher(author=(P.by, w.tool("a")), price=w.tool("b"), merge="spread"),
    "wireTap": lambda: w.wire_tap(w.tool("a"), w.tool("b"), at="both"),
    "recipientList": lambda: w.recipient_list(
        P.to, allowed=["a", w.tool("b")], input=P.message, aggregate=[w.merge()], fail_fast=True
    ),
    "timeout": lambda: w.timeout(w.tool("a"), w.seconds(5), fallback=w.tool("b"), message="late"),
    "retry": lambda: w.retry(
        w.tool("a"),
        5,
        backoff=w.linear("100ms", 0.1, max=w.seconds(1)),
        retry_if=w.holds(P.code, w.eq("ToolFailed")),
        jitter=0.5,
        attempt_timeout=w.seconds(2),
        retry_unknown=True,
    ),
    "throttle": lambda: w.throttle(
        w.tool("a"),
        10,
        w.seconds(1),
        name="a",
        burst=20,
        strategy="token_bucket",
        concurrency=2,
        scope="tenant",
        store="s",
    ),
    "cache": lambda: w.cache(
        w.tool("a"),
        key=[P.q, P.page],
        ttl=w.minutes(15),
        store="s",
        stale_while_revalidate=1.5,
        stale_if_error="1h",
        refresh_ahead=1,
        ttl_jitter=0.1,
        cache_if=w.holds(P.ok, w.eq(1)),
        scope="tenant",
        max_entry_bytes=1000,
    ),
    "circuitBreaker": lambda: w.circuit_breaker(
        w.tool("a"),
        name="a",
        failure_threshold=5,
        failure_window=w.minutes(1),
        reset_timeout=0.5,
        success_threshold=2,
        fallback=w.tool("b"),
        failure_if=w.is_null(),
        store="s",
        failure_rate=0.5,
        minimum_calls=10,
        half_open_max_concurrent=2,
        max_reset_timeout="5m",
        is_error_is_failure=False,
        scope="tenant",
    ),
    "saga": lambda: w.saga(
        w.saga_step("a", w.tool("a"), id="a", compensate=w.tool("b"), compensate_input=w.from_previous(P.output)),
        w.saga_step("c", w.tool("c"), input=w.from_input(P.x), pivot=True, retry_safe=True, key_argument="key"),
        id=P.id,
        store="s",
        timeout=w.minutes(5),
        output=w.from_step("a"),
        on_disconnect="compensate",
        on_duplicate="error",
        scope="tenant",
        max_attempts=5,
        backoff=w.fixed("1s"),
        max_recovery_attempts=3,
        lease=30,
        retention="1d",
        allow_volatile=True,
    ),
    "idempotent": lambda: w.idempotent(
        w.tool("a"),
        key=[P.id, P.kind],
        store="s",
        ttl=w.hours(1),
        on_duplicate="error",
        on_unknown="retry",
        record_failures="all",
        fingerprint=P.amount,
        scope="tenant",
        in_flight_wait="2s",
        lease=10,
        max_stored_bytes=5000,
    ),
    "deadLetter": lambda: w.dead_letter(
        w.tool("a"),
        w.tool("b"),
        max_attempts=2,
        backoff=w.exponential("100ms", max=w.seconds(5)),
        rethrow=True,
        caller_faults=True,
        store="s",
        timeout=w.seconds(9),
        max_bytes=5000,
    ),
    "workflow": lambda: w.workflow(
        w.workflow_step("a", w.tool("a"), {"q": "{{input.q}}", "n": [None, 1]}, output_key="found", timeout="5s"),
        w.workflow_step("b", w.retry(w.tool("b")), {"x": "{{found.x ?? 1}}"}, depends_on=["a"], when="found.ok"),
        w.workflow_step("c", w.tool("c"), "{{one}}", for_each={"items": "{{a.list}}", "as": "one"}, retries=2),
        w.workflow_step("d", w.tool("d"), undo=("e", {"id": "{{output.id}}"}), on_error="continue"),
        output={"x": "{{b}}"},
        strategy="rollback",
        max_retries=1,
        rollback_on_failure=True,
        max_concurrency=3,
        timeout=w.minutes(1),
        store="s",
    ),
    "claimCheck": lambda: w.claim_check(
        w.tool("a"),
        store="b",
        retrieve=w.tool("c"),
        retrieve_at_end=True,
        release="d",
        release_on="always",
        ref_path=P.ref,
        max_bytes=5000,
    ),
}

each_pattern = pytest.mark.parametrize("kind", CATALOGUE)


def kebab(kind: str) -> str:
    return to_snake(kind).replace("_", "-")


def test_every_pattern_has_a_sample_here():
    assert SAMPLES.keys() == CATALOGUE.keys()


@each_pattern
def test_a_pattern_has_a_source_file_of_its_name_that_holds_its_model_and_its_builder(kind: str):
    module = f"weft.patterns.{to_snake(kind)}"
    assert CATALOGUE[kind].__module__ == module
    assert (ROOT / "src" / "weft" / "patterns" / f"{to_snake(kind)}.py").is_file()
    assert getattr(sys.modules[module], to_snake(kind)) is getattr(w, to_snake(kind))


@each_pattern
def test_a_pattern_compiles_flows_and_says_what_it_copies(kind: str):
    for method in ("compile", "flow", "copies"):
        assert method in vars(CATALOGUE[kind]), f"{kind} has no {method} of its own"
        assert getattr(CATALOGUE[kind], method) is not getattr(Pattern, method)


@each_pattern
def test_a_pattern_has_a_test_file(kind: str):
    assert (ROOT / "tests" / "patterns" / f"test_{to_snake(kind)}.py").is_file()


@each_pattern
def test_a_pattern_has_a_page_that_says_something(kind: str):
    page = (ROOT / "docs" / "patterns" / f"{kebab(kind)}.md").read_text(encoding="utf-8")
    told = [line for line in page.splitlines() if line.strip() and not line.startswith("#")]
    assert len(told) > 10
    assert kind in page
    assert f"w.{to_snake(kind)}(" in page


@each_pattern
async def test_a_pattern_has_an_example_that_runs(kind: str, tmp_path: Path):
    example = ROOT / "examples" / f"{to_snake(kind)}.py"
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(example), cwd=tmp_path, env=environment, stdout=-1, stderr=-1
    )
    out, err = await process.communicate()
    assert (process.returncode, err.decode()) == (0, "")
    assert out.strip()


@pytest.mark.req("ALG-4", "ALG-22")
@each_pattern
def test_a_pattern_is_the_same_after_a_journey_through_json(kind: str):
    op = SAMPLES[kind]()
    assert op.pattern == kind == kind_of(op.node)
    ir = op.to_ir()
    assert list(ir) == [kind]
    again = document(json.loads(json.dumps(ir))).tools[0].spec
    assert again is not None
    assert again == op.node
    assert {kind_of(again): again.to_ir()} == ir


@pytest.mark.req("ALG-22")
@each_pattern
def test_a_pattern_may_be_tagged_in_snake_case(kind: str):
    ir = SAMPLES[kind]().to_ir()
    body = ir[kind]
    assert isinstance(body, dict)
    tagged = document({"pattern": to_snake(kind), **body}).tools[0].spec
    assert tagged == document(ir).tools[0].spec
