"""A worker's side of `--workers`: what its parent gave it, and how it notices that the parent is gone."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
from collections.abc import MutableMapping
from dataclasses import dataclass
from pathlib import Path

import orjson

from weft.errors import InputError

CHANNEL = "WEFT_WORKER"
"""The variable that tells a process the number of the inherited socket to its parent; it says nothing else."""

READY = b"ready\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hired:
    """What a worker works with; the key is the same for all workers and nobody else."""

    index: int
    count: int
    key: bytes
    directory: Path
    sockets: dict[str, socket.socket]
    channel: socket.socket

    def started(self) -> None:
        """Tell the parent that this worker serves."""
        self.channel.send(READY)

    async def orphaned(self) -> None:
        """Return when the parent has gone, whatever ended it; what it would have cleaned up is gone then too."""
        self.channel.setblocking(False)
        while await asyncio.get_running_loop().sock_recv(self.channel, 1):
            pass
        shutil.rmtree(self.directory, ignore_errors=True)


def hired(environment: MutableMapping[str, str] = os.environ) -> Hired | None:
    """Return what a parent gave this process, or None when it is not a worker.

    Raises:
        InputError: the variable is there, and no parent is.
    """
    number = environment.pop(CHANNEL, None)
    if number is None:
        return None
    try:
        channel = socket.socket(fileno=int(number))
        with channel.makefile("rb") as lines:
            told = orjson.loads(lines.readline())
    except (OSError, ValueError) as error:
        raise InputError(f"{CHANNEL} is for weft's own workers; start them with --workers") from error
    sockets = {name: socket.socket(fileno=fd) for name, fd in told["sockets"].items()}
    # What this process starts must not hold the port open.
    for each in (channel, *sockets.values()):
        each.set_inheritable(False)
    return Hired(
        index=told["index"],
        count=told["count"],
        key=bytes.fromhex(told["key"]),
        directory=Path(told["directory"]),
        sockets=sockets,
        channel=channel,
    )
