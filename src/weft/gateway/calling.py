"""One call of a tool, from when the tool is found to when its result is delivered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from weft.gateway.grouping import Meant
from weft.gateway.passing import Passing, Work
from weft.gateway.signing import digest
from weft.gateway.tools import Tool
from weft.gateway.values import secrets_of
from weft.groups.calling import Handler
from weft.groups.shaping.results import select_of, shape_result
from weft.ports import Caller
from weft.telemetry import Active

METHOD: Final = "tools/call"


@dataclass(frozen=True, slots=True)
class Calling:
    """One call of a tool: of which view, with what, and as what it is recorded."""

    view: str | None
    tool: Tool
    params: Mapping[str, Any]
    arguments: dict[str, Any]
    active: Active
    inner: set[str] = field(default_factory=set[str])
    """Secrets that steps which failed were given."""

    meant: Meant | None = None
    """As an action of which group it was called."""

    barred: list[str] = field(default_factory=list[str])
    """Why middleware did not let it through, if it did not."""

    def check(self) -> None:
        """Refuse arguments that are not those of the action, when it is called as one.

        Raises:
            ExecutionFailed: with all that is wrong with them.
        """
        if self.meant is not None:
            self.meant.member.check(self.arguments)

    def accepted(self) -> list[str]:
        """Return what there is to be said of the arguments.

        Raises:
            ExecutionFailed: they do not fit, and must.
        """
        values = self.tool.values
        return [] if values is None else values.accept(self.tool.key, self.arguments)

    def delivered(self, result: dict[str, Any], doubts: Sequence[str]) -> dict[str, Any]:
        """Return a result with what there is to be said of it, and of what was accepted."""
        values = self.tool.values
        return result if values is None else values.deliver(self.tool.key, result, doubts)

    def shaped(self, result: dict[str, Any]) -> dict[str, Any]:
        """Return what a model gets of a result: last of all, since middleware must see what it is to hide."""
        if result.get("resultType") == "input_required":
            return result
        if self.meant is not None:
            return shape_result(result, select=self.meant.select, rule=self.meant.group.rule.response)
        if self.tool.actions is None:
            return result
        rule = self.tool.actions.response
        # What was asked for wrongly has failed for it already.
        select = select_of(self.arguments)[0] if rule.select and result.get("isError") is not True else None
        return shape_result(result, select=select, rule=rule)

    def sent(self) -> dict[str, Any]:
        """Return the params as the tool's server takes them; what weft does not know of them stays."""
        arguments = self.arguments if self.tool.prepare is None else self.tool.prepare(self.arguments)
        sent = {**self.params, "name": self.tool.upstream_name, "arguments": arguments}
        sent.pop("_meta", None)
        return sent

    def along(self, caller: Caller) -> Mapping[str, Any]:
        """Return what goes along in `_meta`: what the client sent, in weft's own place of the trace."""
        return {**caller.meta, **self.active.meta} if caller.meta else self.active.meta

    def secrets(self) -> tuple[str, ...]:
        """Return the secrets among the arguments: what a tool says may quote them, and traces are kept."""
        return (*secrets_of(self.arguments, self.tool.listed.get("inputSchema")), *self.inner)

    def bound(self, caller: Caller) -> str:
        """Return what state that is signed for this call holds for: nobody else, and nothing else."""
        return f"{caller.principal.id}|{self.view}|{METHOD}|{self.tool.key}|{digest(self.arguments)}"

    @property
    def around(self) -> Handler | None:
        """The middleware around it, and around its group."""
        return self.tool.around if self.meant is None else self.meant.member.around

    def passing(self, caller: Caller, work: Work, *, again: bool) -> Passing:
        """Return it as middleware sees it on the way to `work`: through a group it is a call of the same tool."""
        own = self.tool.actions
        action: object = None if own is None else self.arguments.get(own.discriminator)
        key = action if isinstance(action, str) else None
        return Passing(self.tool.name, self.arguments, action=key, caller=caller, work=work, again=again)
