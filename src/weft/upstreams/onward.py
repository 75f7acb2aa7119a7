"""A caller around a caller: the same client, seen from further inside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.ports import Caller, Principal


class Onward:
    """A client, for one request that is made for it: what goes along in `_meta` is that request's own."""

    __slots__ = ("_caller", "meta")

    def __init__(self, caller: Caller, meta: Mapping[str, Any]) -> None:
        self._caller = caller
        self.meta = meta

    @property
    def principal(self) -> Principal:
        return self._caller.principal

    @property
    def capabilities(self) -> Mapping[str, Any]:
        return self._caller.capabilities

    @property
    def info(self) -> Mapping[str, Any]:
        return self._caller.info

    @property
    def log_level(self) -> str | None:
        return self._caller.log_level

    @property
    def wants_progress(self) -> bool:
        return self._caller.wants_progress

    @property
    def relays_input(self) -> bool:
        return self._caller.relays_input

    def progress(self, params: dict[str, Any]) -> None:
        self._caller.progress(params)

    def log(self, params: dict[str, Any]) -> None:
        self._caller.log(params)

    async def ask(self, requests: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        return await self._caller.ask(requests)
