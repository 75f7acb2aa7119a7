"""Tools as they are served: what clients are told of each, and who does what it does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from weft.expr.schemas import SchemaProblem
from weft.gateway.policy import ToolFacts
from weft.gateway.values import Values
from weft.groups.calling import Handler
from weft.groups.rule import ResponseRule
from weft.ir.document import ToolDef
from weft.ports import Caller
from weft.registry.tools import key_of
from weft.upstreams.headers import Mirrored
from weft.upstreams.server import Server

Prepare: TypeAlias = Callable[[Any], Any]
Check: TypeAlias = Callable[[Any], Iterable[SchemaProblem]]
Perform: TypeAlias = "Callable[[Caller, dict[str, Any]], Awaitable[Performed]]"
"""Does what a tool of weft's own does, for a caller, with the arguments."""


@dataclass(frozen=True, slots=True)
class Performed:
    """What a tool of weft's own gives; `failed` says in a sentence that it did not come to a good end."""

    value: dict[str, Any]
    failed: str | None = None
    whole: bool = False
    """Whether the value is a result of MCP already, good or not."""


@dataclass(frozen=True, slots=True)
class OwnActions:
    """What a tool that is a group by itself says of its calls: which argument is the action, how results are cut."""

    discriminator: str
    response: ResponseRule


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as it is served: relayed to a `server` under its name there, or run by the engine when there is none.

    One that weft itself has is performed.
    """

    name: str
    listed: dict[str, Any]
    facts: ToolFacts
    definition: ToolDef | None = None
    server: Server | None = None
    upstream_name: str = ""
    prepare: Prepare | None = None
    mirrored: Mirrored = field(default_factory=dict[tuple[str, ...], str])
    uses: frozenset[tuple[str, str]] = frozenset()
    """The tools of servers that it calls, by the server's key and the name there."""

    declared: Check | None = None
    """In what ways a value is not what the registry says that the tool takes."""

    unfit: Check | None = None
    """In what ways arguments are not what was advertised, for a function, which does not look itself."""

    whole: bool = False
    """Whether it is a function of one value that is no object, and comes as the property `input`."""

    misfits: Check | None = None
    """In what ways a result of the engine is not what was advertised."""

    values: Values | None = None
    """What is checked of arguments and results that are passed on."""

    spec_hash: str | None = None
    """What stands for its definition in the audit log."""

    perform: Perform | None = None
    """Does what it does, where neither a server nor the registry has it."""

    actions: OwnActions | None = None
    """What is to be known of its actions, when it was written as a group."""

    around: Handler | None = None
    """The middleware around its calls, compiled."""

    @property
    def key(self) -> str:
        """The tool with its version, as people and the engine name it."""
        return key_of(self.facts.name, self.facts.version)
