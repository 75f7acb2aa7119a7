"""The records of sagas: found by ref or id without reading all others, and told of when they cannot be read."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from weft.patterns.keys import hash_of_values
from weft.patterns.saga_entry import MAX_ID
from weft.patterns.saga_journal import head_key, read
from weft.patterns.saga_record import HALF, HEADS, INDEX, OPEN, Head, Record, State, decode, ref_of
from weft.ports import Store, Stored
from weft.run.unreadable import UNREADABLE, why_unreadable

LONGEST_REF = 64
"""Characters of which a ref never has more; ids may, and a store takes no key of any length."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A saga whose record cannot be read, or only its head."""

    key: str
    why: str
    head: Head | None = None

    @property
    def tenant(self) -> str:
        """Whose it is, as its key says."""
        return unquote(self.key.removeprefix(HEADS).partition("|")[0])

    def to_json(self) -> dict[str, Any]:
        """Return what operators are shown."""
        told: dict[str, Any] = {"ref": ref_of(self.key), "tenant": self.tenant}
        if self.head is not None:
            told |= {"id": self.head.id, "tool": self.head.tool, "created": self.head.created}
        return {**told, "status": "UNREADABLE", "unreadable": self.why, "key": self.key}


def tenant_of(record: Record | Unreadable) -> str:
    """Return whose saga it is."""
    return record.tenant if isinstance(record, Unreadable) else record.head.principal.tenant


async def read_safely(store: Store, key: str) -> Record | Unreadable | None:
    """Return a saga as it is stored, also when that cannot be read; None when there is none.

    Raises:
        StoreError: the store cannot be used.
    """
    try:
        return await read(store, key)
    except UNREADABLE as error:
        found = await store.get(key)
        return None if found is None else Unreadable(key, why_unreadable(error), _head_in(found))


async def all_records(store: Store, *, ended: bool) -> AsyncIterator[Record | Unreadable]:
    """Yield the sagas of a store that have not ended, or all of them.

    Raises:
        StoreError: the store cannot be used.
    """
    others: list[str] = []
    async for key, stored in store.scan(HEADS if ended else OPEN):
        whole = _ended(key, stored) if ended else None
        if whole is None:
            others.append(key if ended else head_key(key))
        else:
            yield whole
    for key in others:
        if (record := await read_safely(store, key)) is not None:
            yield record


async def keys_of(store: Store, which: str) -> list[str]:
    """Return the keys of the sagas with a ref or an id, by those that have not ended and by the index of the others.

    Raises:
        StoreError: the store cannot be used.
    """
    same = _hashes(which)
    keys = [head_key(key) async for key, _ in store.scan(OPEN)]
    indexed = await store.get(INDEX + which) if len(which) <= LONGEST_REF else None
    keys += [] if indexed is None else [indexed.value.decode()]
    for one in same:
        keys += [stored.value.decode() async for _, stored in store.scan(INDEX + one[:HALF])]
    return _meant(keys, which, same)


async def keys_of_others(store: Store, which: str) -> list[str]:
    """Return the same of sagas that no index has: lost ones, and those that an older weft has ended.

    Only keys are looked at: no record is read.

    Raises:
        StoreError: the store cannot be used.
    """
    return _meant([key async for key, _ in store.scan(HEADS)], which, _hashes(which))


async def names_in(store: Store, most: int) -> list[str]:
    """Return refs and ids of some sagas, for whoever has mistyped one.

    Raises:
        StoreError: the store cannot be used.
    """
    names: list[str] = []
    async with aclosing(_heads(store)) as heads:
        async for key, stored in heads:
            head = _head_in(stored)
            names += [ref_of(key)] if head is None else [ref_of(key), head.id]
            if len(names) >= most:
                break
    return names


async def _heads(store: Store) -> AsyncGenerator[tuple[str, Stored]]:
    async for one in store.scan(HEADS):
        yield one


def _hashes(which: str) -> list[str]:
    """Return what the keys of an id end in: 17 may be a number or a text, which are two sagas."""
    same = [hash_of_values([which])]
    digits = which.removeprefix("-")
    if digits.isdecimal() and digits.isascii() and len(digits) <= MAX_ID and str(int(which)) == which:
        same.append(hash_of_values([int(which)]))
    return same


def _meant(keys: list[str], which: str, same: list[str]) -> list[str]:
    """Return the saga of that ref, or all of that id."""
    found = dict.fromkeys(keys)
    by_ref = [key for key in found if which in (ref_of(key), _older_ref(key))]
    return by_ref or [key for key in found if key.rpartition("|")[2] in same]


def _older_ref(key: str) -> str:
    """Return what named a saga before refs began with the hash of the id: somebody may have noted it."""
    return hashlib.sha256(key.encode()).hexdigest()[: 2 * HALF]


def _ended(key: str, stored: Stored) -> Record | None:
    """Return a saga that has ended, from its head; None for any other, and for what cannot be read."""
    try:
        told = decode(stored.value)
        return Record(key, Head.of_json(told["head"]), State.of_json(told["state"]), ended=True)
    except UNREADABLE:
        return None


def _head_in(stored: Stored) -> Head | None:
    try:
        return Head.of_json(decode(stored.value)["head"])
    except UNREADABLE:
        return None
