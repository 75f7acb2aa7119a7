"""The things of the model from and to MCP's wire objects, also those of the `mcp` SDK."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import types

from tests.strategies import texts, unhurried, values
from weft.errors import DocumentInvalid, InputError, Problem
from weft.groups.converters import PROMPT_ARGUMENTS, PROMPTS, RESOURCE_TEMPLATES, RESOURCES, TOOLS, Converter
from weft.groups.model import Icon, Prompt, PromptArgument, Resource, Tool

pytestmark = pytest.mark.req("GRP-5")

ICON: dict[str, Any] = {"src": "https://x/i.png", "mimeType": "image/png", "sizes": ["48x48", "any"], "theme": "dark"}
TOOL: dict[str, Any] = {
    "name": "create",
    "title": "Create",
    "description": "Creates a user.",
    "inputSchema": {"type": "object", "properties": {"email": {"type": "string", "default": None}}},
    "outputSchema": {"type": "object"},
    "annotations": {"destructiveHint": False, "title": "Create a user"},
    "icons": [ICON],
    "_meta": {"x/y": {"z": None}},
}
PROMPT: dict[str, Any] = {
    "name": "greet",
    "arguments": [{"name": "who", "description": "Whom.", "required": True}, {"name": "tone"}],
    "icons": [ICON],
    "_meta": {},
}
RESOURCE: dict[str, Any] = {
    "name": "log",
    "uri": "file:///log",
    "size": 0,
    "mimeType": "text/plain",
    "annotations": {"audience": ["user"], "priority": 0.5},
}
TEMPLATE: dict[str, Any] = {
    "name": "day",
    "uriTemplate": "file:///log/{day}",
    "mimeType": "text/plain",
    "icons": [ICON],
}
SAMPLES = [
    pytest.param(TOOLS, TOOL, types.Tool, id="tool"),
    pytest.param(PROMPTS, PROMPT, types.Prompt, id="prompt"),
    pytest.param(PROMPT_ARGUMENTS, PROMPT["arguments"][0], types.PromptArgument, id="prompt argument"),
    pytest.param(RESOURCES, RESOURCE, types.Resource, id="resource"),
    pytest.param(RESOURCE_TEMPLATES, TEMPLATE, types.ResourceTemplate, id="resource template"),
]


@pytest.mark.parametrize(("converter", "wire", "sdk"), SAMPLES)
def test_a_wire_object_comes_back_as_it_was(converter: Converter[Any], wire: dict[str, Any], sdk: Any):
    assert converter.to_wire(converter.from_wire(wire)) == wire
    assert converter.to_wire(converter.from_wire(MappingProxyType(wire))) == wire


@pytest.mark.parametrize(("converter", "wire", "sdk"), SAMPLES)
def test_an_object_of_the_sdk_says_the_same_as_its_wire_form(converter: Converter[Any], wire: dict[str, Any], sdk: Any):
    theirs = sdk.model_validate(wire)
    assert converter.to_wire(converter.from_wire(theirs)) == wire
    assert sdk.model_validate(converter.to_wire(converter.from_wire(theirs))) == theirs


@pytest.mark.req("GRP-1", "GRP-4")
def test_the_fields_of_the_model_are_those_of_the_wire():
    tool = TOOLS.from_wire(TOOL)
    assert (tool.name, tool.title, tool.description) == ("create", "Create", "Creates a user.")
    assert (tool.input_schema, tool.output_schema) == (TOOL["inputSchema"], {"type": "object"})
    assert (tool.annotations, tool.meta) == (TOOL["annotations"], TOOL["_meta"])
    assert tool.icons == (Icon(src=ICON["src"], mime_type="image/png", sizes=("48x48", "any"), theme="dark"),)
    prompt = PROMPTS.from_wire(PROMPT)
    assert [(one.qualified_name, one.required) for one in prompt.arguments] == [
        ("greet.who", True),
        ("greet.tone", False),
    ]
    log = RESOURCES.from_wire(RESOURCE)
    assert (log.uri, log.size, log.mime_type, log.annotations) == (
        "file:///log", 0, "text/plain", RESOURCE["annotations"],
    )  # fmt: skip
    assert RESOURCE_TEMPLATES.from_wire(TEMPLATE).uri_template == "file:///log/{day}"


def test_a_batch_leaves_out_what_is_none():
    made = TOOLS.from_wires([None, TOOL, None, types.Tool(name="find", input_schema={"type": "object"})])
    assert [one.name for one in made] == ["create", "find"]
    assert [one["name"] for one in TOOLS.to_wires([made[1], None, made[0], None])] == ["find", "create"]
    assert (TOOLS.from_wires([None]), TOOLS.to_wires([])) == ([], [])
    assert [one.name for one in PROMPTS.from_wire({"name": "p", "arguments": [None, {"name": "a"}]}).arguments] == ["a"]


def test_what_says_nothing_is_left_out():
    null: dict[str, Any] = {"name": "p", "title": None, "arguments": [], "icons": [], "_meta": None}
    assert PROMPTS.to_wire(PROMPTS.from_wire(null)) == {"name": "p"}
    assert PROMPT_ARGUMENTS.to_wire(PROMPT_ARGUMENTS.from_wire({"name": "a", "required": False})) == {"name": "a"}
    assert TOOLS.to_wire(Tool("t")) == {"name": "t", "inputSchema": {"type": "object"}}
    assert RESOURCES.to_wire(Resource("r", uri="x:y", title="", meta={})) == {
        "name": "r", "title": "", "uri": "x:y", "_meta": {},
    }  # fmt: skip


def test_what_the_model_does_not_know_survives():
    wire = {**TOOL, "execution": {"taskSupport": "optional"}, "later": None, "icons": [{"src": "x", "alt": "An x"}]}
    tool = TOOLS.from_wire(wire)
    assert tool.extra == {"execution": {"taskSupport": "optional"}, "later": None}
    assert TOOLS.to_wire(tool) == wire
    theirs = types.Tool(
        name="t", input_schema={"type": "object"}, execution=types.ToolExecution(task_support="required")
    )
    assert types.Tool.model_validate(TOOLS.to_wire(TOOLS.from_wire(theirs))) == theirs


def test_extra_never_speaks_for_a_field_of_the_model():
    assert TOOLS.to_wire(Tool("t", extra={"name": "other", "title": "Other"})) == {
        "name": "t", "inputSchema": {"type": "object"},
    }  # fmt: skip


def test_things_written_in_python_are_plain_json_on_the_wire():
    schema = MappingProxyType({"type": "object"})
    tool = Tool("t", input_schema=schema, icons=[Icon(src="x", sizes=("any",))])
    wire = TOOLS.to_wire(tool)
    assert type(wire["inputSchema"]) is dict
    assert wire["icons"] == [{"src": "x", "sizes": ["any"]}]
    prompt = Prompt("p", arguments=(PromptArgument("a", required=True),))
    assert PROMPTS.to_wire(prompt) == {"name": "p", "arguments": [{"name": "a", "required": True}]}


def test_a_size_may_be_written_as_a_float():
    size = RESOURCES.from_wire({"name": "r", "uri": "x:y", "size": 12.0}).size
    assert (size, type(size)) == (12, int)


SCHEMA = {"inputSchema": {"type": "object"}}
BAD: list[tuple[Converter[Any], object, str]] = [
    (
        TOOLS,
        {**SCHEMA},
        "/: error: the tool has no name [MissingKey]; got {'inputSchema': {'type': 'object'}}; "
        "expected name, a non-empty text",
    ),
    (
        TOOLS,
        {"name": 7, **SCHEMA},
        "/name: error: name of the tool is not a non-empty text [WrongType]; got 7; expected a non-empty text",
    ),
    (
        TOOLS,
        {"name": "", **SCHEMA},
        "/name: error: name of tool '' is not a non-empty text [WrongType]; expected a non-empty text",
    ),
    (
        TOOLS,
        {"name": "t", "inputSchema": [1]},
        "/inputSchema: error: inputSchema of tool 't' is not an object [WrongType]; got [1]; expected an object",
    ),
    (
        TOOLS,
        {"name": "t", "input_schema": {}},
        "/: error: tool 't' has no inputSchema, but 'input_schema' [MissingKey]; "
        "got {'name': 't', 'input_schema': {}}; expected inputSchema, an object",
    ),
    (
        TOOLS,
        {"name": "t", **SCHEMA, "icons": [{"src": "x", "sizes": "any"}]},
        "/icons/0/sizes: error: sizes of the icon is not a list of texts [WrongType]; got 'any'; "
        "expected a list of texts",
    ),
    (
        TOOLS,
        {1: 2, **SCHEMA},
        "/: error: the tool has no name [MissingKey]; got {1: 2, 'inputSchema': {'type': 'object'}}; "
        "expected name, a non-empty text",
    ),
    (TOOLS, "create", "/: error: the tool is not an object [WrongType]; got 'create'; expected an object of MCP"),
    (
        PROMPTS,
        {"name": "p", "arguments": [{"name": "a", "required": "yes"}]},
        "/arguments/0/required: error: required of prompt argument 'a' is not true or false [WrongType]; "
        "got 'yes'; expected true or false",
    ),
    (
        RESOURCES,
        {"name": "r"},
        "/: error: resource 'r' has no uri [MissingKey]; got {'name': 'r'}; expected uri, a non-empty text",
    ),
    (
        RESOURCES,
        {"name": "r", "uri": "x:y", "size": True},
        "/size: error: size of resource 'r' is not a whole number [WrongType]; got True; expected a whole number",
    ),
    (
        RESOURCE_TEMPLATES,
        {"name": "r", "uriTemplate": 1},
        "/uriTemplate: error: uriTemplate of resource template 'r' is not a non-empty text [WrongType]; got 1; "
        "expected a non-empty text",
    ),
]


@pytest.mark.parametrize(("converter", "wire", "sentence"), BAD)
def test_a_bad_wire_object_is_refused_with_place_value_and_what_was_expected(
    converter: Converter[Any], wire: object, sentence: str
):
    with pytest.raises(InputError) as caught:
        converter.from_wire(wire)
    assert str(caught.value) == sentence


def test_a_batch_tells_everything_that_is_wrong_with_any():
    with pytest.raises(DocumentInvalid) as caught:
        TOOLS.from_wires([TOOL, None, {"name": 1, "inputSchema": 2}, {"name": "t", **SCHEMA, "title": 3}])
    assert [(one.pointer, one.value) for one in caught.value.problems] == [
        ("/2/name", "1"), ("/2/inputSchema", "2"), ("/3/title", "3"),
    ]  # fmt: skip


def test_an_object_that_cannot_say_what_it_is_is_refused():
    with pytest.raises(InputError, match=r"/: error: the tool cannot be read: TypeError"):
        TOOLS.from_wire(types.Tool)  # the class, not one of its objects


def test_a_thing_of_another_kind_cannot_be_written():
    wrong: Any = Prompt("p")
    with pytest.raises(InputError, match="a tool is expected, a Tool, not Prompt"):
        TOOLS.to_wire(wrong)


names = texts.filter(bool)
objects = st.dictionaries(texts, values(), max_size=2)
icons = st.lists(
    st.fixed_dictionaries(
        {"src": texts},
        optional={"mimeType": texts, "sizes": st.lists(texts, min_size=1, max_size=2), "theme": st.just("light")},
    ),
    min_size=1,
    max_size=2,
)
NAMED: dict[str, Any] = {"title": texts, "description": texts, "icons": icons, "_meta": objects}
arguments = st.fixed_dictionaries({"name": names}, optional={"title": texts, "required": st.just(True)})
annotations = st.fixed_dictionaries({}, optional={"priority": st.just(0.5), "audience": st.just(["user"])})
hints = st.fixed_dictionaries({}, optional={"title": texts, "readOnlyHint": st.booleans()})
tools = st.fixed_dictionaries(
    {"name": names, "inputSchema": objects}, optional={**NAMED, "outputSchema": objects, "annotations": hints}
)
prompts = st.fixed_dictionaries(
    {"name": names}, optional={**NAMED, "arguments": st.lists(arguments, min_size=1, max_size=2)}
)
resources = st.fixed_dictionaries(
    {"name": names, "uri": names},
    optional={**NAMED, "size": st.integers(0, 2**53), "mimeType": texts, "annotations": annotations},
)
templates = st.fixed_dictionaries(
    {"name": names, "uriTemplate": names}, optional={**NAMED, "mimeType": texts, "annotations": annotations}
)
wires: st.SearchStrategy[tuple[Converter[Any], Any, dict[str, Any]]] = st.one_of(
    st.tuples(st.just(TOOLS), st.just(types.Tool), tools),
    st.tuples(st.just(PROMPTS), st.just(types.Prompt), prompts),
    st.tuples(st.just(RESOURCES), st.just(types.Resource), resources),
    st.tuples(st.just(RESOURCE_TEMPLATES), st.just(types.ResourceTemplate), templates),
)


@unhurried
@given(wires)
def test_any_wire_object_makes_the_round_trip_as_dict_and_as_object_of_the_sdk(
    sample: tuple[Converter[Any], Any, dict[str, Any]],
):
    converter, sdk, wire = sample
    assert converter.to_wire(converter.from_wire(wire)) == wire
    theirs = sdk.model_validate(wire)
    assert sdk.model_validate(converter.to_wire(converter.from_wire(theirs))) == theirs


@unhurried
@given(
    st.sampled_from([TOOLS, PROMPTS, RESOURCES, RESOURCE_TEMPLATES]),
    st.lists(
        st.one_of(
            values(),
            st.dictionaries(
                st.sampled_from(["name", "title", "inputSchema", "arguments", "icons", "uri", "size", "uriTemplate"]),
                st.one_of(values(), st.lists(st.dictionaries(st.sampled_from(["name", "src", "sizes"]), values()))),
            ),
        ),
        max_size=3,
    ),
)
def test_whatever_json_comes_it_is_taken_or_refused_with_places(converter: Converter[Any], wire: list[Any]):
    problems: list[Problem] = []
    made: list[Any] = []
    try:
        made = converter.from_wires(wire)
    except DocumentInvalid as error:
        problems = error.problems
    given = len([one for one in wire if one is not None])
    assert problems or len(made) == given
    assert all(one.pointer.split("/")[1].isdigit() and one.value is not None for one in problems)
