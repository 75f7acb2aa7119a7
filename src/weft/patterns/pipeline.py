"""Pipeline: run steps one after the other, each on what an earlier one gave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, cast, overload

from pydantic import AfterValidator, Field, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from weft.errors import Loc, nearest, shown
from weft.expr.cel import compile_condition
from weft.expr.paths import compile_path
from weft.expr.shapes import ANY
from weft.ir.bindings import Binding, binding
from weft.ir.nodes import Node, expression, joined, refuse
from weft.ir.normalise import made
from weft.ir.operations import Operation
from weft.patterns.bindings import INPUT, Held, binding_schema, compile_binding, guarded_read, held_by
from weft.patterns.contract import Compiler, Flow, Op, Operand, Pattern, Pure, Run, operand
from weft.patterns.copies import Copies
from weft.patterns.stages import Stage, chain, general, guarded_stage
from weft.ports import Schema, is_array, is_object

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
        if not is_object(value) or not is_array(steps := value.get("steps")):
            return value
        return {**value, "steps": [_with_id(step, index) for index, step in enumerate(steps)]}

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
            stages = [guarded_stage(one) if copies else one for one, copies in zip(stages, copied, strict=False)]
            output = guarded_read(output) if output is not None and copied[-1] else output
        if all(stage.read is None and stage.condition is None for stage in stages) and output is None:
            return chain(stages)
        return general(stages, output)

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
            into = binding_schema(step.input, given, value, results, f, "steps", index, "input")
            result = f.operation(step.operation, into, "steps", index, "operation")
            value = results[step.id] = ANY if step.condition is not None else result
        if self.output is None:
            return value
        return binding_schema(self.output, given, value, results, f, "output")


def _with_id(step: Any, index: int) -> Any:
    if is_object(step) and step.get("id") is None and "name" not in step:
        return {**step, "id": f"step_{index}"}
    return step


def _as_written(value: Any) -> tuple[list[tuple[Any, Binding | None]], Binding | None]:
    """Return the ids and bindings of a pipeline that is not well-formed, as far as they can be read."""
    given = Pipeline.spell(value)
    body = given if is_object(given) else {}
    steps = found if is_array(found := body.get("steps")) else []
    read = [step if is_object(step) else {} for step in steps]
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


def _references(binding: Binding | None) -> list[tuple[str, Loc]]:
    if binding is None:
        return []
    if binding.step is not None:
        return [(binding.step.step_id, ("step", "stepId"))]
    if binding.assembled is None:
        return []
    fields = [(name, _references(inner)) for name, inner in binding.assembled.fields.items()]
    return [(step, ("construct", "fields", name, *at)) for name, found in fields for step, at in found]


def _no_step(name: str, ids: list[Any], index: int, at: Loc) -> PydanticCustomError:
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


def _stage(c: Compiler, step: PipelineStep, index: int, places: dict[str, int]) -> Stage:
    read = compile_binding(step.input, index, places) if step.input is not None else None
    condition = compile_condition(step.condition, CONDITION_VARIABLES) if step.condition is not None else None
    return Stage(c.operation(step.operation, step.id), read, condition)


def _may_copy(binding: Binding | None) -> bool:
    """Tell, at a glance, bindings that need a closer look."""
    if binding is None or binding.constant is not None:
        return False
    if binding.assembled is not None:
        return len(binding.assembled.fields) > 1 or any(map(_may_copy, binding.assembled.fields.values()))
    return compile_path(binding.chosen.path).steps is None


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
def pipeline(
    a: Op[A, Any],
    b: Operand,
    c: Operand,
    d: Operand,
    e: Operand,
    f: Operand,
    g: Operand,
    h: Operand,
    i: Operand,
    /,
    *more: Operand,
) -> Op[A, Any]: ...
@overload
def pipeline(a: Op[A, Any], /, *more: Operand, output: Binding) -> Op[A, Any]: ...
@overload
def pipeline(steps: Sequence[Operand], /, *, output: Binding | None = None) -> Operand: ...


def pipeline(*steps: Any, output: Binding | None = None) -> Op[Any, Any]:
    """Run steps one after the other, each on the result of the one before.

    Each step is an operation, or `w.step(..)` when it needs a name, another input or a condition; a list is taken too.
    The result is the last step's, or what `output` binds: `output=w.from_previous("$[:10]")`.
    """
    alone = len(steps) == 1 and isinstance(steps[0], list | tuple)
    listed = cast("Sequence[Any]", steps[0] if alone else steps)
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
