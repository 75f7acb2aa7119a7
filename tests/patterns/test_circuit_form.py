"""A circuit breaker as documents and authors write it, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

import weft as w
from tests.patterns.worlds import document, problems
from weft.patterns.circuit_breaker import CircuitBreaker
from weft.plan.compiler import check

P = w.path({})
SPEC = "/tools/0/spec/circuitBreaker"
MINIMAL = {
    "name": "payment_api",
    "inner": "pay",
    "failureThreshold": 5,
    "failureWindowSeconds": 60,
    "resetTimeoutSeconds": 30,
}


def written(**given: Any) -> dict[str, Any]:
    return {"circuitBreaker": {**MINIMAL, **given}}


@pytest.mark.req("STA-15", "STA-16", "STA-17", "STA-18", "STA-19", "STA-21", "STA-22", "STA-54")
def test_the_builder_writes_everything_by_its_name():
    op = w.circuit_breaker(
        w.tool("pay"),
        name="payment_api",
        store="circuit_state",
        failure_threshold=5,
        failure_window=w.minutes(1),
        reset_timeout=w.seconds(30),
        success_threshold=2,
        fallback=w.tool("queue"),
        failure_if=w.holds(P.status, w.eq("down")),
        failure_rate=0.5,
        minimum_calls=10,
        half_open_max_concurrent=3,
        max_reset_timeout="10m",
        is_error_is_failure=False,
        scope="tenant",
    )
    assert op.to_ir() == {
        "circuitBreaker": {
            "name": "payment_api",
            "inner": {"tool": {"name": "pay"}},
            "store": "circuit_state",
            "failureThreshold": 5,
            "failureWindowSeconds": 60,
            "resetTimeoutSeconds": 30,
            "successThreshold": 2,
            "fallback": {"tool": {"name": "queue"}},
            "failureIf": {"field": "$.status", "op": "eq", "value": "down"},
            "failureRate": 0.5,
            "minimumCalls": 10,
            "halfOpenMaxConcurrent": 3,
            "maxResetTimeoutSeconds": 600,
            "isErrorIsFailure": False,
            "scope": "tenant",
        }
    }


@pytest.mark.req("STA-54", "STA-58", "STA-59")
@pytest.mark.parametrize(
    "spec",
    [
        {"pattern": "circuit_breaker", **MINIMAL},
        {"circuit_breaker": {**MINIMAL, "inner": {"tool": {"name": "pay"}}}},
        {
            "circuitBreaker": {
                "name": "payment_api",
                "inner": {"tool": "pay"},
                "failure_threshold": 5,
                "failure_window_seconds": 60,
                "reset_timeout_seconds": 30,
            }
        },
        {
            "circuitBreaker": {
                "name": "payment_api",
                "inner": "pay",
                "failureThreshold": 5,
                "failureWindow": "1m",
                "resetTimeout": {"seconds": 30},
            }
        },
    ],
)
def test_other_spellings_mean_the_same(spec: dict[str, Any]):
    assert document(spec).tools[0].spec == document(written()).tools[0].spec


@pytest.mark.req("STA-22", "STA-59")
def test_the_condition_may_be_written_as_generated_documents_do():
    given = {"field": "$.status", "op": "COMPARISON_OP_EQ", "value": {"stringValue": "down"}}
    spec = document(written(failureIf=given, fallback={"pattern": {"filter": {"predicate": "item.n > 1"}}})).tools[0]
    assert isinstance(spec.spec, CircuitBreaker)
    assert spec.spec.failure_if is not None
    assert spec.spec.failure_if.to_ir() == {"field": "$.status", "op": "eq", "value": "down"}


@pytest.mark.req("STA-19")
def test_without_more_one_success_closes_and_one_probe_runs():
    spec = document(written()).tools[0].spec
    assert isinstance(spec, CircuitBreaker)
    assert (spec.success_threshold, spec.half_open_max_concurrent, spec.store) == (1, 1, None)


@pytest.mark.parametrize(
    ("given", "place", "words"),
    [
        ({"failureThreshold": 0}, "/failureThreshold", "1"),  # 54
        ({"failureThreshold": 2.5}, "/failureThreshold", "integer"),
        ({"failureWindowSeconds": 0}, "/failureWindowSeconds", "0.001"),
        ({"resetTimeoutSeconds": 0}, "/resetTimeoutSeconds", "0.001"),
        ({"resetTimeoutSeconds": "30"}, "/resetTimeoutSeconds", "did you mean '30s'"),
        ({"successThreshold": 101}, "/successThreshold", "100"),
        ({"successThreshold": 0}, "/successThreshold", "1"),
        ({"halfOpenMaxConcurrent": 0}, "/halfOpenMaxConcurrent", "1"),
        ({"failureRate": 1.1}, "/failureRate", "1"),
        ({"failureRate": 0}, "/failureRate", "0"),
        ({"minimumCalls": 5}, "/minimumCalls", "minimumCalls says nothing without failureRate"),
        ({"maxResetTimeoutSeconds": 29}, "/maxResetTimeoutSeconds", "is less than resetTimeoutSeconds 30"),
        ({"name": ""}, "/name", "1"),
        ({"scope": "all"}, "/scope", "public"),
        ({"failureTreshold": 5}, "/failureTreshold", "did you mean 'failureThreshold'"),
        ({"failureIf": {"field": "status", "op": "eq", "value": 1}}, "/failureIf/field", "Invalid JSONPath"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(given: dict[str, Any], place: str, words: str):
    found = problems(written(**given))
    assert [problem.pointer for problem in found] == [SPEC + place]
    assert words in str(found[0])


@pytest.mark.req("STA-4")
def test_a_store_that_nobody_configured_is_told():
    found = check(document(written(store="circuit_stat")), stores=frozenset({"circuit_state"}))
    errors = [(one.code, one.suggestion) for one in found if one.severity == "error"]
    assert errors == [("UnknownStore", "circuit_state")]
