"""The journals of sagas, as operators see them: list, show, retry, abandon. And whether stores can keep them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from weft.errors import ExecutionFailed, NotFound, Problem
from weft.ir.document import Document
from weft.ir.walk import walk
from weft.patterns.saga import Saga
from weft.patterns.saga_entry import new_owner
from weft.patterns.saga_journal import Fenced, Journal, Lost, lease_key, open_key
from weft.patterns.saga_record import Record, ref_of
from weft.ports import Clock, Store
from weft.run.call import CHANCE
from weft.run.clock import MonotonicClock
from weft.run.found import Unreadable, all_records, keys_of, keys_of_others, names_in, read_safely, tenant_of

MOST_NAMES = 1000
"""Among so many names the one is looked for that a mistyped one meant."""


class Sagas:
    """The sagas in some stores; each is known by its `ref`, or by its id where only one has that."""

    def __init__(self, stores: Iterable[Store], *, clock: Clock | None = None) -> None:
        self._stores = list({id(store): store for store in stores}.values())
        self._clock = clock or MonotonicClock()

    async def list(self, *, ended: bool = False, tenant: str | None = None) -> list[dict[str, Any]]:
        """Return the sagas that have not ended, or all: a line of each, the oldest first.

        One that cannot be read is among them: its status is UNREADABLE, `unreadable` says why, and of the rest there is
        what is known.
        """
        rows = [
            _row(record, await store.exists(lease_key(record.key)), store)
            for store in self._stores
            async for record in all_records(store, ended=ended)
            if tenant is None or tenant_of(record) == tenant
        ]
        return sorted(rows, key=began)

    async def show(self, which: str, *, tenant: str | None = None) -> dict[str, Any]:
        """Return all that is known of a saga.

        Raises:
            NotFound: there is none.
            ExecutionFailed: the id is that of several (AmbiguousSaga).
        """
        return await self._shown(*await self._find(which, tenant))

    async def look(self, which: str, *, thoroughly: bool) -> dict[str, Any] | None:
        """Return what `show` does, or None; what no index has is only found `thoroughly`, by looking at all keys."""
        found = await self._found(which, None, keys_of_others if thoroughly else keys_of)
        return None if found is None else await self._shown(*found)

    async def names(self) -> list[str]:
        """Return refs and ids of some sagas, for whoever has mistyped one."""
        return [name for store in self._stores for name in await names_in(store, MOST_NAMES)]

    async def _shown(self, store: Store, record: Record | Unreadable) -> dict[str, Any]:
        return {**record.to_json(), "store": store.name, "held": await store.exists(lease_key(record.key))}

    async def retry(self, which: str, *, tenant: str | None = None) -> dict[str, Any]:
        """Let recovery go on with a saga that is stuck: forward after its pivot, else with what could not be undone.

        Raises:
            ExecutionFailed: it is not stuck (SagaNotStuck), its record is gone (SagaLost) or cannot be read
                (SagaUnreadable).
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
            ExecutionFailed: as `retry` does.
        """
        journal = await self._take(which, tenant)
        state = journal.state
        state.status, state.stuck, state.abandoned = "ABANDONED", None, reason
        await self._written(journal, end=True)
        return await self.show(ref_of(journal.key))

    async def _take(self, which: str, tenant: str | None) -> Journal:
        """Become the owner of a saga that is stuck."""
        store, record = await self._find(which, tenant)
        if isinstance(record, Unreadable):
            told = f"the record of saga {ref_of(record.key)} cannot be read: {record.why}"
            hint = f"a newer weft may have written it; it is under {record.key} in store '{store.name}'"
            raise ExecutionFailed(told, code="SagaUnreadable", hint=hint)
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

    async def _find(self, which: str, tenant: str | None) -> tuple[Store, Record | Unreadable]:
        found = await self._found(which, tenant, keys_of) or await self._found(which, tenant, keys_of_others)
        if found is None:
            # What others have is not told to a tenant.
            raise NotFound("Saga", which, await self.names() if tenant is None else ())
        return found

    async def _found(
        self, which: str, tenant: str | None, keys: Callable[[Store, str], Awaitable[list[str]]]
    ) -> tuple[Store, Record | Unreadable] | None:
        found: list[tuple[Store, Record | Unreadable]] = []
        for store in self._stores:
            for key in await keys(store, which):
                record = await read_safely(store, key)
                if record is not None and (tenant is None or tenant_of(record) == tenant):
                    found.append((store, record))
        if len(found) > 1:
            several = ", ".join(ref_of(record.key) for _, record in found)
            raise ExecutionFailed(f"several sagas have the id '{which}': {several}", code="AmbiguousSaga")
        return found[0] if found else None


def began(row: dict[str, Any]) -> float:
    """Return when a saga began, for sorting; of one that does not say, that is last."""
    created: object = row.get("created")
    return created if isinstance(created, int | float) else float("inf")


def _row(record: Record | Unreadable, held: bool, store: Store) -> dict[str, Any]:
    told = record.to_json()
    kept = ("ref", "id", "tool", "tenant", "created", "status", "stuck", "failed", "recoveries", "unreadable")
    return {**{key: told[key] for key in kept if key in told}, "store": store.name, "held": held}


def volatile_sagas(document: Document, stores: Callable[[str | None], Store]) -> Iterator[Problem]:
    """Report sagas whose store forgets everything at a crash: an error, unless they say `allowVolatile`."""
    for index, tool in enumerate(document.tools):
        for loc, node in () if tool.spec is None else walk(tool.spec, ("tools", index, "spec")):
            if not isinstance(node, Saga) or (store := stores(node.store)).durable:
                continue
            if store.shared:
                message = f"store '{store.name}' is not said to keep its sagas over a crash of its server"
                expected = "`durable: true` in the store's settings, if it does (Redis: appendonly yes)"
            else:
                message = f"store '{store.name}' forgets its sagas when the process ends"
                expected = "a durable store (type: sqlite, postgres, or redis with `durable: true`)"
            yield Problem(
                code="StoreNotDurable",
                severity="warning" if node.allow_volatile else "error",
                message=message,
                loc=(*loc, "store"),
                value=repr(store.name),
                expected=f"{expected}, or allowVolatile: true",
            )
