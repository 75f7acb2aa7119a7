"""Router: look at a value, then hand it to the first operation whose condition holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import ConfigDict, Field, model_validator

from weft.errors import ExecutionFailed, shown
from weft.expr.cel import compile_conditions
from weft.expr.comparisons import Predicate, check_field
from weft.expr.fields import path_text
from weft.expr.shapes import any_of
from weft.ir.nodes import CelText, Node, refuse
from weft.ir.normalise import made
from weft.ir.operations import Operation
from weft.ir.predicates import FieldPredicate
from weft.patterns.contract import Call, Compiler, Flow, Op, Pattern, Pure, Run, Value, operand, perform
from weft.patterns.copies import Copies, either
from weft.patterns.flows import check_predicate
from weft.ports import Schema, is_array, is_object

A = TypeVar("A")
B = TypeVar("B")
T = TypeVar("T")


class Route(Node):
    """A condition, in CEL over `input` or as a predicate, and where to go when it holds."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["condition"]}, {"required": ["predicate"]}]})
    aliases: ClassVar[Mapping[str, str]] = {"when": "condition", "then": "target"}

    id: Annotated[str, Field(min_length=1, max_length=128)]
    condition: CelText | None = None
    predicate: FieldPredicate | None = None
    target: Operation

    @classmethod
    def spell(cls, value: Any) -> Any:
        if not is_object(value):
            return value
        given = dict(value)
        for key in ("when", "condition"):
            if isinstance(given.get(key), dict | FieldPredicate):
                given["predicate"] = given.pop(key)
        return given

    @model_validator(mode="after")
    def _one_condition(self) -> Route:
        if (self.condition is None) == (self.predicate is None):
            found = "both" if self.condition is not None else "none"
            told = f"a route needs exactly one condition, found {found}"
            raise refuse("ExactlyOne", told, value=found, expected="condition (CEL) or predicate")
        return self


class Router(Pattern):
    """Routes are tried in order; the first that holds takes the value, else `default` does."""

    aliases: ClassVar[Mapping[str, str]] = {"otherwise": "default", "cases": "routes"}

    routes: Annotated[list[Route], Field(min_length=1)]
    default: Operation | None = None

    @classmethod
    def spell(cls, value: Any) -> Any:
        if not is_object(value):
            return value
        key = "cases" if "cases" in value else "routes"
        if not is_array(routes := value.get(key)):
            return value
        return {**value, key: [_with_id(route, index) for index, route in enumerate(routes)]}

    @model_validator(mode="after")
    def _ids(self) -> Router:
        seen = set[str]()
        for index, route in enumerate(self.routes):
            if route.id in seen:
                at = ("routes", index, "id")
                told = f"two routes have the id {shown(route.id)}"
                raise refuse("DuplicateStep", told, value=shown(route.id), expected="an id of its own", at=at)
            seen.add(route.id)
        return self

    def compile(self, c: Compiler) -> Run | Pure:
        targets = [c.operation(route.target, route.id) for route in self.routes]
        default = c.operation(self.default, "default") if self.default is not None else None
        pick = _picker(self.routes)

        async def run(value: Value, call: Call) -> Value:
            index = pick(value)
            if index is not None:
                return await perform(targets[index], value, call)
            if default is not None:
                return await perform(default, value, call)
            raise ExecutionFailed("No matching route and no default specified")

        return run

    def copies(self, c: Compiler) -> Copies:
        targets = [route.target for route in self.routes] + ([] if self.default is None else [self.default])
        return either(c.copies(target) for target in targets)

    def flow(self, given: Schema, f: Flow) -> Schema:
        results: list[Schema] = []
        for index, route in enumerate(self.routes):
            if route.predicate is not None:
                check_predicate(route.predicate, given, f, "routes", index, "predicate")
            results.append(f.operation(route.target, given, "routes", index, "target"))
        if self.default is not None:
            results.append(f.operation(self.default, given, "default"))
        return any_of(results)


def _with_id(route: Any, index: int) -> Any:
    if not is_object(route) or route.get("id") is not None:
        return route
    return {**route, "id": f"route_{index}"}


def _picker(routes: list[Route]) -> Callable[[Value], int | None]:
    """Return the choice of a route; neighbours in CEL share one conversion of the input."""
    if all(route.condition is not None for route in routes):
        conditions = compile_conditions([route.condition or "" for route in routes])
        return lambda value: conditions.first({"input": value})
    tests = [_test(route) for route in routes]

    def pick(value: Value) -> int | None:
        return next((index for index, test in enumerate(tests) if test(value)), None)

    return pick


def _test(route: Route) -> Callable[[Value], bool]:
    if route.predicate is not None:
        return route.predicate.compile()
    conditions = compile_conditions([route.condition or ""])
    return lambda value: conditions.first({"input": value}) is not None


@dataclass(frozen=True, slots=True)
class Case:
    """A condition and what to do when it holds; made by `w.when`."""

    condition: str | FieldPredicate
    then: Op[Any, Any]


def when(condition: str | FieldPredicate, then: Op[A, B]) -> Case:
    """Say where a value goes: `w.when("input.size > 10", w.tool("big"))`, in CEL or with `w.holds(..)`."""
    if not isinstance(condition, str | FieldPredicate):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"w.when takes CEL text or w.holds(field, predicate) as a condition, not {condition!r}")
    return Case(condition, operand(then, "w.when"))


def _case(given: object) -> Case:
    if not isinstance(given, Case):
        raise TypeError(f"w.router takes cases, as in w.when('input.size > 10', w.tool('big')), not {given!r}")
    return given


def holds(field: T | None, predicate: Predicate[T]) -> FieldPredicate:
    """Make a route's condition of a field and a predicate: `w.holds(p.kind, w.eq("paper"))`."""
    check_field(field, predicate)
    return made(FieldPredicate, {"field": path_text(field), **predicate.to_json()})


def router(*cases: Case | list[Case], otherwise: Op[Any, Any] | None = None) -> Op[Any, Any]:
    """Hand the value to the first case whose condition holds, else to `otherwise`."""
    given = [_case(case) for item in cases for case in (item if isinstance(item, list) else [item])]
    routes: list[dict[str, Any]] = []
    for index, case in enumerate(given):
        key = "condition" if isinstance(case.condition, str) else "predicate"
        routes.append({"id": f"route_{index}", key: case.condition, "target": case.then.node})
    body: dict[str, Any] = {"routes": routes}
    parts = [case.then for case in given]
    if otherwise is not None:
        parts.append(operand(otherwise, "w.router"))
        body["default"] = otherwise.node
    return Op(made(Router, body), parts)
