"""The servers of a configuration, connected for as long as somebody needs them, without a gateway."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator

from weft.app.specs import specs_of
from weft.config import Config
from weft.upstreams.pool import Pool


@contextlib.asynccontextmanager
async def connected(config: Config) -> AsyncGenerator[Pool]:
    """Connect to every server, and yield them when each has answered or failed to."""

    def ignore(*told: object) -> None:
        """Take note of nothing: the pool is asked once, not served from."""

    pool = Pool(specs_of(config), on_change=ignore, on_event=ignore, log=ignore)
    try:
        await pool.start()
        await pool.settled()
        yield pool
    finally:
        await pool.close()
