"""Pipeline: run steps one after the other, each on what an earlier one gave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias, TypeVar, overload

from pydantic import Field, model_validator

from weft.errors import DeadlineExceeded, WeftError, nearest
from weft.expr.cel import compile_condition
from weft.expr.paths import compile_path
from weft.expr.shapes import ANY, look, object_of
from weft.ir.bindings import Binding
from weft.ir.nodes import CelText, Node, refuse
from weft.ir.operations import Operation
from weft.patterns.contract import Call, Compiler, Flow, Op, Pattern, Pure, Run, Step, Value, operand
from weft.patterns.flows import report_path
from weft.ports import Schema

CONDITION_VARIABLES = ("input", "previous")


class PipelineStep(Node):
    """One step: what to do, on what, and when."""

    id: Annotated[str, Field(min_length=1, max_length=128)]
    operation: Operation
    input: Binding | None = None
    condition: CelText | None = None


class Pipeline(Pattern):
    """Steps one after the other; the result is the last step's, or what `output` says."""

    steps: Annotated[list[PipelineStep], Field(min_length=1)]
    output: Binding | None = None

    @model_validator(mode="before")
    @classmethod
    def _ids(cls, value: Any) -> Any:
        """Give steps without an id the ones that the DSL would give: step_0, step_1, ..."""
        if not isinstance(value, dict) or not isinstance(steps := value.get("steps"), list):  # pyright: ignore
            return value
        return {**value, "steps": [_with_id(step, index) for index, step in enumerate(steps)]}  # pyright: ignore

    @model_validator(mode="after")
    def _references(self) -> Pipeline:
        ids = [step.id for step in self.steps]
        for index, step in enumerate(self.steps):
            if step.id in ids[:index]:
                raise refuse("DuplicateStep", f"two steps have the id {step.id!r}", value=step.id)
            for name in _references(step.input):
                _check_reference(name, ids, index)
        for name in _references(self.output):
            _check_reference(name, ids, len(ids))
        return self

    def compile(self, c: Compiler) -> Run | Pure:
        places = {step.id: index for index, step in enumerate(self.steps)}
        stages = [_stage(c, step, index, places) for index, step in enumerate(self.steps)]
        output = _binding(self.output, len(stages), places) if self.output is not None else None
        if all(stage.read is None and stage.condition is None for stage in stages) and output is None:
            return _chain(stages)
        return _general(stages, output)

    def flow(self, given: Schema, f: Flow) -> Schema:
        results: dict[str, Schema] = {}
        value = given
        for index, step in enumerate(self.steps):
            into = _binding_schema(step.input, given, value, results, f, "steps", index, "input")
            result = f.operation(step.operation, into, "steps", index, "operation")
            value = results[step.id] = ANY if step.condition is not None else result
        if self.output is None:
            return value
        return _binding_schema(self.output, given, value, results, f, "output")


def _with_id(step: Any, index: int) -> Any:
    if isinstance(step, dict) and "id" not in step and "name" not in step:
        return {"id": f"step_{index}", **step}  # pyright: ignore[reportUnknownVariableType]  (raw JSON)
    return step  # pyright: ignore[reportUnknownVariableType]  (raw JSON)


def _references(binding: Binding | None) -> list[str]:
    if binding is None:
        return []
    if binding.step is not None:
        return [binding.step.step_id]
    if binding.assembled is not None:
        return [name for inner in binding.assembled.fields.values() for name in _references(inner)]
    return []


def _check_reference(name: str, ids: list[str], index: int) -> None:
    earlier = ids[:index]
    if name in earlier:
        return
    why = "is this step itself" if ids[index : index + 1] == [name] else "comes later" if name in ids else ""
    raise refuse(
        "UnknownStep",
        f"Step not found: {name}" + (f" (it {why})" if why else ""),
        value=name,
        expected=f"an earlier step: {', '.join(earlier)}" if earlier else "no step, since none comes before",
        suggestion=nearest(name, earlier),
    )


Read: TypeAlias = Callable[[Value, Value, list[Value]], Value]
"""Where a step's input comes from: (pipeline's input, previous result, results so far) -> value."""


@dataclass(frozen=True, slots=True)
class _Stage:
    step: Step
    read: Read | None
    condition: Callable[[dict[str, Value]], bool] | None


def _stage(c: Compiler, step: PipelineStep, index: int, places: dict[str, int]) -> _Stage:
    read = _binding(step.input, index, places) if step.input is not None else None
    condition = compile_condition(step.condition, CONDITION_VARIABLES) if step.condition is not None else None
    return _Stage(c.operation(step.operation, step.id), read, condition)


def _binding(binding: Binding, index: int, places: dict[str, int]) -> Read | None:
    """Return how to read a binding; None for the previous result as it is, by far the most frequent."""
    if binding.step is not None:
        place, get = places[binding.step.step_id], compile_path(binding.step.path).get
        if place == index - 1:
            return _previous(binding.step.path)
        return lambda given, previous, results: get(results[place])
    if binding.input is not None:
        if index == 0:
            return _previous(binding.input.path)
        get = compile_path(binding.input.path).get
        return lambda given, previous, results: get(given)
    if binding.constant is not None:
        value = binding.constant.value
        return lambda given, previous, results: value
    if binding.assembled is not None:
        fields = [(name, _binding(inner, index, places)) for name, inner in binding.assembled.fields.items()]
        return lambda given, previous, results: {
            name: previous if read is None else read(given, previous, results) for name, read in fields
        }
    return _previous(binding.previous.path if binding.previous is not None else "$")


def _previous(path: str) -> Read | None:
    if path == "$":
        return None
    get = compile_path(path).get
    return lambda given, previous, results: get(previous)


def _chain(stages: list[_Stage]) -> Run | Pure:
    """Compile steps of which each takes the result before it: no table of results, no bindings."""
    steps = tuple((stage.step.pure.fn if stage.step.pure else None, stage.step) for stage in stages)
    if all(pure is not None for pure, _ in steps):
        return Pure(_fused([(step.name, pure) for pure, step in steps if pure is not None]))
    count = len(steps)

    async def run(value: Value, call: Call) -> Value:
        root = call.root
        if (left := root.steps_left - count) < 0:
            root.spend_steps(count)
        root.steps_left = left
        traced, deadline, now = call.traced, call.deadline, root.clock.now
        name, inner = "", call
        # The span, the budget and the error's path are kept here rather than in `perform`: one coroutine less a step.
        try:
            for pure, step in steps:
                name = step.name
                if traced:
                    inner = call.open(step, value)
                if pure is not None:
                    value = pure(value)
                elif now() < deadline:
                    value = await step.run(value, inner)
                else:
                    raise DeadlineExceeded("the call's deadline has passed")
                if traced:
                    inner.close(value)
        except BaseException as error:
            if isinstance(error, WeftError):
                error.within(name)
            if traced:
                inner.fail(error)
            raise
        return value

    return run


def _fused(steps: Sequence[tuple[str, Callable[[Value], Value]]]) -> Callable[[Value], Value]:
    def run(value: Value) -> Value:
        name = ""
        try:
            for name, pure in steps:  # noqa: B007  (read by the handler below)
                value = pure(value)
        except WeftError as error:
            error.within(name)
            raise
        return value

    return run


def _general(stages: list[_Stage], output: Read | None) -> Run:
    async def run(value: Value, call: Call) -> Value:
        given, previous, results = value, value, list[Value]()
        root = call.root
        for stage in stages:
            step = stage.step
            if stage.condition is not None and not _holds(stage, given, previous):
                call.skip(step)
                results.append(previous)
                continue
            value = previous if stage.read is None else stage.read(given, previous, results)
            root.spend_steps(1)
            inner = call.open(step, value) if call.traced else call
            try:
                if root.clock.now() >= call.deadline:
                    raise DeadlineExceeded("the call's deadline has passed")
                previous = step.pure.fn(value) if step.pure is not None else await step.run(value, inner)
            except BaseException as error:
                if isinstance(error, WeftError):
                    error.within(step.name)
                if call.traced:
                    inner.fail(error)
                raise
            if call.traced:
                inner.close(previous)
            results.append(previous)
        return previous if output is None else output(given, previous, results)

    return run


def _holds(stage: _Stage, given: Value, previous: Value) -> bool:
    assert stage.condition is not None
    try:
        return stage.condition({"input": given, "previous": previous})
    except WeftError as error:
        error.within(stage.step.name)
        raise


def _binding_schema(
    binding: Binding | None, given: Schema, previous: Schema, results: dict[str, Schema], f: Flow, *at: str | int
) -> Schema:
    if binding is None:
        return previous
    if binding.assembled is not None:
        return object_of(
            {
                name: _binding_schema(inner, given, previous, results, f, *at, "construct", "fields", name)
                for name, inner in binding.assembled.fields.items()
            }
        )
    if binding.constant is not None:
        return {"const": binding.constant.value}
    source, path = previous, "$"
    if binding.input is not None:
        source, path = given, binding.input.path
    elif binding.step is not None:
        source, path = results.get(binding.step.step_id, ANY), binding.step.path
    elif binding.previous is not None:
        path = binding.previous.path
    found = look(source, compile_path(path))
    report_path(found, path, f, *at, binding.kind, "path")
    return found.schema


A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
F = TypeVar("F")
G = TypeVar("G")
H = TypeVar("H")
I = TypeVar("I")  # noqa: E741  (the ninth letter of the chain)


@overload
def pipeline(a: Op[A, B], /) -> Op[A, B]: ...
@overload
def pipeline(a: Op[A, B], b: Op[B, C], /) -> Op[A, C]: ...
@overload
def pipeline(a: Op[A, B], b: Op[B, C], c: Op[C, D], /) -> Op[A, D]: ...
@overload
def pipeline(a: Op[A, B], b: Op[B, C], c: Op[C, D], d: Op[D, E], /) -> Op[A, E]: ...
@overload
def pipeline(a: Op[A, B], b: Op[B, C], c: Op[C, D], d: Op[D, E], e: Op[E, F], /) -> Op[A, F]: ...
@overload
def pipeline(a: Op[A, B], b: Op[B, C], c: Op[C, D], d: Op[D, E], e: Op[E, F], f: Op[F, G], /) -> Op[A, G]: ...
@overload
def pipeline(
    a: Op[A, B], b: Op[B, C], c: Op[C, D], d: Op[D, E], e: Op[E, F], f: Op[F, G], g: Op[G, H], /
) -> Op[A, H]: ...
@overload
def pipeline(
    a: Op[A, B], b: Op[B, C], c: Op[C, D], d: Op[D, E], e: Op[E, F], f: Op[F, G], g: Op[G, H], h: Op[H, I], /
) -> Op[A, I]: ...
@overload
def pipeline(*steps: Op[Any, Any] | StepSpec | list[Op[Any, Any] | StepSpec]) -> Op[Any, Any]: ...


def pipeline(*steps: Any) -> Op[Any, Any]:
    """Run steps one after the other, each on the result of the one before.

    Each step is an operation, or `w.step(..)` when it needs a name, another input or a condition; a list is taken too.
    """
    given: list[Any] = list(steps[0]) if len(steps) == 1 and isinstance(steps[0], list | tuple) else list(steps)
    specs = [item if isinstance(item, StepSpec) else StepSpec(operand(item, "w.pipeline")) for item in given]
    last, body = "", list[dict[str, Any]]()
    for index, spec in enumerate(specs):
        name = spec.id or f"step_{index}"
        source = {"step": {"stepId": last, "path": "$"}} if index else {"input": {"path": "$"}}
        entry: dict[str, Any] = {"id": name, "operation": spec.operation.node, "input": spec.input or source}
        if spec.condition is not None:
            entry["condition"] = spec.condition
        body.append(entry)
        last = name
    return Op(Pipeline.model_validate({"steps": body}), [spec.operation for spec in specs])


@dataclass(frozen=True, slots=True)
class StepSpec:
    """A step with more than an operation; made by `w.step`."""

    operation: Op[Any, Any]
    id: str | None = None
    input: Any = None
    condition: str | None = None


def step(
    operation: Op[Any, Any], *, id: str | None = None, input: Any = None, condition: str | None = None
) -> StepSpec:
    """Give a step of a pipeline an id, an input binding (`w.from_input(..)`, `w.from_step(..)`) or a condition (CEL)."""
    return StepSpec(operand(operation, "w.step"), id, input, condition)
