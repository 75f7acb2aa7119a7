"""The clients behind calls, as the gateway and the upstreams see them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.doors.mcp.messages import notification
from weft.doors.mcp.methods import CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, PREFIX
from weft.doors.mcp.questions import Questions, Tell
from weft.doors.mcp.sessions import Agreed
from weft.gateway.callers import cannot_ask
from weft.ports import Principal, is_object
from weft.upstreams.asking import ASKABLE
from weft.upstreams.session import LEVELS

NOTHING: Mapping[str, Any] = {}
BEFORE_ALL = float("-inf")


class Client:
    """The client of one request; nothing reaches it after the response."""

    __slots__ = ("_last", "_meta", "_tell", "principal")

    relays_input = False

    def __init__(self, tell: Tell | None, *, principal: Principal, meta: Mapping[str, Any]) -> None:
        self._tell = tell
        self._meta = meta
        self._last = BEFORE_ALL
        self.principal = principal

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """What the client can do for a server."""
        return NOTHING

    @property
    def info(self) -> Mapping[str, Any]:
        """What the client says of itself."""
        return NOTHING

    @property
    def log_level(self) -> str | None:
        """From which level on the client wants log messages."""
        return None

    @property
    def meta(self) -> Mapping[str, Any]:
        """What the client put into `_meta`, without what is between it and this door."""
        return {
            key: value for key, value in self._meta.items() if key != "progressToken" and not key.startswith(PREFIX)
        }

    @property
    def wants_progress(self) -> bool:
        """Whether there is a token, and a stream to tell progress on."""
        return self._tell is not None and isinstance(self._meta.get("progressToken"), str | int)

    def close(self) -> None:
        """Say nothing more: the response has gone out."""
        self._tell = None

    def progress(self, params: dict[str, Any]) -> None:
        """Tell progress under the client's own token, as long as it goes up."""
        amount: object = params.get("progress")
        if self._tell is None or not self.wants_progress:
            return
        if isinstance(amount, int | float) and amount > self._last:
            self._last = amount
            told = {**params, "progressToken": self._meta["progressToken"]}
            self._tell(notification("notifications/progress", told), droppable=True)

    def log(self, params: dict[str, Any]) -> None:
        """Tell a log message that is grave enough for this client."""
        if self._tell is not None and is_wanted(params.get("level"), self.log_level):
            self._tell(notification("notifications/message", params), droppable=True)

    async def ask(self, requests: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        """Refuse: a modern client is asked by a result, and calls again."""
        raise cannot_ask(requests)


class ModernClient(Client):
    """A client that sends all it is and can do with every request."""

    __slots__ = ()

    relays_input = True

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """What the client can do, which its envelope must say."""
        return self._meta[CLIENT_CAPABILITIES]

    @property
    def info(self) -> Mapping[str, Any]:
        """What the client says of itself, if it does."""
        info = self._meta.get(CLIENT_INFO)
        return info if is_object(info) else NOTHING

    @property
    def log_level(self) -> str | None:
        """Which log messages the client asks for with this request."""
        return self._meta.get(LOG_LEVEL)


class LegacyClient(Client):
    """A client that was met at its handshake, and that can be asked while its call runs."""

    __slots__ = ("_agreed", "_level", "_questions")

    def __init__(
        self,
        tell: Tell | None,
        *,
        principal: Principal,
        meta: Mapping[str, Any],
        agreed: Agreed,
        log_level: str,
        questions: Questions,
    ) -> None:
        super().__init__(tell, principal=principal, meta=meta)
        self._agreed = agreed
        self._level = log_level
        self._questions = questions

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """What the client said at the handshake that it can do."""
        return self._agreed.capabilities

    @property
    def info(self) -> Mapping[str, Any]:
        """What the client said of itself at the handshake."""
        return self._agreed.info

    @property
    def log_level(self) -> str | None:
        """Which log messages the session has asked for."""
        return self._level

    async def ask(self, requests: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        """Ask on the stream of the call, and wait for the answers that the client posts."""
        can = all(ASKABLE.get(str(one.get("method"))) in self.capabilities for one in requests.values())
        if self._tell is None or not can:
            raise cannot_ask(requests)
        return await self._questions.ask(self._agreed.id, requests, self._tell)


def is_wanted(level: object, least: str | None) -> bool:
    """Tell whether a log message of a level is to be told to a client that wants those from another level on."""
    if least is None:
        return False
    return level not in LEVELS or least not in LEVELS or LEVELS.index(str(level)) >= LEVELS.index(least)
