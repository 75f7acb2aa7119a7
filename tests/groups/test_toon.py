"""The TOON description of a grouped tool: read back by somebody else's decoder, and small."""

from __future__ import annotations

import json
from typing import Any

import pytest
import toon_format
from hypothesis import example, given
from hypothesis import strategies as st

from weft.groups.action import Action
from weft.groups.helping import help_action
from weft.groups.strategies.schema import input_schema
from weft.groups.strategies.toon import toon_description
from weft.ir.groups import Detail
from weft.ports import is_object

from .forge import TOOLS
from .golden import is_golden
from .workspace import ABOUT, ACTIONS, COMMON, SECTIONS

pytestmark = pytest.mark.req("GRP-15")


def decoded(actions: list[Action], **told: Any) -> dict[str, Any]:
    """Return what a strict decoder reads in a description."""
    value: object = toon_format.decode(toon_description(actions, **told))
    assert is_object(value)
    return value


@pytest.mark.parametrize("detail", ["full", "brief"])
def test_a_platform_is_described_as_it_was_read_and_found_good(detail: Detail):
    text = toon_description(ACTIONS, about=ABOUT, sections=SECTIONS, common=COMMON, detail=detail)
    assert is_golden(f"description_platform_{detail}.toon", text)


def test_all_that_is_told_is_a_table_with_pipes():
    told = decoded(ACTIONS, about=ABOUT, sections=SECTIONS, common=COMMON)
    assert told["about"] == "Manage the users and projects of a platform. Ask before you delete anything."
    assert (told["alwaysNeeds"], told["alwaysTakes"]) == (["workspace"], ["dryRun"])
    assert [row["group"] for row in told["groups"]] == ["users", "projects"]
    rows = {row["action"]: row for row in told["actions"]}
    assert len(rows) == len(ACTIONS)
    assert rows["users.create"] == {
        "action": "users.create",
        "does": "Create a user and send an invitation. An address can be used once.",
        "needs": "email,name",
        "takes": "role",
        "is": "",
    }
    assert rows["users.delete"]["is"] == "destructive"
    assert rows["ping"]["is"] == "read-only"


def test_a_brief_row_has_the_first_sentence_and_all_fields():
    told = decoded(ACTIONS, common=COMMON, detail="brief")
    assert told["always"] == ["workspace*", "dryRun"]
    row = next(row for row in told["actions"] if row["action"] == "users.create")
    assert row == {
        "action": "users.create",
        "does": "Create a user and send an invitation",
        "fields": "email*,name*,role",
    }


def test_a_field_that_all_may_have_is_told_again_of_an_action_that_needs_it():
    common: dict[str, Any] = {"properties": {"dry": {}}}
    told = decoded([Action(key="a", schema={"required": ["dry"]}), Action(key="b", schema=common)], common=common)
    assert [(row["needs"], row["takes"]) for row in told["actions"]] == [("dry", ""), ("", "")]


def test_an_index_names_the_action_that_explains_the_others_and_no_other():
    actions = [Action(key="find"), Action(key="help", description="Calls somebody.")]
    assert decoded(actions, helps=help_action(actions), detail="index")["use"] == "_help tells the fields of an action"
    assert "use" not in decoded(actions, detail="index")


def test_the_column_of_the_actions_is_called_as_the_argument_that_chooses_one():
    assert decoded([Action(key="a")], discriminator="do-what")["actions"][0]["do-what"] == "a"
    assert decoded([Action(key="a")], discriminator="does")["actions"][0]["action"] == "a"


def test_hints_take_no_column_when_nobody_gave_one():
    assert "is" not in decoded([Action(key="a")])["actions"][0]


odd = st.sampled_from([
    "", "true", "null", "-", "- x", "#x", "05", "+1", "1e5", "a|b", "a:b", '"', "\\", "[2]:", "{x}", "key: v",
    "always[1]: x", "a\nb", " x ", "x\ty", "\x00", "\x08", "\x0c", "\u00a0x", "\u2028", "\x85", "\ufeff", "\u3000y",
    "🙂",
])  # fmt: skip
words = st.one_of(odd, st.text(max_size=100), st.lists(odd | st.text(max_size=6), max_size=5).map("".join))


@st.composite
def actions(draw: st.DrawFn) -> Action:
    fields: dict[str, Any] = {name: {} for name in draw(st.lists(words, max_size=3))}
    return Action(key=draw(words), description=draw(st.none() | words), schema={"properties": fields})


def in_line(text: str | None) -> str:
    """Return the words of a text alone: the rest of it may be changed."""
    return "".join(one for one in text or "" if one.isalnum())


@example([Action(key="05", description="-")], "null", "#")
@given(st.lists(actions(), max_size=4), words, words)
def test_a_decoder_reads_what_was_said_whatever_it_was(given: list[Action], about: str, discriminator: str):
    told = decoded(given, about=about, discriminator=discriminator, detail="full")
    rows = told.get("actions", [])
    assert in_line(told.get("about")) == in_line(about)
    ungrouped = sorted((in_line(one.key), in_line(one.description)) for one in given)
    assert sorted((in_line(next(iter(row.values()))), in_line(row["does"])) for row in rows) == ungrouped
    assert all(isinstance(cell, str) for row in rows for cell in row.values())
    if given:
        assert list(rows[0])[1:] == ["does", "needs", "takes"]


@pytest.mark.parametrize(("detail", "most"), [("full", 0.5), ("brief", 0.2), ("index", 0.1)])
def test_fifty_tools_of_a_large_server_become_a_part_of_their_list(detail: Detail, most: float):
    actions = [
        Action(
            key=one["name"], description=one["description"], schema=one["inputSchema"], annotations=one["annotations"]
        )
        for one in TOOLS
    ]
    helps = None if detail == "full" else help_action(actions)
    schema = input_schema(actions, detail=detail, helps=helps, conflicts="union")
    tool = {
        "name": "forge",
        "description": toon_description(actions, helps=helps, detail=detail),
        "inputSchema": schema,
    }
    assert len(TOOLS) == 50
    assert _size(tool) < _size(TOOLS) * most


def _size(value: Any) -> int:
    return len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())
