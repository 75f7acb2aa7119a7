"""A connection to Redis, on which several commands may go in one turn, and what Redis's errors mean."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

import hiredis
from redis.asyncio.connection import AbstractConnection, ConnectionPool
from redis.exceptions import ConnectionError as Disconnected
from redis.exceptions import RedisError, ResponseError
from redis.exceptions import TimeoutError as Late

from weft.stores.links import Fault, Lost, Refused

Command: TypeAlias = "tuple[bytes | str | int, ...]"

# Its stub speaks of tuples of one.
_pack: Callable[[Command], bytes] = cast("Any", hiredis).pack_command

_CODE: Final = re.compile(
    r"\b(OOM|READONLY|LOADING|NOAUTH|WRONGPASS|NOPERM|WRONGTYPE|MISCONF|MASTERDOWN|NOREPLICAS|BUSY|NOSCRIPT"
    r"|CLUSTERDOWN|MOVED|ASK|CROSSSLOT)\b"
)
_CLUSTER: Final = Fault("it is a Redis cluster", hint="weft needs one Redis, not a cluster", hopeless=True)
_CREDENTIALS: Final = "check user name, password and rights in the store's url"
READONLY: Final = Fault("it is a replica, which only reads", "StoreReadOnly", elsewhere=True)
_FAULTS: Final = {
    "OOM": Fault("it is out of memory (maxmemory)", "StoreFull"),
    "MISCONF": Fault("it cannot save to its disk, and takes no writes until it can", "StoreFull"),
    "READONLY": READONLY,
    "LOADING": Fault("it is loading its data", elsewhere=True),
    "MASTERDOWN": Fault("it is a replica without its master", elsewhere=True),
    "NOREPLICAS": Fault("it has too few replicas to take writes"),
    "NOAUTH": Fault("it wants a password", "StoreAuth", _CREDENTIALS, hopeless=True, elsewhere=True),
    "WRONGPASS": Fault("it does not accept the password", "StoreAuth", _CREDENTIALS, hopeless=True, elsewhere=True),
    "NOPERM": Fault("its user lacks rights that weft needs", "StoreAuth", _CREDENTIALS, hopeless=True),
    "WRONGTYPE": Fault("another program has written there", "StoreCorrupt", "give the store a prefix", hopeless=True),
    "BUSY": Fault("it is busy with a script", "StoreBusy"),
    "CLUSTERDOWN": _CLUSTER,
    "MOVED": _CLUSTER,
    "ASK": _CLUSTER,
    "CROSSSLOT": _CLUSTER,
}
NOSCRIPT: Final = Fault("it does not know the script", again=True)


def fault_of(error: RedisError) -> Fault:
    """Return what an error of Redis says; scripts hide the error of a command in their own."""
    told = f"{error.status_code or ''} {error}"
    found = _CODE.search(told)
    if found is None:
        if "max number of clients" in told:
            return Fault("it takes no more connections", "StoreBusy", elsewhere=True)
        return Fault(f"it refuses: {error}", elsewhere=isinstance(error, Disconnected))
    return NOSCRIPT if found[1] == "NOSCRIPT" else _FAULTS[found[1]]


@dataclass(frozen=True, slots=True)
class Script:
    """A script that Redis knows by its hash once it has run."""

    text: str
    sha: str


class RedisLink:
    """A connection of redis-py without its pool, retries and timeouts: what may have been done is not repeated."""

    def __init__(self, connection: AbstractConnection) -> None:
        self._connection = connection
        self.id: int | None = None
        """What the server calls it, or None when it may not be asked."""

    @classmethod
    async def connect(cls, pool: ConnectionPool) -> RedisLink:
        """Connect, and log in.

        Raises:
            Refused: that failed.
        """
        connection: AbstractConnection = pool.make_connection()
        try:
            await connection.connect()
        except RedisError as error:
            refused = error.__cause__ if isinstance(error.__cause__, RedisError) else error
            if isinstance(refused, (Disconnected, Late)) and not _CODE.search(f"{refused.status_code} {refused}"):
                raise Refused(Fault(f"it cannot be reached: {refused}")) from error
            raise Refused(fault_of(refused)) from error
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        return cls(connection)

    async def alive(self) -> bool:
        """Tell whether the server has neither closed it nor said anything that nobody asked for."""
        return self._connection.is_connected and not await self._connection.can_read()

    async def drop(self) -> None:
        """Close it at once."""
        await self._connection.disconnect(nowait=True)

    async def ask(self, *command: bytes | str | int) -> Any:
        """Send a command and return its answer.

        Raises:
            Refused: Redis answered with an error.
            Lost: the connection broke.
        """
        await self._send(_pack(command))
        return await self._answer()

    async def ask_all(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands in one turn; where Redis refused one, its answer is a Refused."""
        await self._send(b"".join(map(_pack, commands)))
        answers: list[Any] = []
        for _ in commands:
            try:
                answers.append(await self._answer())
            except Refused as refused:
                if not self._connection.is_connected:
                    raise  # it said so and hung up
                answers.append(refused)
        return answers

    async def run(self, script: Script, keys: Sequence[bytes], args: Sequence[bytes]) -> Any:
        """Run a script, which is sent whole where Redis has forgotten it."""
        try:
            return await self.ask(b"EVALSHA", script.sha, len(keys), *keys, *args)
        except Refused as refused:
            if refused.fault is not NOSCRIPT:
                raise
        return await self.ask(b"EVAL", script.text, len(keys), *keys, *args)

    async def _send(self, packed: bytes) -> None:
        try:
            await self._connection.send_packed_command(packed, check_health=False)
        except (RedisError, OSError) as error:
            raise Lost(f"the connection broke: {error}") from error

    async def _answer(self) -> Any:
        try:
            return cast("Any", await self._connection.read_response(disable_decoding=True))
        except ResponseError as error:
            raise Refused(fault_of(error)) from error
        except Disconnected as error:
            if error.status_code:
                raise Refused(fault_of(error)) from error
            raise Lost(f"the connection broke: {error}") from error
        except (RedisError, OSError) as error:
            raise Lost(f"the connection broke: {error}") from error
