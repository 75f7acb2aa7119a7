"""What weft.yaml says, as the rooms that do it take it."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit

from weft.app.groups import groups_of
from weft.app.middleware import Kept, middleware_of
from weft.config import Config
from weft.config.checks import is_allowed, is_loopback
from weft.config.sections import Egress
from weft.config.server import Server
from weft.doors.mcp.messages import MessageLimits
from weft.errors import InputError
from weft.gateway.live import Naming
from weft.gateway.views import ViewRule
from weft.ir.read import DocumentLimits
from weft.run.limits import Limits
from weft.upstreams.egress import network
from weft.upstreams.oauth import ClientCredentials
from weft.upstreams.spec import ServerSpec, Tls


def specs_of(config: Config) -> list[ServerSpec]:
    """Return every server of a config."""
    return [
        spec_of(server, egress=config.egress, response=config.limits.response) for server in config.servers.values()
    ]


def networks_for(url: str, allow: Iterable[str]) -> tuple[str, ...] | None:
    """Return which networks that are not public a host may be in; None, for one that is listed, is any."""
    host = urlsplit(url).hostname or ""
    if is_loopback(host) or is_allowed(host, allow):
        return None
    return tuple(one for one in allow if _is_network(one))


def _is_network(text: str) -> bool:
    try:
        network(text)
    except InputError:
        return False
    return True


def spec_of(server: Server, *, egress: Egress, response: int) -> ServerSpec:
    """Return one server."""
    auth, tls = server.auth, server.tls
    return ServerSpec(
        name=server.name,
        version=server.version,
        command=runnable(server.argv),
        env=dict(server.env),
        cwd=server.cwd if server.command is not None else None,
        url=server.url or "",
        transport=server.transport,
        headers=dict(server.headers),
        auth=None
        if auth is None
        else ClientCredentials(
            token_url=auth.token_url,
            client_id=auth.client_id,
            client_secret=auth.client_secret,
            scopes=tuple(auth.scopes),
            audience=auth.audience,
            resource=auth.resource,
            inside=networks_for(auth.token_url, egress.allow),
        ),
        era=server.era,
        include=tuple(server.include),
        exclude=tuple(server.exclude),
        required=server.required,
        on_unavailable=server.on_unavailable,
        start_timeout=server.start_timeout,
        timeout=server.timeout,
        concurrency=server.concurrency,
        queue=server.queue,
        response=response,
        tls=Tls() if tls is None else Tls(ca=tls.ca, cert=tls.cert, key=tls.key),
        proxy=egress.proxy if server.url is not None else None,
    )


def runnable(argv: Sequence[str]) -> tuple[str, ...]:
    """Return a command line in which `python` is the one that runs weft: for its own modules, or as the only one."""
    if not argv or argv[0] not in ("python", "python3"):
        return tuple(argv)
    own = tuple(argv[1:2]) == ("-m",) and argv[2:3] and argv[2].split(".")[0] == "weft"
    return (sys.executable, *argv[1:]) if own or shutil.which(argv[0]) is None else tuple(argv)


def naming_of(config: Config, *, kept: Kept | None = None) -> Naming:
    """Return under which names things are served, in which groups, and what stands around their calls.

    `kept` is the middleware of before, which goes on where its settings are the same.

    Raises:
        DocumentInvalid: with every function for middleware that cannot be imported.
    """
    views = {
        name: ViewRule(
            include=tuple(view.include),
            exclude=tuple(view.exclude),
            hide_raw=view.hide_raw,
            grouped=view.groups,
            description=view.description,
        )
        for name, view in config.views.items()
    }
    return Naming(
        on_collision=config.names.on_collision,
        views=views,
        groups=groups_of(config, kept=kept),
        middleware=middleware_of(config.middleware, file=config.file, kept=kept),
    )


def message_limits_of(config: Config) -> MessageLimits:
    """Return how large a message of a client may be."""
    given = config.limits
    return MessageLimits(body=given.body, depth=given.depth, nodes=given.nodes, string=given.string)


def document_limits_of(config: Config) -> DocumentLimits:
    """Return how large the body of a plain call may be."""
    given = config.limits
    return DocumentLimits(bytes=given.body, depth=given.depth, nodes=given.nodes)


def limits_of(config: Config) -> Limits:
    """Return what one call may spend."""
    given = config.limits
    return Limits(
        timeout=given.timeout,
        max_timeout=given.max_timeout,
        steps=given.steps,
        calls=given.calls,
        concurrent=given.concurrent,
        rows=given.rows,
        spans=given.spans,
        warnings=given.warnings,
        background=given.background,
    )
