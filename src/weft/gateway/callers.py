"""Callers around callers: the same client, seen from further inside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.errors import UpstreamRefused
from weft.gateway.policy import ToolFacts
from weft.patterns.workflow_plan import Follower
from weft.ports import ANONYMOUS, Caller, Principal, Schema
from weft.upstreams.asking import offered
from weft.upstreams.onward import Onward

INVALID_REQUEST = -32600


def can_be_asked(caller: Caller) -> bool:
    """Tell whether a client can do anything that a server may ask for."""
    return bool(offered(caller.capabilities))


def cannot_ask(requests: Mapping[str, Mapping[str, Any]]) -> UpstreamRefused:
    """Return the refusal of questions that nobody can answer."""
    method = next((str(one.get("method")) for one in requests.values()), "a question")
    told = {"code": INVALID_REQUEST, "message": f"the client cannot be asked for {method}"}
    return UpstreamRefused("client", method, told)


class Inside(Onward):
    """A client, for the steps of a composition: it is told of steps, not of what goes on in each.

    `facts` are those of the composition, by which its steps are judged; `secrets` gets what steps that failed were
    given and nobody else may see. What the caller wrote itself has `through`: its steps are the caller's own calls, or
    those of the compositions named there. `run` follows a workflow; `gives` is the schema of what one promised that
    another process began.
    """

    __slots__ = ("facts", "gives", "run", "secrets", "through", "trace_id")

    def __init__(
        self,
        caller: Caller,
        meta: Mapping[str, Any],
        *,
        facts: ToolFacts | None = None,
        trace_id: str = "",
        secrets: set[str] | None = None,
        through: tuple[ToolFacts, ...] | None = None,
        run: Follower | None = None,
        gives: Schema | None = None,
    ) -> None:
        super().__init__(caller, meta)
        self.facts = facts
        self.through = through
        self.run = run
        self.gives = gives
        self.trace_id = trace_id
        self.secrets = set[str]() if secrets is None else secrets

    @property
    def wants_progress(self) -> bool:
        return False

    @property
    def relays_input(self) -> bool:
        # Only the whole composition could be called again with the answers, not a step of it.
        return False

    def progress(self, params: dict[str, Any]) -> None:
        pass


class Nobody:
    """A call that no client is behind: nothing can be told, nobody can be asked."""

    capabilities: Mapping[str, Any] = {}
    info: Mapping[str, Any] = {}
    log_level: str | None = None
    wants_progress = False
    relays_input = False

    def __init__(self, *, principal: Principal = ANONYMOUS, meta: Mapping[str, Any] | None = None) -> None:
        self.principal = principal
        self.meta: Mapping[str, Any] = meta or {}

    def progress(self, params: dict[str, Any]) -> None:
        """Tell nobody."""

    def log(self, params: dict[str, Any]) -> None:
        """Tell nobody."""

    async def ask(self, requests: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        """Refuse: there is nobody to ask."""
        raise cannot_ask(requests)
