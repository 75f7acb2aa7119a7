"""Which door is at which path, on the public and on the admin listener."""

from __future__ import annotations

from collections.abc import Callable

from weft.doors.admin import AdminDoor
from weft.doors.asgi import Asgi, Receive, Scope, Send
from weft.doors.guard import Guard
from weft.doors.health import Health, Metrics, health_routes
from weft.doors.load import Load
from weft.doors.sites import Site

_CALL = "/tools/call"


def public_front(
    mcp: Asgi,
    plain: Asgi,
    *,
    health: Health,
    site: Site,
    metrics: Metrics | None = None,
    load: Load | None = None,
    identify: Callable[[Scope], str] | None = None,
) -> Guard:
    """Return `/mcp`, `/mcp/{view}`, plain calls below both, and health."""

    async def below(scope: Scope, receive: Receive, send: Send) -> None:
        door = plain if scope["path"].rstrip("/").endswith(_CALL) else mcp
        await door(scope, receive, send)

    routes = {"/mcp": mcp, f"/mcp{_CALL}": plain, **health_routes(health, metrics=metrics)}
    return Guard(routes, prefixes={"/mcp/": below}, site=site, load=load, identify=identify)


def admin_front(admin: AdminDoor, *, health: Health, metrics: Metrics | None = None) -> Guard:
    """Return what operators have, under loopback names only."""
    routes = {"/reload": admin, "/traces": admin, "/upstreams": admin, **health_routes(health, metrics=metrics)}
    return Guard(routes, prefixes={"/traces/": admin}, site=Site())
