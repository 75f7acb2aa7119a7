"""What a pattern is: data that compiles, once, to a function that runs.

A pattern's file holds its model, its spellings, `compile`, `flow` and the builder that authors call. `compile` asks the
Compiler for whatever it stands on and returns either a `Run` (touches the world) or a `Pure` (only moves data).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from weft.errors import ExecutionFailed, Loc, WeftError
from weft.ir.nodes import Node
from weft.ir.operations import Undo, kind_of, operation_ir
from weft.patterns.copies import OFTEN, Copies
from weft.patterns.keys import Keys
from weft.ports import Caller, Clock, Json, Schema, Signals, Store

A_contra = TypeVar("A_contra", contravariant=True)
B_co = TypeVar("B_co", covariant=True)
T = TypeVar("T")

Value: TypeAlias = Any
"""A JSON value on its way through a plan: typed loosely, since every pattern checks what it needs."""


class Root(Protocol):
    """What all branches of one root call share."""

    clock: Clock
    context: Caller | None
    """The client behind the call, when there is one."""
    rng: Random
    """Where chance comes from; a test gives a seed."""
    signals: Signals
    steps_left: int
    calls_left: int
    places_left: int
    warned: int
    """How often the caller was warned so far: a result that came with a warning is not the whole one."""
    marks: dict[str, Json] | None
    """What was marked so far; None is nothing."""

    def spend_steps(self, count: int) -> None:
        """Take steps from the budget of the root call."""
        ...

    def need_calls(self, count: int) -> None:
        """Refuse at once what would need more upstream calls than are left."""
        ...

    async def wait(self) -> None:
        """Wait for a place for one more upstream call, or refuse it."""
        ...

    def leave(self) -> None:
        """Give the place of an upstream call back."""
        ...

    def spend_rows(self, count: int) -> None:
        """Take rows that a fan-out produced from the budget of the root call."""
        ...

    def warn(self, message: str) -> None:
        """Tell the caller, beside the result, what was dropped on the way."""
        ...

    def mark(self, key: str, value: Json) -> None:
        """Tell the caller, beside the result or the error, how it was got: a key of its `_meta`."""
        ...

    def detach(self, work: Coroutine[Any, Any, object], dropped: Callable[[], object] | None = None) -> None:
        """Hand over work that outlives the call: the engine owns it, bounds it and waits for it when it drains.

        `dropped` is called when the work had to make room, or the engine could not wait for it any longer.
        """
        ...


class Call(Protocol):
    """One root call, seen from one place in it."""

    @property
    def root(self) -> Root:
        """What all places of the call share."""
        ...

    @property
    def deadline(self) -> float:
        """When, on the clock of the call, this place must have ended."""
        ...

    @property
    def began(self) -> float:
        """When, on the clock of the call, the span began; only a traced call has it."""
        ...

    @property
    def traced(self) -> bool:
        """Whether there are spans."""
        ...

    @property
    def keys(self) -> Keys | None:
        """What the idempotency keys of upstream calls below this place are made of, where a pattern cares."""
        ...

    def keyed(self, keys: Keys) -> Call:
        """Return the same place, with other idempotency keys for the upstream calls below it."""
        ...

    def note(self, **facts: Json) -> None:
        """Add to the span what the trace should show of it: `cache="hit"`, `attempts=3`."""
        ...

    def open(self, step: Step, value: Value, name: str = "") -> Call:
        """Begin a span below this one, under the step's name or another."""
        ...

    def close(self, value: Value) -> None:
        """End the span well."""
        ...

    def fail(self, error: BaseException) -> None:
        """End the span with an error."""
        ...

    def skip(self, step: Step) -> None:
        """Record a step that did not run."""
        ...

    def until(self, deadline: float) -> Call:
        """Return the same place with an earlier deadline."""
        ...

    def apart(self, caller: Caller | None = None) -> Call:
        """Return the same place for work that outlives the call: its time and its budgets are its own.

        With another caller it is done in that one's name.
        """
        ...

    def lasting(self, caller: Caller | None = None, seconds: float | None = None) -> Call:
        """Return the same place for work that the call waits for, and that goes on when it does not any more.

        As `apart`, but what is done there belongs to the call: who follows it is told, and what is marked is its mark.
        `seconds` is how long it may take, where that is longer than a call usually may.
        """
        ...


Run: TypeAlias = Callable[[Value, Call], Awaitable[Value]]


@dataclass(frozen=True, slots=True)
class Pure:
    """A compiled operation that only moves data; `rows` maps it over a list in one loop, when that is faster.

    `spans` does the same as `fn` with a span for each step, when there are steps; `steps` is how many steps it stands
    for, which may be many more than were written when compositions call each other.
    """

    fn: Callable[[Value], Value]
    rows: Callable[[list[Value]], list[Value]] | None = None
    spans: Callable[[Value, Call], Value] | None = None
    steps: int = 1


@dataclass(frozen=True, slots=True)
class Step:
    """A compiled operation: the name of its place, its kind, and the tool that it calls, if it is one."""

    name: str
    kind: str
    run: Run
    pure: Pure | None = None
    target: str = ""


async def perform(step: Step, value: Value, call: Call, name: str = "", *, until: float | None = None) -> Value:
    """Run one step as a branch of its own: a span, the step's name on its errors, and perhaps an earlier deadline."""
    inner = call.open(step, value, name) if call.traced else call
    if until is not None:
        inner = inner.until(until)
    try:
        if (pure := step.pure) is not None and pure.steps > 1:
            call.root.spend_steps(pure.steps)
        if pure is None or (pure.spans is not None and call.traced):
            result = await step.run(value, inner)
        else:
            result = pure.fn(value)
    except BaseException as error:
        if isinstance(error, WeftError):
            error.within(name or step.name)
        if call.traced:
            inner.fail(error)
        raise
    if call.traced:
        inner.close(result)
    return result


class Compiler(Protocol):
    """What `compile` may ask for."""

    def operation(self, operation: Node, name: str) -> Step:
        """Return a nested operation, compiled, under the name of its place."""
        ...

    def branch(self, operation: Node, fallback: str) -> Step:
        """Return a nested operation under the name of the tool that it calls, when it does nothing else."""
        ...

    def named(self, tool: str) -> Step:
        """Return the tool or composition of that name, compiled."""
        ...

    def copies(self, operation: Node | str) -> Copies:
        """Return how often an operation, or the tool of that name, may put a part of its input into its result."""
        ...

    def repeatable(self, operation: Node) -> bool:
        """Tell whether every tool that an operation calls says that twice is as good as once (`idempotentHint`)."""
        ...

    def rights(self, operation: Node) -> list[Callable[[Call], bool]]:
        """Return what tells, for each guarded tool that an operation may call, whether a call may call it."""
        ...

    def store(self, name: str | None) -> Store:
        """Return the store of that name; without one, the default store."""
        ...

    def kept(self, kind: type[T]) -> T:
        """Return the one object of a kind that this process keeps beyond reloads, such as its circuits."""
        ...

    def undo(self, operation: Node) -> Undo | None:
        """Return what takes back the effect of a tool that an operation calls, where the registry says so."""
        ...

    def place(self) -> str:
        """Return what names this pattern among all: the tool and its version, the hash of its spec, the path in it."""
        ...

    def documented(self) -> dict[str, Json]:
        """Return a document of the tool that is being compiled, and of every tool that it stands on."""
        ...


class Flow(Protocol):
    """What `flow` may ask for: schemas of nested operations, and a place to report what cannot work."""

    def operation(self, operation: Node, given: Schema, *at: str | int) -> Schema:
        """Return what a nested operation gives for such a value; `at` is its place below this pattern."""
        ...

    def named(self, tool: str, given: Schema, *at: str | int) -> Schema:
        """Return what the tool of that name gives for such a value."""
        ...

    def error(self, code: str, message: str, *at: str | int, **details: str | None) -> None:
        """Report what certainly fails."""
        ...

    def warning(self, code: str, message: str, *at: str | int, **details: str | None) -> None:
        """Report what may fail."""
        ...


@dataclass(frozen=True, slots=True)
class Claim:
    """A name under which patterns share state (`circuit`, `payments`), and the rules on which they must agree."""

    kind: str
    name: str
    rules: Json
    loc: Loc = ()


class Pattern(Node):
    """A way to compose operations."""

    def compile(self, c: Compiler) -> Run | Pure:
        """Return the function that runs this pattern."""
        raise TypeError(f"{type(self).__name__} has no compile")

    def flow(self, given: Schema, f: Flow) -> Schema:
        """Return the schema of the result for an input of the given schema; {} when nothing is known."""
        raise TypeError(f"{type(self).__name__} has no flow")

    def takes(self) -> Schema:
        """Return what this pattern asks of its input, as far as that stands in it; {} when nothing is known."""
        return {}

    def copies(self, c: Compiler) -> Copies:
        """Return how often a part of the input may occur in the result; unless a pattern knows better, often."""
        return OFTEN

    def names(self) -> Iterable[tuple[str, Loc]]:
        """Return tools that this pattern names outside of its operations, each with its place."""
        return ()

    def takes_back(self) -> Iterable[tuple[Node, Loc]]:
        """Return the operations whose effect it may take back as the registry says of their tools."""
        return ()

    def stores(self) -> Iterable[tuple[str, Loc]]:
        """Return the stores that this pattern names, each with its place."""
        return ()

    def claims(self) -> Iterable[Claim]:
        """Return the names under which this pattern has state that others of the same name share."""
        return ()


class Op(Generic[A_contra, B_co]):
    """What authors hold: an operation that takes A and gives B.

    `parts` are the operations it was built from, so that what was given a name or used twice can be found again.
    """

    __slots__ = ("node", "parts")

    def __init__(self, node: Node, parts: Iterable[Op[Any, Any]] = ()) -> None:
        self.node = node
        self.parts = tuple(parts)

    @property
    def pattern(self) -> str:
        """The tag of the pattern, or `tool`, `composition`, `agent`."""
        return kind_of(self.node)

    def to_ir(self) -> dict[str, Json]:
        """Return the operation as canonical JSON: `{kind: body}`."""
        return operation_ir(self.node)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.to_ir()!r}>"


Operand: TypeAlias = Op[Any, Any]


def require_list(value: Value, who: str) -> list[Value]:
    """Return the value when it is a list, else fail with the sentence that users know."""
    if type(value) is list:
        return value  # pyright: ignore[reportUnknownVariableType]  (the items are anything)
    raise ExecutionFailed(f"{who} requires array input", hint=f"it was given {type_name(value)}")


def type_name(value: Value) -> str:
    """Return the JSON name of a value's type, with its article."""
    return _TYPE_NAMES.get(value.__class__, "something that is not JSON")


_TYPE_NAMES: Mapping[type, str] = {
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    list: "an array",
    dict: "an object",
    type(None): "null",
}


def operand(given: object, who: str) -> Op[Any, Any]:
    """Return what an author put where an operation belongs, or say what belongs there."""
    if isinstance(given, Op):
        return given  # pyright: ignore[reportUnknownVariableType]  (isinstance cannot tell the parameters)
    hint = (
        f"; write w.tool({given!r})"
        if isinstance(given, str)
        else "; wrap it with @w.python_tool"
        if callable(given)
        else ""
    )
    raise TypeError(f"{who} takes operations (w.tool(..), a composition or a pattern), not {given!r}{hint}")
