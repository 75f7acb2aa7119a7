"""How a Redis server keeps what it takes, as far as it may be asked."""

from __future__ import annotations

from typing import Any

from weft.ports import Signals
from weft.stores.links import Fault, Refused
from weft.stores.redis_link import READONLY, RedisLink


async def check_server(link: RedisLink, store: str, signals: Signals, *, durable: bool) -> None:
    """Warn of a server that may forget records, and refuse one that is said to be durable and is not.

    Servers that do not tell their settings, as hosted ones, are taken at their operator's word.

    Raises:
        Refused: StoreVolatile, or StoreReadOnly for a replica.
    """
    replication, memory, persistence, fsync = await link.ask_all(
        [
            (b"INFO", b"replication"),
            (b"INFO", b"memory"),
            (b"INFO", b"persistence"),
            (b"CONFIG", b"GET", b"appendfsync"),
        ]
    )
    if _field(replication, "role") == "slave":
        raise Refused(READONLY)
    policy = _field(memory, "maxmemory_policy")
    if policy not in (None, "noeviction"):
        signals.event("store_evicts", store=store, policy=policy, maxmemory=_field(memory, "maxmemory"))
    if not durable:
        return
    if _field(persistence, "aof_enabled") == "0":
        hint = "set 'appendonly yes' and 'appendfsync always', or do not call the store durable"
        raise Refused(Fault("it is said to be durable, and keeps no append-only file", "StoreVolatile", hint, True))
    if isinstance(fsync, list) and b"always" not in fsync:
        signals.event("store_may_lose", store=store, reason="appendfsync is not always")


def _field(info: Any, name: str) -> str | None:
    if not isinstance(info, bytes):
        return None
    for line in info.decode("utf-8", "replace").splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return value
    return None
