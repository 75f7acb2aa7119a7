"""Legacy sessions: what was agreed travels in the signed id, for any worker to serve; what changes is kept here."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import orjson

from weft.doors.mcp.faults import INVALID_PARAMS, Refusal
from weft.doors.mcp.methods import LEGACY
from weft.errors import InputError
from weft.gateway.signing import Signer
from weft.ports import is_object
from weft.upstreams.asking import ASKABLE

if TYPE_CHECKING:
    from weft.doors.mcp.exchange import Reason
    from weft.doors.mcp.listening import Listening

LIFETIME = 7 * 24 * 3600.0
MOST = 10_000
MOST_ENDED = 100_000
MOST_BYTES = 4096
LABEL = 128
DEFAULT_LEVEL = "info"
"""Until a client has said which log messages it wants, the protocol leaves it to the server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreed:
    """What a client and this door agreed on at the handshake."""

    id: str
    version: str
    capabilities: Mapping[str, Any]
    info: Mapping[str, Any]


class Running(Protocol):
    """A request that is being served."""

    def give_up(self, reason: Reason) -> None:
        """Cancel what is done for it."""
        ...


@dataclass(slots=True)
class State:
    """What changes while a session lives; every worker has its own, and is told of changes."""

    level: str = DEFAULT_LEVEL
    uris: set[str] = field(default_factory=set[str])
    streams: list[Listening] = field(default_factory=list["Listening"])
    running: dict[str | int, Running] = field(default_factory=dict[str | int, Running])


class Sessions:
    """The sessions of this worker."""

    def __init__(self, *, key: bytes | None = None, lifetime: float = LIFETIME) -> None:
        self._signer = Signer(key, lifetime=lifetime)
        self._known: OrderedDict[tuple[str, str], Agreed] = OrderedDict()
        self._states: OrderedDict[str, State] = OrderedDict()
        self._ended: OrderedDict[str, None] = OrderedDict()

    def begin(self, params: Mapping[str, Any], *, bound: str) -> tuple[Agreed, str]:
        """Return what is agreed with a client that shakes hands, and the id under which it comes back.

        Raises:
            Refusal: it did not say what it must.
        """
        agreed = agree(params)
        data = [agreed.id, agreed.version, agreed.capabilities, agreed.info]
        if len(orjson.dumps(data)) > MOST_BYTES:
            raise Refusal("capabilities and clientInfo are too large for a session id", rpc=INVALID_PARAMS)
        return agreed, self._signer.sign(data, bound=f"session {bound}")

    def find(self, token: str, *, bound: str) -> Agreed | None:
        """Return what was agreed under an id; None when it was not given out here, to somebody else, or has ended."""
        agreed = self._known.get((token, bound)) or self._read(token, bound)
        return None if agreed is None or agreed.id in self._ended else agreed

    def state(self, session: str) -> State:
        """Return what has changed in a session since its beginning."""
        state = self._states.get(session)
        if state is None:
            state = self._states[session] = State()
            self._forget_idle()
        else:
            self._states.move_to_end(session)
        return state

    def end(self, session: str) -> None:
        """End a session: its requests are given up, its streams end, its id is not taken again."""
        self._ended[session] = None
        if len(self._ended) > MOST_ENDED:
            self._ended.popitem(last=False)
        state = self._states.pop(session, None)
        if state is not None:
            for exchange in list(state.running.values()):
                exchange.give_up("ended")
            for stream in list(state.streams):
                stream.end()

    def _read(self, token: str, bound: str) -> Agreed | None:
        try:
            id_, version, capabilities, info = self._signer.open(token, bound=f"session {bound}")
        except InputError:
            return None
        agreed = Agreed(id=id_, version=version, capabilities=capabilities, info=info)
        self._known[token, bound] = agreed
        if len(self._known) > MOST:
            self._known.popitem(last=False)
        return agreed

    def _forget_idle(self) -> None:
        if len(self._states) > MOST:
            idle = next((id_ for id_, state in self._states.items() if not state.streams and not state.running), None)
            if idle is not None:
                del self._states[idle]


def agree(params: Mapping[str, Any]) -> Agreed:
    """Return what is agreed with a client that shakes hands: its version if it is one of ours, else our newest.

    Raises:
        Refusal: it did not say what it must.
    """
    version, capabilities, info = (params.get(key) for key in ("protocolVersion", "capabilities", "clientInfo"))
    if not isinstance(version, str) or not is_object(capabilities) or not is_object(info):
        raise Refusal(
            "initialize needs protocolVersion, a string, and capabilities and clientInfo, objects",
            rpc=INVALID_PARAMS,
        )
    return Agreed(
        id=secrets.token_urlsafe(16),
        version=version if version in LEGACY else LEGACY[0],
        capabilities={key: capabilities[key] for key in ASKABLE.values() if is_object(capabilities.get(key))},
        info={key: str(info[key])[:LABEL] for key in ("name", "version") if key in info},
    )
