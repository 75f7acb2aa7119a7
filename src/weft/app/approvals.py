"""From weft.yaml to the approval of tools: its lock, and the command lines that it pins."""

from __future__ import annotations

from collections.abc import Iterable

from weft.app.specs import runnable
from weft.config import Config
from weft.config.model import HIDDEN
from weft.config.secrets import Secret, looks_secret
from weft.gateway.approval import Approval, ArgvOf, OnSecurity
from weft.telemetry.logs import Log
from weft.upstreams.spec import ServerSpec


def approval_of(config: Config, *, on_security: OnSecurity | None = None) -> Approval | None:
    """Return what holds servers to the lock, or None when nothing does."""
    rule = config.lock
    if rule.mode == "off":
        return None
    return Approval(rule.path, rule.mode, argv_of=argv_of(config), log=Log("lock"), on_security=on_security)


def argv_of(config: Config) -> ArgvOf:
    """Return what finds the command line of a server as a config writes it."""

    def found(spec: ServerSpec) -> tuple[str, ...]:
        server = config.servers.get(spec.key)
        # A server that was started by another config is told by what it was started with.
        if server is None or runnable(server.argv) != spec.command:
            return written(spec.command)
        return written(server.argv)

    return found


def written(argv: Iterable[str]) -> tuple[str, ...]:
    """Return a command line as weft.yaml has it: a secret in it stays out of the lock, and may be changed."""
    return tuple(word.written if isinstance(word, Secret) else HIDDEN if looks_secret(word) else word for word in argv)
