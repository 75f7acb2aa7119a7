"""Things with names, the groups that hold them, and the ways that lead to them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import unhurried
from weft.errors import InputError
from weft.groups.model import (
    Group,
    GroupItem,
    Icon,
    Named,
    Prompt,
    PromptArgument,
    Resource,
    ResourceTemplate,
    Tool,
)


def _one_of_each() -> list[Named]:
    said: dict[str, Any] = {
        "title": "It",
        "description": "What it is.",
        "meta": {"a": 1},
        "icons": (Icon(src="x.png"),),
    }
    return [
        Group("it", **said),
        Tool("it", **said),
        Prompt("it", **said),
        PromptArgument("it", **said),
        Resource("it", uri="file:///it", **said),
        ResourceTemplate("it", uri_template="file:///{it}", **said),
    ]


@pytest.mark.req("GRP-1")
@pytest.mark.parametrize("thing", _one_of_each(), ids=lambda one: one.kind)
def test_everything_has_name_title_description_meta_icons_and_a_qualified_name(thing: Named):
    assert (thing.name, thing.title, thing.description) == ("it", "It", "What it is.")
    assert (thing.meta, thing.icons) == ({"a": 1}, (Icon(src="x.png"),))
    assert (thing.qualified_name, thing.qualified_names) == ("it", ("it",))


@pytest.mark.req("GRP-1")
@pytest.mark.parametrize("name", ["", None, 7])
def test_a_name_is_a_text_that_is_not_empty(name: Any):
    with pytest.raises(InputError, match=rf"the name of a tool must be a non-empty text, not {name!r}"):
        Tool(name)


@pytest.mark.req("GRP-2")
def test_a_group_holds_groups_tools_prompts_resources_and_templates_in_their_order():
    find, create, greet = Tool("find"), Tool("create"), Prompt("greet")
    log, day = Resource("log", uri="file:///log"), ResourceTemplate("day", uri_template="file:///log/{day}")
    users = Group("users")
    platform = Group("platform").add(find, users, greet, log, create, day)
    assert platform.groups == (users,)
    assert platform.tools == (find, create)
    assert (platform.prompts, platform.resources, platform.resource_templates) == ((greet,), (log,), (day,))


@pytest.mark.req("GRP-1", "GRP-2")
def test_the_qualified_name_is_the_way_from_the_root():
    create = Tool("create")
    Group("platform").add(Group("users").add(create))
    assert create.qualified_name == "platform.users.create"
    assert create.parents[0].qualified_name == "platform.users"


@pytest.mark.req("GRP-1", "GRP-4")
def test_an_argument_goes_by_its_prompt():
    who = PromptArgument("who", required=True)
    greet = Prompt("greet", arguments=[who, PromptArgument("tone")])
    Group("users").add(greet)
    assert who.qualified_name == "users.greet.who"
    assert [one.required for one in greet.arguments] == [True, False]


@pytest.mark.req("GRP-3")
def test_an_item_of_several_groups_has_a_name_by_each_way_and_goes_by_the_first():
    create, users = Tool("create"), Group("users")
    platform, admin = Group("platform").add(users), Group("admin").add(users)
    users.add(create)
    daily = Group("daily").add(create)
    assert create.parents == (users, daily)
    assert create.qualified_names == ("platform.users.create", "admin.users.create", "daily.create")
    assert create.qualified_name == "platform.users.create"
    assert create.roots == (platform, admin, daily)


@pytest.mark.req("GRP-3")
def test_a_root_that_is_reached_in_two_ways_is_named_once():
    create = Tool("create")
    platform = Group("platform").add(Group("users").add(create), Group("daily").add(create))
    assert create.roots == (platform,)
    assert platform.roots == (platform,)
    assert Tool("alone").roots == ()


@pytest.mark.req("GRP-4")
def test_a_tool_has_schemas_and_annotations_and_takes_an_object_when_nothing_is_said():
    tool = Tool("find", output_schema={"type": "array"}, annotations={"readOnlyHint": True})
    assert (tool.input_schema, tool.output_schema) == ({"type": "object"}, {"type": "array"})
    assert tool.annotations == {"readOnlyHint": True}


@pytest.mark.req("GRP-4")
def test_a_resource_has_uri_size_mime_type_and_annotations():
    log = Resource("log", uri="file:///log", size=12, mime_type="text/plain", annotations={"priority": 1})
    assert (log.uri, log.size, log.mime_type, log.annotations) == ("file:///log", 12, "text/plain", {"priority": 1})


@pytest.mark.req("GRP-2")
def test_a_group_cannot_come_to_stand_in_itself():
    platform, users, rights = Group("platform"), Group("users"), Group("rights")
    platform.add(users.add(rights))
    with pytest.raises(InputError) as caught:
        rights.add(Tool("grant"), platform)
    assert caught.value.code == "Cycle"
    assert caught.value.message == (
        "group 'platform.users.rights' cannot hold 'platform', in which it stands: "
        "platform -> users -> rights -> platform"
    )
    assert rights.tools == (), "none of them is taken in"
    with pytest.raises(InputError, match=r"group 'platform\.users' cannot hold itself"):
        users.add(users)


@pytest.mark.req("GRP-2")
def test_a_group_takes_an_item_once_and_refuses_another_of_its_name():
    create, users = Tool("create"), Group("users")
    users.add(create).add(create, create)
    assert (users.tools, create.parents) == ((create,), (users,))
    with pytest.raises(InputError, match="group 'users' holds another tool 'create' already") as caught:
        users.add(Tool("find"), Tool("create"))
    assert caught.value.code == "DuplicateName"
    assert users.tools == (create,)
    assert users.add(Prompt("create"), Group("create")).prompts != (), "other kinds have names of their own"


@pytest.mark.req("GRP-2")
def test_resources_are_told_apart_by_their_uris():
    logs = Group("logs").add(Resource("log", uri="file:///a"), Resource("log", uri="file:///b"))
    assert len(logs.resources) == 2
    with pytest.raises(InputError, match="holds another resource 'file:///a' already"):
        logs.add(Resource("other", uri="file:///a"))


@pytest.mark.req("GRP-2")
def test_what_no_group_can_hold_is_refused():
    wrong: Any = {"name": "create"}
    with pytest.raises(InputError, match=r"group 'users' cannot hold \{'name': 'create'\}") as caught:
        Group("users").add(wrong)
    assert caught.value.hint == "it holds Group, Tool, Prompt, Resource and ResourceTemplate"
    argument: Any = PromptArgument("who")
    with pytest.raises(InputError, match="cannot hold PromptArgument"):
        Group("users").add(argument)


@pytest.mark.req("GRP-1")
def test_things_that_say_the_same_are_not_the_same_thing():
    one, other = Tool("create"), Tool("create")
    assert one != other
    assert len({one, other, one}) == 2


@pytest.mark.req("GRP-3")
def test_a_walk_meets_everything_once_and_a_group_before_what_it_holds():
    create, find = Tool("create"), Tool("find")
    users, daily = Group("users").add(create, find), Group("daily").add(find)
    assert [*Group("platform").add(users, daily).walk()] == [users, create, find, daily]


@pytest.mark.req("GRP-2", "GRP-3")
def test_thousands_of_levels_are_no_trouble():
    leaf = Tool("leaf")
    top = Group("g").add(leaf)
    for _ in range(3000):
        top = Group("g").add(top)
    assert leaf.roots == (top,)
    assert leaf.qualified_names == (leaf.qualified_name,)
    assert len([*top.walk()]) == 3001
    with pytest.raises(InputError, match="in which it stands"):
        leaf.parents[0].add(top)


@pytest.mark.req("GRP-2", "GRP-3")
@unhurried
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=20))
def test_whatever_is_added_there_is_no_circle_and_roots_are_those_from_which_one_gets_there(
    ties: list[tuple[int, int]],
):
    groups = [Group(f"g{index}") for index in range(7)]
    held: set[tuple[int, int]] = set()
    for parent, child in ties:
        if parent == child or (child, parent) in _closed(held):
            with pytest.raises(InputError, match="cannot hold"):
                groups[parent].add(groups[child])
        else:
            groups[parent].add(groups[child])
            held.add((parent, child))
    reach = _closed(held)
    assert not any(one == other for one, other in reach)
    for index, group in enumerate(groups):
        tops = {one for one in range(7) if not any(child == one for _, child in held)}
        assert {int(root.name[1:]) for root in group.roots} == {
            top for top in tops if top == index or (top, index) in reach
        }
        assert len(group.roots) == len(set(group.roots))
        assert group.qualified_names[0] == group.qualified_name
        assert {one.name for one in _items(group)} == {f"g{child}" for parent, child in reach if parent == index}


def _items(group: Group) -> list[GroupItem]:
    return [*group.walk()]


def _closed(ties: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """Return who can be reached from whom, by the plainest of ways."""
    reach = set(ties)
    while more := {(a, d) for a, b in reach for c, d in reach if b == c} - reach:
        reach |= more
    return reach


def test_ways_that_multiply_are_refused_before_they_are_too_many():
    top = Group("top")
    layer, few, leaf = [top], Tool("few"), Tool("leaf")
    for depth in range(40):
        both = (Group(f"a{depth}"), Group(f"b{depth}"))
        for group in layer:
            group.add(*both)
        layer = [*both]
        if depth == 8:
            for group in layer:
                group.add(few)
    for group in layer:
        group.add(leaf)
    assert len(few.qualified_names) == 2**9
    assert leaf.roots == (top,)
    with pytest.raises(InputError, match="more than 1,000 qualified names") as refused:
        _ = leaf.qualified_names
    assert refused.value.code == "TooManyNames"
