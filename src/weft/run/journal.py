"""The journals of sagas, as operators see them: list, show, retry, abandon. And whether stores can keep them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from weft.errors import ExecutionFailed, NotFound, Problem
from weft.ir.document import Document
from weft.ir.walk import walk
from weft.patterns.saga import Saga
from weft.patterns.saga_entry import new_owner
from weft.patterns.saga_journal import Fenced, Journal, Lost, lease_key, open_key, read
from weft.patterns.saga_record import HEADS, OPEN, Record, ref_of
from weft.ports import Clock, Store
from weft.run.call import CHANCE
from weft.run.clock import MonotonicClock


class Sagas:
    """The sagas in some stores; each is known by its `ref`, or by its id where only one has that."""

    def __init__(self, stores: Iterable[Store], *, clock: Clock | None = None) -> None:
        self._stores = list({id(store): store for store in stores}.values())
        self._clock = clock or MonotonicClock()

    async def list(self, *, ended: bool = False, tenant: str | None = None) -> list[dict[str, Any]]:
        """Return the sagas that have not ended, or all: a line of each, the oldest first."""
        rows = [
            _row(record, await store.exists(lease_key(record.key)), store)
            async for store, record in self._records(ended=ended)
            if tenant is None or record.head.principal.tenant == tenant
        ]
        return sorted(rows, key=lambda row: row["created"])

    async def show(self, which: str, *, tenant: str | None = None) -> dict[str, Any]:
        """Return all that is known of a saga.

        Raises:
            NotFound: there is none.
            ExecutionFailed: the id is that of several (AmbiguousSaga).
        """
        store, record = await self._find(which, tenant)
        return {**record.to_json(), "store": store.name, "held": await store.exists(lease_key(record.key))}

    async def retry(self, which: str, *, tenant: str | None = None) -> dict[str, Any]:
        """Let recovery go on with a saga that is stuck: forward after its pivot, else with what could not be undone.

        Raises:
            ExecutionFailed: it is not stuck (SagaNotStuck), or its record is gone (SagaLost).
        """
        journal = await self._take(which, tenant)
        state = journal.state
        for record in state.steps:
            if state.status == "COMPENSATION_FAILED" and record.status == "COMP_FAILED":
                record.status = "COMPENSATING"
            elif state.status in ("RUNNING", "FORWARD_ONLY") and record.status in ("FAILED", "UNKNOWN"):
                record.status, record.error = "PENDING", None
        if state.status == "COMPENSATION_FAILED":
            state.status = "COMPENSATING"
        state.stuck, state.recoveries = None, 0
        await self._written(journal)
        await journal.park(0)
        return await self.show(ref_of(journal.key))

    async def abandon(self, which: str, reason: str, *, tenant: str | None = None) -> dict[str, Any]:
        """Give up a saga that is stuck: somebody has put things right by hand.

        Raises:
            ExecutionFailed: it is not stuck (SagaNotStuck), or its record is gone (SagaLost).
        """
        journal = await self._take(which, tenant)
        state = journal.state
        state.status, state.stuck = "ABANDONED", None
        state.error = {**(state.error or {}), "message": reason, "code": "SagaAbandoned"}
        await self._written(journal, end=True)
        return await self.show(ref_of(journal.key))

    async def _take(self, which: str, tenant: str | None) -> Journal:
        """Become the owner of a saga that is stuck."""
        store, record = await self._find(which, tenant)
        head, stored = await store.get(record.key), await store.get(open_key(record.key))
        if record.ended or record.state is None or record.state.stuck is None or head is None or stored is None:
            if record.state is None:
                told = f"the record of saga '{record.head.id}' is gone: nobody knows how far it came"
                raise ExecutionFailed(told, code="SagaLost")
            told = f"saga '{record.head.id}' is {record.state.status} and not stuck"
            raise ExecutionFailed(told, code="SagaNotStuck")
        state = replace(record.state, owner=new_owner(), fence=record.state.fence + 1)
        versions = (head.version, stored.version)
        return Journal(store, record.key, record.head, state, versions, clock=self._clock, rng=CHANCE)

    async def _written(self, journal: Journal, *, end: bool = False) -> None:
        try:
            await (journal.end() if end else journal.write())
        except (Fenced, Lost):
            told = f"saga '{journal.head.id}' was changed by somebody else meanwhile"
            raise ExecutionFailed(told, code="SagaChanged", hint="look at it again") from None

    async def _find(self, which: str, tenant: str | None) -> tuple[Store, Record]:
        found: list[tuple[Store, Record]] = []
        refs: list[str] = []
        async for store, record in self._records(ended=True):
            if tenant is not None and record.head.principal.tenant != tenant:
                continue
            ref = ref_of(record.key)
            refs.append(ref)
            if ref == which:
                return store, record
            if record.head.id == which:
                found.append((store, record))
        if not found:
            raise NotFound("Saga", which, refs)
        if len(found) > 1:
            several = ", ".join(ref_of(record.key) for _, record in found)
            raise ExecutionFailed(f"several sagas have the id '{which}': {several}", code="AmbiguousSaga")
        return found[0]

    async def _records(self, *, ended: bool) -> AsyncIterator[tuple[Store, Record]]:
        for store in self._stores:
            prefix = HEADS if ended else OPEN
            keys = [key async for key, _ in store.scan(prefix)]
            for key in keys:
                record = await read(store, HEADS + key.removeprefix(prefix))
                if record is not None:
                    yield store, record


def _row(record: Record, held: bool, store: Store) -> dict[str, Any]:
    told = record.to_json()
    kept = ("ref", "id", "tool", "tenant", "created", "status", "stuck", "failed", "recoveries")
    return {**{key: told[key] for key in kept if key in told}, "store": store.name, "held": held}


def volatile_sagas(document: Document, stores: Callable[[str | None], Store]) -> Iterator[Problem]:
    """Report sagas whose store forgets everything at a crash: an error, unless they say `allowVolatile`."""
    for index, tool in enumerate(document.tools):
        for loc, node in () if tool.spec is None else walk(tool.spec, ("tools", index, "spec")):
            if not isinstance(node, Saga) or (store := stores(node.store)).durable:
                continue
            yield Problem(
                code="StoreNotDurable",
                severity="warning" if node.allow_volatile else "error",
                message=f"store '{store.name}' forgets its sagas when the process ends",
                loc=(*loc, "store"),
                value=repr(store.name),
                expected="a durable store (type: sqlite, postgres or redis), or allowVolatile: true",
            )
