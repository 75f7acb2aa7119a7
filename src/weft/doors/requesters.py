"""The client of a request to a server that is not weft's, as actions know clients."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final

from weft.errors import UpstreamRefused
from weft.ports import ANONYMOUS, Principal, is_array, is_object

UNTOLD: Final = 1000
"""How much progress may wait to be told, until the oldest is left out."""

REFUSED: Final = -32600


class Requester:
    """Whoever is behind a request, by what its context has; it must be entered, and has heard all when it is left."""

    capabilities: Mapping[str, Any] = {}
    """Nothing: what a server of others may ask its clients, it asks itself."""

    log_level: str | None = None
    relays_input = False

    def __init__(self, context: Any) -> None:
        self._session: Any = getattr(context, "session", None)
        self.info = _info(self._session)
        self.principal = _principal(context).labelled(self.info)
        params: object = getattr(context, "params", None)
        # A FastMCP gives it without the rest.
        meta: object = params.get("_meta") if is_object(params) else getattr(context, "meta", None)
        told = meta if is_object(meta) else {}
        # Whether it asked for it, only the session knows, which else tells it nothing.
        self.wants_progress = callable(getattr(self._session, "report_progress", None))
        self.meta: Mapping[str, Any] = {key: value for key, value in told.items() if key != "progressToken"}
        self._untold: deque[dict[str, Any]] = deque(maxlen=UNTOLD)
        self._telling: asyncio.Task[None] | None = None
        self._left = False

    async def __aenter__(self) -> Requester:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left = True
        telling = self._telling
        if telling is None:
            return
        if error is not None:
            telling.cancel()
        # Behind the result nobody listens any more.
        with contextlib.suppress(asyncio.CancelledError) if error is not None else contextlib.nullcontext():
            await telling

    def progress(self, params: dict[str, Any]) -> None:
        """Tell it of progress, in the order of the calls."""
        if self._left:
            # A thread that could not be stopped goes on, and nobody listens any more.
            return
        self._untold.append(params)
        if self._telling is None or self._telling.done():
            self._telling = asyncio.get_running_loop().create_task(self._tell())

    async def _tell(self) -> None:
        # A client that is gone will not get its result either: that is for the server to notice.
        with contextlib.suppress(Exception):
            while self._untold:
                told = self._untold.popleft()
                await self._session.report_progress(told["progress"], told.get("total"), told.get("message"))

    def log(self, params: dict[str, Any]) -> None:
        """Tell nobody: the server has its own log."""

    async def ask(self, requests: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        """Refuse: only the server itself can ask."""
        method = next((str(one.get("method")) for one in requests.values()), "a question")
        told = {"code": REFUSED, "message": f"a client of an attached group cannot be asked for {method}"}
        raise UpstreamRefused("client", method, told)


def _info(session: Any) -> dict[str, Any]:
    """Return what a client says of itself."""
    info: Any = getattr(getattr(session, "client_params", None), "client_info", None)
    told = {name: getattr(info, name, None) for name in ("name", "version")}
    return {name: value for name, value in told.items() if isinstance(value, str)}


def _principal(context: Any) -> Principal:
    """Return who sent the request, by the token that the server has verified; without one nobody is known."""
    scope: object = getattr(getattr(context, "request", None), "scope", None)
    token: Any = getattr(scope.get("user"), "access_token", None) if is_object(scope) else None
    subject: object = getattr(token, "subject", None) or getattr(token, "client_id", None)
    if not isinstance(subject, str):
        return ANONYMOUS
    claims: object = getattr(token, "claims", None)
    issuer: object = claims.get("iss") if is_object(claims) else None
    scopes: object = getattr(token, "scopes", None)
    return Principal(
        subject=subject,
        issuer="" if issuer is None else str(issuer),
        scopes=frozenset(map(str, scopes)) if is_array(scopes) else frozenset(),
        method="jwt",
        strength="proven",
    )
