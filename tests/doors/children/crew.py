"""A parent with workers that serve a small application: `crew.py parent COUNT MODE`."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import signal
import sys
from pathlib import Path

from weft.doors.asgi import Receive, Scope, Send, answer_json
from weft.doors.hired import Hired, hired
from weft.doors.listener import Listener, bind, run, serve
from weft.doors.peers import Peers
from weft.doors.workers import Patience, Workers


def say(*words: object) -> None:
    """Tell the test."""
    print(*words, flush=True)  # noqa: T201 - the test reads it


async def work(job: Hired) -> None:
    """Serve as a worker."""
    peers = Peers(job.directory, index=job.index, count=job.count)
    reloads = 0

    async def about(message: dict[str, object]) -> dict[str, object]:
        key = hashlib.sha256(job.key).hexdigest()
        listens = sorted(job.sockets)
        return {"index": job.index, "pid": os.getpid(), "key": key, "sockets": listens, "reloads": reloads}

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        if path == "/die":
            os._exit(3)
        if path == "/slow":
            await asyncio.sleep(1)
        others = await peers.tell_all({"op": "about"}) if path == "/all" else []
        await answer_json(send, 200, {"workers": [await about({}), *others]})

    def reloaded() -> None:
        nonlocal reloads
        reloads += 1

    peers.on("about", about)
    await peers.start()
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reloaded)
    watching = asyncio.create_task(job.orphaned())
    watching.add_done_callback(lambda _: stop.set())
    listeners = [Listener(app, sockets=[each], shared_by=job.count) for each in job.sockets.values()]
    await serve(*listeners, drain=5, on_started=job.started, on_stop=peers.close, stop=stop)
    watching.cancel()


async def lead(count: int, mode: str) -> int:
    """Serve as the parent."""
    public, admin = bind("127.0.0.1", 0), bind("127.0.0.1", 0)
    command = [sys.executable, str(Path(__file__)), "worker", mode]
    patience = Patience(first=0.05, longest=0.1, drain=5, margin=5)
    crew = Workers(command, count=count, sockets={"public": public}, first_only={"admin": admin}, patience=patience)
    with public, admin:
        return await crew.run(on_started=lambda: say(public.getsockname()[1], admin.getsockname()[1]))


def main(role: str, *rest: str) -> int:
    """Be a parent or a worker."""
    logging.basicConfig(level=logging.WARNING)
    if role == "parent":
        return run(lead(int(rest[0]), rest[1]))
    job = hired()
    if job is None or rest[0] == "broken":
        return 3
    if rest[0] == "wrong":
        return 2
    run(work(job))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
