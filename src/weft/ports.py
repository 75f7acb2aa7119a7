"""What weft needs of the world, as protocols, and the plain values that cross them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, TypeAlias, TypeGuard
from urllib.parse import quote

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
Schema: TypeAlias = Mapping[str, Any]
"""A JSON Schema as data; the empty one says nothing about the value."""

WRAPPED = "weft/wrapped"
"""The mark in `_meta` of a value that weft wrapped as `{"result": x}` to serve it."""


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Tell whether a JSON value is an object; the check that a type checker understands."""
    return isinstance(value, dict)


def is_array(value: object) -> TypeGuard[list[Any]]:
    """Tell whether a JSON value is an array; the check that a type checker understands."""
    return isinstance(value, list)


@dataclass(frozen=True, slots=True)
class ToolRef:
    """What a plan asks an upstream for: a tool of a server, or a skill of an agent."""

    name: str
    server: str | None = None
    version: str | None = None
    skill: str | None = None
    known_as: str | None = field(default=None, compare=False)
    """Which tool of the registry stands for it, as `name` or `name@version`."""

    def __str__(self) -> str:
        at = f"@{self.version}" if self.version else ""
        skill = f"/{self.skill}" if self.skill else ""
        return f"{f'{self.server}:' if self.server else ''}{self.name}{at}{skill}"


@dataclass(frozen=True, slots=True)
class ToolType:
    """What is known of a tool before it is called: its values, and what it says of itself."""

    input: Schema | None = None
    output: Schema | None = None
    description: str | None = None
    annotations: Mapping[str, Any] | None = None


class Timer(Protocol):
    """Something that will happen, unless it is cancelled."""

    def cancel(self) -> None:
        """Make it not happen."""
        ...


class Clock(Protocol):
    """Time: monotonic seconds, pauses, and what happens at a moment."""

    def now(self) -> float:
        """Return monotonic seconds."""
        ...

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        """Call back at a moment."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Pause the caller."""
        ...

    def timeout_at(self, deadline: float) -> AbstractAsyncContextManager[Any]:
        """Return a scope that raises TimeoutError in its body at the deadline."""
        ...


Invoke: TypeAlias = Callable[[Any, Any], Awaitable[Any]]
"""An upstream tool, ready: (arguments, call) -> value. Arguments as the composition gave them."""


class Upstream(Protocol):
    """Where tools that are not compositions live."""

    def bind(self, ref: ToolRef) -> Invoke | None:
        """Return the tool, ready to be called, or None when there is no such tool here."""
        ...

    def describe(self, ref: ToolRef) -> ToolType | None:
        """Return what is known of the tool's input and output, or None when there is no such tool here."""
        ...

    def names(self) -> list[str]:
        """Return the names of the tools known now, for suggestions."""
        ...


Method = Literal["jwt", "key", "certificate", "proxy", "header", "none"]
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

    def __hash__(self) -> int:
        # Asked for in every call: the id says nearly all, and its own hash is remembered.
        return hash(self.id)

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

    @classmethod
    def of_json(cls, told: Mapping[str, Any]) -> Principal:
        """Return the principal that `to_json` wrote."""
        return cls(
            tenant=told["tenant"],
            subject=told["subject"],
            issuer=told["issuer"],
            agent_name=told["agentName"],
            agent_version=told["agentVersion"],
            scopes=frozenset(told["scopes"]),
            method=told["method"],
            strength=told["strength"],
        )


ANONYMOUS = Principal()


ANYHOW = -1
"""A change that depends on nothing."""
ABSENT = 0
"""A change that is made only where nothing is stored."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What a store has under a key: the bytes, the version of this writing, and the seconds that it has left."""

    value: bytes
    version: int
    """Greater than 0; another one with each writing, also of a key that was deleted in between."""
    ttl: float | None = None


@dataclass(frozen=True, slots=True)
class Put:
    """Write a key; `when` is ANYHOW, ABSENT, or the version that must be there. None as `ttl` is for ever."""

    key: str
    value: bytes
    ttl: float | None = None
    when: int = ANYHOW


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a key; `when` is ANYHOW, or the version that must be there."""

    key: str
    when: int = ANYHOW


Change: TypeAlias = "Put | Delete"


class Store(Protocol):
    """Where stateful patterns keep what they know.

    Every operation is atomic, takes no longer than the store's own timeout, and raises StoreError and nothing else.
    Expiry is checked when something is read, by the store's clock. Keys are any text; values any bytes up to a limit.
    """

    @property
    def name(self) -> str:
        """What the configuration calls it."""
        ...

    @property
    def durable(self) -> bool:
        """Whether what was written is there after a crash of the process and of the machine."""
        ...

    @property
    def shared(self) -> bool:
        """Whether other processes see the same."""
        ...

    async def open(self) -> None:
        """Connect, or make ready; where the store may be away, later operations try again."""
        ...

    async def close(self) -> None:
        """Let everything go."""
        ...

    async def get(self, key: str) -> Stored | None:
        """Return what is stored under a key."""
        ...

    async def exists(self, key: str) -> bool:
        """Tell whether something is stored under a key."""
        ...

    async def set(self, key: str, value: bytes, *, ttl: float | None = None) -> int:
        """Write a key, whatever was there; return the new version."""
        ...

    async def put_if_absent(self, key: str, value: bytes, *, ttl: float | None = None) -> int | None:
        """Write a key where nothing is stored; return the new version, or None when something is."""
        ...

    async def cas(self, key: str, value: bytes, version: int, *, ttl: float | None = None) -> int | None:
        """Write a key that is still of a version; return the new version, or None when it is not."""
        ...

    async def delete(self, key: str) -> bool:
        """Delete a key; tell whether something was there."""
        ...

    async def delete_if(self, key: str, version: int) -> bool:
        """Delete a key that is still of a version; tell whether it was."""
        ...

    async def incr(self, key: str, by: int = 1, *, ttl: float | None = None) -> int:
        """Add to a number, which begins at 0, and return it; `ttl` counts from its first writing."""
        ...

    def scan(self, prefix: str) -> AsyncIterator[tuple[str, Stored]]:
        """Yield what is stored under keys with a prefix, each once, in no order."""
        ...

    async def batch(self, changes: Sequence[Change]) -> list[int] | None:
        """Make all changes or none; return the versions (0 for a deletion), or None when a condition does not hold."""
        ...

    async def now(self) -> float:
        """Return seconds since 1970 by the clock that expiry goes by."""
        ...


class Signals(Protocol):
    """Where the machinery of state says what happens: numbers for metrics, events for the log."""

    def count(self, name: str, **labels: str) -> None:
        """Count something; labels are names of weft's own, never values of calls."""
        ...

    def event(self, name: str, **facts: object) -> None:
        """Tell of something that happens rarely: a circuit opened, a saga is stuck."""
        ...


class Silence:
    """Signals that nobody hears."""

    def count(self, name: str, **labels: str) -> None:
        """Count nothing."""

    def event(self, name: str, **facts: object) -> None:
        """Tell nobody."""


class Caller(Protocol):
    """The client behind a call: what it can do, and how to reach it while the call runs.

    A server gives its progress, log messages and questions to the caller of the request that they belong to.
    """

    @property
    def principal(self) -> Principal:
        """Who the client is known to be; `ANONYMOUS` when nobody knows."""
        ...

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """What the client can do for a server: elicitation, sampling, roots."""
        ...

    @property
    def info(self) -> Mapping[str, Any]:
        """What the client says of itself; a label, never an identity."""
        ...

    @property
    def log_level(self) -> str | None:
        """From which level on the client wants log messages, or None when it wants none."""
        ...

    @property
    def meta(self) -> Mapping[str, Any]:
        """What goes along in `_meta` of every request that is made for it, such as `traceparent`."""
        ...

    @property
    def wants_progress(self) -> bool:
        """Whether the client asked to be told of progress."""
        ...

    @property
    def relays_input(self) -> bool:
        """Whether a result that asks for input may be returned to it, for it to call again with the answers."""
        ...

    def progress(self, params: dict[str, Any]) -> None:
        """Tell it of progress: the params of the notification without a token; it must not block."""
        ...

    def log(self, params: dict[str, Any]) -> None:
        """Tell it a log message: the params of the notification; it must not block."""
        ...

    async def ask(self, requests: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        """Ask it (elicitation, sampling, roots): each a method with params; return the results by the same keys.

        Raises:
            UpstreamRefused: it answered with an error, or cannot be asked.
        """
        ...
