"""Whether the gateway is alive, whether it is ready and which part is not, and what it has counted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeAlias

from weft.doors.asgi import PRINCIPAL, Asgi, Receive, Scope, Send, answer, answer_json, header, refuse
from weft.ports import ANONYMOUS

Metrics: TypeAlias = Callable[[str], Awaitable[tuple[bytes, str]]]
"""Makes the page of a scraper that accepts this: its bytes and its content type."""


class Health(Protocol):
    """Who knows how everything is."""

    def report(self) -> Mapping[str, Any]:
        """Return at least `ready`: whether requests should come here; `degraded` names the parts that are not well."""
        ...


SCOPE = "metrics"
"""What a principal needs to read the metrics of a gateway that does not talk to everybody."""


def health_routes(health: Health, *, metrics: Metrics | None = None, discreet: bool = False) -> dict[str, Asgi]:
    """Return `/healthz`, `/readyz` and `/metrics`, which is made by `metrics` away from the event loop.

    `discreet` is for a gateway whose callers must prove who they are: names of servers and tools are not for everybody.
    """

    async def alive(scope: Scope, receive: Receive, send: Send) -> None:
        if await _is_get(scope, send):
            await answer_json(send, 200, {"status": "ok"})

    async def ready(scope: Scope, receive: Receive, send: Send) -> None:
        if await _is_get(scope, send):
            report = dict(health.report())
            is_ready = report.pop("ready", False) is True
            status = (
                ("degraded" if report.get("degraded") or report.get("problems") else "ready") if is_ready else "unready"
            )
            await answer_json(send, 200 if is_ready else 503, {"status": status, **({} if discreet else report)})

    async def counted(scope: Scope, receive: Receive, send: Send) -> None:
        if metrics is not None and await _is_get(scope, send):
            if discreet and SCOPE not in scope["state"].get(PRINCIPAL, ANONYMOUS).scopes:
                hint = f"a key for it is made with `weft key create --scope {SCOPE}`; the admin listener has it too"
                await refuse(scope, send, 403, "Forbidden", f"this takes the scope {SCOPE!r}", hint=hint)
                return
            body, kind = await metrics((header(scope, b"accept") or b"").decode("latin-1"))
            await answer(send, 200, body, kind=kind.encode())

    routes: dict[str, Asgi] = {"/healthz": alive, "/readyz": ready}
    return routes if metrics is None else {**routes, "/metrics": counted}


async def _is_get(scope: Scope, send: Send) -> bool:
    if scope["method"] in ("GET", "HEAD"):
        return True
    await refuse(scope, send, 405, "MethodNotAllowed", "this is only read", headers=[(b"allow", b"GET, HEAD")])
    return False
