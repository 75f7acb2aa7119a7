"""Keys that state is kept under: every store takes them, whatever callers and tools are called."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

import weft as w
from tests.patterns.gateways import caller, gateway, outcome
from weft.app import problems_of
from weft.ir.normalise import parse
from weft.ir.read import read
from weft.patterns.keys import LONGEST_PART, KeySpace, key_part
from weft.ports import Principal
from weft.stores.rules import MAX_KEY
from weft.testing import FakeWorld, refusal

NAMES = ["", "ann", "x" * 200, "x" * 201, "x" * 3000, "x" * 3001, "ж" * 400, "a|b", "%7C" * 100, "!" + "0" * 64]
PAY = w.tool("pay")


def test_no_key_is_longer_than_a_store_takes_and_no_two_callers_have_the_same():
    keys = set[str]()
    for tenant, subject, place in itertools.product(NAMES, NAMES, ["tool@1.0.0|spec|path", "y" * 5000]):
        principal = Principal(subject=subject, tenant=tenant, method="key")
        key = KeySpace("cache", place).key(principal, [1])
        assert len(key.encode()) + 3 * 200 + len("%25") * 200 < MAX_KEY
        keys.add(key)
    assert len(keys) == len(NAMES) ** 2 * 2


def test_a_name_that_looks_like_the_hash_of_another_is_another():
    hashed = key_part("x" * 3000)
    assert hashed.startswith("!")
    assert len(hashed) <= LONGEST_PART
    assert key_part(hashed) != hashed


@pytest.mark.parametrize(
    "op",
    [
        w.cache(PAY, key=["$.id"], ttl=60, store="s"),
        w.idempotent(PAY, key=["$.id"], ttl=60, store="s"),
        w.throttle(PAY, 10, w.seconds(1), scope="caller", store="s"),
        w.circuit_breaker(
            PAY, name="pay", failure_threshold=1, failure_window="1m", reset_timeout="1m", scope="caller", store="s"
        ),
    ],
    ids=["cache", "idempotent", "throttle", "circuit_breaker"],
)
async def test_a_caller_of_a_very_long_name_is_served_like_any_other(op: Any):
    world = FakeWorld(tools={"pay": "paid"})
    engine = gateway(world, op)
    for _ in range(2):
        assert (await engine.run("it", {"id": 1}, caller=caller("s" * 4000, "t" * 4000))).value == "paid"
    assert len(world.calls) == (1 if op.pattern in ("cache", "idempotent") else 2)
    assert world.signals.events == []


async def test_the_letter_of_a_tenant_of_a_very_long_name_is_kept():
    world = FakeWorld(tools={"pay": refusal("no"), "dlq": refusal("full")})
    engine = gateway(world, w.dead_letter(PAY, "dlq", store="s"))
    await outcome(engine.run("it", {"id": 1}, caller=caller("ann", "t" * 4000)))
    assert [name for name, _ in world.signals.events] == ["dead_letter_spooled"]


@pytest.mark.parametrize(
    "spec",
    [
        {"idempotent": {"keyPaths": ["$.id"], "inner": {"tool": {"name": "pay"}}, "store": ""}},
        {"deadLetter": {"deadLetterTool": "dlq", "inner": {"tool": {"name": "pay"}}, "store": ""}},
    ],
)
def test_a_store_without_a_name_is_refused(spec: dict[str, Any]):
    (kind,) = spec
    written = {"schemaVersion": "1.0", "tools": [{"name": "it", "description": "It.", "spec": spec}]}
    (problem,) = problems_of(parse(read(json.dumps(written))))
    assert problem.pointer == f"/tools/0/spec/{kind}/store"
