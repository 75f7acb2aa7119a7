"""The legacy era over HTTP: sessions by a header, a stream to listen on, and an end."""

from __future__ import annotations

from typing import Any

from weft.doors.asgi import answer_json, respond
from weft.doors.mcp.exchange import Exchange
from weft.doors.mcp.faults import Refusal
from weft.doors.mcp.headers import SESSION
from weft.doors.mcp.legacy import Legacy
from weft.doors.mcp.listening import FLAGS, Listeners, Listening
from weft.doors.mcp.messages import Kind, result
from weft.doors.mcp.methods import LEGACY
from weft.doors.mcp.serves import Serves
from weft.doors.mcp.sessions import Agreed, Sessions
from weft.doors.mcp.visits import Visit, listen_until_over

STREAMS = 4
"""How many GET streams a session may have open; each message goes to the newest only."""


class LegacySessions:
    """What legacy clients post, get and delete."""

    def __init__(self, gateway: Serves, listeners: Listeners, sessions: Sessions, legacy: Legacy) -> None:
        self._gateway = gateway
        self._listeners = listeners
        self._sessions = sessions
        self._legacy = legacy

    async def post(self, visit: Visit, message: dict[str, Any], kind: Kind) -> None:
        """Serve one message.

        Raises:
            Refusal: it belongs to no session.
        """
        if message.get("method") == "initialize":
            return await self._begin(visit, message)
        agreed = self._session(visit)
        if kind == "request":
            return await self._serve(visit, message, agreed)
        if kind == "notification":
            await self._legacy.notice(agreed.id, message)
        else:
            await self._legacy.answer(agreed.id, message)
        return await respond(visit.send, 202)

    async def get(self, visit: Visit) -> None:
        """Serve the stream on which a session hears of changes.

        Raises:
            Refusal: there is no such session, or it has streams enough.
        """
        agreed = self._session_of_old(visit)
        if not visit.fields.accepts()[1]:
            raise Refusal("Accept must have text/event-stream", status=406)
        state = self._sessions.state(agreed.id)
        if len(state.streams) >= STREAMS:
            raise Refusal(f"the session has {STREAMS} streams open already", status=409)
        reply = visit.reply()
        listening = Listening(
            self._gateway,
            reply.tell_once,
            view=visit.view,
            principal=visit.principal,
            methods=set(FLAGS.values()),
            uris=state.uris,
        )
        try:
            self._listeners.add(listening, when=lambda: state.streams[-1:] == [listening])
            state.streams.append(listening)
            # The client waits for the headers before it takes the stream for open.
            reply.keep_alive()
            await listening.hold_all()
            if await listen_until_over(visit, listening, reply):
                await reply.close()
        finally:
            self._listeners.remove(listening)
            if listening in state.streams:
                state.streams.remove(listening)
            await listening.release_all()

    async def delete(self, visit: Visit) -> None:
        """End a session.

        Raises:
            Refusal: there is none.
        """
        await self._legacy.end(self._session_of_old(visit).id)
        await respond(visit.send, 204)

    async def _begin(self, visit: Visit, message: dict[str, Any]) -> None:
        agreed, token = self._sessions.begin(message.get("params") or {}, bound=visit.bound)
        welcome = result(message["id"], await self._legacy.welcome(agreed, visit.view, visit.principal))
        await answer_json(visit.send, 200, welcome, headers=[(SESSION, token.encode())])

    async def _serve(self, visit: Visit, message: dict[str, Any], agreed: Agreed) -> None:
        id_, method = message["id"], message["method"]
        params: dict[str, Any] = message.get("params") or {}
        reply = visit.reply()
        client = self._legacy.client(
            agreed, params, principal=visit.principal, tell=reply.tell if reply.streams else None
        )
        work = self._legacy.serve(agreed, visit.view, method, params, client)
        running = self._sessions.state(agreed.id).running
        # The protocol says that a client which goes away should not be taken to cancel its request, since it may come
        # back to the stream. Here it cannot: streams are not resumed, so nobody could ever be told the result, and a
        # client that only retries would pile up work. So a legacy request ends with its connection, too.
        exchange = running[id_] = Exchange(reply)
        try:
            await exchange.run(work, id_=id_, method=method, era="legacy", receive=visit.receive)
        finally:
            if running.get(id_) is exchange:
                del running[id_]

    def _session_of_old(self, visit: Visit) -> Agreed:
        version = visit.version
        if version not in {None, *LEGACY} or (version is None and visit.fields.get(SESSION) is None):
            says = "GET and DELETE are for the sessions of older clients: POST is the way in"
            raise Refusal(says, status=405, headers={"Allow": "POST"})
        return self._session(visit)

    def _session(self, visit: Visit) -> Agreed:
        token = visit.fields.text(SESSION)
        if token is None:
            raise Refusal("Mcp-Session-Id is missing: send initialize first, and its session id with every request")
        agreed = self._sessions.find(token, bound=visit.bound)
        if agreed is None:
            raise Refusal("Session not found: send initialize again", status=404)
        return agreed
