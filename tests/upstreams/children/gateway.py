"""A gateway with one obstinate child and one grandchild, which ends without closing them."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import uvloop

from weft.upstreams.stdio import StdioTransport

PUPPET = Path(__file__).with_name("puppet.py")


async def main() -> None:
    """Start both, tell their numbers, and wait to be killed or told to return."""
    wire = StdioTransport([sys.executable, "-IS", str(PUPPET)], server="puppet")
    await wire.start()
    deadline = asyncio.get_running_loop().time() + 10
    await wire.request({"jsonrpc": "2.0", "id": 1, "method": "obstinate"}, deadline=deadline)
    forked = await wire.request({"jsonrpc": "2.0", "id": 2, "method": "fork"}, deadline=deadline)
    print(wire.pid, forked["result"], flush=True)  # noqa: T201 - the test reads it
    if sys.argv[1] == "return":
        await asyncio.to_thread(sys.stdin.readline)
    else:
        await asyncio.Event().wait()


if sys.argv[2] == "uvloop":
    uvloop.run(main())
else:
    asyncio.run(main())
