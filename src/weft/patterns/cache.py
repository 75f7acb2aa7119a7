"""Cache: answer again what was answered a short while ago."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final, TypeVar

from pydantic import Field, model_validator

from weft.errors import Loc, shown
from weft.expr.comparisons import Predicate
from weft.expr.fields import path_text
from weft.expr.paths import MISSING as NOTHING
from weft.expr.paths import compile_path
from weft.ir.nodes import PathText, refuse
from weft.ir.normalise import made
from weft.ir.operations import Operation
from weft.ir.predicates import FieldPredicate
from weft.ir.seconds import Seconds, Span, in_seconds
from weft.patterns.cache_loading import Cached, Rules
from weft.patterns.contract import Call, Compiler, Flow, Op, Pattern, Pure, Run, Value, operand
from weft.patterns.copies import Copies
from weft.patterns.flows import at_path, check_predicate
from weft.patterns.keys import MISSING, KeySpace, Scope, principal_of
from weft.patterns.outages import Outages
from weft.ports import Schema

A = TypeVar("A")
B = TypeVar("B")

MAX_ENTRY: Final = 1_000_000
MAX_KEY_PATHS: Final = 32


class Cache(Pattern):
    """A result is fresh for `ttlSeconds`; after that it may be given for a while, as it is replaced or cannot be.

    Who shares it: one caller, unless `scope` says tenant or public.
    """

    aliases: ClassVar[Mapping[str, str]] = {
        "key": "keyPaths",
        "ttl": "ttlSeconds",
        "staleWhileRevalidate": "staleWhileRevalidateSeconds",
        "staleIfError": "staleIfErrorSeconds",
        "refreshAhead": "refreshAheadSeconds",
    }

    key_paths: Annotated[list[PathText], Field(min_length=1, max_length=MAX_KEY_PATHS)]
    inner: Operation
    store: Annotated[str, Field(min_length=1)] | None = None
    ttl_seconds: Seconds
    stale_while_revalidate_seconds: Seconds | None = None
    cache_if: FieldPredicate | None = None
    stale_if_error_seconds: Seconds | None = None
    refresh_ahead_seconds: Seconds | None = None
    ttl_jitter: Annotated[float, Field(ge=0, le=0.5, allow_inf_nan=False)] = 0.0
    scope: Scope = "caller"
    max_entry_bytes: Annotated[int, Field(ge=1, le=64 << 20)] = MAX_ENTRY

    @classmethod
    def spell(cls, value: Any) -> Any:
        """Take one path where a list of them belongs."""
        if isinstance(value, dict):
            paths = {key: [path] for key in ("key", "keyPaths", "key_paths") if isinstance(path := value.get(key), str)}  # pyright: ignore
            return {**value, **paths} if paths else value  # pyright: ignore[reportUnknownVariableType]
        return value

    @model_validator(mode="after")
    def _possible(self) -> Cache:
        ahead = self.refresh_ahead_seconds
        if ahead is not None and ahead >= self.ttl_seconds:
            told = f"refreshAheadSeconds {ahead} is not less than ttlSeconds {self.ttl_seconds}"
            wanted = f"less than {self.ttl_seconds}"
            raise refuse("Impossible", told, value=shown(ahead), expected=wanted, at=("refreshAheadSeconds",))
        return self

    def compile(self, c: Compiler) -> Run | Pure:
        store, place = c.store(self.store), c.place()
        outage = c.kept(Outages).of("cache", store.name, "tools are called without the cache")
        inner, rights, label = c.branch(self.inner, "inner"), c.rights(self.inner), place.partition("|")[0]
        cached = Cached(inner, store, self._rules(), outage=outage, rights=rights, label=label)
        space, finds = KeySpace("cache", place, self.scope), [compile_path(path).find for path in self.key_paths]

        async def run(value: Value, call: Call) -> Value:
            key = space.key(principal_of(call.root), _values(finds, value), self.key_paths)
            return await cached.get(key, value, call)

        return run

    def _rules(self) -> Rules:
        predicate = self.cache_if
        return Rules(
            ttl=self.ttl_seconds,
            stale=self.stale_while_revalidate_seconds or 0.0,
            stale_error=self.stale_if_error_seconds or 0.0,
            ahead=self.refresh_ahead_seconds or 0.0,
            jitter=self.ttl_jitter,
            max_bytes=self.max_entry_bytes,
            admits=None if predicate is None else predicate.compile(),
            admits_errors=predicate is not None and predicate.op == "is_error" and predicate.field == "$",
        )

    def copies(self, c: Compiler) -> Copies:
        return c.copies(self.inner)

    def stores(self) -> Iterable[tuple[str, Loc]]:
        return () if self.store is None else [(self.store, ("store",))]

    def flow(self, given: Schema, f: Flow) -> Schema:
        for index, path in enumerate(self.key_paths):
            at_path(given, path, f, "keyPaths", index)
        result = f.operation(self.inner, given, "inner")
        if self.cache_if is not None:
            check_predicate(self.cache_if, result, f, "cacheIf")
        return result


def _values(finds: list[Callable[[Any], Any]], value: Value) -> list[Value]:
    found = [find(value) for find in finds]
    return [MISSING if one is NOTHING else one for one in found] if NOTHING in found else found


def cache(
    inner: Op[A, B],
    *,
    key: object | Sequence[object],
    ttl: Span,
    store: str | None = None,
    stale_while_revalidate: Span | None = None,
    stale_if_error: Span | None = None,
    refresh_ahead: Span | None = None,
    ttl_jitter: float | None = None,
    cache_if: Predicate[Any] | FieldPredicate | None = None,
    scope: Scope | None = None,
    max_entry_bytes: int | None = None,
) -> Op[A, B]:
    """Answer again what was answered a while ago: `w.cache(w.tool("search"), key=p.query, ttl=w.minutes(15))`.

    `key` is a path or several: what the answer depends on. `cache_if` is asked about the result: `w.is_not_null()`, or
    `w.holds(p.status, w.eq("done"))`.
    """
    first = operand(inner, "w.cache")
    paths = key if isinstance(key, list | tuple) else [key]  # pyright: ignore[reportUnknownVariableType]
    spans = {
        "ttlSeconds": ttl,
        "staleWhileRevalidateSeconds": stale_while_revalidate,
        "staleIfErrorSeconds": stale_if_error,
        "refreshAheadSeconds": refresh_ahead,
    }
    others = {
        "store": store,
        "ttlJitter": ttl_jitter,
        "cacheIf": cache_if.to_json() if isinstance(cache_if, Predicate) else cache_if,
        "scope": scope,
        "maxEntryBytes": max_entry_bytes,
    }
    body: dict[str, Any] = {"keyPaths": [path_text(path) for path in paths], "inner": first.node}  # pyright: ignore
    body |= {name: in_seconds(span) for name, span in spans.items() if span is not None}
    body |= {name: value for name, value in others.items() if value is not None}
    return Op(made(Cache, body), [first])
