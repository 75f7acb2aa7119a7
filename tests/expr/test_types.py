"""JSON Schema from Python types and signatures."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Annotated, Any, Generic, Literal, NotRequired, Optional, Required, TypedDict, TypeVar

import pytest
from pydantic import BaseModel, ConfigDict, Field, computed_field
from pydantic.dataclasses import dataclass as pydantic_dataclass

from weft.errors import ExpressionInvalid, WeftError
from weft.expr.types import function_types, schema_of
from weft.ports import Json

T = TypeVar("T")
STRING, INTEGER, NUMBER, NULL = ({"type": name} for name in ("string", "integer", "number", "null"))


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Address(TypedDict):
    """Where somebody lives."""

    street: str
    zip: NotRequired[int]


class Sparse(TypedDict, total=False):
    a: Required[Annotated[int, Field(ge=1)]]
    b: str


class Page(TypedDict, Generic[T]):
    items: list[T]
    next: T | None


@dataclass
class Person:
    name: str
    address: Address
    age: int = 7
    tags: list[str] = field(default_factory=list[str])


@dataclass
class Tree:
    value: int
    children: list[Tree]


class Paper(BaseModel):
    """A paper."""

    model_config = ConfigDict(extra="forbid")
    title: str
    pdf_url: str | None = Field(default=None, alias="pdfUrl", description="Where to get it")
    colour: Colour = Colour.RED

    @computed_field
    @property
    def length(self) -> int:
        return len(self.title)


class Node(BaseModel):
    left: Node | None = None


@pydantic_dataclass
class Checked:
    size: Annotated[int, Field(ge=1, alias="Size")]


class Holder(BaseModel):
    checked: Checked
    papers: list[Paper]


ADDRESS = {
    "type": "object",
    "description": "Where somebody lives.",
    "properties": {"street": STRING, "zip": INTEGER},
    "required": ["street"],
}


def array(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


@pytest.mark.req("ALG-2")
@pytest.mark.parametrize(
    ("tp", "schema"),
    [
        (None, NULL),
        (bool, {"type": "boolean"}),
        (int, INTEGER),
        (float, NUMBER),
        (str, STRING),
        (Any, {}),
        (object, {}),
        (Json, {}),
        (list[int], array(INTEGER)),
        (list, array({})),
        (list[Any], array({})),
        (Sequence[str], array(STRING)),
        (set[int], array(INTEGER) | {"uniqueItems": True}),
        (tuple[int, ...], array(INTEGER)),
        (tuple[int, str], {"type": "array", "prefixItems": [INTEGER, STRING], "minItems": 2, "maxItems": 2}),
        (dict[str, int], {"type": "object", "additionalProperties": INTEGER}),
        (dict, {"type": "object", "additionalProperties": True}),
        (Mapping[str, Json], {"type": "object", "additionalProperties": {}}),
        (int | None, {"anyOf": [INTEGER, NULL]}),
        (Optional[int], {"anyOf": [INTEGER, NULL]}),  # noqa: UP045  (the old spelling is a type of its own)
        (int | str, {"anyOf": [INTEGER, STRING]}),
        (int | Any, {}),
        (Literal["a", "b"], {"enum": ["a", "b"], "type": "string"}),
        (Colour, {"enum": ["red", "blue"], "type": "string"}),
        (datetime, {"type": "string", "format": "date-time"}),
        (Annotated[int, "a note"], INTEGER),
        (Annotated[int, Field(ge=1, description="many")], INTEGER | {"minimum": 1, "description": "many"}),
        (Annotated[list[int], Field(description="many")], array(INTEGER) | {"description": "many"}),
        (Address, ADDRESS),
        (Sparse, {"type": "object", "properties": {"a": INTEGER | {"minimum": 1}, "b": STRING}, "required": ["a"]}),
        (
            Page[int],
            {
                "type": "object",
                "properties": {"items": array(INTEGER), "next": {"anyOf": [INTEGER, NULL]}},
                "required": ["items", "next"],
            },
        ),
        (
            Person,
            {
                "type": "object",
                "properties": {
                    "name": STRING,
                    "address": ADDRESS,
                    "age": INTEGER | {"default": 7},
                    "tags": array(STRING),
                },
                "required": ["name", "address"],
            },
        ),
        ({"type": "object", "title": "Given"}, {"type": "object", "title": "Given"}),
    ],
)
def test_a_type_has_the_schema_of_its_json(tp: object, schema: dict[str, Any]):
    assert schema_of(tp) == schema


@pytest.mark.req("ALG-2")
def test_a_pydantic_model_is_described_as_it_is_written_out_without_made_up_titles():
    assert schema_of(Paper) == {
        "type": "object",
        "description": "A paper.",
        "properties": {
            "title": STRING,
            "pdfUrl": {"anyOf": [STRING, NULL], "default": None, "description": "Where to get it"},
            "colour": {"enum": ["red", "blue"], "type": "string", "default": "red"},
            "length": INTEGER | {"readOnly": True},
        },
        "required": ["title", "length"],
        "additionalProperties": False,
    }


def test_models_nested_in_models_are_written_where_they_are_used():
    schema = schema_of(Holder)
    assert "$defs" not in schema
    assert schema["properties"]["checked"]["properties"] == {"Size": INTEGER | {"minimum": 1}}
    assert schema["properties"]["papers"]["items"]["properties"]["title"] == STRING


@pytest.mark.parametrize(("tp", "name"), [(Tree, "Tree"), (Node, "Node")])
def test_a_recursive_type_refers_to_itself(tp: type, name: str):
    schema = schema_of(tp)
    assert schema["$ref"] == f"#/$defs/{name}"
    assert f"'$ref': '#/$defs/{name}'" in str(schema["$defs"][name])


def test_a_type_that_is_used_twice_is_written_once():
    schema = schema_of(tuple[Address, Address])
    assert schema["prefixItems"] == [{"$ref": "#/$defs/Address"}] * 2
    assert schema["$defs"] == {"Address": ADDRESS}


def test_two_types_of_the_same_name_are_kept_apart():
    first, second = (type("Node", (BaseModel,), {"__annotations__": {name: "list[Node]"}}) for name in "ab")
    for model in (first, second):
        model.model_rebuild(_types_namespace={"Node": model})
    schema = schema_of(dict[str, first | second])
    assert {name: list(body["properties"]) for name, body in schema["$defs"].items()} == {
        "Node": ["a"],
        "Node_2": ["b"],
    }
    assert schema["$defs"]["Node_2"]["properties"]["b"]["items"] == {"$ref": "#/$defs/Node_2"}


class Plain:
    pass


@pytest.mark.parametrize("tp", [Plain, list[Plain], 3, "Nowhere", Callable[[int], int], [int]])
def test_a_type_without_json_is_refused_with_a_sentence(tp: object):
    with pytest.raises(ExpressionInvalid, match="has no JSON Schema; use a JSON type, a TypedDict") as caught:
        schema_of(tp)
    assert isinstance(caught.value, WeftError)


class Lost(TypedDict):
    x: Nowhere  # pyright: ignore[reportUndefinedVariable]  # noqa: F821  (undefined on purpose)


def test_a_hint_that_cannot_be_found_is_refused_with_its_name():
    with pytest.raises(ExpressionInvalid, match=r"type hints of Lost cannot be read: name 'Nowhere'"):
        schema_of(Lost)


async def search(
    query: str, limit: Annotated[int, Field(description="At most")] = 10, *, where: Address | None = None
) -> list[Address]:
    raise NotImplementedError


def anything(value, deep: Json = None, colour: Colour = Colour.RED, **more: Any):  # pyright: ignore[reportUnknownParameterType, reportMissingParameterType]  (untyped on purpose)
    raise NotImplementedError


def whole(row: Address, /) -> Awaitable[int]:
    raise NotImplementedError


class Counter:
    def __call__(self, start: int) -> Coroutine[Any, Any, Json]:
        raise NotImplementedError

    def method(self, step: int) -> None:
        raise NotImplementedError


@pytest.mark.req("ALG-2")
def test_a_functions_parameters_are_the_properties_of_its_input():
    given, returned = function_types(search)
    assert given == {
        "type": "object",
        "properties": {
            "query": STRING,
            "limit": INTEGER | {"description": "At most", "default": 10},
            "where": {"anyOf": [ADDRESS, NULL], "default": None},
        },
        "required": ["query"],
        "additionalProperties": False,
    }
    assert returned == array(ADDRESS)


def test_a_function_without_hints_takes_and_gives_anything():
    given, returned = function_types(anything)  # pyright: ignore[reportUnknownArgumentType]  (untyped on purpose)
    assert given["properties"] == {"value": {}, "deep": {"default": None}, "colour": schema_of(Colour)}
    assert given["required"] == ["value"]
    assert given["additionalProperties"] is True
    assert returned == {}


def test_a_positional_only_parameter_is_the_whole_input():
    assert function_types(whole) == (ADDRESS, INTEGER)


def test_methods_and_callable_objects_have_types_too():
    counter = Counter()
    assert function_types(counter)[0]["properties"] == {"start": INTEGER}
    assert function_types(counter)[1] == {}
    assert function_types(counter.method) == (
        {"type": "object", "properties": {"step": INTEGER}, "required": ["step"], "additionalProperties": False},
        NULL,
    )


def many(*values: int) -> None: ...
def two(a: int, b: int, /) -> None: ...
def mixed(a: int, /, b: int) -> None: ...


@pytest.mark.parametrize(
    ("fn", "sentence"),
    [
        (many, r"many takes \*args, and a tool's arguments have names"),
        (two, "two takes a positional-only parameter, so it can take no other"),
        (mixed, "mixed takes a positional-only parameter, so it can take no other"),
    ],
)
def test_a_function_that_cannot_be_called_with_one_object_is_refused(fn: Callable[..., Any], sentence: str):
    with pytest.raises(ExpressionInvalid, match=sentence):
        function_types(fn)
