"""Compositions without a gateway that listens: for one command, on the servers and stores of weft.yaml."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from weft.app.composing import compositions_of
from weft.app.registries import content_of, source_of
from weft.app.specs import limits_of, naming_of, specs_of
from weft.app.stores import Stores
from weft.config import Config
from weft.errors import InputError
from weft.gateway.compositions import Compositions
from weft.gateway.gateway import Gateway
from weft.gateway.live import Content
from weft.gateway.sources import Loaded

UNDOING = 60.0
"""For how many seconds what was begun may still be undone, when the command is stopped."""


@dataclass(frozen=True, slots=True)
class Workshop:
    """The service, and in sentences what is not there."""

    compositions: Compositions
    warnings: tuple[str, ...]


def keeps(config: Config) -> bool:
    """Tell whether the store of templates outlives this process."""
    rule = config.stores.get(config.compositions.store)
    return rule is not None and rule.type != "memory"


@contextlib.asynccontextmanager
async def workshop(config: Config, *, connect: bool) -> AsyncGenerator[Workshop]:
    """Open the stores and yield the service; with `connect` once every server has answered, or failed to.

    Whoever has the settings may call everything: policy and quotas are for callers of the gateway.

    Raises:
        InputError: the registry cannot be used, or the store of templates is not configured.
        StoreError: a store that is required cannot be opened.
    """
    stores = Stores(config.stores)
    content = await _content(config, stores) if connect else Content()
    gateway = Gateway(
        specs_of(config) if connect else (),
        content=content,
        naming=naming_of(config),
        stores=stores.find,
        limits=limits_of(config),
    )
    compositions = compositions_of(config, gateway, stores)
    await stores.open()
    alive: asyncio.Task[None] | None = None
    try:
        await gateway.start()
        await gateway.ready()
        alive = asyncio.create_task(compositions.keep_alive())
        away = [
            f"server '{key}' is not available: {one.problem}"
            for key, one in gateway.pool.servers.items()
            if one.state != "ready"
        ]
        yield Workshop(compositions, (*stores.problems.values(), *away))
    finally:
        await gateway.engine.close(drain=UNDOING)
        if alive is not None:
            alive.cancel()
            await asyncio.gather(alive, return_exceptions=True)
        await gateway.close()
        await stores.close()


async def _content(config: Config, stores: Stores) -> Content:
    source = source_of(config, None)
    loaded = await source.look(fully=True)
    if not isinstance(loaded, Loaded):
        raise InputError(f"there is no registry at {source.name}", code="NoRegistry")
    startup = config.registry.validation.startup
    return await asyncio.to_thread(content_of, loaded, severities=startup, allow=config.egress.allow, stores=stores)
