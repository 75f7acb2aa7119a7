"""How a Postgres server keeps what it takes, and the end of a connection that broke."""

from __future__ import annotations

from typing import Final

from weft.stores.links import Fault, Refused
from weft.stores.postgres_link import PostgresLink
from weft.stores.postgres_schema import OLDEST

_LONG: Final = 100
"""Milliseconds to wait at once for the end of a connection; a commit that hangs on the disk cannot be ended."""

_ASKED: Final = (
    "SELECT current_setting('server_version_num')::int, current_setting('fsync'), pg_is_in_recovery(),"
    " current_setting('transaction_read_only')"
)
_END: Final = "SELECT pg_terminate_backend(pid, $3) FROM pg_stat_activity WHERE pid = $1 AND backend_start = $2"


async def check_server(link: PostgresLink, *, durable: bool) -> None:
    """Refuse a server that cannot be a store, and one that is said to be durable and is not.

    Raises:
        Refused: StoreVolatile, StoreReadOnly, or StoreUnavailable for a server that is too old.
    """
    row = await link.row(_ASKED)
    assert row is not None
    version, fsync, standby, read_only = row
    if version < OLDEST:
        raise Refused(Fault(f"its version {version // 10000} is too old: weft needs 14", hopeless=True))
    if standby or read_only == "on":
        raise Refused(Fault("it is a standby, which only reads", "StoreReadOnly", elsewhere=True))
    if durable and fsync != "on":
        hint = "set 'fsync = on', or do not call the store durable"
        raise Refused(Fault("it is said to be durable, and does not wait for its disk", "StoreVolatile", hint, True))


async def ended(link: PostgresLink, broken: PostgresLink) -> bool:
    """End a connection on the server, should it go on there; tell whether that may be done.

    Raises:
        Refused: it has not ended yet; to be asked again.
    """
    try:
        done = await link.value(_END, broken.pid, broken.began, _LONG)
    except Refused:
        return False
    if done is False:
        raise Refused(Fault("a connection that broke goes on there", "StoreBusy", again=True))
    return True
