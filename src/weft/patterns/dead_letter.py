"""Dead letter: when a step fails for good, hand what it was given to a tool that keeps it for later."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import Field

from weft.errors import BudgetSpent, DeadlineExceeded, ExecutionFailed, Loc, UpstreamRefused, WeftError
from weft.expr.durations import Duration, given_ms
from weft.expr.shapes import any_of, object_of
from weft.ir.nodes import Milliseconds
from weft.ir.normalise import made
from weft.ir.operations import Name, Operation
from weft.patterns.backoff import Backoff
from weft.patterns.contract import Call, Compiler, Flow, Op, Pattern, Pure, Run, Value, operand, perform
from weft.patterns.copies import ONCE, Copies, either
from weft.patterns.dead_letter_letters import Sender, marks_of
from weft.patterns.dead_letter_office import Office
from weft.patterns.dead_letter_spool import Letterboxes, Spool
from weft.patterns.keys import Keys
from weft.patterns.retry import MAX_ATTEMPTS, MIN_ATTEMPT, copied
from weft.patterns.retry_rules import NEVER_RPC, asked_to_wait, rule
from weft.patterns.tool_names import tool_name
from weft.ports import Schema, Store, is_object

A = TypeVar("A")
B = TypeVar("B")

TIMEOUT_MS = 5000
MAX_BYTES = 256 << 10
DENIED = frozenset({"StepDenied", "NotAllowed", "KeyPathMissing"})
TEXT: Schema = {"type": "string"}
TOLD = object_of({"deadLettered": {"const": True}, "id": TEXT})


class DeadLetter(Pattern):
    """Attempts follow each other as in a retry; after the last one the tool is given a letter, once.

    It is sent whatever becomes of the caller. Where there is a store, the letter is kept there until the tool took it.
    """

    aliases: ClassVar[Mapping[str, str]] = {"deadLetter": "deadLetterTool", "deadLetterTimeout": "deadLetterTimeoutMs"}

    inner: Operation
    dead_letter_tool: Name
    max_attempts: Annotated[int, Field(ge=1, le=MAX_ATTEMPTS)] = 1
    backoff: Backoff | None = None
    rethrow: bool = False
    caller_faults: bool = False
    store: Annotated[str, Field(min_length=1)] | None = None
    dead_letter_timeout_ms: Milliseconds = TIMEOUT_MS
    max_bytes: Annotated[int, Field(ge=1024, le=900_000)] = MAX_BYTES

    @classmethod
    def spell(cls, value: Any) -> Any:
        """Take a tool where its name belongs."""
        if not is_object(value):
            return value
        return {key: _name(one) if key in _TOOL_KEYS else one for key, one in value.items()}

    def compile(self, c: Compiler) -> Run | Pure:
        inner, place = c.branch(self.inner, "inner"), c.place()
        office = self._office(c, place)
        may_repeat = rule(None, repeatable=c.repeatable(self.inner), retry_unknown=None)
        attempts, rethrow, faults = self.max_attempts, self.rethrow, self.caller_faults
        backoff = self.backoff

        def may_go_on(failures: Sequence[WeftError], call: Call) -> float | None:
            """Return the pause before another attempt, or None when there is none."""
            count, last = len(failures), failures[-1]
            if count == attempts or isinstance(last, BudgetSpent) or not may_repeat(last, count):
                return None
            pause = max(0.0 if backoff is None else backoff.delay(count), asked_to_wait(last))
            return pause if call.root.clock.now() + pause + MIN_ATTEMPT <= call.deadline else None

        async def run(value: Value, call: Call) -> Value:
            keys = Keys(secrets.token_hex(16) if call.keys is None else call.keys.next(place, value))
            failures: list[WeftError] = []
            try:
                while True:
                    try:
                        # A tool of this process could change what it is given: the letter must have what came in.
                        return await perform(inner, copied(value), call.keyed(keys.again(len(failures) + 1)))
                    except WeftError as error:
                        failures.append(error)
                    if (pause := may_go_on(failures, call)) is None:
                        break
                    await call.root.clock.sleep(pause)
            except asyncio.CancelledError:
                # Who only leaves has not failed; what has failed before, or ran out of time, is not lost with it.
                if call.root.clock.now() >= call.deadline:
                    failures.append(DeadlineExceeded("the call's deadline passed"))
                if failures and (faults or not _is_callers(failures[-1])):
                    office.send(office.letter(keys, value, failures, call), call)
                raise
            last = failures[-1]
            call.note(attempts=len(failures))
            if _is_callers(last) and not faults:
                raise last
            letter = office.letter(keys, value, failures, call)
            wrong = await asyncio.shield(office.send(letter, call))
            if wrong is not None:
                raise _with(last, wrong)
            if rethrow or isinstance(last, BudgetSpent):
                raise last
            return {"deadLettered": True, "id": letter.id}

        return run

    def _office(self, c: Compiler, place: str) -> Office:
        step, store = c.named(self.dead_letter_tool), _spool_store(c, self.store)
        c.kept(Letterboxes).add(place.split("|", 1)[0], self.dead_letter_tool, step, store)
        sender = Sender(self.dead_letter_tool, place, marks_of(c.documented()), self.max_bytes)
        return Office(sender, step, None if store is None else Spool(store), self.dead_letter_timeout_ms / 1000)

    def copies(self, c: Compiler) -> Copies:
        return either([ONCE, c.copies(self.inner)])

    def flow(self, given: Schema, f: Flow) -> Schema:
        result = f.operation(self.inner, given, "inner")
        f.named(self.dead_letter_tool, _payload(), "deadLetterTool")
        return result if self.rethrow else any_of([result, TOLD])

    def names(self) -> Iterable[tuple[str, Loc]]:
        return [(self.dead_letter_tool, ("deadLetterTool",))]

    def stores(self) -> Iterable[tuple[str, Loc]]:
        return () if self.store is None else [(self.store, ("store",))]


def _is_callers(error: WeftError) -> bool:
    """Tell whether the caller did something wrong: making the same call again would be as wrong."""
    if isinstance(error, UpstreamRefused):
        return error.rpc_code in NEVER_RPC
    return error.origin == "caller" or error.code in DENIED


def _with(error: WeftError, wrong: str) -> WeftError:
    told = f"deadLetterError: {wrong}"
    error.hint = told if error.hint is None else f"{error.hint}; {told}"
    error.add(deadLetterError=wrong)
    return error


def _spool_store(c: Compiler, name: str | None) -> Store | None:
    """Return the store that letters are kept in: the one that is named, else the default one, if it is durable."""
    if name is not None:
        return c.store(name)
    try:
        store = c.store(None)
    except ExecutionFailed:
        return None
    return store if store.durable else None


def _payload() -> Schema:
    """Return what the tool is given; it may take less than all of it."""
    texts = ("id", "error", "errorType", "errorCode", "timestamp", "tool", "tenant", "principal")
    lists = {"attemptErrors": {"type": "array"}, "stepPath": {"type": "array"}}
    return object_of({**dict.fromkeys(texts, TEXT), **lists, "attempts": {"type": "integer"}, "originalInput": {}})


_TOOL_KEYS = frozenset({"deadLetterTool", "dead_letter_tool", "deadLetter", "dead_letter"})


def _name(given: Any) -> Any:
    """Return the name that `"x"`, `{"tool": "x"}` or `{"tool": {"name": "x"}}` gives."""
    while is_object(given) and len(given) == 1 and (inner := given.get("tool", given.get("name"))) is not None:
        given = inner
    return given


def dead_letter(
    inner: Op[A, B],
    tool: str | Op[Any, Any],
    *,
    max_attempts: int = 1,
    backoff: Backoff | None = None,
    rethrow: bool = False,
    caller_faults: bool | None = None,
    store: str | None = None,
    timeout: Duration | str | None = None,
    max_bytes: int | None = None,
) -> Op[A, Any]:
    """Keep what fails: `w.dead_letter(w.tool("book"), "failed_jobs", max_attempts=3, backoff=w.fixed("1s"))`.

    `tool` takes the letters; `timeout` is its own, `store` keeps letters that it did not take.
    """
    parts = [operand(inner, "w.dead_letter"), *([] if isinstance(tool, str) else [tool])]
    given: dict[str, Any] = {
        "inner": parts[0].node,
        "deadLetterTool": tool_name(tool, "w.dead_letter"),
        "maxAttempts": max_attempts,
        "backoff": backoff,
        "rethrow": rethrow,
        "callerFaults": caller_faults,
        "store": store,
        "deadLetterTimeoutMs": None if timeout is None else given_ms(timeout, "a timeout"),
        "maxBytes": max_bytes,
    }
    return Op(made(DeadLetter, {name: one for name, one in given.items() if one is not None}), parts)
