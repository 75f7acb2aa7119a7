"""Who calls: the principal that an authenticator makes of a request, and the refusals of those who do not prove it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from urllib.parse import quote

from weft.errors import InputError, Origin, WeftError

Method = Literal["jwt", "key", "proxy", "header", "none"]
Strength = Literal["none", "asserted", "proven"]
"""How sure it is: said by the caller itself, said by a proxy that proved itself, or proven by a credential."""

DEFAULT_TENANT = "default"
LABEL = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Whoever is behind a request; `id` is what sessions, signed state and limits are bound to."""

    subject: str = "anonymous"
    tenant: str = DEFAULT_TENANT
    issuer: str = ""
    """Who vouches for the subject: the same name means somebody else to another issuer."""

    agent_name: str | None = None
    agent_version: str | None = None
    scopes: frozenset[str] = frozenset()
    method: Method = "none"
    strength: Strength = "none"
    label: str | None = field(default=None, compare=False)
    """What the client calls itself: for logs, never for a decision (A6)."""

    id: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        """Make the id, which no two principals share, whatever stands in their names."""
        if self.method == "none":
            made = "anonymous"
        else:
            parts = (self.tenant, self.issuer, self.subject, self.agent_name or "", self.agent_version or "")
            made = ":".join((self.method, *(quote(part, safe="@ ") for part in parts)))
        object.__setattr__(self, "id", made)

    @property
    def agent(self) -> str | None:
        """The agent as `name@version`, for people."""
        return f"{self.agent_name}@{self.agent_version}" if self.agent_name and self.agent_version else self.agent_name

    def labelled(self, info: Mapping[str, Any]) -> Principal:
        """Return the same principal, with what an MCP client says of itself in `clientInfo` as its label."""
        told = " ".join(str(info[key]) for key in ("name", "version") if isinstance(info.get(key), str))
        shown = "".join(one if one.isprintable() else "?" for one in told[:LABEL])
        return replace(self, label=shown) if shown else self

    def to_json(self) -> dict[str, Any]:
        """Return the principal as policies, traces and the audit log read it."""
        return {
            "tenant": self.tenant,
            "subject": self.subject,
            "issuer": self.issuer,
            "agentName": self.agent_name,
            "agentVersion": self.agent_version,
            "scopes": sorted(self.scopes),
            "method": self.method,
            "strength": self.strength,
        }


ANONYMOUS = Principal()


class Unauthenticated(WeftError):
    """The request does not prove who calls (HTTP 401).

    What was wrong with it is in `reason`, for the log alone: whoever tries credentials learns nothing from the answer.
    """

    code = "Unauthenticated"
    origin: Origin = "caller"

    def __init__(self, reason: str, *, given: bool = True) -> None:
        """Make one; `given` says that there was a credential at all."""
        super().__init__("the request does not prove who is calling", hint="send a valid credential in a header")
        self.reason = reason
        self.given = given


class BadIdentityHeader(InputError):
    """A header that says who calls, where it may not or not like this (HTTP 400)."""

    code = "BadIdentityHeader"
