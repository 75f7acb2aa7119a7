"""A call that waits for its client at one worker, and is called again at another: it goes on where it waits."""

from __future__ import annotations

from asyncio import Queue, ensure_future
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any

from weft.doors.peers import Peers
from weft.errors import InfrastructureError, InputError, UpstreamRefused, WeftError
from weft.gateway.callers import Nobody
from weft.gateway.parking import Parking
from weft.gateway.rounds import Outcome
from weft.ports import Caller, Principal

RESUME = "resume"


class OtherWorkers:
    """The other workers, as the gateway asks them to go on with a call."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers

    @property
    def index(self) -> int:
        """Which worker this one is."""
        return self._peers.index

    async def resume(self, worker: int, id_: str, responses: Mapping[str, Any], caller: Caller) -> Outcome:
        """Go on with a call at another worker, and tell the client here what it is told there."""
        if not 0 <= worker < self._peers.count:
            raise _ended()
        message = {"op": RESUME, "id": id_, "responses": responses, "caller": _written(caller)}
        try:
            return await self._resumed(worker, message, caller)
        except InfrastructureError as error:
            if isinstance(error.__cause__, FileNotFoundError | ConnectionRefusedError):
                # The worker has died, and what waited there with it.
                raise _ended() from error
            raise

    async def _resumed(self, worker: int, message: dict[str, Any], caller: Caller) -> Outcome:
        async with aclosing(self._peers.stream(worker, message)) as told:
            async for one in told:
                if "progress" in one:
                    caller.progress(one["progress"])
                elif "log" in one:
                    caller.log(one["log"])
                elif "rpc" in one:
                    raise UpstreamRefused(one["server"], one["method"], one["rpc"])
                elif "refused" in one:
                    raise InputError(one["refused"], code=one["code"])
                elif "result" in one:
                    return one["result"], one["parked"]
        raise _ended()


def resume_for_others(peers: Peers, parking: Parking) -> None:
    """Go on with calls that wait here when their clients have called again at another worker."""

    async def resume(message: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        told: Queue[dict[str, Any]] = Queue()
        work = ensure_future(parking.resume(message["id"], message["responses"], _Far(message["caller"], told)))
        work.add_done_callback(lambda _: told.put_nowait({}))
        try:
            while one := await told.get():
                yield one
            try:
                result, parked = work.result()
            except UpstreamRefused as error:
                rpc = {"code": error.rpc_code, "message": error.rpc_message, "data": error.rpc_data}
                yield {"rpc": rpc, "server": error.server, "method": error.method}
            except WeftError as error:
                yield {"refused": error.message, "code": error.code}
            else:
                yield {"result": result, "parked": parked}
        finally:
            work.cancel()

    peers.on(RESUME, resume)


class _Far(Nobody):
    """A client that another worker has the connection of."""

    def __init__(self, written: Mapping[str, Any], told: Queue[dict[str, Any]]) -> None:
        super().__init__(principal=Principal.of_json(written["principal"]), meta=written["meta"])
        self.capabilities = written["capabilities"]
        self.info = written["info"]
        self.log_level = written["log_level"]
        self.wants_progress = written["wants_progress"]
        self._told = told

    def progress(self, params: dict[str, Any]) -> None:
        self._told.put_nowait({"progress": params})

    def log(self, params: dict[str, Any]) -> None:
        self._told.put_nowait({"log": params})


def _written(caller: Caller) -> dict[str, Any]:
    return {
        "principal": caller.principal.to_json(),
        "meta": dict(caller.meta),
        "capabilities": dict(caller.capabilities),
        "info": dict(caller.info),
        "log_level": caller.log_level,
        "wants_progress": caller.wants_progress,
    }


def _ended() -> InputError:
    told = "requestState is not valid: the call that it belongs to has ended; call again without it"
    return InputError(told, code="InvalidRequestState")
