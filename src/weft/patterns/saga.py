"""Saga: do steps in order, and when one fails, undo those that were done; whatever crashes on the way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from weft.errors import Loc, nearest, shown
from weft.expr.durations import as_ms
from weft.expr.fields import path_text
from weft.expr.jcs import hash_of
from weft.expr.paths import compile_path
from weft.expr.shapes import ANY, object_of
from weft.ir.bindings import Binding, binding
from weft.ir.nodes import Milliseconds, Node, PathText, joined, refuse
from weft.ir.normalise import made
from weft.ir.operations import AgentCall, Operation, ToolCall, kind_of
from weft.ir.seconds import LeaseSeconds, Seconds, Span, in_seconds
from weft.patterns.backoff import Backoff
from weft.patterns.bindings import Read, binding_schema, compile_binding
from weft.patterns.contract import Compiler, Flow, Op, Operand, Pattern, Pure, Run, Value, operand
from weft.patterns.copies import OFTEN, Copies
from weft.patterns.keys import KeySpace
from weft.patterns.saga_entry import Entry, Running
from weft.patterns.saga_journal import Specs
from weft.patterns.saga_plan import Plans, SagaPlan, SagaStage
from weft.patterns.saga_record import encode
from weft.ports import Schema, is_array, is_object

OnDisconnect = Literal["continue", "compensate"]
OnDuplicate = Literal["join", "error"]
SagaScope = Literal["caller", "tenant"]
BACKOFF = made(Backoff, {"exponential": {"initialDelayMs": 200, "maxDelayMs": 5000}})
ONE_CALL = frozenset({"timeout", "retry", "cache", "idempotent", "circuitBreaker", "throttle"})
"""Patterns around one call: when that fails, nothing else was done."""


class SagaStep(Node):
    """One step: what to do, on what, and what undoes it."""

    id: Annotated[str, Field(min_length=1, max_length=128)]
    name: Annotated[str, Field(min_length=1, max_length=256)]
    action: Operation
    compensate: Operation | None = None
    input: Binding | None = None
    compensate_input: Binding | None = None
    pivot: bool = False
    retry_safe: bool = False
    key_argument: Annotated[str, Field(min_length=1, max_length=128)] | None = None


class Saga(Pattern):
    """Steps in order, each with what undoes it; the result is the last step's, or what `output` says."""

    steps: Annotated[list[SagaStep], Field(min_length=1, max_length=100)]
    store: Annotated[str, Field(min_length=1)] | None = None
    saga_id_path: PathText | None = None
    timeout_ms: Milliseconds | None = None
    output: Binding | None = None
    on_disconnect: OnDisconnect = "continue"
    on_duplicate: OnDuplicate = "join"
    scope: SagaScope = "caller"
    max_attempts: Annotated[int, Field(ge=1, le=20)] = 3
    backoff: Backoff | None = None
    max_recovery_attempts: Annotated[int, Field(ge=1, le=1000)] = 10
    lease_seconds: LeaseSeconds = 15
    retention_seconds: Seconds = 7 * 24 * 3600
    allow_volatile: bool = False

    aliases: ClassVar[Mapping[str, str]] = {"sagaId": "sagaIdPath", "timeout": "timeoutMs"}

    @classmethod
    def spell(cls, value: Any) -> Any:
        """Give each step an id and a name, one from the other."""
        if not is_object(value) or not is_array(steps := value.get("steps")):
            return value
        return {**value, "steps": [_named(step) for step in steps]}

    @model_validator(mode="wrap")
    @classmethod
    def _sound(cls, value: Any, handler: ModelWrapValidatorHandler[Saga]) -> Saga:
        """Check ids, references and the pivot, also of a saga that has something else wrong with it."""
        try:
            saga = handler(value)
        except ValidationError as failed:
            given = cls.spell(value)
            steps = found if is_object(given) and is_array(found := given.get("steps")) else []
            if wrong := _wrong_ids([step.get("id") if is_object(step) else None for step in steps]):
                raise joined(cls, failed, wrong) from None
            raise
        if wrong := [*_wrong_ids([step.id for step in saga.steps]), *_wrong(saga)]:
            raise joined(cls, None, wrong)
        return saga

    def compile(self, c: Compiler) -> Run | Pure:
        plan = SagaPlan(
            stages=tuple(self._stage(c, index) for index in range(len(self.steps))),
            output=None if self.output is None else compile_binding(self.output, len(self.steps), self._places()),
            timeout=None if self.timeout_ms is None else self.timeout_ms / 1000,
            attempts=self.max_attempts,
            backoff=self.backoff or BACKOFF,
            on_disconnect=self.on_disconnect,
        )
        place = c.place()
        c.kept(Plans).by_place[place] = plan
        # Neither a new version nor a new spec makes another saga of an order that was begun.
        tool, _, rest = place.partition("|")
        path = rest.partition("|")[2]
        spec = {"place": place, "document": c.documented()}
        entry = Entry(
            plan=plan,
            store=c.store(self.store),
            space=KeySpace("saga", f"{tool.partition('@')[0]}|{path}", self.scope),
            place=place,
            tool=tool,
            spec=encode(spec),
            spec_hash=hash_of(spec),
            find_id=None if self.saga_id_path is None else compile_path(self.saga_id_path).find,
            on_duplicate=self.on_duplicate,
            max_recoveries=self.max_recovery_attempts,
            lease=float(self.lease_seconds),
            retention=float(self.retention_seconds),
            running=c.kept(Running),
            specs=c.kept(Specs),
        )
        return entry.run

    def _places(self) -> dict[str, int]:
        return {step.id: index for index, step in enumerate(self.steps)}

    def _stage(self, c: Compiler, index: int) -> SagaStage:
        step, places = self.steps[index], self._places()
        undo = step.compensate
        # No step stands right before a compensation: `previous` is what is known of the action.
        apart = len(self.steps) + 2
        action = c.operation(step.action, step.id)
        return SagaStage(
            id=step.id,
            name=step.name,
            action=action,
            undo=None if undo is None else c.operation(undo, f"undo_{step.id}"),
            read=None if step.input is None else compile_binding(step.input, index, places),
            read_undo=None if step.compensate_input is None else _undo_read(step.compensate_input, apart, places),
            pivot=step.pivot,
            safe=step.retry_safe or step.key_argument is not None or c.repeatable(step.action),
            whole=action.pure is not None or _is_one_call(step.action, c),
            key_argument=step.key_argument,
        )

    def copies(self, c: Compiler) -> Copies:
        return OFTEN

    def flow(self, given: Schema, f: Flow) -> Schema:
        results: dict[str, Schema] = {}
        value = given
        for index, step in enumerate(self.steps):
            at = ("steps", index)
            into = binding_schema(step.input, given, value, results, f, *at, "input")
            value = results[step.id] = f.operation(step.action, into, *at, "action")
            if step.compensate is not None:
                about = object_of(
                    {"input": into, "output": ANY, "outcome": ANY, "idempotencyKey": ANY, "actionKey": ANY}
                )
                undone = value
                if step.compensate_input is not None:
                    undone = binding_schema(step.compensate_input, given, about, results, f, *at, "compensateInput")
                f.operation(step.compensate, undone, *at, "compensate")
            self._warn(index, f)
        if self.output is None:
            return value
        return binding_schema(self.output, given, value, results, f, "output")

    def _warn(self, index: int, f: Flow) -> None:
        """Report a step that nothing undoes though later ones may fail."""
        step, last = self.steps[index], len(self.steps) - 1
        after = any(one.pivot for one in self.steps[: index + 1])
        if step.compensate is None and not after and index < last:
            told = f"nothing undoes step {shown(step.id)} when a later one fails"
            expected = "a compensate, or pivot: true where there is no way back"
            f.warning("NotCompensated", told, "steps", index, expected=expected)

    def stores(self) -> Iterable[tuple[str, Loc]]:
        if self.store is not None:
            yield self.store, ("store",)


def _undo_read(given: Binding, apart: int, places: dict[str, int]) -> Read:
    return compile_binding(given, apart, places) or _whole


def _whole(given: Value, previous: Value, results: list[Value]) -> Value:
    return previous


def _is_one_call(operation: Node, c: Compiler) -> bool:
    while kind_of(operation) in ONE_CALL:
        operation = getattr(operation, "inner")  # noqa: B009  (only the patterns named above have one)
    return isinstance(operation, ToolCall | AgentCall) and c.operation(operation, "it").kind == "tool"


def _named(step: Any) -> Any:
    if not is_object(step):
        return step
    id, name = step.get("id"), step.get("name")
    named = {**step, "id": name if id is None else id, "name": id if name is None else name}
    # Of a step with neither, only the id is missed.
    return named if named["id"] is not None else {**step, "name": "?"}


def _wrong_ids(ids: Sequence[Any]) -> list[PydanticCustomError]:
    wrong: list[PydanticCustomError] = []
    places: dict[str, int] = {}
    for index, id in enumerate(ids):
        if isinstance(id, str) and places.setdefault(id, index) != index:
            told = f"two steps have the id {shown(id)}; the first is step {places[id]}"
            at = ("steps", index, "id")
            wrong.append(refuse("DuplicateStep", told, value=shown(id), expected="an id of its own", at=at))
    return wrong


def _wrong(saga: Saga) -> list[PydanticCustomError]:
    """Return what is wrong with references and pivots."""
    wrong: list[PydanticCustomError] = []
    ids = [step.id for step in saga.steps]
    for index, step in enumerate(saga.steps):
        at = ("steps", index)
        wrong += [_no_step(name, ids[:index], (*at, "input", *to)) for name, to in _far(step.input, ids[:index])]
        known = ids[: index + 1]
        far = _far(step.compensate_input, known)
        wrong += [_no_step(name, known, (*at, "compensateInput", *to)) for name, to in far]
        if step.compensate_input is not None and step.compensate is None:
            told = f"step {shown(step.id)} has an input for a compensation, and no compensation"
            wrong.append(refuse("NoCompensation", told, expected="a compensate", at=(*at, "compensateInput")))
    wrong += [_no_step(name, ids, ("output", *to)) for name, to in _far(saga.output, ids)]
    pivots = [index for index, step in enumerate(saga.steps) if step.pivot]
    if len(pivots) > 1:
        told = f"two steps are the pivot: {shown(ids[pivots[0]])} and {shown(ids[pivots[1]])}"
        wrong.append(refuse("TwoPivots", told, expected="one of them", at=("steps", pivots[1], "pivot")))
    return wrong


def _far(given: Binding | None, known: list[str], *at: str) -> list[tuple[str, Loc]]:
    """Return the steps that a binding names and cannot reach."""
    if given is None:
        return []
    if given.step is not None:
        return [] if given.step.step_id in known else [(given.step.step_id, (*at, "step", "stepId"))]
    fields = given.assembled.fields if given.assembled is not None else {}
    return [one for name, inner in fields.items() for one in _far(inner, known, *at, "construct", "fields", name)]


def _no_step(name: str, known: list[str], at: Loc) -> PydanticCustomError:
    expected = f"an earlier step: {', '.join(known)}" if known else "no step, since none comes before"
    told = f"Step not found: {name}"
    return refuse("UnknownStep", told, value=shown(name), expected=expected, suggestion=nearest(name, known), at=at)


class SagaPart:
    """A step with its keywords; made by `w.saga_step`."""

    __slots__ = ("body", "parts")

    def __init__(self, body: dict[str, Any], parts: list[Operand]) -> None:
        self.body = body
        self.parts = parts


def saga_step(
    name: str,
    action: Operand,
    *,
    id: str | None = None,
    compensate: Operand | None = None,
    input: object = None,
    compensate_input: object = None,
    pivot: bool = False,
    retry_safe: bool = False,
    key_argument: str | None = None,
) -> SagaPart:
    """Name a step of a saga and what undoes it: `w.saga_step("pay", w.tool("pay"), compensate=w.tool("refund"))`."""
    who = "w.saga_step"
    parts = [operand(action, who), *([] if compensate is None else [operand(compensate, who)])]
    body: dict[str, Any] = {**({} if id is None else {"id": id}), "name": name, "action": parts[0].node}
    if compensate is not None:
        body["compensate"] = parts[1].node
    for key, given in (("input", input), ("compensateInput", compensate_input)):
        if given is not None:
            body[key] = binding(given, who)
    # Whatever is not False goes into the document, which takes nothing but true and false there.
    body |= {} if pivot is False else {"pivot": pivot}
    body |= {} if retry_safe is False else {"retrySafe": retry_safe}
    body |= {} if key_argument is None else {"keyArgument": key_argument}
    return SagaPart(body, parts)


def saga(
    *steps: SagaPart,
    id: object = None,
    store: str | None = None,
    timeout: Span | None = None,
    output: object = None,
    on_disconnect: OnDisconnect = "continue",
    on_duplicate: OnDuplicate = "join",
    scope: SagaScope = "caller",
    max_attempts: int | None = None,
    backoff: Backoff | None = None,
    max_recovery_attempts: int | None = None,
    lease: Span | None = None,
    retention: Span | None = None,
    allow_volatile: bool = False,
) -> Op[Any, Any]:
    """Do steps in order, or undo them: `w.saga(w.saga_step(..), w.saga_step(..), id=p.order_id, store="sagas")`."""
    for one in steps:
        if not isinstance(one, SagaPart):  # pyright: ignore[reportUnnecessaryIsInstance]  (authors may err)
            raise TypeError(f"w.saga takes w.saga_step(..), not {one!r}")
    body: dict[str, Any] = {"steps": [{"id": f"saga_step_{n}", **one.body} for n, one in enumerate(steps)]}
    given: dict[str, Any] = {
        "store": store,
        "sagaIdPath": None if id is None else path_text(id),
        "timeoutMs": None if timeout is None else as_ms({"seconds": in_seconds(timeout)}),
        "output": None if output is None else binding(output, "w.saga"),
        "onDisconnect": None if on_disconnect == "continue" else on_disconnect,
        "onDuplicate": None if on_duplicate == "join" else on_duplicate,
        "scope": None if scope == "caller" else scope,
        "maxAttempts": max_attempts,
        "backoff": backoff,
        "maxRecoveryAttempts": max_recovery_attempts,
        "leaseSeconds": None if lease is None else in_seconds(lease),
        "retentionSeconds": None if retention is None else in_seconds(retention),
        "allowVolatile": None if allow_volatile is False else allow_volatile,
    }
    body |= {key: value for key, value in given.items() if value is not None}
    return Op(made(Saga, body), [part for one in steps for part in one.parts])
