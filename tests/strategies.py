"""Random documents in canonical form: well-formed, with every pattern in them, bounded in depth and size.

They are not always well-typed: a filter may stand after a map that gives an object. Tools are named t0 to t5; each
names only tools before it, so that there are no circles.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

Json = Any
Doc = dict[str, Any]
Docs = st.SearchStrategy[Doc]

unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""For tests of random documents: a busy machine is no failure."""

TOOLS = tuple(f"t{index}" for index in range(6))
KEYS = ("a", "b", "c d", "é")
PATHS = ("$", "$.a", "$.a.b", "$['c d'][0]", "$[-1]", "$[*].a", "$..b", "$[1:3]", "$[?@.a > 1]")
CONDITIONS = ("true", "input.a > 1", "has(input.a) && input.a == 'x'")
STEP_CONDITIONS = (*CONDITIONS, "previous == input")
SCHEMAS: tuple[Doc, ...] = ({}, {"type": "object", "properties": {"a": {"type": "number"}}}, {"type": "string"})

paths = st.sampled_from(PATHS)
keys = st.sampled_from(KEYS)
texts = st.text(st.characters(exclude_categories=("Cs", "Cc", "Cn")), max_size=6)
versions = st.sampled_from(("1.0.0", "2.3.4-rc.1"))


@cache
def values() -> st.SearchStrategy[Json]:
    """Return JSON values; numbers are those that a double holds exactly."""
    scalars: st.SearchStrategy[Json] = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**53), 2**53),
        st.floats(allow_nan=False, allow_infinity=False),
        texts,
    )
    flat = st.one_of(st.lists(scalars, max_size=2), st.dictionaries(keys, scalars, max_size=2))
    return st.one_of(scalars, scalars, flat, st.lists(flat, max_size=1), st.dictionaries(keys, flat, max_size=1))


def documents() -> Docs:
    """Return whole documents: one to five tools that upstreams have, and up to two compositions."""
    return st.one_of(_tools(1, 2), _tools(1, 1), _tools(1, 3), _tools(5, 6)).map(
        lambda tools: {"schemaVersion": "1.0", "tools": list(tools)}
    )


def _tools(upstream: int, count: int) -> st.SearchStrategy[tuple[Doc, ...]]:
    source = _object({"server": st.just("web"), "tool": st.just("search")})
    plain = [_object({"name": st.just(name), "source": source}) for name in TOOLS[1:upstream]]
    composed = [_composed_tool(TOOLS[index], TOOLS[:index]) for index in range(upstream, count)]
    return st.tuples(_upstream_tool(TOOLS[0]), *plain, *composed)


@cache
def operations(depth: int = 2, tools: tuple[str, ...] = TOOLS) -> Docs:
    """Return operations of every kind, at most so many patterns deep, that name only these tools."""
    calls = _calls(tools)
    if depth == 0:
        return calls
    inner = st.deferred(lambda: operations(depth - 1, tools))
    return st.one_of(
        calls,
        _kind("pipeline", _pipelines(inner)),
        _kind("router", _routers(inner)),
        _kind("scatterGather", _scatters(inner)),
        _kind("filter", _object({"predicate": predicates()})),
        _kind("schemaMap", _object({"mappings": _mappings(2)})),
        _kind(
            "mapEach",
            _object({"inner": inner}, maxConcurrency=st.integers(1, 64), onError=_any("fail", "skip", "null")),
        ),
        _kind("enricher", _enrichers(inner)),
        _kind(
            "wireTap",
            _object({"inner": inner, "taps": _some(inner)}, tapPoint=_any("before", "after", "both")),
        ),
        _kind("recipientList", _recipient_lists(inner, tools)),
        _kind("timeout", _timeouts(inner)),
        _kind("retry", _retries(inner)),
        _kind("throttle", _throttles(inner)),
        _kind("cache", _caches(inner)),
        _kind("circuitBreaker", _circuit_breakers(inner)),
        _kind("saga", _sagas(inner)),
        _kind("idempotent", _idempotents(inner)),
        _kind("deadLetter", _dead_letters(inner, tools)),
        _kind("claimCheck", _claim_checks(inner, tools)),
        _kind("workflow", _workflows(inner, tools)),
    )


def _seconds(least: float = 0.001) -> st.SearchStrategy[Any]:
    """Return seconds as documents write them: whole ones without a point."""
    return st.one_of(
        st.integers(max(1, math.ceil(least)), 86_400), st.floats(max(least, 0.5), 100).filter(lambda n: n % 1)
    )


def _idempotents(inner: Docs) -> Docs:
    return _object(
        {"keyPaths": _some(paths), "inner": inner},
        ttlSeconds=st.one_of(st.just(0), _seconds(1)),
        onDuplicate=_any("cached", "skip", "error"),
        onUnknown=_any("retry", "error"),
        recordFailures=_any("none", "deterministic", "all"),
        fingerprintPaths=_some(paths),
        scope=_any("public", "tenant", "caller"),
        inFlightWaitMs=st.integers(1, 60_000),
        leaseSeconds=_seconds(1),
        maxStoredBytes=st.integers(1024, 1_000_000),
    )


def _dead_letters(inner: Docs, tools: tuple[str, ...]) -> Docs:
    return _object(
        {"inner": inner, "deadLetterTool": st.sampled_from(tools)},
        maxAttempts=st.integers(1, 20),
        backoff=_kind("fixed", _object({"delayMs": st.integers(0, 999)})),
        rethrow=st.booleans(),
        callerFaults=st.booleans(),
        deadLetterTimeoutMs=st.integers(1, 60_000),
        maxBytes=st.integers(1024, 900_000),
    )


def _claim_checks(inner: Docs, tools: tuple[str, ...]) -> Docs:
    # One tool cannot be two of the three; where there is only one, another name stands for the other.
    store, retrieve = tools[0], tools[-1] if len(tools) > 1 else "elsewhere"
    return _object(
        {"storeTool": st.just(store), "retrieveTool": st.just(retrieve), "inner": inner},
        retrieveAtEnd=st.booleans(),
        releaseOn=_any("failure", "always"),
        refPath=paths,
        maxBytes=st.integers(1, 1 << 30),
    )


def _caches(inner: Docs) -> Docs:
    return _object(
        {"keyPaths": _some(paths), "inner": inner, "ttlSeconds": _seconds(60)},
        staleWhileRevalidateSeconds=_seconds(),
        staleIfErrorSeconds=_seconds(),
        refreshAheadSeconds=st.floats(0.1, 59.9).filter(lambda n: n % 1),
        ttlJitter=st.floats(0, 0.5),
        cacheIf=predicates(),
        scope=_any("public", "tenant", "caller"),
        maxEntryBytes=st.integers(1, 1_000_000),
    )


def _circuit_breakers(inner: Docs) -> Docs:
    # Circuits of one name would have to agree, so each has one of its own.
    name = st.uuids().map(str)
    return _object(
        {
            "name": name,
            "inner": inner,
            "failureThreshold": st.integers(1, 100),
            "failureWindowSeconds": _seconds(),
            "resetTimeoutSeconds": st.integers(1, 60),
        },
        successThreshold=st.integers(1, 100),
        fallback=inner,
        failureIf=predicates(),
        failureRate=st.floats(0.01, 1),
        halfOpenMaxConcurrent=st.integers(1, 100),
        maxResetTimeoutSeconds=st.integers(60, 600),
        isErrorIsFailure=st.booleans(),
        scope=_any("public", "tenant", "caller"),
    )


def _sagas(inner: Docs) -> Docs:
    def numbered(steps: list[Doc]) -> list[Doc]:
        # Of several pivots only the first stays one.
        first = next((index for index, step in enumerate(steps) if step.get("pivot")), None)
        kept = [{k: v for k, v in step.items() if k != "pivot" or i == first} for i, step in enumerate(steps)]
        return [{"id": f"s{index}", **step} for index, step in enumerate(kept)]

    step = _object(
        {"name": texts.filter(bool), "action": inner},
        compensate=inner,
        pivot=st.just(True),
        retrySafe=st.booleans(),
        keyArgument=_any("key", "idempotency_key"),
    )
    return _object(
        {"steps": _some(step).map(numbered)},
        sagaIdPath=paths,
        timeoutMs=st.integers(1, 86_400_000),
        onDisconnect=_any("continue", "compensate"),
        onDuplicate=_any("join", "error"),
        scope=_any("caller", "tenant"),
        maxAttempts=st.integers(1, 20),
        maxRecoveryAttempts=st.integers(1, 1000),
        leaseSeconds=_seconds(1),
        retentionSeconds=_seconds(),
        allowVolatile=st.booleans(),
    )


def _workflows(inner: Docs, tools: tuple[str, ...]) -> Docs:
    def numbered(steps: list[Doc]) -> list[Doc]:
        named = [{"id": f"s{index}", **step} for index, step in enumerate(steps)]
        for index, step in enumerate(named[1:], 1):
            step["dependsOn"] = [f"s{index - 1}"]
        return named

    plain = values().filter(lambda value: value not in (None, {}) and "{{" not in repr(value))
    filled = st.one_of(plain, st.just({"q": "{{input.q}}", "who": ["{{context.user_id}}", None]}))
    tool = _object({"name": _any(*tools)})
    undo = _object({"tool": tool}, parameters=filled)
    more: dict[str, st.SearchStrategy[Any]] = {
        "timeoutMs": st.integers(1, 86_400_000),
        "when": _any(*CONDITIONS),
        "forEach": _object({"items": st.just("{{input.list}}")}, maxConcurrency=st.integers(1, 64)),
    }
    called = {"parameters": filled, "retryCount": st.integers(0, 19), "undo": undo, "onError": _any("fail", "continue")}
    asks = _object(
        {"message": texts.filter(bool), "schema": st.just({"type": "object"})}, onDecline=_any("fail", "skip")
    )
    step = st.one_of(
        _object({"tool": tool}, **more, **called, atMostOnce=st.booleans()),
        _object({"operation": inner}, **more, **called),
        _object({"elicit": asks}, **more),
    )
    handling = _object(
        {"failureStrategy": _any("fail_fast", "partial_success", "rollback", "retry")},
        maxRetries=st.integers(0, 19),
        rollbackOnFailure=st.booleans(),
    )
    return _object(
        {"steps": _some(step).map(numbered)},
        output=filled,
        errorHandling=handling,
        undo=st.dictionaries(_any("a", "b"), undo, min_size=1, max_size=2),
        maxConcurrency=st.integers(1, 64),
        timeoutMs=st.integers(1, 86_400_000),
    )


def _timeouts(inner: Docs) -> Docs:
    message, grace = texts.filter(bool), st.integers(0, 60_000)
    limit = st.integers(1, 24 * 3600 * 1000)
    return _object({"inner": inner, "durationMs": limit}, fallback=inner, message=message, cancelGraceMs=grace)


def _retries(inner: Docs) -> Docs:
    delay, cap = st.integers(1, 999), st.integers(1000, 3_600_000)
    backoff = st.one_of(
        _kind("fixed", _object({"delayMs": delay})),
        _kind("linear", _object({"initialDelayMs": delay, "incrementMs": delay}, maxDelayMs=cap)),
        _kind("exponential", _object({"initialDelayMs": delay}, maxDelayMs=cap, multiplier=st.floats(1, 9))),
    )
    return _object(
        {"inner": inner},
        maxAttempts=st.integers(1, 20),
        backoff=backoff,
        retryIf=predicates(),
        jitter=st.floats(0, 1),
        attemptTimeoutMs=st.integers(1, 60_000),
        retryUnknown=st.booleans(),
        budget=_object({}, ratio=st.floats(0, 1), min=st.integers(0, 1000)),
    )


def _throttles(inner: Docs) -> Docs:
    return _object(
        {"inner": inner, "rate": st.integers(1, 1000)},
        windowMs=st.integers(1, 60_000),
        strategy=_any("sliding_window", "token_bucket", "fixed_window", "leaky_bucket"),
        concurrency=st.integers(1, 100),
        onExceeded=_any("wait", "reject"),
        scope=_any("public", "tenant", "caller"),
    )


@cache
def predicates() -> Docs:
    """Return predicates: every operator, with a value that it takes."""
    return st.one_of(
        _predicate(_any("eq", "ne"), values()),
        _predicate(_any("gt", "gte", "lt", "lte"), st.integers(-9, 9) | st.floats(-1, 1)),
        _predicate(st.just("contains"), texts),
        _predicate(st.just("in"), st.lists(values(), max_size=2)),
        _object({"op": _any("is_null", "is_not_null", "is_error")}, field=paths),
    )


def _predicate(op: st.SearchStrategy[str], value: st.SearchStrategy[Json]) -> Docs:
    return _object({"op": op, "value": value}, field=paths)


def _upstream_tool(name: str) -> Docs:
    source = _object(
        {"server": _any("web", "docs"), "tool": _any("search", "fetch")},
        serverVersion=versions,
        defaults=st.dictionaries(keys, values(), min_size=1, max_size=2),
        hideFields=st.lists(keys, min_size=1, max_size=2, unique=True),
    )
    return _object(
        {"name": st.just(name), "source": source},
        version=versions,
        title=texts,
        outputSchema=st.sampled_from(SCHEMAS),
        outputTransform=_kind("schemaMap", _object({"mappings": _mappings(1)})),
        metadata=st.dictionaries(keys, values(), max_size=2),
    )


def _composed_tool(name: str, tools: tuple[str, ...]) -> Docs:
    return _object(
        {"name": st.just(name), "spec": operations(2, tools)},
        description=texts,
        inputType=_any("string", "Paper[]"),
        outputType=_any("string", "Report"),
        inputSchema=st.sampled_from(SCHEMAS),
    )


def _calls(tools: Sequence[str]) -> Docs:
    name = st.sampled_from(tools)
    return st.one_of(
        _kind("tool", _object({"name": name}, server=_any("web", "docs"), version=versions)),
        _kind("composition", _object({"name": name}, version=versions)),
        _kind("agent", _object({"name": _any("writer", "critic"), "skill": _any("draft")}, version=versions)),
    )


@st.composite
def _pipelines(draw: st.DrawFn, inner: Docs) -> Doc:
    steps: list[Doc] = []
    for index in range(draw(st.integers(1, 3))):
        earlier = [step["id"] for step in steps]
        step = _object(
            {"id": st.just(f"s{index}"), "operation": inner},
            input=_bindings(earlier, 1),
            condition=st.sampled_from(STEP_CONDITIONS),
        )
        steps.append(draw(step))
    return draw(_object({"steps": st.just(steps)}, output=_bindings([step["id"] for step in steps], 1)))


def _bindings(steps: Sequence[str], depth: int) -> Docs:
    kinds = [
        _kind("input", _object({}, path=paths)),
        _kind("previous", _object({}, path=paths)),
        _kind("constant", _object({"value": values()})),
    ]
    if steps:
        kinds.append(_kind("step", _object({"stepId": st.sampled_from(steps)}, path=paths)))
    if depth:
        fields = st.dictionaries(keys, _bindings(steps, depth - 1), min_size=1, max_size=2)
        kinds.append(_kind("construct", _object({}, fields=fields)))
    return st.one_of(kinds)


@st.composite
def _routers(draw: st.DrawFn, inner: Docs) -> Doc:
    routes: list[Doc] = []
    for index in range(draw(st.integers(1, 2))):
        condition = draw(
            _kind("condition", st.sampled_from(CONDITIONS)) | _kind("predicate", predicates()),
        )
        routes.append({"id": f"r{index}", **condition, "target": draw(inner)})
    return draw(_object({"routes": st.just(routes)}, default=inner))


@st.composite
def _scatters(draw: st.DrawFn, inner: Docs) -> Doc:
    targets = draw(_some(inner))
    return draw(
        _object(
            {"targets": st.just(targets)},
            aggregation=_aggregations(),
            timeoutMs=st.integers(1, 24 * 3600 * 1000),
            failFast=st.booleans(),
            minSuccess=st.integers(0, len(targets)),
        )
    )


def _aggregations() -> Docs:
    sort = _object({}, field=paths, order=_any("asc", "desc"))
    op = st.one_of(
        _kind("flatten", st.just(True)),
        _kind("sort", sort),
        _kind("dedupe", _object({}, field=paths)),
        _kind("limit", _object({"count": st.integers(0, 2**31 - 1)})),
        _kind("concat", st.just(True)),
        _kind("merge", st.just(True)),
    )
    return _object({}, ops=st.lists(op, min_size=1, max_size=3))


def _mappings(depth: int) -> Docs:
    return st.dictionaries(keys, _sources(depth), min_size=1, max_size=2)


def _sources(depth: int) -> Docs:
    several = st.lists(paths, min_size=1, max_size=2)
    kinds = [
        _object({"path": paths}, default=values()),
        _kind("literal", values()),
        _object({"coalesce": _object({"paths": several})}, default=values()),
        _kind("template", _templates()),
        _kind("concat", _object({"paths": several}, separator=texts)),
    ]
    if depth:
        kinds.append(_kind("nested", _object({}, mappings=_mappings(depth - 1))))
    return st.one_of(kinds)


def _templates() -> Docs:
    names = st.dictionaries(_any("x", "y_1"), paths, min_size=1, max_size=2)
    filled = names.map(lambda given: {"template": " - ".join(f"{{{name}}}" for name in given), "vars": given})
    return filled | st.just({"template": "{{fixed}}"})


def _enrichers(inner: Docs) -> Docs:
    enrichment = _object({"field": keys, "operation": inner}, input=_object({}, path=paths))
    return _object({"enrichments": _some(enrichment)}, mergeStrategy=_any("nested", "spread", "replace"))


def _recipient_lists(inner: Docs, tools: Sequence[str]) -> Docs:
    return _object(
        {
            "recipients": _kind("path", paths) | _kind("operation", inner),
            "allowed": st.lists(st.sampled_from(tools), min_size=1, max_size=3, unique=True),
        },
        input=_object({}, path=paths),
        aggregation=_aggregations(),
        failFast=st.booleans(),
    )


def _object(required: dict[str, st.SearchStrategy[Any]], **optional: st.SearchStrategy[Any]) -> Docs:
    return st.fixed_dictionaries(required, optional=optional)


def _kind(key: str, body: st.SearchStrategy[Any]) -> Docs:
    return body.map(lambda given: {key: given})


def _any(*choices: str) -> st.SearchStrategy[str]:
    return st.sampled_from(choices)


def _some(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Doc]]:
    return st.lists(inner, min_size=1, max_size=2)
