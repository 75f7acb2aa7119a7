"""The legacy era: a handshake, a session, and requests that belong to it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from weft.doors.mcp.callers import Client, LegacyClient
from weft.doors.mcp.faults import INVALID_PARAMS, METHOD_NOT_FOUND, Refusal
from weft.doors.mcp.labels import Labels
from weft.doors.mcp.methods import LEGACY_METHODS, OFFERED_BY
from weft.doors.mcp.older import older
from weft.doors.mcp.peers import Peers
from weft.doors.mcp.questions import Questions, Tell, asked_by
from weft.doors.mcp.serves import Serves
from weft.doors.mcp.sessions import Agreed, Sessions
from weft.errors import InfrastructureError
from weft.ports import Principal, is_object
from weft.upstreams.session import LEVELS


class Legacy:
    """What legacy messages mean, whatever they came on."""

    def __init__(self, gateway: Serves, sessions: Sessions, *, peers: Peers | None = None) -> None:
        self._gateway = gateway
        self._sessions = sessions
        self._peers = peers
        self._labels = Labels()
        self.questions = Questions(worker=peers.index if peers is not None else 0)
        if peers is not None:
            peers.on("answer", self._answer_of_peer)
            peers.on("session", self._change_of_peer)
            peers.on("cancel", self._cancel_of_peer)

    async def welcome(self, agreed: Agreed, view: str | None, principal: Principal) -> dict[str, Any]:
        """Return the result of a handshake."""
        await self._gateway.ready()
        told: dict[str, Any] = {
            "protocolVersion": agreed.version,
            "capabilities": self._gateway.capabilities(view),
            "serverInfo": self._gateway.info,
        }
        instructions = await self._gateway.instructions(view, principal)
        return told if instructions is None else {**told, "instructions": instructions}

    def client(
        self, agreed: Agreed, params: Mapping[str, Any], *, principal: Principal, tell: Tell | None
    ) -> LegacyClient:
        """Return the client of a request of a session."""
        meta = params.get("_meta")
        return LegacyClient(
            tell,
            principal=self._labels.on(principal, agreed.info),
            meta=meta if is_object(meta) else {},
            agreed=agreed,
            log_level=self._sessions.state(agreed.id).level,
            questions=self.questions,
        )

    async def serve(
        self, agreed: Agreed, view: str | None, method: str, params: dict[str, Any], client: Client
    ) -> dict[str, Any]:
        """Return the result of a request of a session."""
        try:
            offered = OFFERED_BY.get(method)
            if offered is not None:
                await self._gateway.ready()
            if method not in LEGACY_METHODS or (offered and offered not in self._gateway.capabilities(view)):
                raise Refusal(f"Method not found: {method[:80]}", rpc=METHOD_NOT_FOUND, status=200)
            if method == "ping":
                return {}
            if method == "logging/setLevel":
                return await self._set_level(agreed.id, params)
            if method in {"resources/subscribe", "resources/unsubscribe"}:
                return await self._follow(agreed.id, view, method, params, client)
            return older(method, await self._gateway.handle(view, method, params, client))
        finally:
            client.close()

    async def notice(self, session: str, message: Mapping[str, Any]) -> None:
        """Take a notification of a session; only one of them says anything that matters here."""
        params = message.get("params")
        if message["method"] == "notifications/cancelled" and is_object(params):
            request: object = params.get("requestId")
            if not self._cancel(session, request) and self._peers is not None:
                await self._peers.tell_all({"op": "cancel", "session": session, "request": request})

    async def answer(self, session: str, message: dict[str, Any]) -> None:
        """Take the answer to a question, and bring it to the worker that asked."""
        worker = asked_by(message["id"])
        if self._peers is not None and worker is not None and worker != self._peers.index:
            # A worker that is gone has taken its question with it.
            with suppress(InfrastructureError):
                await self._peers.tell(worker, {"op": "answer", "session": session, "message": message})
        else:
            self.questions.answer(session, message)

    async def end(self, session: str) -> None:
        """End a session on all workers."""
        self._sessions.end(session)
        await self._tell_peers(session, {"end": True})

    async def _set_level(self, session: str, params: Mapping[str, Any]) -> dict[str, Any]:
        level = params.get("level")
        if level not in LEVELS:
            raise Refusal(f"level must be one of {', '.join(LEVELS)}", rpc=INVALID_PARAMS, status=200)
        self._sessions.state(session).level = str(level)
        await self._tell_peers(session, {"level": level})
        return {}

    async def _follow(
        self, session: str, view: str | None, method: str, params: dict[str, Any], client: Client
    ) -> dict[str, Any]:
        """Follow a resource, or no more.

        A server is asked to tell of changes exactly while there is a stream on which they can be passed on; without
        one, asking only shows whether the resource can be followed at all.
        """
        uri: object = params.get("uri")
        if not isinstance(uri, str):
            raise Refusal("uri must be a string", rpc=INVALID_PARAMS, status=200)
        change = "subscribe" if method == "resources/subscribe" else "unsubscribe"
        if change == "subscribe" and not self._sessions.state(session).streams:
            await self._gateway.handle(view, "resources/subscribe", {"uri": uri}, client)
            await self._gateway.handle(view, "resources/unsubscribe", {"uri": uri}, client)
        await self._change(session, {change: uri})
        await self._tell_peers(session, {change: uri})
        return {}

    async def _change(self, session: str, change: Mapping[str, Any]) -> None:
        if change.get("end"):
            self._sessions.end(session)
            return
        state = self._sessions.state(session)
        state.level = change.get("level", state.level)
        if isinstance(uri := change.get("subscribe"), str):
            await asyncio.gather(*(stream.hold(uri) for stream in state.streams))
            state.uris.add(uri)
        if isinstance(uri := change.get("unsubscribe"), str):
            state.uris.discard(uri)
            await asyncio.gather(*(stream.release(uri) for stream in state.streams))

    def _cancel(self, session: str, request: object) -> bool:
        if not isinstance(request, str | int):
            return False
        exchange = self._sessions.state(session).running.get(request)
        if exchange is not None:
            exchange.give_up("cancelled")
        return exchange is not None

    async def _tell_peers(self, session: str, change: Mapping[str, Any]) -> None:
        if self._peers is not None:
            await self._peers.tell_all({"op": "session", "session": session, **change})

    async def _answer_of_peer(self, message: dict[str, Any]) -> dict[str, Any]:
        return {"taken": self.questions.answer(message["session"], message["message"])}

    async def _change_of_peer(self, message: dict[str, Any]) -> dict[str, Any]:
        await self._change(message["session"], message)
        return {}

    async def _cancel_of_peer(self, message: dict[str, Any]) -> dict[str, Any]:
        return {"cancelled": self._cancel(message["session"], message["request"])}
