"""Rounds of questions: a modern client gets them as a result and calls again with the answers and signed state."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from weft.gateway.parking import Parking
from weft.gateway.signing import Signer, state_of
from weft.ports import Caller

Request: TypeAlias = Callable[[Caller, Mapping[str, Any]], Awaitable[dict[str, Any]]]
"""Does the work for a caller, with what a client that calls again brings along for the server."""

Outcome: TypeAlias = "tuple[dict[str, Any], str | None]"


@dataclass(frozen=True, slots=True)
class Answers:
    """What a client that calls again brings: its answers by key, and the state that it was given."""

    responses: Mapping[str, Any]
    state: str | None = None


class Elsewhere(Protocol):
    """The other workers of this gateway: a call that waits at one of them goes on there."""

    @property
    def index(self) -> int:
        """Which worker this one is."""
        ...

    async def resume(self, worker: int, id_: str, responses: Mapping[str, Any], caller: Caller) -> Outcome:
        """Go on with a call that waits at another worker."""
        ...


class Rounds:
    """Brings questions to clients and answers back, for servers of both eras."""

    def __init__(self, signer: Signer, parking: Parking, elsewhere: Elsewhere | None = None) -> None:
        self._signer = signer
        self._parking = parking
        self._elsewhere = elsewhere

    async def begin(self, work: Request, caller: Caller, *, bound: Callable[[], str], parks: bool) -> dict[str, Any]:
        """Do the work of a first request; `parks` says that it may have to wait here for answers."""
        if not parks:
            result = await work(caller, {})
            return result if result.get("resultType") != "input_required" else self._sealed(result, None, bound())

        async def parked(visitor: Caller) -> dict[str, Any]:
            return await work(visitor, {})

        return self._sealed(*await self._parking.run(parked, caller), bound())

    async def again(self, work: Request, caller: Caller, *, bound: str, answers: Answers) -> dict[str, Any]:
        """Go on with a request whose client has called again.

        Raises:
            InputError: the state is not the one that was given for this request.
        """
        brought: dict[str, Any] = {"inputResponses": dict(answers.responses)} if answers.responses else {}
        if answers.state:
            state = state_of(self._signer.open(answers.state, bound=bound))
            if "parked" in state:
                # It waits where it was, whichever worker the client has called.
                at = int(state["worker"])
                return self._sealed(*await self._resumed(str(state["parked"]), at, answers, caller), bound, at=at)
            if state.get("upstream") is not None:
                brought["requestState"] = state["upstream"]
        return self._sealed(await work(caller, brought), None, bound)

    async def _resumed(self, id_: str, worker: int, answers: Answers, caller: Caller) -> Outcome:
        if self._elsewhere is not None and worker != self._elsewhere.index:
            return await self._elsewhere.resume(worker, id_, answers.responses, caller)
        return await self._parking.resume(id_, answers.responses, caller)

    def _sealed(
        self, result: dict[str, Any], parked: str | None, bound: str, *, at: int | None = None
    ) -> dict[str, Any]:
        """Return a result whose state, if it asks for input, only weft can read and only this request can use."""
        if result.get("resultType") != "input_required":
            return result
        state: dict[str, Any] = {"upstream": result.get("requestState")}
        if parked is not None:
            here = 0 if self._elsewhere is None else self._elsewhere.index
            state = {"parked": parked, "worker": here if at is None else at}
        return {**result, "requestState": self._signer.sign(state, bound=bound)}
