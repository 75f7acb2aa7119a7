"""The demo's gateway: weft.yaml and registry.yaml of this folder, on real listeners."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.app.running import Running, running
from weft.config import Config
from weft.doors.listener import Listener, bind
from weft.ir.read import read_file

FOLDER = Path(__file__).parent
CONFIG = FOLDER / "weft.yaml"
REGISTRY = FOLDER / "registry.yaml"
ORDER_SERVERS = ("inventory@1.0.0", "payment@1.0.0", "shipping@1.0.0")
DRAIN = 2.0


@dataclass(frozen=True, slots=True)
class Open:
    """A gateway that is being served: where clients and operators find it."""

    gateway: Running
    listeners: tuple[Listener, ...]
    url: str
    admin: str


def demo_settings(data: Path, *, port: int = 0, admin: int = 0) -> dict[str, Any]:
    """Return what weft.yaml of the demo says, on these ports, its servers run by the Python that runs weft.

    What the order servers and the store keep is in a folder of its own.
    """
    written: dict[str, Any] = dict(read_file(CONFIG).value)
    written |= {"listen": {"port": port}, "admin": {"port": admin}}
    written["registry"]["source"] = f"file://{REGISTRY}"
    for store in written["stores"].values():
        store["path"] = str(data / store["path"])
    for key, server in written["servers"].items():
        server["command"] = [sys.executable, *server["command"][1:]]
        if key in ORDER_SERVERS:
            server["command"] += ["--data", str(data / f"{key.partition('@')[0]}.db")]
    return written


def demo_config(data: Path, *, port: int = 0, admin: int = 0) -> Config:
    """Return the settings of the demo, as a gateway takes them."""
    return Config.model_validate(demo_settings(data, port=port, admin=admin), context=FOLDER)


@contextlib.contextmanager
def own_folder() -> Generator[Path]:
    """Yield the one folder that the demo writes to; it is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="weft-demo-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@contextlib.asynccontextmanager
async def opened(config: Config) -> AsyncGenerator[Open]:
    """Bind the listeners and start the gateway; who is given it starts the listeners."""
    with contextlib.ExitStack() as sockets:
        public = sockets.enter_context(bind(config.listen.host, config.listen.port))
        private = sockets.enter_context(bind(config.admin.host, config.admin.port))
        async with running(config) as one:
            listeners = (one.listener(public), one.admin(private))
            urls = ["http://{}:{}".format(*listener.address) for listener in listeners]
            yield Open(one, listeners, f"{urls[0]}/mcp", urls[1])


@contextlib.asynccontextmanager
async def served(config: Config) -> AsyncGenerator[Open]:
    """Serve the gateway while the block lasts."""
    async with opened(config) as one:
        try:
            for listener in one.listeners:
                await listener.start()
            yield one
        finally:
            for listener in one.listeners:
                await listener.drain(DRAIN)
