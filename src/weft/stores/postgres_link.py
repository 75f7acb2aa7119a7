"""A connection to Postgres, and what Postgres's errors mean."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import asyncpg

from weft.stores.links import Fault, Lost, Refused

_CREDENTIALS: Final = "check user name, password and rights in the store's url"
_AUTH: Final = Fault("it does not accept the credentials", "StoreAuth", _CREDENTIALS, hopeless=True)
_BUSY: Final = Fault("another writer did not make way in time", "StoreBusy")
_FULL: Final = Fault("it has no room left", "StoreFull")
_BROKEN: Final = Fault("what is stored there is damaged", "StoreCorrupt", hopeless=True)
_GONE: Final = Fault("its tables are gone or altered", "StoreCorrupt", "restart weft to make them anew", hopeless=True)
_FAULTS: Final = {
    "40001": Fault("it could not order the transactions", "StoreBusy", again=True),
    "40P01": Fault("it was in a deadlock", "StoreBusy", again=True),
    "55P03": _BUSY,
    "57014": _BUSY,
    "25006": Fault("it is a standby, which only reads", "StoreReadOnly", elsewhere=True),
    "53300": Fault("it takes no more connections", "StoreBusy", "raise max_connections, or lower `connections`"),
    "53100": _FULL,
    "53200": _FULL,
    "57P03": Fault("it is starting or stopping", elsewhere=True),
    "42501": Fault("its user lacks rights that weft needs", "StoreAuth", _CREDENTIALS, hopeless=True),
    "3D000": Fault("it has no such database", hint="check the database in the store's url", hopeless=True),
    "42P01": _GONE,
    "42703": _GONE,
    "42883": _GONE,
    "3F000": _GONE,
    "XX001": _BROKEN,
    "XX002": _BROKEN,
}
_ENDED: Final = ("57P01", "57P02", "57P05")
"""The server ended the connection: in a crash, perhaps in the middle of a commit."""


def fault_of(error: asyncpg.PostgresError) -> Fault:
    """Return what an error of Postgres says."""
    state = error.sqlstate or ""
    if state in _FAULTS:
        return _FAULTS[state]
    return _AUTH if state.startswith("28") else Fault(f"it refuses: {error} ({state})")


def _at(url: str) -> str:
    """Return where a URL leads, and nothing of who goes there; nothing at all when that cannot be told apart."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    if "@" in parts.path + parts.query + parts.fragment:
        return ""
    hosts = parts.netloc.rpartition("@")[2] or ",".join(parse_qs(parts.query).get("host", []))
    return f" at {hosts}" if hosts else ""


def _broke(error: asyncpg.PostgresError) -> bool:
    return error.sqlstate is None or error.sqlstate.startswith("08") or error.sqlstate in _ENDED


class PostgresLink:
    """A connection of asyncpg without its pool and timeouts."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection
        self.pid: int = connection.get_server_pid()
        """The process of the server that serves it."""
        self.began: datetime | None = None
        """When the server began it: numbers of its processes come again, and not at the same moment."""

    @classmethod
    async def connect(cls, url: str, *, timeout: float, settings: dict[str, str]) -> PostgresLink:
        """Connect, and log in.

        Raises:
            Refused: that failed.
        """
        try:
            connection = await asyncpg.connect(url, timeout=timeout, server_settings=settings)
        except asyncpg.PostgresError as error:
            fault = Fault(f"it cannot be reached{_at(url)}: {error}") if _broke(error) else fault_of(error)
            raise Refused(fault) from error
        except (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
            told = getattr(error, "strerror", None) or error or type(error).__name__
            raise Refused(Fault(f"it cannot be reached{_at(url)}: {told}")) from error
        link = cls(connection)
        try:
            link.began = await link.value("SELECT backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()")
        except BaseException:
            await link.drop()
            raise
        return link

    async def alive(self) -> bool:
        """Tell whether the server has not closed it."""
        return not self._connection.is_closed()

    async def drop(self) -> None:
        """Close it at once."""
        self._connection.terminate()

    async def rows(self, query: str, *args: object) -> Sequence[Sequence[Any]]:
        """Run a query and return its rows.

        Raises:
            Refused: Postgres answered with an error.
            Lost: the connection broke.
        """
        try:
            return await self._connection.fetch(query, *args)
        except asyncpg.PostgresError as error:
            raise _meaning(error) from error
        except (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
            raise Lost(f"the connection broke: {error}") from error

    async def row(self, query: str, *args: object) -> Sequence[Any] | None:
        """Run a query and return its first row."""
        rows = await self.rows(query, *args)
        return rows[0] if rows else None

    async def value(self, query: str, *args: object) -> Any:
        """Run a query and return the first value of its first row."""
        rows = await self.rows(query, *args)
        return rows[0][0] if rows else None

    async def script(self, text: str) -> None:
        """Run several statements, as one transaction where they do not say otherwise."""
        try:
            await self._connection.execute(text)
        except asyncpg.PostgresError as error:
            raise _meaning(error) from error
        except (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
            raise Lost(f"the connection broke: {error}") from error


def _meaning(error: asyncpg.PostgresError) -> Refused | Lost:
    return Lost(f"the connection broke: {error}") if _broke(error) else Refused(fault_of(error))
