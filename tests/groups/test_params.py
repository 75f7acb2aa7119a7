"""What functions take, and what they get of valid arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, computed_field, field_validator

import weft as w
from weft.errors import ExecutionFailed
from weft.groups.authoring.params import Params
from weft.groups.authoring.signatures import params_of
from weft.groups.calling import ToolCall
from weft.ports import Schema


class Role(Enum):
    admin = "admin"
    user = "user"


@dataclass
class Address:
    town: str
    since: date


class Point(TypedDict):
    x: float
    y: float


def even(value: int) -> int:
    if value % 2:
        raise ValueError("it must be even")
    return value


class CreateUser(BaseModel):
    model_config = ConfigDict(strict=True)

    name: str = Field(description="How to call them.", min_length=2)
    born: date | None = None
    kind: str = Field(default="person", alias="type")

    @field_validator("name")
    @classmethod
    def not_root(cls, name: str) -> str:
        if name == "root":
            raise ValueError("root is there already")
        return name

    @computed_field
    @property
    def shown(self) -> str:
        return self.name.title()


class Tree(BaseModel):
    name: str
    inside: list[Tree] = []


class Loose(BaseModel):
    model_config = ConfigDict(extra="allow")

    name: str


def got(params: Params, arguments: dict[str, Any], *, common: Schema | None = None) -> Any:
    call = ToolCall("platform", arguments, action="users.create")
    args, kwargs = params.bound(common or {})(call)
    return (args, kwargs) if args else kwargs


def by_hints(name: str, limit: int = 10, *, role: Role = Role.user, where: Address | None = None) -> None: ...


def test_every_parameter_is_a_field():
    assert params_of(by_hints).schema == {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "limit": {"type": "integer", "default": 10},
            "role": {"type": "string", "enum": ["admin", "user"], "default": "user"},
            "where": {
                "anyOf": [
                    {
                        "type": "object",
                        "properties": {"town": {"type": "string"}, "since": {"type": "string", "format": "date"}},
                        "required": ["town", "since"],
                    },
                    {"type": "null"},
                ],
                "default": None,
            },
        },
        "required": ["name"],
        "additionalProperties": False,
    }


@pytest.mark.req("GRP-26")
def test_values_become_what_the_hints_say_and_defaults_stay_with_python():
    arguments = {"name": "Ann", "role": "admin", "where": {"town": "Ulm", "since": "2020-02-29"}}
    made = got(params_of(by_hints), arguments)
    assert made == {"name": "Ann", "role": Role.admin, "where": Address("Ulm", date(2020, 2, 29))}
    assert arguments["role"] == "admin"


def test_what_is_json_already_is_given_as_it_is():
    def plain(
        name: str, point: Point, tags: list[str], *, more: Sequence[str], any: w.Json = 1, kind: Literal["a", "b"] = "a"
    ) -> None: ...

    params = params_of(plain)
    arguments = {"name": "x", "point": {"x": 1, "y": 2.5}, "tags": ["t"], "more": []}
    assert params.converters == {}
    assert got(params, arguments) is arguments


def test_an_integer_that_came_as_2_0_is_one():
    def counted(n: int, maybe: int | None = None, all: list[int] = []) -> None: ...  # noqa: B006 (never called)

    made = got(params_of(counted), {"n": 2.0, "maybe": 3.0, "all": [4.0]})
    assert [type(one) for one in (made["n"], made["maybe"], made["all"][0])] == [int, int, int]


def test_texts_and_limits_of_fields_are_in_the_schema():
    def described(
        name: Annotated[str, Field(description="Who.")],
        tags: Annotated[list[str], Field(min_length=1)],
        limit: int = Field(default=5, ge=1, description="How many."),
        many: list[str] = Field(default_factory=lambda: ["x"]),  # noqa: B008 (as authors write it)
        price: Decimal = Field(),  # noqa: B008
    ) -> None: ...

    params = params_of(described)
    fields = params.schema["properties"]
    assert fields["name"] == {"type": "string", "description": "Who."}
    assert fields["tags"]["minItems"] == 1
    assert fields["limit"] == {"type": "integer", "minimum": 1, "description": "How many.", "default": 5}
    assert {one["type"] for one in fields["price"]["anyOf"]} == {"number", "string"}
    assert sorted(params.schema["required"]) == ["name", "price", "tags"]
    made = got(params, {"name": "n", "tags": ["t"], "price": "1.5"})
    assert made == {"name": "n", "tags": ["t"], "limit": 5, "many": ["x"], "price": Decimal("1.5")}


@pytest.mark.req("GRP-26")
def test_what_a_type_refuses_is_told_by_its_field():
    def dated(day: date, where: Address, even: Annotated[int, AfterValidator(even)], password: date) -> None: ...

    arguments = {"day": "soon", "where": {"town": "Ulm", "since": "then"}, "even": 3, "password": "hunter2"}
    with pytest.raises(ExecutionFailed) as caught:
        got(params_of(dated), arguments)
    assert caught.value.code == "InvalidArguments"
    assert caught.value.facts is not None
    problems = caught.value.facts["problems"]
    assert [one["field"] for one in problems] == ["day", "where.since", "even", "password"]
    assert problems[2] == {"field": "even", "sent": 3, "expected": "it must be even"}
    assert """'even' is 3; it must be even""" in caught.value.message
    assert "hunter2" not in str(caught.value.to_json())


def test_a_model_is_what_the_function_gets():
    def create(user: CreateUser) -> None: ...

    params = params_of(create, CreateUser)
    assert params.schema == {
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 2, "description": "How to call them."},
            "born": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}], "default": None},
            "type": {"type": "string", "default": "person"},
        },
        "required": ["name"],
        "additionalProperties": False,
    }
    made = got(params, {"name": "Ann", "born": "2000-01-01", "type": "robot", "tenant": "t"})
    assert made == {"user": CreateUser(name="Ann", born=date(2000, 1, 1), type="robot")}


def test_a_validator_of_a_model_says_no_by_its_field():
    def create(user: CreateUser) -> None: ...

    with pytest.raises(ExecutionFailed, match="'name' is \"root\"; root is there already") as caught:
        got(params_of(create, CreateUser), {"name": "root"})
    assert caught.value.code == "InvalidArguments"


def test_a_model_comes_beside_the_call_and_common_fields():
    def create(call: ToolCall, user: CreateUser, tenant: str) -> None: ...

    common = {"type": "object", "properties": {"tenant": {"type": "string"}}, "required": ["tenant"]}
    made = got(params_of(create, CreateUser), {"name": "Ann", "tenant": "t"}, common=common)
    assert made["call"].action == "users.create"
    assert (made["user"].name, made["tenant"]) == ("Ann", "t")


def test_a_model_that_takes_more_fields_gets_them():
    def create(user: Loose) -> None: ...

    params = params_of(create, Loose)
    assert params.schema["additionalProperties"] is True
    assert got(params, {"name": "a", "more": 1})["user"].model_extra == {"more": 1}


def test_a_model_that_holds_itself_is_an_object():
    def grow(tree: Tree) -> None: ...

    params = params_of(grow, Tree)
    assert params.schema["type"] == "object"
    assert set(params.schema["properties"]) == {"name", "inside"}
    assert got(params, {"name": "a", "inside": [{"name": "b"}]})["tree"].inside[0].name == "b"


SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "default": "x"}, "age": {"type": "integer"}}}


def test_by_json_schema_a_function_gets_the_object_and_nothing_is_filled_in():
    def create(arguments: dict[str, Any]) -> None: ...

    params = params_of(create, SCHEMA)
    assert params.schema == {**SCHEMA, "additionalProperties": False}
    assert got(params, {"age": 3}) == {"arguments": {"age": 3}}


def test_by_json_schema_a_function_gets_the_fields_that_it_names():
    def create(name: str = "y", age: int = 0) -> None: ...

    assert got(params_of(create, SCHEMA), {"age": 3}) == {"age": 3}


def test_by_json_schema_a_parameter_with_a_default_is_not_the_object():
    def create(retries: int = 3) -> None: ...

    assert got(params_of(create, {"type": "object"}), {}) == {}


def test_by_json_schema_a_function_may_take_all_by_name():
    def create(**fields: Any) -> None: ...

    assert got(params_of(create, SCHEMA), {"age": 3}) == {"age": 3}


def test_a_positional_only_parameter_gets_the_whole():
    def move(to: Point, /) -> None: ...
    def anything(value: Any, /) -> None: ...
    def model(user: CreateUser, /, call: ToolCall) -> None: ...

    point = {"x": 1.0, "y": 2.0}
    assert params_of(move).schema["required"] == ["x", "y"]
    assert got(params_of(move), point) == ((point,), {})
    assert params_of(anything).schema == {"type": "object", "additionalProperties": True}
    args, named = got(params_of(model), {"name": "Ann"})
    assert args == (CreateUser(name="Ann"),)
    assert set(named) == {"call"}


def test_the_call_is_no_field():
    def create(name: str, call: ToolCall) -> None: ...
    def maybe(name: str, call: ToolCall | None = None) -> None: ...
    def public(name: str, it: w.ToolCall) -> None: ...

    for function, parameter in ((create, "call"), (maybe, "call"), (public, "it")):
        params = params_of(function)
        assert list(params.schema["properties"]) == ["name"]
        assert got(params, {"name": "n"})[parameter].tool == "platform"


def test_a_common_field_goes_to_those_who_name_it_and_to_nobody_else():
    def names(tenant: str, name: str) -> None: ...
    def does_not(name: str) -> None: ...

    common = {"type": "object", "properties": {"tenant": {"type": "string"}}, "required": ["tenant"]}
    arguments = {"name": "n", "tenant": "t"}
    assert got(params_of(names), arguments, common=common) == arguments
    assert got(params_of(does_not), arguments, common=common) == {"name": "n"}


class Places:
    def find(self, name: str) -> None: ...
    def __call__(self, name: str) -> None: ...


@pytest.mark.parametrize("function", [Places().find, Places(), functools.partial(by_hints, limit=3)])
def test_methods_objects_and_partials_are_functions_too(function: Callable[..., Any]):
    assert params_of(function).schema["properties"]["name"] == {"type": "string"}


def star(*names: str) -> None: ...
def two(a: Any, b: Any, /) -> None: ...
def number(n: int, /) -> None: ...
def unknown(what: Callable[[], None]) -> None: ...
def calls(one: ToolCall, two: ToolCall) -> None: ...
def nothing() -> None: ...
def nowhere(what: Any) -> None: ...
def age_only(age: int) -> None: ...


nowhere.__annotations__["what"] = "Nowhere"


@pytest.mark.parametrize(
    ("function", "params", "said"),
    [
        (star, None, r"star takes \*args, and the arguments of an action have names"),
        (two, None, "two has two positional-only parameters"),
        (number, None, "the arguments of an action are an object, which <class 'int'> is not"),
        (unknown, None, "has no JSON Schema; use a JSON type"),
        (calls, None, "calls takes the call twice: one, two"),
        (nowhere, None, "the type hints of nowhere cannot be read: name 'Nowhere' is not defined"),
        (Places.find, None, "find is a method without its object"),
        (nothing, CreateUser, "nothing has no parameter that could get the CreateUser"),
        (nothing, "CreateUser", "params takes a model or a JSON Schema, not 'CreateUser'"),
        (age_only, SCHEMA, "age_only has no parameter for the field 'name' of its params"),
        (nothing, {"type": "string"}, "the arguments of an action are an object"),
        (nothing, {"type": "objekt"}, "no such type"),
    ],
)
def test_wrong_use_is_a_type_error_at_once(function: Callable[..., Any], params: Any, said: str):
    with pytest.raises(TypeError, match=said):
        params_of(function, params)


def test_a_parameter_that_nothing_fills_is_a_type_error():
    def create(name: str, age: int, tenent: str) -> None: ...

    common = {"type": "object", "properties": {"tenant": {"type": "string"}}, "required": ["tenant"]}
    with pytest.raises(TypeError, match="'tenent' is no field of it, nor a common one; did you mean 'tenant'"):
        params_of(create, SCHEMA).bound(common)


class Page(TypedDict):
    number: int
    size: NotRequired[int]


class Chain(TypedDict):
    n: int
    then: Chain | None


def test_a_typed_dictionary_of_typing_is_taken_on_every_python():
    def read(page: Page, more: list[Page] | None = None, chain: Chain | None = None) -> None: ...

    sent = {
        "page": {"number": 2.0},
        "more": [{"number": 1, "size": 5.0}],
        "chain": {"n": 1, "then": {"n": 2.0, "then": None}},
    }
    made = got(params_of(read), sent)
    assert made == {
        "page": {"number": 2},
        "more": [{"number": 1, "size": 5}],
        "chain": {"n": 1, "then": {"n": 2, "then": None}},
    }
    assert type(made["page"]["number"]) is type(made["chain"]["then"]["n"]) is int


def test_a_literal_member_of_an_enum_takes_its_value():
    def change(role: Literal[Role.admin, "none"]) -> None: ...

    params = params_of(change)
    assert params.schema["properties"]["role"]["enum"] == ["admin", "none"]
    assert got(params, {"role": "admin"}) == {"role": Role.admin}
    assert got(params, {"role": "none"}) == {"role": "none"}


def test_a_class_is_an_action_with_the_hints_of_what_makes_it():
    assert params_of(Address).schema["properties"]["since"] == {"type": "string", "format": "date"}
    assert got(params_of(Address), {"town": "Delft", "since": "2026-01-31"})["since"] == date(2026, 1, 31)
    assert params_of(Loose).schema["properties"] == {"name": {"type": "string"}}


@pytest.mark.parametrize("home", ["own", "common"])
def test_a_field_that_may_be_missing_needs_a_default_somewhere(home: str):
    def find(id: int, limit: int) -> None: ...

    limit: Schema = {"limit": {"type": "integer"}}
    fields: Schema = {"id": {"type": "integer"}, **(limit if home == "own" else {})}
    params = params_of(find, {"type": "object", "properties": fields, "required": ["id"]})
    with pytest.raises(TypeError, match="its parameter 'limit' has no default, and the schema does not") as caught:
        params.bound({"properties": limit} if home == "common" else {})
    assert "give the parameter a default, or name the field in required" in str(caught.value)


def test_the_default_of_a_schema_is_what_a_parameter_without_one_gets():
    def find(since: date, tags: list[str]) -> None: ...

    fields: Schema = {"since": {"type": "string", "default": "2026-01-31"}, "tags": {"type": "array", "default": []}}
    params = params_of(find, {"type": "object", "properties": fields})
    made = got(params, {})
    assert made == {"since": date(2026, 1, 31), "tags": []}
    made["tags"].append("changed")
    assert got(params, {"tags": ["x"]})["tags"] == ["x"]
    assert got(params, {})["tags"] == []


def test_a_default_of_another_kind_than_its_hint_is_an_error():
    def ten(limit: int = "ten") -> None: ...  # pyright: ignore[reportArgumentType] (authors without a checker)
    def either(limit: int | list[int] = "ten") -> None: ...  # pyright: ignore[reportArgumentType] (authors without a checker)
    def other(role: Role = "nobody") -> None: ...  # pyright: ignore[reportArgumentType] (authors without a checker)

    for function in (ten, either, other):
        with pytest.raises(TypeError, match=r"the default of '\w+' is '\w+', which does not fit its hint"):
            params_of(function)


def test_a_default_that_stands_for_none_may_be_what_nobody_could_send():
    def find(name: Annotated[str, Field(min_length=1)] = "", limit: int = None) -> None: ...  # noqa: RUF013  # pyright: ignore[reportArgumentType] (authors without a checker)

    assert params_of(find).schema["properties"]["name"]["default"] == ""
