"""Questions: what a server asks a legacy client while its call runs, and the answers that come back."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Protocol

from weft.doors.mcp.messages import notification
from weft.errors import UpstreamRefused
from weft.ports import is_object


class Tell(Protocol):
    """How a client is told something: it never waits, and it drops the oldest that may be dropped."""

    def __call__(self, message: dict[str, Any], *, droppable: bool = False) -> None:
        """Tell it."""
        ...


class Questions:
    """The questions that this worker has open; their ids say which worker asked."""

    def __init__(self, *, worker: int = 0) -> None:
        self._prefix = f"w{worker}-"
        self._numbers = 0
        self._open: dict[str, tuple[str, asyncio.Future[dict[str, Any]]]] = {}

    async def ask(self, owner: str, requests: Mapping[str, Mapping[str, Any]], tell: Tell) -> dict[str, dict[str, Any]]:
        """Ask the client of a session, and wait for all of its answers.

        Raises:
            UpstreamRefused: it answered with an error.
        """
        asked = {key: self._ask(owner, request, tell) for key, request in requests.items()}
        try:
            return {
                key: _result_of(await answer, str(requests[key].get("method"))) for key, (_, answer) in asked.items()
            }
        finally:
            for id_, answer in asked.values():
                if self._open.pop(id_, None) is not None and not answer.done():
                    answer.cancel()
                    tell(notification("notifications/cancelled", {"requestId": id_}))

    def answer(self, owner: str, message: dict[str, Any]) -> bool:
        """Take an answer; only the session that was asked can give it."""
        session, answer = self._open.get(message["id"], (None, None))
        if answer is None or session != owner or answer.done():
            return False
        answer.set_result(message)
        return True

    def _ask(self, owner: str, request: Mapping[str, Any], tell: Tell) -> tuple[str, asyncio.Future[dict[str, Any]]]:
        self._numbers += 1
        id_ = f"{self._prefix}{self._numbers}"
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._open[id_] = (owner, answer)
        tell({"jsonrpc": "2.0", "id": id_, "method": request["method"], "params": dict(request.get("params") or {})})
        return id_, answer


def asked_by(id_: object) -> int | None:
    """Return the worker that asked the question with an id."""
    worker, dash, number = id_.partition("-") if isinstance(id_, str) else ("", "", "")
    return int(worker[1:]) if dash and number.isdigit() and worker[:1] == "w" and worker[1:].isdigit() else None


def _result_of(message: dict[str, Any], method: str) -> dict[str, Any]:
    if is_object(error := message.get("error")):
        raise UpstreamRefused("client", method, error)
    return message["result"]
