"""A cache as documents and authors write it, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

import weft as w
from tests.patterns.worlds import document, problems
from weft.errors import DocumentInvalid, ExpressionInvalid
from weft.ir.normalise import parse
from weft.ir.read import read
from weft.patterns import CATALOGUE
from weft.plan.compiler import check, compile_document
from weft.ports import ToolType
from weft.testing import Canned

P = w.path({})
MINIMAL = {"keyPaths": ["$.q"], "inner": "search", "ttlSeconds": 900}
SPEC = "/tools/0/spec/cache"


def written(**given: Any) -> dict[str, Any]:
    return {"cache": {**MINIMAL, **given}}


def closed(**fields: str) -> dict[str, Any]:
    """Return the schema of an object that has these fields and no others."""
    properties = {name: {"type": kind} for name, kind in fields.items()}
    return {"type": "object", "properties": properties, "required": list(fields), "additionalProperties": False}


@pytest.mark.req("STA-10", "STA-11", "STA-12", "STA-13", "STA-54")
def test_the_builder_writes_seconds_paths_and_the_condition():
    op = w.cache(
        w.tool("search"),
        key=[P.query, P.filters.category],
        ttl=w.minutes(15),
        store="result_cache",
        stale_while_revalidate=w.minutes(5),
        stale_if_error="1h",
        refresh_ahead=2.5,
        ttl_jitter=0.1,
        cache_if=w.holds(P.status, w.eq("ok")),
        scope="tenant",
        max_entry_bytes=1000,
    )
    assert op.to_ir() == {
        "cache": {
            "keyPaths": ["$.query", "$.filters.category"],
            "inner": {"tool": {"name": "search"}},
            "store": "result_cache",
            "ttlSeconds": 900,
            "staleWhileRevalidateSeconds": 300,
            "staleIfErrorSeconds": 3600,
            "refreshAheadSeconds": 2.5,
            "ttlJitter": 0.1,
            "cacheIf": {"field": "$.status", "op": "eq", "value": "ok"},
            "scope": "tenant",
            "maxEntryBytes": 1000,
        }
    }


@pytest.mark.parametrize(
    "spec",
    [
        {"pattern": "cache", **MINIMAL},
        {"cache": {"key_paths": ["$.q"], "inner": {"tool": "search"}, "ttl_seconds": 900}},
        {"cache": {"key": "$.q", "inner": {"tool": {"name": "search"}}, "ttl": "15m"}},
        {"cache": {"keyPaths": "$.q", "inner": "search", "ttl": {"minutes": 15}}},
        written(ttlSeconds=900.0),
        written(store=None, cacheIf=None, staleWhileRevalidateSeconds=None),
    ],
)
@pytest.mark.req("STA-54", "STA-58")
def test_other_spellings_mean_the_same(spec: dict[str, Any]):
    canonical = {"keyPaths": ["$.q"], "inner": {"tool": {"name": "search"}}, "ttlSeconds": 900}
    found = document(spec).tools[0].spec
    assert found is not None
    assert found.to_ir() == canonical
    assert isinstance(found.to_ir()["ttlSeconds"], int)


def test_decimal_seconds_are_kept():
    spec = document(written(ttlSeconds=1.5)).tools[0].spec
    assert isinstance(spec, CATALOGUE["cache"])
    assert spec.to_ir()["ttlSeconds"] == 1.5


@pytest.mark.parametrize(
    ("given", "place", "words"),
    [
        ({"keyPaths": []}, "/keyPaths", "at least 1"),  # 48
        ({"keyPaths": ["q"]}, "/keyPaths/0", "Invalid JSONPath 'q'"),
        ({"ttlSeconds": -1}, "/ttlSeconds", "0.001"),  # 49
        ({"ttlSeconds": 0}, "/ttlSeconds", "0.001"),
        ({"ttlSeconds": "60"}, "/ttlSeconds", "did you mean '60s'"),
        ({"ttlSeconds": 2**32}, "/ttlSeconds", "31622400"),
        ({"ttlSeconds": True}, "/ttlSeconds", "number"),
        ({"staleWhileRevalidateSeconds": 0}, "/staleWhileRevalidateSeconds", "0.001"),
        ({"ttlJitter": 0.6}, "/ttlJitter", "0.5"),
        ({"scope": "everyone"}, "/scope", "caller"),
        ({"refreshAheadSeconds": 900}, "/refreshAheadSeconds", "is not less than ttlSeconds 900"),
        ({"cacheIf": {"op": "equals", "value": 1}}, "/cacheIf/op", "Unknown predicate operator"),
        ({"ttlSecond": 5}, "/ttlSecond", "did you mean 'ttlSeconds'"),
        ({"store": ""}, "/store", "at least 1"),
        ({"ttl": 900}, "/ttl", "another spelling of 'ttlSeconds'"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(given: dict[str, Any], place: str, words: str):
    found = problems(written(**given))
    assert [problem.pointer for problem in found] == [SPEC + place]
    assert words in str(found[0])


def test_without_a_ttl_there_is_no_cache():
    found = problems({"cache": {"keyPaths": ["$.q"], "inner": "search"}})
    assert [(problem.code, problem.pointer) for problem in found] == [("MissingKey", SPEC)]


@pytest.mark.req("STA-52")
@pytest.mark.parametrize("ttl", [0, w.millis(0), "0s", -1, float("nan"), 10**10, "soon"])
def test_the_builder_refuses_a_ttl_that_is_none(ttl: Any):
    with pytest.raises((DocumentInvalid, ExpressionInvalid)):
        w.cache(w.tool("search"), key=P.q, ttl=ttl)


@pytest.mark.req("STA-52")
def test_half_a_second_is_half_a_second():
    spec: Any = w.cache(w.tool("search"), key=P.q, ttl=w.millis(500)).to_ir()["cache"]
    assert spec["ttlSeconds"] == 0.5


@pytest.mark.req("STA-4")
def test_a_store_that_nobody_configured_is_told():
    found = check(document(written(store="reslt_cache")), stores=frozenset({"result_cache"}))
    found = [one for one in found if one.severity == "error"]
    assert [(one.code, one.loc[-1], one.suggestion) for one in found] == [("UnknownStore", "store", "result_cache")]
    assert found[0].message.startswith("Store 'reslt_cache' not configured")


def test_types_flow_through_and_a_key_that_cannot_be_there_is_told():
    given, gives = closed(q="string"), closed(n="integer")
    upstream = Canned({"search": {"n": 1}}, types={"search": ToolType(given, gives)})
    wrong = "PathImpossible"
    for key, condition, code in (("$.q", "$.n", None), ("$.qq", "$.n", wrong), ("$.q", "$.m", wrong)):
        spec = {"cache": {**MINIMAL, "keyPaths": [key], "cacheIf": {"field": condition, "op": "gt", "value": 0}}}
        made = document(spec)
        tool = made.tools[0].model_copy(update={"input_schema": given})
        found = check(made.model_copy(update={"tools": [tool]}), upstream)
        assert [one.code for one in found if one.severity == "error"] == ([] if code is None else [code])


def test_a_cache_may_not_stand_in_an_output_transform():
    tools = [{"name": "it", "source": {"server": "s", "tool": "t"}, "outputTransform": written()}]
    found = parse(read(json.dumps({"schemaVersion": "1.0", "tools": tools})))
    assert found.problems == ()
    assert "TransformCalls" in [one.code for one in check(found.document)]


def test_compiling_without_stores_says_which_is_missing():
    with pytest.raises(Exception, match="Store 'default' not configured"):
        compile_document(document(written()), Canned({"search": 1}))
