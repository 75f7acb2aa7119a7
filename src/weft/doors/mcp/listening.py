"""Listening: streams on which clients hear that a list or a resource has changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any

from weft.doors.mcp.faults import INVALID_PARAMS, Refusal
from weft.doors.mcp.messages import notification
from weft.doors.mcp.methods import SUBSCRIPTION_ID
from weft.doors.mcp.serves import Event, Serves
from weft.errors import LimitExceeded, WeftError
from weft.gateway.callers import Nobody
from weft.ports import Principal, is_array, is_object

UPDATED = "notifications/resources/updated"
FLAGS = {
    "toolsListChanged": "notifications/tools/list_changed",
    "promptsListChanged": "notifications/prompts/list_changed",
    "resourcesListChanged": "notifications/resources/list_changed",
}
MOST = 1024
MOST_URIS = 256
SUBSCRIBING = 5.0
"""For how long the acknowledgement of a subscription waits for the servers that have its resources."""


class Listening:
    """One client that listens: what it wants to hear, and how it is told."""

    def __init__(
        self,
        gateway: Serves,
        tell: Callable[[dict[str, Any]], object],
        *,
        view: str | None,
        principal: Principal,
        methods: Collection[str],
        uris: Collection[str],
        meta: Mapping[str, Any] | None = None,
    ) -> None:
        self._gateway = gateway
        self._tell = tell
        self._view = view
        self._caller = Nobody(principal=principal)
        self._methods = methods
        self.uris = uris
        self._held: set[str] = set()
        self._meta = meta
        self.over = asyncio.Event()

    def end(self) -> None:
        """End it, in good order."""
        self.over.set()

    def hears(self, event: Event) -> bool:
        """Tell whether an event is one that this client wants to hear of."""
        elsewhere = (event.view is None or isinstance(event.view, str)) and event.view != self._view
        if elsewhere or self.over.is_set():
            return False
        if event.method != UPDATED:
            return event.method in self._methods
        uri = str(event.params.get("uri"))
        return any(uri == one or uri.startswith(one.rstrip("/") + "/") for one in self.uris)

    def tell(self, event: Event) -> None:
        """Tell the client of an event."""
        params = dict(event.params)
        if self._meta is not None:
            params["_meta"] = {**params.get("_meta", {}), **self._meta}
        self._tell(notification(event.method, params))

    async def hold(self, uri: str) -> None:
        """Have the server of a resource tell of its changes, for as long as this client listens."""
        if uri not in self._held:
            await self._gateway.handle(self._view, "resources/subscribe", {"uri": uri}, self._caller)
            self._held.add(uri)

    async def release(self, uri: str) -> None:
        """Let go of one resource."""
        if uri in self._held:
            self._held.discard(uri)
            await self._gateway.handle(self._view, "resources/unsubscribe", {"uri": uri}, self._caller)

    async def hold_all(self) -> list[str]:
        """Hold what can be held of the resources that the client named; return those."""
        with suppress(TimeoutError):
            async with asyncio.timeout(SUBSCRIBING):
                await asyncio.gather(*(self._try_hold(uri) for uri in self.uris))
        return [uri for uri in self.uris if uri in self._held]

    async def release_all(self) -> None:
        """Let go of everything."""
        await asyncio.gather(*(self.release(uri) for uri in list(self._held)), return_exceptions=True)

    async def _try_hold(self, uri: str) -> None:
        with suppress(WeftError):
            await self.hold(uri)


class Listeners:
    """All clients that listen at this door."""

    def __init__(self, gateway: Serves) -> None:
        self._all: dict[Listening, Callable[[], bool]] = {}
        self._stop = gateway.subscribe(self._heard)

    def add(self, listening: Listening, *, when: Callable[[], bool] = lambda: True) -> None:
        """Tell a client of events from now on, at those times at which it is its turn.

        Raises:
            LimitExceeded: too many listen already.
        """
        if len(self._all) >= MOST:
            raise LimitExceeded("Listeners", MOST, "too many clients listen for changes")
        self._all[listening] = when

    def remove(self, listening: Listening) -> None:
        """Tell a client no more."""
        self._all.pop(listening, None)

    def close(self) -> None:
        """End all that listen, in good order."""
        self._stop()
        for listening in list(self._all):
            listening.end()

    def _heard(self, event: Event) -> None:
        for listening, when in list(self._all.items()):
            if listening.hears(event) and when():
                listening.tell(event)


def wanted(params: Mapping[str, Any]) -> tuple[dict[str, bool], list[str]]:
    """Return what a modern client asks to hear of: the lists, and the resources.

    Raises:
        Refusal: the filter is not one.
    """
    asked: object = params.get("notifications")
    if not is_object(asked):
        raise Refusal("subscriptions/listen needs params.notifications, an object", rpc=INVALID_PARAMS)
    uris: object = asked.get("resourceSubscriptions") or []
    if not is_array(uris) or len(uris) > MOST_URIS or not all(isinstance(uri, str) for uri in uris):
        raise Refusal(f"resourceSubscriptions must be a list of at most {MOST_URIS} URIs", rpc=INVALID_PARAMS)
    return {flag: True for flag in FLAGS if asked.get(flag) is True}, list(dict.fromkeys(uris))


def acknowledgement(flags: Mapping[str, bool], uris: list[str], meta: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first message of a modern stream: what of the filter is honoured."""
    honoured: dict[str, Any] = {**flags, **({"resourceSubscriptions": uris} if uris else {})}
    return notification("notifications/subscriptions/acknowledged", {"notifications": honoured, "_meta": dict(meta)})


def tag(id_: str | int) -> dict[str, Any]:
    """Return what marks the messages of the stream that a request has opened."""
    return {SUBSCRIPTION_ID: id_}
