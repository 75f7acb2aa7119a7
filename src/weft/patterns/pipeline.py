"""Pipeline: run steps one after the other, each on what an earlier one gave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, TypeAlias, TypeVar, cast, overload

from pydantic import AfterValidator, Field, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from weft.errors import DeadlineExceeded, WeftError, nearest, shown
from weft.expr.cel import compile_condition
from weft.expr.paths import compile_path
from weft.expr.shapes import ANY, look, object_of
from weft.ir.bindings import Binding, binding
from weft.ir.nodes import Node, expression, joined, refuse
from weft.ir.normalise import made
from weft.ir.operations import Operation
from weft.patterns.bindings import INPUT, Held, Read, compile_binding, guarded_read, held_by
from weft.patterns.contract import Call, Compiler, Flow, Op, Pattern, Pure, Run, Step, Value, operand
from weft.patterns.copies import Copies
from weft.patterns.flows import report_path
from weft.ports import Schema

CONDITION_VARIABLES = ("input", "previous")
Condition = Annotated[str, AfterValidator(expression(lambda text: compile_condition(text, CONDITION_VARIABLES)))]


class PipelineStep(Node):
    """One step: what to do, on what, and when."""

    id: Annotated[str, Field(min_length=1, max_length=128)]
    operation: Operation
    input: Binding | None = None
    condition: Condition | None = None


class Pipeline(Pattern):
    """Steps one after the other; the result is the last step's, or what `output` says."""

    steps: Annotated[list[PipelineStep], Field(min_length=1)]
    output: Binding | None = None

    @classmethod
    def spell(cls, value: Any) -> Any:
        """Give steps without an id the ones that the DSL would give: step_0, step_1, ..."""
        if not isinstance(value, dict) or not isinstance(steps := cast("dict[str, Any]", value).get("steps"), list):
            return cast(Any, value)
        numbered = [_with_id(step, index) for index, step in enumerate(cast("list[Any]", steps))]
        return {**cast("dict[str, Any]", value), "steps": numbered}

    @model_validator(mode="wrap")
    @classmethod
    def _references(cls, value: Any, handler: ModelWrapValidatorHandler[Pipeline]) -> Pipeline:
        """Check ids and references, also of steps that have something else wrong with them."""
        try:
            made = handler(value)
        except ValidationError as failed:
            if wrong := _wrong_references(*_as_written(value)):
                raise joined(cls, failed, wrong) from None
            raise
        steps = [(step.id, step.input) for step in made.steps]
        if wrong := _wrong_references(steps, made.output):
            raise joined(cls, None, wrong)
        return made

    def compile(self, c: Compiler) -> Run | Pure:
        places = {step.id: index for index, step in enumerate(self.steps)}
        stages = [_stage(c, step, index, places) for index, step in enumerate(self.steps)]
        output = compile_binding(self.output, len(stages), places) if self.output is not None else None
        if any(_may_copy(binding) for binding in (*(step.input for step in self.steps), self.output)):
            copied = self._held(c)[1]
            stages = [_guarded(stage, copies) for stage, copies in zip(stages, copied, strict=False)]
            output = guarded_read(output) if output is not None and copied[-1] else output
        if all(stage.read is None and stage.condition is None for stage in stages) and output is None:
            return _chain(stages)
        return _general(stages, output)

    def copies(self, c: Compiler) -> Copies:
        held = self._held(c)[0]
        return Copies(0 if "" not in held.origins else 2 if held.shared else 1, held.shared)

    def _held(self, c: Compiler) -> tuple[Held, list[bool]]:
        """Return what the result may hold, and which steps' bindings, the output's last, may copy."""
        results, previous, copied = {"": INPUT}, "", list[bool]()
        for step in self.steps:
            held, copies = held_by(step.input, previous, results)
            copied.append(copies)
            result = held.after(step.id, c.copies(step.operation))
            if step.condition is not None:
                skipped = results[previous]
                result = Held(result.origins | skipped.origins, result.shared or skipped.shared)
            results[step.id], previous = result, step.id
        held, copies = held_by(self.output, previous, results)
        return held, [*copied, copies]

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
    if isinstance(step, dict) and (given := cast("dict[str, Any]", step)).get("id") is None and "name" not in given:
        return {**given, "id": f"step_{index}"}
    return cast(Any, step)


Named: TypeAlias = "tuple[str, tuple[str | int, ...]]"


def _as_written(value: Any) -> tuple[list[tuple[Any, Binding | None]], Binding | None]:
    """Return the ids and bindings of a pipeline that is not well-formed, as far as they can be read."""
    given = Pipeline.spell(value)
    body = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    steps = cast("list[Any]", body["steps"]) if isinstance(body.get("steps"), list) else []
    read = [cast("dict[str, Any]", step) if isinstance(step, dict) else {} for step in steps]
    return [(step.get("id"), _readable(step.get("input"))) for step in read], _readable(body.get("output"))


def _readable(binding: Any) -> Binding | None:
    try:
        return Binding.model_validate(binding) if binding is not None else None
    except ValidationError:
        return None


def _wrong_references(steps: list[tuple[Any, Binding | None]], output: Binding | None) -> list[PydanticCustomError]:
    """Return what is wrong with ids and references: two of a name, none of a name, one that comes later."""
    ids = [name for name, _ in steps]
    wrong: list[PydanticCustomError] = []
    places: dict[Any, int] = {}
    for index, (name, source) in enumerate(steps):
        for reference, at in _references(source):
            if places.get(reference) is None:
                wrong.append(_no_step(reference, ids, index, ("steps", index, "input", *at)))
        if isinstance(name, str) and places.setdefault(name, index) != index:
            told = f"two steps have the id {shown(name)}; the first is step {places[name]}"
            at = ("steps", index, "id")
            wrong.append(refuse("DuplicateStep", told, value=shown(name), expected="an id of its own", at=at))
    for reference, at in _references(output):
        if reference not in places:
            wrong.append(_no_step(reference, ids, len(ids), ("output", *at)))
    return wrong


def _references(binding: Binding | None) -> list[Named]:
    if binding is None:
        return []
    if binding.step is not None:
        return [(binding.step.step_id, ("step", "stepId"))]
    if binding.assembled is None:
        return []
    fields = [(name, _references(inner)) for name, inner in binding.assembled.fields.items()]
    return [(step, ("construct", "fields", name, *at)) for name, found in fields for step, at in found]


def _no_step(name: str, ids: list[Any], index: int, at: tuple[str | int, ...]) -> PydanticCustomError:
    earlier = [one for one in ids[:index] if isinstance(one, str)]
    why = (
        " (it is this step itself)" if ids[index : index + 1] == [name] else " (it comes later)" if name in ids else ""
    )
    return refuse(
        "UnknownStep",
        f"Step not found: {name}{why}",
        value=shown(name),
        expected=f"an earlier step: {', '.join(earlier)}" if earlier else "no step, since none comes before",
        suggestion=nearest(name, earlier),
        at=at,
    )


@dataclass(frozen=True, slots=True)
class _Stage:
    step: Step
    read: Read | None
    condition: Callable[[dict[str, Value]], bool] | None


def _stage(c: Compiler, step: PipelineStep, index: int, places: dict[str, int]) -> _Stage:
    read = compile_binding(step.input, index, places) if step.input is not None else None
    condition = compile_condition(step.condition, CONDITION_VARIABLES) if step.condition is not None else None
    return _Stage(c.operation(step.operation, step.id), read, condition)


def _may_copy(binding: Binding | None) -> bool:
    """Tell, at a glance, bindings that need a closer look."""
    if binding is None or binding.constant is not None:
        return False
    if binding.assembled is not None:
        return len(binding.assembled.fields) > 1 or any(map(_may_copy, binding.assembled.fields.values()))
    return compile_path(binding.chosen.path).steps is None


def _guarded(stage: _Stage, copies: bool) -> _Stage:
    return replace(stage, read=guarded_read(stage.read)) if copies and stage.read is not None else stage


def _chain(stages: list[_Stage]) -> Run | Pure:
    """Compile steps of which each takes the result before it: no table of results, no bindings."""
    steps = tuple((stage.step.pure.fn if stage.step.pure else None, stage.step) for stage in stages)
    if all(pure is not None for pure, _ in steps):
        return Pure(_fused([(step.name, pure) for pure, step in steps if pure is not None]), spans=_spanned(stages))
    count = len(steps)
    with_spans = tuple((None if step.pure is not None and step.pure.spans else pure, step) for pure, step in steps)

    async def run(value: Value, call: Call) -> Value:
        root = call.root
        if (left := root.steps_left - count) < 0:
            root.spend_steps(count)
        root.steps_left = left
        traced, deadline, now = call.traced, call.deadline, root.clock.now
        name, inner = "", call
        # The span, the budget and the error's path are kept here rather than in `perform`: one coroutine less a step.
        try:
            for pure, step in with_spans if traced else steps:
                name = step.name
                if traced:
                    inner = call.open(step, value)
                if pure is not None:
                    value = pure(value)
                elif (inner.began if traced else now()) < deadline:
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


def _spanned(stages: list[_Stage]) -> Callable[[Value, Call], Value]:
    """Return what `_fused` does with a span for each step; a data step is no step of the budget, so neither is this."""
    steps = [(stage.step, stage.step.pure) for stage in stages]

    def run(value: Value, call: Call) -> Value:
        for step, pure in steps:
            assert pure is not None
            inner = call.open(step, value)
            try:
                value = pure.fn(value) if pure.spans is None else pure.spans(value, inner)
            except BaseException as error:
                if isinstance(error, WeftError):
                    error.within(step.name)
                inner.fail(error)
                raise
            inner.close(value)
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
            value = previous if stage.read is None else _read(stage, stage.read, given, previous, results)
            root.spend_steps(1)
            inner = call.open(step, value) if call.traced else call
            try:
                if root.clock.now() >= call.deadline:
                    raise DeadlineExceeded("the call's deadline has passed")
                if step.pure is None or (call.traced and step.pure.spans is not None):
                    previous = await step.run(value, inner)
                else:
                    previous = step.pure.fn(value)
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


def _read(stage: _Stage, read: Read, given: Value, previous: Value, results: list[Value]) -> Value:
    try:
        return read(given, previous, results)
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
AnyOp: TypeAlias = Op[Any, Any]


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
def pipeline(
    a: Op[A, Any], b: AnyOp, c: AnyOp, d: AnyOp, e: AnyOp, f: AnyOp, g: AnyOp, h: AnyOp, i: AnyOp, /, *more: AnyOp
) -> Op[A, Any]: ...
@overload
def pipeline(a: Op[A, Any], /, *more: AnyOp, output: Binding) -> Op[A, Any]: ...
@overload
def pipeline(steps: Sequence[AnyOp], /, *, output: Binding | None = None) -> AnyOp: ...


def pipeline(*steps: Any, output: Binding | None = None) -> Op[Any, Any]:
    """Run steps one after the other, each on the result of the one before.

    Each step is an operation, or `w.step(..)` when it needs a name, another input or a condition; a list is taken too.
    The result is the last step's, or what `output` binds: `output=w.from_previous("$[:10]")`.
    """
    alone = len(steps) == 1 and isinstance(steps[0], list | tuple)
    listed = list(cast("Sequence[Any]", steps[0] if alone else steps))
    specs = [item if isinstance(item, StepSpec) else StepSpec(operand(item, "w.pipeline")) for item in listed]
    last, body = "", list[dict[str, Any]]()
    for index, spec in enumerate(specs):
        name = spec.id or f"step_{index}"
        source = {"step": {"stepId": last, "path": "$"}} if index else {"input": {"path": "$"}}
        entry: dict[str, Any] = {
            "id": name,
            "operation": spec.operation.node,
            "input": source if spec.input is None else spec.input,
        }
        if spec.condition is not None:
            entry["condition"] = spec.condition
        body.append(entry)
        last = name
    given: dict[str, Any] = {"steps": body}
    if output is not None:
        given["output"] = binding(output, "w.pipeline")
    return Op(made(Pipeline, given), [spec.operation for spec in specs])


@dataclass(frozen=True, slots=True)
class StepSpec:
    """A step with more than an operation; made by `w.step`."""

    operation: Op[Any, Any]
    id: str | None = None
    input: Any = None
    condition: str | None = None


@overload
def step(operation: Op[A, B], *, id: str | None = None) -> Op[A, B]: ...
@overload
def step(operation: Op[A, B], *, id: str | None = None, condition: str) -> Op[A, Any]: ...
@overload
def step(operation: Op[Any, B], *, id: str | None = None, input: Binding) -> Op[Any, B]: ...
@overload
def step(operation: Op[Any, Any], *, id: str | None = None, input: Binding, condition: str) -> Op[Any, Any]: ...


def step(operation: Any, *, id: str | None = None, input: Any = None, condition: str | None = None) -> Any:
    """Give a step of a pipeline an id, an input (`w.from_input(..)`, `w.from_step(..)`, ..) or a condition (CEL).

    For a type checker it is the operation still, so that the steps around it are compared; only a pipeline takes it.
    """
    return StepSpec(operand(operation, "w.step"), id, None if input is None else binding(input, "w.step"), condition)
