"""What operators ask of the state of a gateway: its sagas, its dead letters, its circuits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Literal

from weft.errors import ExecutionFailed, NotFound, StoreError
from weft.patterns.circuits import Circuits
from weft.patterns.dead_letter_letters import Letter
from weft.patterns.saga_record import ENDED
from weft.ports import Clock, Signals, Store
from weft.run.journal import Sagas, began
from weft.run.letters import Torn
from weft.run.spool import DeadLetters

Change = Literal["reset", "open"]


class Operating:
    """Answers of one process, as JSON. Sagas and letters are the same for all that share the stores."""

    def __init__(
        self,
        shelves: list[Store],
        letters: DeadLetters,
        circuits: Circuits,
        *,
        recover: Callable[[], Coroutine[Any, Any, int]],
        clock: Clock,
        signals: Signals,
    ) -> None:
        """Make one; `recover` goes on with every saga that waits for somebody."""
        self._shelves = {store.name: Sagas([store], clock=clock) for store in shelves}
        self._own = frozenset(store.name for store in shelves if not store.shared)
        self._letters = letters
        self._circuits = circuits
        self._recover = recover
        self._clock = clock
        self._signals = signals
        self._recovering = set[asyncio.Task[int]]()

    async def close(self) -> None:
        """Stop what was begun for operators."""
        for task in self._recovering:
            task.cancel()
        await asyncio.gather(*self._recovering, return_exceptions=True)

    # Sagas.

    async def sagas(self, *, ended: bool = False, store: str | None = None) -> dict[str, Any]:
        """Return `sagas`, the oldest first, and in `away` why some of the stores could not be read.

        Those whose records cannot be read are among them, with the status UNREADABLE.

        Raises:
            NotFound: there is no such store.
            StoreError: none of them could be read.
        """
        rows: list[dict[str, Any]] = []
        away: dict[str, StoreError] = {}
        shelves = self._chosen(store)
        for name, sagas in shelves.items():
            try:
                rows += await sagas.list(ended=ended)
            except StoreError as error:
                away[name] = error
        if away and not rows and away.keys() >= shelves.keys() - self._own:
            raise next(iter(away.values()))
        return {"sagas": sorted(rows, key=began), **_away(away)}

    async def own_sagas(self, *, ended: bool, store: str | None) -> list[dict[str, Any]]:
        """Return the sagas of stores that no other process sees."""
        chosen = [sagas for name, sagas in self._shelves.items() if name in self._own and store in (None, name)]
        return [row for sagas in chosen for row in await sagas.list(ended=ended)]

    async def saga(self, which: str, *, store: str | None = None) -> dict[str, Any]:
        """Return all that is known of a saga, by its ref, or by its id where only one has that.

        Raises:
            NotFound: there is none.
            ExecutionFailed: it is the id of several (AmbiguousSaga).
            StoreError: it may be in a store that is away.
        """
        return (await self._found(which, store))[1]

    async def retry_saga(self, which: str, *, store: str | None = None) -> dict[str, Any]:
        """Go on with a saga that is stuck, and return it.

        Raises:
            ExecutionFailed: it is not stuck (SagaNotStuck), lost, or was just changed by somebody else.
            NotFound, StoreError: as `saga` does.
        """
        sagas, row = await self._found(which, store)
        told = await self._changed(row, sagas.retry(row["ref"]))
        self._signals.event("saga_retried", saga=row["id"], tool=row["tool"], tenant=row["tenant"])
        task = asyncio.create_task(self._recover(), name="saga recovery for an operator")
        self._recovering.add(task)
        task.add_done_callback(self._recovering.discard)
        return told

    async def abandon_saga(self, which: str, reason: str, *, store: str | None = None) -> dict[str, Any]:
        """Give a saga up that is stuck, and return it; errors are those of `retry_saga`."""
        sagas, row = await self._found(which, store)
        told = await self._changed(row, sagas.abandon(row["ref"], reason))
        facts = {"saga": row["id"], "tool": row["tool"], "tenant": row["tenant"]}
        self._signals.event("saga_abandoned", **facts, reason=reason)
        return told

    async def _changed(self, row: dict[str, Any], change: Awaitable[dict[str, Any]]) -> dict[str, Any]:
        try:
            return await change
        except ExecutionFailed as error:
            if error.code == "SagaNotStuck" and row["status"] not in ENDED:
                error.hint = "somebody works on it" if row["held"] else "an instance will go on with it by itself"
            raise

    async def _found(self, which: str, store: str | None) -> tuple[Sagas, dict[str, Any]]:
        chosen = list(self._chosen(store).values())
        # Only what no index has is looked for in all keys.
        found, away = await _looked(chosen, which, thoroughly=False)
        if not found and away is None:
            found, away = await _looked(chosen, which, thoroughly=True)
        if len(found) > 1:
            several = " and ".join(row["store"] for _, row in found)
            told, hint = f"there is such a saga in {several}", "name the store"
            raise ExecutionFailed(told, code="AmbiguousSaga", hint=hint)
        if found:
            return found[0]
        if away is not None:
            raise away
        raise NotFound("Saga", which, [name for sagas in chosen for name in await sagas.names()])

    def _chosen(self, store: str | None) -> dict[str, Sagas]:
        if store is None:
            return self._shelves
        if store not in self._shelves:
            raise NotFound("Store", store, self._shelves)
        return {store: self._shelves[store]}

    # Dead letters.

    async def letters(self, *, tool: str | None = None, limit: int = 100) -> dict[str, Any]:
        """Return `deadLetters` that wait, the oldest first, how many there are in `total`, and as `sagas` does, `away`.

        `tool` is the one that is to take them, or the composition (with or without its version) that failed. Those that
        cannot be read come last, with the reason as `unreadable`: of what they are nobody knows.

        Raises:
            StoreError: no store can be read.
        """
        found = await self._letters.look()
        if found.away and len(found.away) == found.spools:
            raise next(iter(found.away.values()))
        rows = [_row(one, spool.store.name) for spool, one in found.letters if tool is None or _is_of(tool, one)]
        rows += [_torn(one) for one in found.torn]
        return {"deadLetters": rows[:limit], "total": len(rows), **_away(found.away)}

    async def letter(self, id: str) -> dict[str, Any]:
        """Return a letter, with its payload; of one that cannot be read, why.

        Raises:
            NotFound: none that waits has this id.
            StoreError: it may be in a store that cannot be read.
        """
        shown = await self._letters.show(id)
        return _torn(shown) if isinstance(shown, Torn) else shown.to_json()

    async def redrive(self, id: str | None = None) -> dict[str, Any]:
        """Send a letter now, or all; return in `redriven` what became of each, and in `away` where there may be more.

        Raises:
            NotFound: none that waits has this id.
            StoreError: it may be in a store that cannot be read; for all, no store can be.
        """
        sent = await self._letters.redrive(id)
        rows = [
            {"id": one.id, "delivered": one.delivered, **({} if one.error is None else {"error": one.error})}
            for one in sent.done
        ]
        return {"redriven": rows, **_away(sent.away)}

    # Circuits.

    async def circuits(self) -> list[dict[str, Any]]:
        """Return every circuit of this process; of one whose store is away, how it stands here."""
        return [one.to_json() for one in await self._circuits.list(self._clock, self._signals)]

    async def change_circuit(self, name: str, change: Change) -> list[dict[str, Any]]:
        """Close a circuit, or hold it open, and return it in all its scopes: none, if this process has none.

        Raises:
            StoreError: its store cannot be used.
        """
        if not self._circuits.named(name):
            return []
        make = self._circuits.reset if change == "reset" else self._circuits.force_open
        return [one.to_json() for one in await make(name, self._clock, self._signals)]


async def _looked(
    shelves: list[Sagas], which: str, *, thoroughly: bool
) -> tuple[list[tuple[Sagas, dict[str, Any]]], StoreError | None]:
    """Return where a saga was found, and why it may be somewhere else."""
    found: list[tuple[Sagas, dict[str, Any]]] = []
    away: StoreError | None = None
    for sagas in shelves:
        try:
            shown = await sagas.look(which, thoroughly=thoroughly)
        except StoreError as error:
            away = error
            continue
        found += [] if shown is None else [(sagas, shown)]
    return found, away


def _away(errors: Mapping[str, StoreError]) -> dict[str, Any]:
    return {"away": {name: error.message for name, error in errors.items()}} if errors else {}


def _is_of(tool: str, letter: Letter) -> bool:
    return tool in (letter.tool, letter.owner, letter.owner.rpartition("@")[0])


def _torn(letter: Torn) -> dict[str, Any]:
    return {"id": letter.id, "tenant": letter.tenant, "store": letter.store, "unreadable": letter.why}


def _row(letter: Letter, store: str) -> dict[str, Any]:
    """Return a line of a letter, without what the call was given."""
    payload = letter.payload
    return {
        "id": letter.id,
        "time": payload.get("timestamp"),
        "tool": letter.tool,
        "of": letter.owner,
        "tenant": letter.principal.tenant,
        "failed": payload.get("error"),
        "errorCode": payload.get("errorCode"),
        "tries": letter.tries,
        "error": letter.error,
        "store": store,
    }
