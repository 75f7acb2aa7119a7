"""Which door is at which path, on the public and on the admin listener."""

from __future__ import annotations

from weft.doors.admin import AdminDoor
from weft.doors.asgi import Asgi, Receive, Scope, Send
from weft.doors.composition_routes import BASE
from weft.doors.guard import OPEN, Guard
from weft.doors.health import Health, Metrics, health_routes
from weft.doors.identified import ProtectedResource, origin_of
from weft.doors.load import Load
from weft.doors.sites import Site
from weft.doors.state import STATE_PATHS
from weft.gateway.challenges import WELL_KNOWN
from weft.gateway.identity import Authenticators

_CALL = "/tools/call"


def public_front(
    mcp: Asgi,
    plain: Asgi,
    *,
    compositions: Asgi | None = None,
    health: Health,
    site: Site,
    metrics: Metrics | None = None,
    load: Load | None = None,
    authenticators: Authenticators | None = None,
    public_url: str | None = None,
) -> Guard:
    """Return `/mcp`, `/mcp/{view}`, plain calls below both, the API of compositions, and health.

    With `authenticators` it is made sure who asks, and told where tokens come from, under the origin of `public_url`.
    """
    base = None if public_url is None else origin_of(public_url)

    async def below(scope: Scope, receive: Receive, send: Send) -> None:
        door = plain if scope["path"].rstrip("/").endswith(_CALL) else mcp
        await door(scope, receive, send)

    discreet = authenticators is not None and not authenticators.admits_anonymous
    told = health_routes(health, metrics=metrics, discreet=discreet)
    routes: dict[str, Asgi] = {"/mcp": mcp, f"/mcp{_CALL}": plain, **told}
    prefixes: dict[str, Asgi] = {"/mcp/": below}
    doors = ["/mcp"]
    if compositions is not None:
        prefixes[f"{BASE}/"] = compositions
        doors.append(BASE)
    if authenticators is not None:
        routes[WELL_KNOWN] = prefixes[f"{WELL_KNOWN}/"] = ProtectedResource(authenticators, base=base, doors=doors)
    open_to_all = OPEN - {"/metrics"} if discreet else OPEN
    return Guard(
        routes,
        prefixes=prefixes,
        site=site,
        load=load,
        open_to_all=open_to_all,
        authenticators=authenticators,
        base=base,
    )


def admin_front(admin: AdminDoor, *, health: Health, metrics: Metrics | None = None) -> Guard:
    """Return what operators have, under loopback names only."""
    paths = ("/reload", "/traces", "/upstreams", *STATE_PATHS)
    routes = {**dict.fromkeys(paths, admin), **health_routes(health, metrics=metrics)}
    prefixes = dict.fromkeys(("/traces/", *(f"{path}/" for path in STATE_PATHS)), admin)
    return Guard(routes, prefixes=prefixes, site=Site())
