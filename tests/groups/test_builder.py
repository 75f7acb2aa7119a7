"""Grouped tools as authors write them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from functools import partial
from typing import Annotated, Any

import mcp.types
import pytest
from pydantic import AfterValidator, BaseModel, Field

import weft as w
from weft.errors import DocumentInvalid, ExecutionFailed, Frozen, InputError
from weft.groups.authoring.builder import GroupedTool
from weft.groups.calling import Handler, ToolCall
from weft.groups.shaping.results import SELECT
from weft.groups.strategies.annotations import merged_annotations
from weft.groups.strategies.description import markdown_description
from weft.groups.strategies.schema import input_schema
from weft.groups.strategies.toon import toon_description


class Tenancy(BaseModel):
    tenant: str = Field(description="Whose it is.")
    since: date | None = None


def listed(limit: int = 10) -> list[int]:
    """List them."""
    return list(range(limit))


async def passed_on(call: ToolCall, next: Handler) -> Any:
    return await next(call)


def platform(**given: Any) -> GroupedTool:
    it = w.group("platform", **given)
    users = it.group("users", "People who may log in.")

    @users.action(reads_only=True, tags={"public"})
    def find(name: str) -> dict[str, str]:
        """Find a user."""
        return {"name": name}

    @users.group("admins").action(destructive=False)
    def create(name: str) -> str:
        """Make somebody an admin."""
        return f"{name} is an admin"

    return it.add("ping", lambda: "pong", description="Answers.", reads_only=True, tags=["public", "health"])


@pytest.mark.req("GRP-6", "GRP-27")
def test_groups_and_their_groups_stand_before_the_names_of_actions():
    it = platform(
        title="Platform", description="Everything.", icons=[{"src": "https://a.example/i.png"}], meta={"a": 1}
    )
    definition = it.definition
    assert definition["inputSchema"]["properties"]["action"]["enum"] == ["users.find", "users.admins.create", "ping"]
    assert definition["name"] == "platform"
    assert definition["title"] == definition["annotations"]["title"] == "Platform"
    assert definition["annotations"]["readOnlyHint"] is False
    assert definition["icons"] == [{"src": "https://a.example/i.png"}]
    assert definition["_meta"] == {"a": 1}
    assert all(said in definition["description"] for said in ("Everything.", "People who may log in.", "Find a user."))
    assert mcp.types.Tool.model_validate(definition).name == "platform"


@pytest.mark.req("GRP-6")
@pytest.mark.parametrize("format", ["markdown", "toon"])
def test_each_part_of_a_definition_is_what_its_strategy_says_alone(format: Any):
    it = platform(format=format, common=Tenancy, description="Everything.")
    common = {
        "type": "object",
        "properties": {
            "tenant": {"type": "string", "description": "Whose it is."},
            "since": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}], "default": None},
        },
        "required": ["tenant"],
    }
    actions = list(it.actions.values())
    described = {"markdown": markdown_description, "toon": toon_description}[format]
    sections = {"users": "People who may log in."}
    assert it.definition == {
        "name": "platform",
        "description": described(actions, about="Everything.", sections=sections, common=common),
        "inputSchema": input_schema(actions, common=common, extra={"_select": SELECT}),
        "annotations": merged_annotations(actions),
    }


@pytest.mark.req("GRP-30")
def test_the_definition_is_always_the_same_object():
    it = platform()
    assert it.definition is it.definition


def test_a_function_stays_what_it_was():
    it = w.group("platform")
    assert it.action(listed) is listed
    assert it.action(name="again")(listed) is listed
    assert listed(2) == [0, 1]
    assert it.actions["listed"].description == "List them."
    assert it.add("few", partial(listed, 2)).actions["few"].description == "List them."


def test_what_is_said_of_an_action_is_kept():
    it = w.group("platform").add(
        "drop",
        listed,
        title="Drop",
        description="Drops.",
        destructive=True,
        idempotent=True,
        open_world=False,
        tags="x",
    )
    action = it.actions["drop"]
    assert (action.title, action.description) == ("Drop", "Drops.")
    assert list(it.filtered(tags="x").actions) == ["drop"]
    assert action.annotations == {"destructiveHint": True, "idempotentHint": True, "openWorldHint": False}


MUTATIONS: dict[str, Callable[[GroupedTool], Any]] = {
    "action": lambda it: it.action(listed),
    "add": lambda it: it.add("listed", listed),
    "add to a group": lambda it: it.add("users.listed", listed),
    "group": lambda it: it.group("projects"),
    "use": lambda it: it.use(passed_on),
    "common": lambda it: it.common(tenant=str),
}


@pytest.mark.req("GRP-28", "GRP-31")
@pytest.mark.parametrize("mutate", MUTATIONS.values(), ids=MUTATIONS)
def test_nothing_can_be_added_once_it_is_in_use(mutate: Callable[[GroupedTool], Any]):
    it = platform()
    assert not it.frozen
    mutate(platform())
    before = it.definition
    assert it.frozen
    with pytest.raises(Frozen, match="Tool 'platform' is in use already, and can get no more") as caught:
        mutate(it)
    assert caught.value.hint == "do it before its definition is read, it is attached, or it is called first"
    assert it.definition is before


@pytest.mark.req("GRP-31")
def test_groups_of_a_tool_in_use_are_frozen_as_well():
    it = w.group("platform")
    users = it.group("users")
    users.action(listed)
    assert it.definition
    with pytest.raises(Frozen):
        users.action(name="again")(listed)
    with pytest.raises(Frozen):
        users.use(passed_on)


@pytest.mark.req("GRP-29")
def test_its_actions_cannot_be_changed():
    it = platform()
    for actions in (it.actions, it.definition and it.actions):
        assert list(actions) == ["users.find", "users.admins.create", "ping"]
        with pytest.raises(TypeError):
            actions["other"] = actions["ping"]  # pyright: ignore[reportIndexIssue]


def test_to_look_at_its_actions_does_not_freeze_it():
    it = platform()
    assert len(it.actions) == 3
    assert len(it.add("one_more", listed).actions) == 4


def test_a_tool_that_cannot_be_built_is_not_frozen():
    it = w.group("platform")
    with pytest.raises(DocumentInvalid, match="the grouped tool 'platform' has no action"):
        _ = it.definition
    assert it.add("listed", listed).definition


def test_a_dotted_key_puts_an_action_into_the_groups_that_it_names():
    it = w.group("platform")
    users = it.group("users", "People.")
    it.add("users.admins.list", listed)
    assert list(it.actions) == ["users.admins.list"]
    assert it.group("users") is users
    assert users.group("admins").path == "users.admins"


AGAIN: list[Callable[[GroupedTool], Any]] = [
    lambda it: it.group("users").add("find", listed),
    lambda it: it.add("users.find", listed),
    lambda it: it.group("users", "Others."),
]


@pytest.mark.parametrize("again", AGAIN)
def test_a_name_is_given_once(again: Callable[[GroupedTool], Any]):
    with pytest.raises(DocumentInvalid, match=r"are named 'users.*DuplicateName") as caught:
        again(platform())
    assert [one.code for one in caught.value.problems] == ["DuplicateName"]


@pytest.mark.parametrize("name", ["", "a b", "a/b", "é", "x" * 129, 3])
def test_a_tool_has_a_name_that_clients_take(name: Any):
    with pytest.raises(InputError, match="is no name of a tool") as caught:
        w.group(name)
    assert caught.value.code == "InvalidName"


@pytest.mark.parametrize("name", ["", "a b", "a/b", ".x", "x.", 3, "x" * 129])
def test_an_action_has_a_name_that_models_can_write(name: Any):
    with pytest.raises(InputError) as caught:
        w.group("platform").add(name, listed)
    assert caught.value.code == "InvalidName"


def test_options_are_checked():
    with pytest.raises(InputError, match="format is 'markdwn': expected markdown or toon") as caught:
        w.group("platform", format="markdwn")  # pyright: ignore[reportArgumentType]
    assert caught.value.hint == "did you mean 'markdown'?"
    with pytest.raises(InputError, match="'_select' is no discriminator"):
        w.group("platform", discriminator="_select")


WRONG: list[tuple[Callable[[Any], Any], str]] = [
    (lambda it: it.action(lambda: 1), "a function without a name needs one"),
    (lambda it: it.add("x", 3), r"w.group\('platform'\), action 'x': an action is a function, not 3"),
    (lambda it: it.add("x", listed, read_only=True), "by 'read_only'; did you mean 'reads_only'?"),
    (lambda it: it.use(3), "middleware is a function of a call and of what comes next, not 3"),
    (lambda it: it.add("x", print), "action 'x': print takes \\*args"),
    (lambda it: it.common(3), r"w.group\('platform'\): common fields are a model, a JSON Schema or types by name"),
    (lambda it: it.common({"type": "object", "additionalProperties": True}), "common fields have names"),
    (lambda it: it.common(x=Callable), "has no JSON Schema"),
    (lambda it: it.common(x=str).common(x=int), "the common field 'x' is there already"),
]


@pytest.mark.parametrize(("wrong", "said"), WRONG)
def test_wrong_use_is_a_type_error_that_says_where(wrong: Callable[[Any], Any], said: str):
    with pytest.raises(TypeError, match=said):
        wrong(w.group("platform"))


@pytest.mark.parametrize(
    "common",
    [
        Tenancy,
        {
            "properties": {
                "tenant": {"type": "string", "description": "Whose it is."},
                "since": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}], "default": None},
            },
            "required": ["tenant"],
        },
    ],
)
def test_common_fields_come_as_a_model_a_schema_or_by_name(common: Any):
    by_name = {"tenant": Annotated[str, Field(description="Whose it is.")], "since": (date | None, None)}
    schemas = [
        one.add("ping", lambda: "pong").definition["inputSchema"]
        for one in (w.group("a", common=common), w.group("b").common(common), w.group("c").common(**by_name))
    ]
    assert schemas[0] == schemas[1] == schemas[2]
    assert schemas[0]["properties"]["tenant"] == {"type": "string", "description": "Whose it is. (always required)"}
    assert schemas[0]["required"] == ["action", "tenant"]


def test_a_common_field_is_no_field_of_the_actions_that_name_it():
    it = w.group("platform").common(tenant=str, dry=(bool, False))

    @it.action
    def create(tenant: str, name: str, dry: bool = True) -> list[Any]:
        return [tenant, name, dry]

    @it.action
    def drop(tenant: Any) -> Any:
        return tenant

    assert list(it.actions["create"].properties) == ["name"]
    assert it.actions["create"].required == ("name",)
    assert list(it.actions["drop"].properties) == []


def test_a_common_field_that_means_something_else_in_an_action_is_an_error():
    it = w.group("platform").common(tenant=str)

    @it.action
    def create(tenant: int) -> int:
        return tenant

    with pytest.raises(DocumentInvalid, match="'tenant'"):
        _ = it.definition


async def test_a_common_field_that_one_action_needs_is_needed_there():
    it = w.group("platform").common(tenant=(str, "me"))

    @it.action
    def create(tenant: str) -> str:
        return tenant

    it.add("list", listed)
    assert await it.execute({"action": "list", "limit": 1}) == [0]
    with pytest.raises(ExecutionFailed, match="'tenant' is missing"):
        await it.execute({"action": "create"})


def even(value: int) -> int:
    if value % 2:
        raise ValueError("it must be even")
    return value


async def test_what_only_the_type_of_a_common_field_knows_is_checked():
    it = w.group("platform", common=Tenancy).common(size=Annotated[int, AfterValidator(even)])
    it.add("ping", lambda: "pong")
    given = {"action": "ping", "tenant": "t", "size": 2}
    assert await it.execute(given) == "pong"
    with pytest.raises(ExecutionFailed, match="'size' is 3; it must be even") as caught:
        await it.execute({**given, "size": 3})
    assert caught.value.code == "InvalidArguments"
    with pytest.raises(ExecutionFailed, match="'since' is \"soon\""):
        await it.execute({**given, "since": "soon"})


def test_a_tool_can_be_had_with_fewer_actions():
    it = platform()
    assert list(it.filtered(tags=["public"]).actions) == ["users.find", "ping"]
    assert list(it.filtered(tags="public", exclude_tags="health").actions) == ["users.find"]
    fewer = it.filtered(exclude_tags={"public"})
    assert fewer.definition["inputSchema"]["properties"]["action"]["enum"] == ["users.admins.create"]
    assert list(it.actions) == ["users.find", "users.admins.create", "ping"]
    assert it.frozen
    with pytest.raises(Frozen):
        fewer.add("listed", listed)
    assert fewer.filtered(tags={"nobody"}).actions == {}


async def test_a_tool_with_fewer_actions_refuses_the_others_and_keeps_its_middleware():
    seen: list[str] = []

    async def noted(call: ToolCall, next: Handler) -> Any:
        seen.append(call.name)
        return await next(call)

    fewer = platform(middleware=[noted]).filtered(tags={"health"})
    assert await fewer.execute({"action": "ping"}) == "pong"
    assert seen == ["platform.ping"]
    with pytest.raises(ExecutionFailed) as caught:
        await fewer.execute({"action": "users.find", "name": "Ann"})
    assert caught.value.code == "UnknownAction"


@pytest.mark.parametrize("format", ["markdown", "toon"])
async def test_in_brief_there_is_an_action_that_explains_the_others(format: Any):
    it = platform(detail="brief", format=format, common={"properties": {"tenant": {"type": "string"}}})
    assert it.definition["inputSchema"]["properties"]["action"]["enum"][-1] == "help"
    told = await it.execute({"action": "help", "of": "users.find"})
    assert (told["action"], told["description"]) == ("users.find", "Find a user.")
    assert told["annotations"] == {"readOnlyHint": True}
    fields = told["inputSchema"]["properties"]
    assert fields["action"]["enum"] == ["users.find"]
    assert {"name", "tenant"} <= fields.keys()
    with pytest.raises(ExecutionFailed, match=r"did you mean 'users\.find'") as caught:
        await it.execute({"action": "help", "of": "users.fnd"})
    assert caught.value.facts is not None
    assert caught.value.facts["choices"] == ["users.find", "users.admins.create", "ping"]


async def test_help_makes_room_for_what_has_its_names():
    it = w.group("platform", detail="brief")

    @it.action(name="help")
    def helped(of: int) -> int:
        return of

    assert await it.execute({"action": "help", "of": 3}) == 3
    told = await it.execute({"action": "_help", "_of": "help"})
    assert told["inputSchema"]["properties"]["of"]["type"] == "integer"
    it = w.group("platform", detail="brief").add("help", listed).add("_help", listed)
    assert list(it.actions) == ["help", "_help", "__help"]


def test_in_full_there_is_no_help():
    assert "help" not in platform().actions
