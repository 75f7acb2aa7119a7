"""Workflow: steps that name each other's results with `{{..}}`, each done as soon as it can be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, ClassVar

from pydantic import Field, ModelWrapValidatorHandler, ValidationError, model_validator

from weft.errors import ExecutionFailed, Loc, ToolFailed, WeftError, nearest, shown
from weft.expr.cel import compile_condition
from weft.expr.durations import as_ms
from weft.expr.interpolation import Interpolated, compile_interpolation, names_in_condition, references_in
from weft.ir.nodes import LiteralJson, Milliseconds, Node, joined
from weft.ir.normalise import made
from weft.ir.operations import CompositionCall, ToolCall, Undo
from weft.ir.seconds import Span, in_seconds
from weft.patterns.attempts import attempt_at
from weft.patterns.backoff import Backoff
from weft.patterns.contract import Call, Compiler, Flow, Op, Operand, Pattern, Pure, Run, Value, operand, type_name
from weft.patterns.copies import OFTEN, Copies
from weft.patterns.retry_rules import rule
from weft.patterns.workflow_asking import asking
from weft.patterns.workflow_durable import DurableEntry
from weft.patterns.workflow_flow import asked_of_input, flow_through
from weft.patterns.workflow_ledger import Unwritten
from weft.patterns.workflow_names import STEPS, Names, Waits, is_reference, waits_of, wrong_names
from weft.patterns.workflow_plan import EachItem, Gives, Stage, Undoing, Watch, WorkflowPlan
from weft.patterns.workflow_run import WorkflowRun
from weft.patterns.workflow_steps import ErrorHandling, Together, WorkflowStep
from weft.ports import Json, Schema, is_array, is_object

BACKOFF = made(Backoff, {"exponential": {"initialDelayMs": 200, "maxDelayMs": 10_000}})
MOST_STEPS = 1000


class Workflow(Pattern):
    """Steps with dependencies; it gives what `output` says, or all results by their names."""

    aliases: ClassVar[Mapping[str, str]] = {"timeout": "timeoutMs"}

    steps: Annotated[list[WorkflowStep], Field(min_length=1, max_length=MOST_STEPS)]
    output: LiteralJson = None
    error_handling: ErrorHandling = ErrorHandling.model_construct(set())
    undo: dict[str, Undo] = {}
    max_concurrency: Together = 16
    timeout_ms: Milliseconds | None = None
    store: Annotated[str, Field(min_length=1)] | None = None

    @model_validator(mode="wrap")
    @classmethod
    def _sound(cls, value: Any, handler: ModelWrapValidatorHandler[Workflow]) -> Workflow:
        """Check names and dependencies, also of a workflow that has something else wrong with it."""
        try:
            workflow = handler(value)
        except ValidationError as failed:
            steps = _readable(value)
            if steps is not None and (wrong := wrong_names(steps, None, {})):
                raise joined(cls, failed, wrong) from None
            raise
        if wrong := wrong_names(workflow.steps, workflow.output, workflow.undo):
            raise joined(cls, None, wrong)
        return workflow

    @cached_property
    def _names(self) -> Names:
        return Names(self.steps)

    @cached_property
    def _takes(self) -> Schema:
        return asked_of_input(self._names, self.output, [*self.undo.values()])

    def takes(self) -> Schema:
        """Return what the references to the input ask for."""
        return self._takes

    def compile(self, c: Compiler) -> Run | Pure:
        plan = self._plan(c)
        if self.store is not None:
            return DurableEntry.of(c, self.store, plan).run
        watch, place = c.kept(Watch), c.place()

        async def run(value: Value, call: Call) -> Value:
            begin = watch.begin
            follower = None if begin is None else begin(plan, call, value)
            ledger = Unwritten("" if call.keys is None else call.keys.next(f"workflow|{place}", value))
            return await WorkflowRun(plan, value, call, ledger=ledger, follower=follower).run()

        return run

    def _plan(self, c: Compiler) -> WorkflowPlan:
        names, waits = self._names, waits_of(self._names)
        stages = tuple(self._stage(c, index, waits[index]) for index in range(len(self.steps)))
        dependants: list[list[int]] = [[] for _ in stages]
        for index, one in enumerate(waits):
            for other in (*one.hard, *one.first):
                dependants[other].append(index)
        said = {one.head for one in references_in(self.output)}
        said |= {one.head for stage in stages for text in _texts_in(stage) for one in text.references}
        asked = [step.when for step in self.steps if step.when is not None and not is_reference(step.when)]
        conditions = {name for when in asked for name in names_in_condition(when)[0]}
        return WorkflowPlan(
            name=c.place().partition("|")[0].partition("@")[0],
            stages=stages,
            dependants=tuple(tuple(sorted(one)) for one in dependants),
            output=self._output(names),
            at_once=self.max_concurrency,
            timeout=None if self.timeout_ms is None else self.timeout_ms / 1000,
            keeps_going=self.error_handling.keeps_going,
            rolls_back=self.error_handling.rolls_back,
            backoff=BACKOFF,
            uses_context="context" in said | conditions,
        )

    def _output(self, names: Names) -> Gives | None:
        if self.output is None:
            return None
        if is_object(self.output):
            form, parts = "object", [*self.output.items()]
        elif is_array(self.output):
            form, parts = "list", [(str(index), value) for index, value in enumerate(self.output)]
        else:
            form, parts = "value", [("", self.output)]
        return Gives(form=form, parts=tuple((name, compile_interpolation(one, names.heads)) for name, one in parts))

    def _stage(self, c: Compiler, index: int, waits: Waits) -> Stage:
        step, names = self.steps[index], self._names
        given: Json = step.parameters
        if step.elicit is not None:
            inner, given = asking(step.elicit, step.id), step.elicit.message
        else:
            assert step.does is not None
            inner = c.operation(step.does, step.id)
        parameters = compile_interpolation(given, names.local(step))
        retries = self.error_handling.retries if step.retry_count is None else step.retry_count
        each = step.for_each
        return Stage(
            index=index,
            id=step.id,
            key=step.key,
            step=inner,
            parameters=parameters,
            may_copy=len(parameters.references) > 1,
            waits=waits,
            names=tuple(dict.fromkeys((step.id, step.key))),
            when=None if step.when is None else _condition(step.when, names),
            attempt=attempt_at(inner, step.timeout_ms),
            retries=0 if step.elicit is not None else retries,
            may_repeat=_may_repeat(step.does is not None and c.repeatable(step.does)),
            each=None
            if each is None
            else EachItem(
                items=compile_interpolation(each.items, names.heads), name=each.name, at_once=each.max_concurrency
            ),
            undo=self._undoing(c, step),
            once=step.at_most_once,
            optional=step.on_error == "continue",
        )

    def _undoing(self, c: Compiler, step: WorkflowStep) -> Undoing | None:
        """Return how a step is undone: as it says itself, else as the workflow or the registry says of its tool."""
        if step.does is None:
            return None
        name = getattr(step.does, "name", None)
        undo = step.undo or (self.undo.get(name) if isinstance(name, str) else None) or c.undo(step.does)
        if undo is None:
            return None
        inner = c.operation(undo.tool, f"undo_{step.id}")
        parameters = compile_interpolation(undo.parameters, self._names.local(step, undo=True))
        return Undoing(step=inner, parameters=parameters)

    def copies(self, c: Compiler) -> Copies:
        return OFTEN

    def flow(self, given: Schema, f: Flow) -> Schema:
        handling = self.error_handling
        if handling.rollback_on_failure and handling.keeps_going:
            told = "rollback_on_failure has no effect under partial_success: what succeeded is kept"
            f.warning("RollbackIgnored", told, "errorHandling", "rollbackOnFailure", expected="one of the two")
        for index, step in enumerate(self.steps):
            if step.at_most_once and self.store is None:
                told = f"at_most_once of step {shown(step.id)} has no effect without a store: nothing is resumed"
                f.warning("AtMostOnceIgnored", told, "steps", index, "atMostOnce", expected="a workflow with a store")
        called = {getattr(step.does, "name", "") for step in self.steps}
        for tool in self.undo:
            if tool not in called:
                told = f"no step calls {shown(tool)}, which is said to be undone"
                meant = nearest(tool, called - {""})
                f.warning("UnusedUndo", told, "undo", tool, value=shown(tool), suggestion=meant)
        whole = not handling.keeps_going and all(step.on_error == "fail" for step in self.steps)
        return flow_through(self._names, self.output, given, f, undo=self.undo, whole=whole)

    def takes_back(self) -> Iterable[tuple[Node, Loc]]:
        for index, step in enumerate(self.steps):
            if step.does is not None and step.undo is None and getattr(step.does, "name", None) not in self.undo:
                yield step.does, ("steps", index, "operation" if step.tool is None else "tool")

    def stores(self) -> Iterable[tuple[str, Loc]]:
        if self.store is not None:
            yield self.store, ("store",)


def _texts_in(stage: Stage) -> list[Interpolated]:
    more = (stage.each and stage.each.items, stage.undo and stage.undo.parameters)
    return [stage.parameters, *(one for one in more if one is not None)]


def _readable(value: Any) -> list[WorkflowStep] | None:
    """Return the steps of a workflow that is not well-formed, when each of them is."""
    steps = value.get("steps") if is_object(value) else None
    if not is_array(steps) or not steps:
        return None
    try:
        return [WorkflowStep.model_validate(step) for step in steps]
    except ValidationError:
        return None


def _truth(text: str, names: Names) -> Callable[[Mapping[str, Value]], bool]:
    """Return a condition that is the value of a reference."""
    asked = compile_interpolation(text.strip(), names.heads)

    def condition(scope: Mapping[str, Value]) -> bool:
        value: Value = asked.render(scope)
        if isinstance(value, bool):
            return value
        told = f"{text.strip()} is {type_name(value)}, and a condition is true or false"
        raise ExecutionFailed(told, code="ConditionNotBool", hint="compare it, in CEL: size(input.names) > 0")

    return condition


def _condition(text: str, names: Names) -> Callable[[Mapping[str, Value]], bool]:
    if is_reference(text):
        return _truth(text, names)
    said, steps = names_in_condition(text)
    holds = compile_condition(text, names.variables(text))
    known = [name for name in said if name in names.owner]

    def condition(scope: Mapping[str, Value]) -> bool:
        values = {name: scope.get(name) for name in known}
        values["input"], values["context"] = scope["input"], scope.get("context", {})
        values[STEPS] = {name: scope.get(name) for name in steps}
        return holds(values)

    return condition


def _may_repeat(repeatable: bool) -> Callable[[WeftError, int], bool]:
    """Return what tells whether a step is tried again: a tool that said no may say yes the next time."""
    asked = rule(None, repeatable=repeatable, retry_unknown=None)
    return lambda error, attempt: isinstance(error, ToolFailed) or asked(error, attempt)


class WorkflowPart:
    """A step with its keywords; made by `w.workflow_step`."""

    __slots__ = ("body", "parts")

    def __init__(self, body: dict[str, Any], parts: list[Operand]) -> None:
        self.body = body
        self.parts = parts


def workflow_step(
    id: str,
    operation: Operand,
    parameters: Json = None,
    *,
    depends_on: Sequence[str] = (),
    output_key: str | None = None,
    when: str | None = None,
    for_each: str | Mapping[str, Any] | None = None,
    timeout: Span | None = None,
    retries: int | None = None,
    undo: tuple[Operand | str, Json] | None = None,
    on_error: str | None = None,
) -> WorkflowPart:
    """Name a step of a workflow: `w.workflow_step("fold", w.tool("fold"), {"content": "{{search.content}}"})`."""
    part = operand(operation, "w.workflow_step")
    node: Node = part.node
    body: dict[str, Any] = {"id": id, ("tool" if isinstance(node, ToolCall) else "operation"): node}
    parts, undone = [part], None
    if undo is not None:
        by, given_to_it = undo
        if not isinstance(by, str):
            node = operand(by, "w.workflow_step: undo").node
            if not isinstance(node, ToolCall | CompositionCall):
                raise TypeError(f"w.workflow_step: undo takes a tool or a composition, not {shown(node)}")
            parts.append(by)
            by = {"name": node.name, **({} if node.version is None else {"version": node.version})}
        undone = {"tool": by, "parameters": given_to_it}
    given: dict[str, Any] = {
        "parameters": parameters,
        "dependsOn": list(depends_on) or None,
        "outputKey": output_key,
        "when": when,
        "forEach": for_each,
        "timeoutMs": None if timeout is None else as_ms({"seconds": in_seconds(timeout)}),
        "retryCount": retries,
        "undo": undone,
        "onError": on_error,
    }
    return WorkflowPart({**body, **{key: value for key, value in given.items() if value is not None}}, parts)


def workflow(
    *steps: WorkflowPart,
    output: Json = None,
    strategy: str | None = None,
    max_retries: int | None = None,
    rollback_on_failure: bool = False,
    max_concurrency: int | None = None,
    timeout: Span | None = None,
    store: str | None = None,
) -> Op[Any, Any]:
    """Do steps as soon as what they read is there: `w.workflow(w.workflow_step(..), output="{{fold.summary}}")`."""
    for one in steps:
        if not isinstance(one, WorkflowPart):  # pyright: ignore[reportUnnecessaryIsInstance]  (authors may err)
            raise TypeError(f"w.workflow takes w.workflow_step(..), not {shown(one)}")
    handling: dict[str, Any] = {
        **({} if strategy is None else {"failureStrategy": strategy}),
        **({} if max_retries is None else {"maxRetries": max_retries}),
        **({"rollbackOnFailure": True} if rollback_on_failure else {}),
    }
    given: dict[str, Any] = {
        "output": output,
        "errorHandling": handling or None,
        "maxConcurrency": max_concurrency,
        "timeoutMs": None if timeout is None else as_ms({"seconds": in_seconds(timeout)}),
        "store": store,
    }
    body = {"steps": [one.body for one in steps], **{key: value for key, value in given.items() if value is not None}}
    return Op(made(Workflow, body), [part for one in steps for part in one.parts])
