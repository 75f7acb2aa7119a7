"""Random actions that share fields, agree and disagree about them, and calls that are valid for one of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from tests.strategies import values as any_value
from weft.expr.schemas import compile_schema
from weft.groups.action import Action, is_closed

Draw = Callable[[st.SearchStrategy[Any]], Any]
Values = st.SearchStrategy[Any]

NAMES = ("a", "b", "c", "id")
KEYS = ("create", "update", "users.list", "users.find")
TEXTS = ("What it is.", "Something else", "", "A third.\n")
DRAFT_7 = "http://json-schema.org/draft-07/schema#"

TREE: dict[str, Any] = {
    "type": "object",
    "properties": {"below": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}},
    "required": [],
}
ITEMS: tuple[tuple[dict[str, Any], Values], ...] = (
    ({"type": "string", "maxLength": 3}, st.text("xyz", max_size=3)),
    ({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}, st.just({"n": 1})),
    ({"$ref": "#/$defs/Other"}, st.integers(0, 9)),
    ({"type": "string", "maxLength": 3, "description": "Of three letters."}, st.just("abc")),
)
OTHERS: tuple[dict[str, Any], ...] = ({"type": "integer"}, {"type": ["integer", "null"], "title": "Other"})


@dataclass(frozen=True)
class Call:
    """Actions, and the arguments of a call that is valid for one of them."""

    actions: tuple[Action, ...]
    common: dict[str, Any] | None
    arguments: dict[str, Any]
    action: str


@st.composite
def calls(draw: st.DrawFn) -> Call:
    """Return a call, with everything in which it can be made."""
    keys = draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=4, unique=True))
    made = [_action(draw, key) for key in keys]
    action, given = draw(st.sampled_from(made))
    arguments = dict(draw(given))
    own = compile_schema({**action.schema, **({"additionalProperties": False} if is_closed(action.schema) else {})})
    assume(own.accepts(arguments))
    common = draw(st.none() | st.just({"type": "object", "properties": {"t": {"type": "string"}}, "required": ["t"]}))
    arguments |= {"action": action.key} | ({} if common is None else {"t": "x"})
    return Call(tuple(one for one, _ in made), common, arguments, action.key)


def _action(draw: Draw, key: str) -> tuple[Action, Values]:
    old = draw(st.integers(0, 3)) == 0
    item, item_values = draw(st.sampled_from(ITEMS))
    kinds = _Kinds(draw, item_values)
    properties, given = kinds.fields(st.sampled_from(NAMES))
    required = [name for name in properties if draw(st.booleans())]
    schema: dict[str, Any] = {"type": "object", "properties": properties, "required": required}
    schema["$defs"] = {"Item": item, "Other": draw(st.sampled_from(OTHERS)), "Tree": TREE}
    more: dict[str, Values] = {}
    if draw(st.integers(0, 3)) == 0:
        more = _branched(draw, kinds, schema)
    if draw(st.integers(0, 3)) == 0:
        schema["additionalProperties"] = draw(st.sampled_from((True, {}, False)))
    optional = {name: one for name, one in (given | more).items() if name not in required}
    whole: Values = st.fixed_dictionaries({name: given[name] for name in required}, optional=optional)
    if not is_closed(schema):
        others = st.dictionaries(st.sampled_from((*NAMES, "zz")), any_value(), max_size=2)
        whole = st.tuples(others, whole).map(lambda both: {**both[0], **both[1]})
    if old:
        schema = _as_draft_7(schema)
    return Action(key=key, schema=schema), whole


def _branched(draw: Draw, kinds: _Kinds, schema: dict[str, Any]) -> dict[str, Values]:
    """Let some fields stand in branches only; return their values."""
    keyword = draw(st.sampled_from(("anyOf", "allOf", "oneOf", "then")))
    branches: list[dict[str, Any]] = []
    values: dict[str, Values] = {}
    for _ in range(2):
        properties, given = kinds.fields(st.sampled_from(NAMES))
        branches.append({"properties": properties, "required": list(properties)[:1]})
        if draw(st.booleans()):
            branches[-1]["additionalProperties"] = False
        values |= given
    if keyword == "then":
        schema |= {"if": {"required": ["a"]}, "then": branches[0], "else": branches[1]}
    else:
        schema[keyword] = branches
    return values


class _Kinds:
    """Schemas of fields, each with values that it takes."""

    def __init__(self, draw: Draw, item: Values) -> None:
        self.draw = draw
        self.item = item

    def fields(self, names: st.SearchStrategy[str]) -> tuple[dict[str, Any], dict[str, Values]]:
        found = {name: self.one(2) for name in self.draw(st.lists(names, max_size=3, unique=True))}
        return {name: self.told(schema) for name, (schema, _) in found.items()}, {
            name: values for name, (_, values) in found.items()
        }

    def told(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Say something beside the form, or nothing."""
        beside: dict[str, Any] = {}
        if self.draw(st.booleans()):
            beside["description"] = self.draw(st.sampled_from(TEXTS))
        if self.draw(st.integers(0, 3)) == 0:
            beside["default"] = self.draw(st.sampled_from((1, 1.0, True, None, "x")))
        return {**schema, **beside}

    def one(self, depth: int) -> tuple[dict[str, Any], Values]:
        plain = (self.text, self.number, self.choice, self.reference, self.turned)
        return self.draw(st.sampled_from(plain if depth == 0 else (*plain, self.many, self.thing, self.either)))(depth)

    def text(self, _: int) -> tuple[dict[str, Any], Values]:
        return {"type": "string", "maxLength": 5}, st.text("xyz", max_size=5)

    def number(self, _: int) -> tuple[dict[str, Any], Values]:
        kind = self.draw(st.sampled_from(("integer", "number", "boolean", "null")))
        of: dict[str, Values] = {
            "integer": st.integers(-5, 5),
            "number": st.sampled_from((1, 1.5)),
            "boolean": st.booleans(),
        }
        return {"type": kind}, of.get(kind, st.none())

    def choice(self, _: int) -> tuple[dict[str, Any], Values]:
        choices = self.draw(st.sampled_from((["x", "y"], [1, None], list(range(20)), ["long" * 30], [{"a": 1}])))
        return self.draw(st.sampled_from(({"enum": choices}, {"const": choices[0]}))), st.just(choices[0])

    def reference(self, _: int) -> tuple[dict[str, Any], Values]:
        leaf: dict[str, Any] = {}
        trees: Values = st.sampled_from((leaf, {"below": []}, {"below": [leaf, {"below": [leaf]}]}))
        refs: tuple[tuple[dict[str, Any], Values], ...] = (
            ({"$ref": "#/$defs/Item"}, self.item),
            ({"$ref": "#/$defs/Tree"}, trees),
            ({"$ref": "#/$defs/Tree/properties/below/items"}, trees),
            ({"$ref": "#"}, st.just(leaf)),
            ({"$ref": "#/$defs/Tree", "minProperties": 1}, trees),
        )
        return self.draw(st.sampled_from(refs))

    def turned(self, _: int) -> tuple[dict[str, Any], Values]:
        forms: tuple[tuple[dict[str, Any], Values], ...] = (
            ({"not": {"type": "string"}}, st.integers(0, 3)),
            ({"oneOf": [{"type": "string"}, {"$ref": "#/$defs/Item"}]}, self.item | st.text("xyz", max_size=5)),
            ({"if": {"type": "string"}, "then": {"maxLength": 2}, "else": {"type": "integer"}}, st.just("ab")),
            ({"oneOf": [{"type": "string", "format": "email"}, {"minLength": 3}]}, st.just("xyz")),
        )
        return self.draw(st.sampled_from(forms))

    def many(self, depth: int) -> tuple[dict[str, Any], Values]:
        schema, values = self.one(depth - 1)
        if self.draw(st.booleans()):
            return {"type": "array", "items": schema}, st.lists(values, max_size=2)
        return {"prefixItems": [schema], "items": {"type": "null"}}, values.map(lambda value: [value, None])

    def thing(self, depth: int) -> tuple[dict[str, Any], Values]:
        schema, values = self.one(depth - 1)
        made = {"type": "object", "properties": {"x": schema}, "additionalProperties": False}
        return made, st.fixed_dictionaries({}, optional={"x": values})

    def either(self, depth: int) -> tuple[dict[str, Any], Values]:
        (one, some), (other, more) = self.one(depth - 1), self.one(depth - 1)
        return {"anyOf": [one, other]}, some | more


def _as_draft_7(schema: Any) -> Any:
    """Return a schema as older servers write it: other names, and nothing counts beside a reference."""
    made: dict[str, Any] = json.loads(json.dumps(schema).replace("#/$defs/", "#/definitions/"))
    made["definitions"] = made.pop("$defs")
    return {"$schema": DRAFT_7, **made}
