"""Runs wherever they are under way: here, or in another worker on this machine."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final

from weft.doors.peers import Peers
from weft.errors import InputError, LimitExceeded, NotFound
from weft.gateway.composition_rights import NotAllowed
from weft.gateway.compositions import Compositions
from weft.ports import Principal
from weft.workflows.recorded import ENDED

CANCELLING: Final = 300.0
"""Seconds that another worker has to end a run, with all that it undoes."""
LOOKING: Final = 5.0
MOST_RELAYED: Final = 32
"""How many runs of other workers are followed at once: each takes one of the few ways to that worker."""


class Everywhere:
    """The runs of all workers; which of them has a run is asked when somebody wants something of it."""

    def __init__(self, compositions: Compositions, peers: Peers | None = None) -> None:
        self._here = compositions
        self._peers = peers
        self._relayed = 0

    def answer_others(self) -> None:
        """Let the other workers ask this one about its runs; they have made sure of the tenant and of the right."""
        if self._peers is not None:
            self._peers.on("has_run", self._asked_has)
            self._peers.on("get_run", self._asked_get)
            self._peers.on("cancel_run", self._asked_cancel)
            self._peers.on("follow_run", self._asked_follow)

    async def run(self, principal: Principal, run_id: str) -> dict[str, Any]:
        """Return all that is known of a run; where workers share no store, whoever has it knows.

        Raises:
            NotFound: the tenant has no such run.
        """
        try:
            return await self._here.run(principal, run_id)
        except NotFound:
            for told in await self._ask_all("get_run", principal, run_id):
                if told.get("run") is not None:
                    return told["run"]
            raise

    async def cancel(self, principal: Principal, run_id: str) -> dict[str, Any]:
        """End a run that the caller began, and return it as it ended.

        Raises:
            NotFound: the tenant has no such run.
            NotAllowed: somebody else of the tenant began it.
            InputError: it is not under way (RunNotRunning).
        """
        if (await self.run(principal, run_id))["principal"] != principal.id:
            raise NotAllowed(f"somebody else began run {run_id}", hint="only who began a run may end it")
        if self._peers is not None and (worker := await self._worker_of(principal, run_id)) is not None:
            message = _message("cancel_run", principal, run_id)
            told = await self._peers.tell(worker, message, timeout=CANCELLING)
            if "run" in told:
                return told["run"]
            raise InputError(told["message"], code=told["code"])
        try:
            return await self._here.cancel(principal, run_id)
        except NotFound:
            # Another worker may remember that it has ended, where each has a store for itself.
            told = await self.run(principal, run_id)
            raise InputError(f"run {run_id} is {told['status']}", code="RunNotRunning") from None

    async def follow(self, principal: Principal, run_id: str, after: int) -> AsyncGenerator[dict[str, Any]]:
        """Return what happens in a run from an event on.

        Raises:
            NotFound: the tenant has no such run.
            LimitExceeded: too many are followed from here already.
        """
        worker = await self._worker_of(principal, run_id)
        if worker is not None:
            if self._relayed >= MOST_RELAYED:
                raise LimitExceeded("FollowedRuns", MOST_RELAYED, "too many runs of other workers are followed")
            return self._relay(worker, {**_message("follow_run", principal, run_id), "after": after})
        if not self._here.is_here(principal, run_id) and (run := await self.run(principal, run_id))["status"] in ENDED:
            return _over(run, after)
        return self._here.follow(principal, run_id, after)

    async def _worker_of(self, principal: Principal, run_id: str) -> int | None:
        """Return which of the other workers has a run under way."""
        if self._here.is_here(principal, run_id):
            return None
        for told in await self._ask_all("has_run", principal, run_id):
            if told["has"]:
                return told["worker"]
        return None

    async def _ask_all(self, op: str, principal: Principal, run_id: str) -> list[dict[str, Any]]:
        if self._peers is None:
            return []
        return await self._peers.tell_all(_message(op, principal, run_id), timeout=LOOKING)

    async def _relay(self, worker: int, message: dict[str, Any]) -> AsyncGenerator[dict[str, Any]]:
        assert self._peers is not None
        self._relayed += 1
        try:
            async with aclosing(self._peers.stream(worker, message)) as events:
                async for event in events:
                    if "event" in event:
                        yield event
        finally:
            self._relayed -= 1

    # What the others ask.

    async def _asked_has(self, message: dict[str, Any]) -> dict[str, Any]:
        has = self._here.is_here(_tenant_of(message), message["run_id"])
        return {"has": has, "worker": None if self._peers is None else self._peers.index}

    async def _asked_get(self, message: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"run": await self._here.run(_tenant_of(message), message["run_id"])}
        except NotFound:
            return {"run": None}

    async def _asked_cancel(self, message: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"run": await self._here.cancel(_tenant_of(message), message["run_id"])}
        except InputError as error:
            return {"code": error.code, "message": error.message}

    async def _asked_follow(self, message: dict[str, Any]) -> AsyncGenerator[dict[str, Any]]:
        following = self._here.follow(_tenant_of(message), message["run_id"], message["after"])
        async with aclosing(following) as events:
            async for event in events:
                yield event


async def _over(run: dict[str, Any], after: int) -> AsyncGenerator[dict[str, Any]]:
    """Yield the end of a run that was over before."""
    yield {"id": after + 1, "event": "run_ended", "data": run}


def _message(op: str, principal: Principal, run_id: str) -> dict[str, Any]:
    return {"op": op, "tenant": principal.tenant, "run_id": run_id}


def _tenant_of(message: dict[str, Any]) -> Principal:
    """Return somebody of the tenant that another worker asks for: of a run, that is all that counts."""
    return Principal(tenant=message["tenant"])
