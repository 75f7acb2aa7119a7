"""The modern era over HTTP: one POST for each request, whose headers repeat what its body says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.doors.asgi import respond
from weft.doors.mcp.exchange import Exchange
from weft.doors.mcp.faults import Refusal
from weft.doors.mcp.headers import check_mirrored_arguments, check_mirrored_fields
from weft.doors.mcp.listening import FLAGS, Listeners, Listening, acknowledgement, tag, wanted
from weft.doors.mcp.messages import Kind, result
from weft.doors.mcp.methods import PROTOCOL_VERSION, VERSIONS
from weft.doors.mcp.modern import Modern, check_version, envelope, is_modern, unsupported
from weft.doors.mcp.serves import Serves
from weft.doors.mcp.streams import Reply
from weft.doors.mcp.visits import Visit, listen_until_over


class ModernPosts:
    """What modern clients post."""

    def __init__(self, gateway: Serves, listeners: Listeners, *, ttl_ms: int) -> None:
        self._gateway = gateway
        self._listeners = listeners
        self._modern = Modern(gateway, ttl_ms=ttl_ms)

    async def post(self, visit: Visit, message: dict[str, Any], kind: Kind) -> None:
        """Serve one message.

        Raises:
            Refusal: it is not one that this era has, or its headers say something else.
        """
        if kind != "request":
            return await self._take(visit, kind)
        version = visit.version
        if version is not None and version not in VERSIONS and not is_modern(message):
            raise unsupported(version)
        meta = envelope(message)
        check_mirrored_fields(visit.fields, message, meta[PROTOCOL_VERSION])
        check_version(meta[PROTOCOL_VERSION])
        id_, method, params = message["id"], message["method"], message["params"]
        await self._modern.check_method(method, visit.view)
        if method == "tools/call":
            self._check_arguments(visit, params)
        reply = visit.reply()
        if method == "subscriptions/listen":
            return await self._listen(visit, id_, params, reply)
        client = self._modern.client(meta, principal=visit.principal, tell=reply.tell if reply.streams else None)
        work = self._modern.serve(visit.view, method, params, client)
        return await Exchange(reply).run(work, id_=id_, method=method, era="modern", receive=visit.receive)

    async def _take(self, visit: Visit, kind: Kind) -> None:
        if kind == "response":
            raise Refusal("there is nothing to respond to: this server asks by its results")
        # Nothing that a modern client may say in a notification concerns a server that keeps nothing of it. One that
        # cancels by id is not followed: different callers have the same ids, and one could stop the other's work.
        check_version(visit.version or "")
        await respond(visit.send, 202)

    def _check_arguments(self, visit: Visit, params: Mapping[str, Any]) -> None:
        name = params.get("name")
        if isinstance(name, str) and (mirrored := self._gateway.mirrored(visit.view, name, visit.principal)):
            check_mirrored_arguments(visit.fields, params.get("arguments"), mirrored)

    async def _listen(self, visit: Visit, id_: str | int, params: Mapping[str, Any], reply: Reply) -> None:
        if not reply.streams:
            raise Refusal("Accept must have text/event-stream: the answer is a stream", status=406)
        flags, uris = wanted(params)
        listening = Listening(
            self._gateway,
            reply.tell_once,
            view=visit.view,
            principal=visit.principal,
            methods={FLAGS[flag] for flag in flags},
            uris=uris,
            meta=tag(id_),
        )
        try:
            honoured = listening.uris = await listening.hold_all()
            self._listeners.add(listening)
            reply.tell(acknowledgement(flags, honoured, tag(id_)))
            if await listen_until_over(visit, listening, reply):
                await reply.end(result(id_, self._modern.stamped("", {"_meta": tag(id_)})))
        finally:
            self._listeners.remove(listening)
            await listening.release_all()
