"""How weft finds out that a server is gone: a child tells its end, any other is asked now and then."""

from __future__ import annotations

import asyncio
import contextlib

from weft.errors import DeadlineExceeded, UpstreamAuth, UpstreamDied, UpstreamUnavailable, WeftError
from weft.upstreams.session import Session
from weft.upstreams.spec import ServerSpec

PROBE_EVERY = 30.0
PROBE_TAKES = 5.0
PROBE_PAUSE = 1.0

AWAY = frozenset({None, 502, 503, 504})
"""Statuses of a probe that say that the server is away; with any other, somebody answers."""


async def end_of(session: Session, spec: ServerSpec, suspected: asyncio.Event) -> str:
    """Wait until a server is gone, and return how it ended; one that is no child is asked when calls fail, too.

    Raises:
        WeftError: it did not answer.
    """
    if spec.command:
        await session.gone.wait()
    while session.ending is None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PROBE_EVERY):
                await suspected.wait()
        suspected.clear()
        try:
            method = "ping" if session.client.era == "legacy" else "server/discover"
            await session.client.request(method, deadline=asyncio.get_running_loop().time() + PROBE_TAKES)
        except (UpstreamUnavailable, UpstreamDied, UpstreamAuth, DeadlineExceeded) as error:
            if not isinstance(error, UpstreamUnavailable) or error.status in AWAY:
                raise
        except WeftError:
            pass  # It answers.
        await asyncio.sleep(PROBE_PAUSE)
    return session.ending
