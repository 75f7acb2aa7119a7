"""The modern era: every request says by itself who sends it, in which version, and what its client can do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.doors.mcp.callers import NOTHING, Client, ModernClient
from weft.doors.mcp.faults import INVALID_PARAMS, METHOD_NOT_FOUND, UNSUPPORTED_VERSION, Refusal
from weft.doors.mcp.labels import Labels
from weft.doors.mcp.methods import (
    CACHEABLE,
    CALLS,
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    LEGACY,
    LOG_LEVEL,
    MODERN_METHODS,
    OFFERED_BY,
    PROTOCOL_VERSION,
    SERVER_INFO,
    VERSIONS,
)
from weft.doors.mcp.questions import Tell
from weft.doors.mcp.serves import Serves
from weft.gateway.rounds import Answers
from weft.ports import Principal, is_object
from weft.upstreams.headers import MODERN
from weft.upstreams.session import LEVELS

COMPLETE = "complete"


def is_modern(message: Mapping[str, Any]) -> bool:
    """Tell whether a request is one of the modern era: only those name their version in `_meta`."""
    params = message.get("params")
    meta = params.get("_meta") if is_object(params) else None
    return is_object(meta) and PROTOCOL_VERSION in meta and message.get("method") != "initialize"


def envelope(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `_meta` of a modern request, which has what it must have.

    Raises:
        Refusal: something is missing, or is not what it should be.
    """
    params = message.get("params")
    meta: object = params.get("_meta") if params else None
    if not is_object(meta):
        raise _invalid(f"params._meta must be an object with {PROTOCOL_VERSION} and {CLIENT_CAPABILITIES}")
    if PROTOCOL_VERSION not in meta or CLIENT_CAPABILITIES not in meta:
        missing = [key for key in (PROTOCOL_VERSION, CLIENT_CAPABILITIES) if key not in meta]
        raise _invalid(f"params._meta is missing {' and '.join(missing)}")
    if not isinstance(meta[PROTOCOL_VERSION], str):
        raise _invalid(f"{PROTOCOL_VERSION} must be a string")
    if not is_object(meta[CLIENT_CAPABILITIES]):
        raise _invalid(f"{CLIENT_CAPABILITIES} must be an object")
    if meta.get(LOG_LEVEL) is not None and meta[LOG_LEVEL] not in LEVELS:
        raise _invalid(f"{LOG_LEVEL} must be one of {', '.join(LEVELS)}")
    return meta


def check_version(version: str) -> None:
    """Refuse a version that is not the one of this era.

    Raises:
        Refusal: with the versions that are served.
    """
    if version != MODERN:
        raise unsupported(version)


def unsupported(version: str) -> Refusal:
    """Return the refusal of a version, with those that are served."""
    known = version in LEGACY
    says = f"version {version} starts with initialize" if known else f"version {version[:80]!r} of MCP is not served"
    # A version with a handshake is served, but not like this: naming it again would send the client in a circle.
    data = {"supported": [MODERN] if known else list(VERSIONS), "requested": version}
    return Refusal(f"Unsupported protocol version: {says}", rpc=UNSUPPORTED_VERSION, data=data)


class Modern:
    """What modern requests mean, whatever they came on."""

    def __init__(self, gateway: Serves, *, ttl_ms: int) -> None:
        self._gateway = gateway
        self._ttl_ms = ttl_ms
        self._labels = Labels()
        self._made_by = {SERVER_INFO: gateway.info}

    async def check_method(self, method: str, view: str | None) -> None:
        """Refuse a method that this era, or this view, does not have.

        Raises:
            Refusal: with the status that says so.
        """
        if method == "tools/call":
            return
        await self._gateway.ready()
        offered = OFFERED_BY.get(method)
        if method not in MODERN_METHODS or (offered is not None and offered not in self._gateway.capabilities(view)):
            raise Refusal(f"Method not found: {method[:80]}", rpc=METHOD_NOT_FOUND, status=404)

    def client(self, meta: Mapping[str, Any], *, principal: Principal, tell: Tell | None) -> ModernClient:
        """Return the client of a request, as its envelope describes it."""
        info: object = meta.get(CLIENT_INFO)
        labelled = self._labels.on(principal, info if is_object(info) else NOTHING)
        return ModernClient(tell, principal=labelled, meta=meta)

    async def serve(self, view: str | None, method: str, params: dict[str, Any], client: Client) -> dict[str, Any]:
        """Return the result of a request, with all that this era wants in it."""
        try:
            if method == "server/discover":
                return self.stamped(method, await self._discovered(view, client.principal))
            answers = None
            if method in CALLS and ("inputResponses" in params or "requestState" in params):
                params, answers = _answered(params)
            return self.stamped(method, await self._gateway.handle(view, method, params, client, answers=answers))
        finally:
            client.close()

    def stamped(self, method: str, result: dict[str, Any]) -> dict[str, Any]:
        """Return a result with its type, who made it, and how long it may be kept; the given one stays as it is."""
        kind = result.get("resultType", COMPLETE)
        meta = result.get("_meta")
        signed = {**meta, **self._made_by} if is_object(meta) else self._made_by
        stamped = {**result, "resultType": kind, "_meta": signed}
        if method in CACHEABLE and kind == COMPLETE:
            # What one caller sees may not be what another sees, so nobody in between may keep it.
            stamped["cacheScope"] = "private"
            stamped.setdefault("ttlMs", self._ttl_ms)
        return stamped

    async def _discovered(self, view: str | None, principal: Principal) -> dict[str, Any]:
        found: dict[str, Any] = {
            "supportedVersions": list(VERSIONS),
            "capabilities": self._gateway.capabilities(view),
        }
        instructions = await self._gateway.instructions(view, principal)
        return found if instructions is None else {**found, "instructions": instructions}


def _answered(params: dict[str, Any]) -> tuple[dict[str, Any], Answers]:
    responses, state = params.get("inputResponses"), params.get("requestState")
    if responses is not None and not is_object(responses):
        raise _invalid("inputResponses must be an object")
    if state is not None and not isinstance(state, str):
        raise _invalid("requestState must be the string that came with the questions")
    rest = {key: value for key, value in params.items() if key not in {"inputResponses", "requestState"}}
    return rest, Answers(responses or {}, state)


def _invalid(message: str) -> Refusal:
    return Refusal(message, rpc=INVALID_PARAMS)
