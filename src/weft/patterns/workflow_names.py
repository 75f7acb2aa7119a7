"""The names of a workflow: what `{{..}}` and conditions may say, and which step must therefore wait for which."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import islice

from pydantic_core import PydanticCustomError

from weft.errors import ExpressionInvalid, Loc, nearest, shown
from weft.expr.cel import compile_condition
from weft.expr.interpolation import NOTHING, Reference, compile_interpolation, names_in_condition, references_in
from weft.ir.nodes import refuse
from weft.ir.operations import Undo
from weft.patterns.workflow_steps import WorkflowStep
from weft.ports import Json

CALL = ("input", "context")
"""What is known of the call itself."""
STEPS = "steps"
"""In conditions, `steps["any-id"]` is what the step of that id gave."""
UNDONE = ("output", "parameters")
"""What the parameters of an undo know beside the rest: of the call that is taken back."""
INDEX = "index"
CONTEXT = ("user_id", "tenant", "agent", "request_id")
"""What a workflow may know of its caller."""
MOST_NAMED = 20
"""How many names an error lists; and for how many errors the nearest name is looked for, which takes long."""
MOST_WRONG = 100
"""How many errors are told; of the others only how many they are."""
MORE = "MoreProblems"


@dataclass(frozen=True, slots=True)
class Waits:
    """What one step waits for: all of `hard` to end, and the first of `first` to succeed.

    Without the values of `needed` it cannot run; those of `ordered` it only comes after.
    """

    hard: frozenset[int]
    first: frozenset[int]
    needed: frozenset[int]
    ordered: frozenset[int]


class Names:
    """Who is called what: step ids, and the keys of their results."""

    def __init__(self, steps: Sequence[WorkflowStep]) -> None:
        self.steps = steps
        self.ids = {step.id: index for index, step in enumerate(steps)}
        self._helped = 0
        self.owner: dict[str, int] = {}
        self.heads: dict[str, str | None] = dict.fromkeys(CALL)
        for index, step in enumerate(steps):
            for name, key in ((step.id, step.output_key), (step.output_key, None)):
                if name is not None and name not in self.heads:
                    self.heads[name] = key
                    self.owner[name] = index

    def local(self, step: WorkflowStep, *, undo: bool = False) -> dict[str, str | None]:
        """Return every name that the parameters of a step may begin with."""
        more = [*([step.for_each.name, INDEX] if step.for_each is not None else []), *(UNDONE if undo else ())]
        return {**self.heads, **dict.fromkeys(more)} if more else self.heads

    def nearest(self, name: str, known: Iterable[str]) -> str | None:
        """Return what a mistyped name most likely meant, for the first of them."""
        self._helped += 1
        return nearest(name, known) if self._helped <= MOST_NAMED else None

    def variables(self, text: str) -> tuple[str, ...]:
        """Return what a condition may be given: the names that it says, as far as there are such."""
        return (*CALL, STEPS, *sorted(name for name in names_in_condition(text)[0] if name in self.owner))


def texts_of(step: WorkflowStep, names: Names) -> Iterator[tuple[Loc, Json, Mapping[str, str | None]]]:
    """Yield everything in a step that may say `{{..}}`, with its place and the names that it may begin with."""
    yield ("parameters",), step.parameters, names.local(step)
    if step.for_each is not None:
        yield ("forEach", "items"), step.for_each.items, names.heads
    if step.elicit is not None:
        yield ("elicit", "message"), step.elicit.message, names.local(step)
    if step.when is not None and is_reference(step.when):
        yield ("when",), step.when, names.heads


def is_reference(when: str) -> bool:
    """Tell whether a condition is not CEL but `{{..}}`: a value that is true or false."""
    return when.lstrip().startswith("{{")


def waits_of(names: Names) -> list[Waits]:
    """Return for each step what it waits for; the steps are sound."""
    return [_waits(index, step, names) for index, step in enumerate(names.steps)]


def _waits(index: int, step: WorkflowStep, names: Names) -> Waits:
    written = {names.owner[name] for name in step.depends_on}
    needed, hoped = set[int](), set[int]()
    for _, owner, sure in _read(step, names):
        (needed if sure else hoped).add(owner)
    if step.join == "any" and written:
        # What may not have run yet is read with a default, or not at all.
        hard = (needed | hoped) - written
        return Waits(frozenset(hard), frozenset(written), frozenset(needed - written), frozenset())
    return Waits(frozenset(written | needed | hoped), frozenset(), frozenset(needed), frozenset(written - needed))


def _read(step: WorkflowStep, names: Names) -> Iterator[tuple[Loc, int, bool]]:
    """Yield each step whose result a step reads, where, and whether it cannot do without."""
    for loc, value, heads in texts_of(step, names):
        local = heads.keys() - names.heads.keys()
        for one in references_in(value):
            if one.head in names.owner and one.head not in local:
                yield (*loc, *one.loc), names.owner[one.head], one.default is NOTHING
    if step.when is not None and not is_reference(step.when):
        said, steps = names_in_condition(step.when)
        for name in (*said, *steps):
            if name in names.owner:
                yield ("when",), names.owner[name], False


def implied(index: int, names: Names) -> Iterator[tuple[Loc, str]]:
    """Yield the steps that a step reads and does not say it depends on, though it says so of others (WFL-11)."""
    step = names.steps[index]
    if not step.depends_on:
        return
    behind, pending = set[int](), [names.owner[name] for name in step.depends_on]
    while pending:
        one = pending.pop()
        if one not in behind:
            behind.add(one)
            pending += [names.owner[name] for name in names.steps[one].depends_on]
    for loc, owner, _ in _read(step, names):
        if owner not in behind:
            yield loc, names.steps[owner].id


def wrong_names(steps: Sequence[WorkflowStep], output: Json, undo: Mapping[str, Undo]) -> list[PydanticCustomError]:
    """Return what is wrong with the names of a workflow: taken twice, unknown, in a circle."""
    names = Names(steps)
    found = _wrong(names, output, undo)
    wrong = [*islice(found, MOST_WRONG)]
    if more := sum(1 for _ in found):
        told = f"{more} more names are wrong"
        wrong.append(refuse(MORE, told, value=str(more), expected="names that there are", at=("steps",)))
    return wrong or _circle(names)


def _wrong(names: Names, output: Json, undo: Mapping[str, Undo]) -> Iterator[PydanticCustomError]:
    steps = names.steps
    yield from _taken_twice(steps)
    for index, step in enumerate(steps):
        at: Loc = ("steps", index)
        yield from _wrong_dependencies(step, index, names)
        for loc, value, heads in texts_of(step, names):
            yield from _wrong_references(value, heads, (*at, *loc), names, own=index)
        if step.undo is not None:
            heads = names.local(step, undo=True)
            yield from _wrong_references(step.undo.parameters, heads, (*at, "undo", "parameters"), names)
        if step.when is not None and not is_reference(step.when):
            yield from _wrong_condition(step, index, names)
    for tool, one in undo.items():
        heads = {**names.heads, **dict.fromkeys(UNDONE)}
        yield from _wrong_references(one.parameters, heads, ("undo", tool, "parameters"), names)
    yield from _wrong_references(output, names.heads, ("output",), names)


def _taken_twice(steps: Sequence[WorkflowStep]) -> Iterator[PydanticCustomError]:
    taken = {name for step in steps for name in (step.id, step.output_key)}
    first: dict[str, tuple[int, str]] = dict.fromkeys((*CALL, STEPS), (-1, "a name of weft's own"))
    for index, step in enumerate(steps):
        mine = [("id", step.id)]
        if step.output_key is not None and step.output_key != step.id:
            mine.append(("outputKey", step.output_key))
        for key, name in mine:
            other, what = first.setdefault(name, (index, f"the {_WORDS[key]} of step {index}"))
            if other != index or what != f"the {_WORDS[key]} of step {index}":
                code = "DuplicateStep" if key == "id" and what.startswith("the id") else "NameTaken"
                told = f"{shown(name)} is {what} already"
                yield refuse(code, told, value=shown(name), expected="a name of its own", at=("steps", index, key))
        if step.for_each is not None:
            for key, name in (("as", step.for_each.name), ("", INDEX)):
                at = ("steps", index, "forEach", *([key] if key else []))
                if key and name in (*CALL, *UNDONE, STEPS, INDEX):
                    told = f"{shown(name)} is a name of weft's own already"
                    yield refuse("NameTaken", told, value=shown(name), expected="a name of its own", at=at)
                elif name in taken:
                    told = f"{shown(name)} is the name of a step or of its result, and would be the item's here"
                    yield refuse("NameTaken", told, value=shown(name), expected="a name of its own", at=at)


_WORDS = {"id": "id", "outputKey": "output_key"}


def _wrong_dependencies(step: WorkflowStep, index: int, names: Names) -> Iterator[PydanticCustomError]:
    ids = names.ids
    for place, name in enumerate(step.depends_on):
        at = ("steps", index, "dependsOn", place)
        if name == step.id:
            yield refuse("SelfDependency", f"step {shown(name)} depends on itself", value=shown(name), at=at)
        elif name not in ids:
            yield refuse(
                "UnknownStep", f"Step not found: {name}", value=shown(name), expected=f"one of {_listed(ids)}",
                suggestion=names.nearest(name, ids), at=at,
            )  # fmt: skip
    if step.join == "any" and not step.depends_on:
        told = f"step {shown(step.id)} waits for any of no steps"
        yield refuse("NothingToJoin", told, value="any", expected="depends_on with steps", at=("steps", index, "join"))


def _wrong_references(
    value: Json, heads: Mapping[str, str | None], at: Loc, names: Names, *, own: int | None = None
) -> Iterator[PydanticCustomError]:
    try:
        found = compile_interpolation(value, heads, close=names.nearest).references
    except ExpressionInvalid as error:
        loc: Loc = getattr(error, "loc", ())
        yield refuse(
            error.code, error.message, value=error.value, expected=error.expected, suggestion=error.suggestion,
            at=(*at, *loc),
        )  # fmt: skip
        return
    for one in found:
        if one.head == "context" and one.path and one.path[0] not in CONTEXT:
            yield refuse(
                "UnknownReference", f"{shown(one.text)} names {shown(one.path[0])}, which the context does not have",
                value=shown(one.path[0]), expected=f"one of {', '.join(CONTEXT)}",
                suggestion=names.nearest(str(one.path[0]), CONTEXT), at=(*at, *one.loc),
            )  # fmt: skip
    if own is None:
        return
    step = names.steps[own]
    for one in found:
        owner = names.owner.get(one.head)
        if owner == own and one.head in names.heads:
            told = f"step {shown(step.id)} reads its own result: {one.text}"
            yield refuse("SelfDependency", told, value=one.text, expected="an earlier step", at=(*at, *one.loc))
        elif step.join == "any" and owner is not None and names.steps[owner].id in step.depends_on:
            yield from _unsure(step, one, at)


def _unsure(step: WorkflowStep, one: Reference, at: Loc) -> Iterator[PydanticCustomError]:
    if one.default is NOTHING:
        told = f"step {shown(step.id)} waits for any of its steps, and {one.text} may be another"
        inner = one.text.removeprefix("{{").removesuffix("}}").strip()
        yield refuse("MayNotHaveRun", told, value=one.text, expected=f"{{{{{inner} ?? null}}}}", at=(*at, *one.loc))


def _wrong_condition(step: WorkflowStep, index: int, names: Names) -> Iterator[PydanticCustomError]:
    assert step.when is not None
    at = ("steps", index, "when")
    try:
        said, steps = names_in_condition(step.when)
        compile_condition(step.when, names.variables(step.when))
    except ExpressionInvalid as error:
        yield refuse(
            error.code, error.message, value=error.value, expected=error.expected, suggestion=error.suggestion, at=at
        )
        return
    for name in steps:
        if name not in names.owner:
            yield refuse(
                "UnknownStep", f"Step not found: {name}", value=shown(name), expected=f"one of {_listed(names.owner)}",
                suggestion=names.nearest(name, names.owner), at=at,
            )  # fmt: skip
    if any(names.owner.get(name) == index for name in (*said, *steps)):
        told = f"the condition of step {shown(step.id)} reads its own result"
        yield refuse("SelfDependency", told, value=shown(step.when), expected="an earlier step", at=at)


def _circle(names: Names) -> list[PydanticCustomError]:
    waits = waits_of(names)
    try:
        TopologicalSorter({index: one.hard | one.first for index, one in enumerate(waits)}).prepare()
    except CycleError as error:
        circle: list[int] = error.args[1]
        around = [names.steps[index].id for index in reversed(circle)]
        path = " -> ".join(around if len(around) <= MOST_NAMED else [*around[: MOST_NAMED - 1], "..", around[-1]])
        told, at = f"steps wait for each other in a circle: {path}", ("steps", min(circle))
        return [refuse("Cycle", told, value=path, expected="steps in an order", at=at)]
    return []


def _listed(names: Collection[str]) -> str:
    told = ", ".join(islice(names, MOST_NAMED))
    return told if len(names) <= MOST_NAMED else f"{told} and {len(names) - MOST_NAMED} more"
