"""The stores of a gateway: made as weft.yaml says, opened before anything is served, found by their names."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from weft.config.sections import Store as StoreRule
from weft.errors import InputError, StoreError
from weft.ir.document import Document
from weft.ir.operations import kind_of
from weft.ir.walk import walk
from weft.patterns.contract import Pattern
from weft.plan.compiler import store_missing
from weft.ports import Clock, Signals, Silence, Store
from weft.run.clock import MonotonicClock
from weft.stores.guarding import Guarded
from weft.stores.memory import MemoryStore
from weft.stores.sqlite import SqliteStore

DEFAULT = "default"
"""The store of patterns that name none: in memory, unless weft.yaml has one of this name."""

TOGETHER = {"cache": DEFAULT, "idempotent": DEFAULT, "saga": DEFAULT, "circuitBreaker": None, "throttle": None}
"""Patterns that are for all workers what they are for one only in a shared store; and the store of those without."""


class Stores:
    """Every store of one process, each behind its own guard; one that is away does not keep the others from opening."""

    def __init__(
        self, rules: Mapping[str, StoreRule], *, clock: Clock | None = None, signals: Signals | None = None
    ) -> None:
        """Make them; nothing is opened yet.

        Raises:
            InputError: what a store needs is not installed.
        """
        self._rules = dict(rules)
        clock, signals = clock or MonotonicClock(), signals or Silence()
        self._stores: dict[str, Store] = {
            name: Guarded(
                store_of(name, rule, signals),
                clock=clock,
                # Redis and Postgres bound each operation themselves, and memory needs no bound.
                timeout=rule.timeout if rule.type == "sqlite" else None,
                prefix=rule.prefix,
                signals=signals,
            )
            for name, rule in rules.items()
        }
        if DEFAULT not in self._stores:
            self._stores[DEFAULT] = MemoryStore(DEFAULT, clock=clock)
        self.problems: dict[str, str] = {}
        """Why stores are away that were to be opened."""

    @property
    def names(self) -> frozenset[str]:
        """The names of all stores."""
        return frozenset(self._stores)

    async def open(self) -> None:
        """Open all.

        Raises:
            StoreError: one that is required cannot be opened.
        """
        opened = await asyncio.gather(*(one.open() for one in self._stores.values()), return_exceptions=True)
        for (name, _), outcome in zip(self._stores.items(), opened, strict=True):
            if isinstance(outcome, StoreError) and not self._is_required(name):
                self.problems[name] = outcome.message
            elif isinstance(outcome, BaseException):
                await self.close()
                raise outcome

    async def close(self) -> None:
        """Let all go."""
        await asyncio.gather(*(one.close() for one in self._stores.values()), return_exceptions=True)

    def find(self, name: str | None) -> Store:
        """Return a store by its name, or the default one.

        Raises:
            ExecutionFailed: there is none of that name.
        """
        found = self._stores.get(name or DEFAULT)
        if found is None:
            raise store_missing(name or DEFAULT, self._stores)
        return found

    def all(self) -> dict[str, Store]:
        """Return all stores by their names."""
        return dict(self._stores)

    def _is_required(self, name: str) -> bool:
        rule = self._rules.get(name)
        return rule is not None and rule.required


def apart(document: Document, stores: Stores) -> dict[str, list[str]]:
    """Return which patterns of a document keep, in stores that no other process sees, what all workers should see."""
    found: dict[str, list[str]] = {}
    for tool in document.tools:
        for _, node in () if tool.spec is None else walk(tool.spec):
            kind = kind_of(node) if isinstance(node, Pattern) else ""
            name = getattr(node, "store", None) or TOGETHER.get(kind)
            if kind not in TOGETHER or name is None or stores.find(name).shared:
                continue
            told = f"{kind} in '{tool.name}'"
            if told not in found.setdefault(name, []):
                found[name].append(told)
    return found


def store_of(name: str, rule: StoreRule, signals: Signals) -> Store:
    """Return a store as it is configured, not yet opened.

    Raises:
        InputError: its library is not installed.
    """
    if rule.type == "memory":
        return MemoryStore(name)
    try:
        return _made(name, rule, {"timeout": rule.timeout, "signals": signals})
    except ImportError as error:
        told = f"store '{name}' needs {error.name}, which is not installed"
        raise InputError(told, code="NotInstalled", hint=f"pip install 'weft[{rule.type}]'") from error


def _made(name: str, rule: StoreRule, given: dict[str, Any]) -> Store:
    if rule.type == "sqlite":
        assert rule.path is not None, "checked when the file was read"
        # A definite "busy" comes before the guard gives up.
        synchronous = "NORMAL" if rule.durable is False else "FULL"
        return SqliteStore(rule.path, name, busy=0.8 * rule.timeout, synchronous=synchronous, signals=given["signals"])
    assert rule.url is not None, "checked when the file was read"
    if rule.type == "redis":
        from weft.stores.redis import RedisStore  # noqa: PLC0415 - only who has one needs its library

        return RedisStore(rule.url, name, durable=rule.durable is True, **given)
    from weft.stores.postgres import PostgresStore  # noqa: PLC0415 - the same

    return PostgresStore(rule.url, name, durable=rule.durable is not False, **given)
