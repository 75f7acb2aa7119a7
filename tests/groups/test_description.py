"""The Markdown description of a grouped tool: structured, short, and unbroken by what others write."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.groups.action import Action
from weft.groups.helping import help_action
from weft.groups.strategies.description import markdown_description
from weft.ir.groups import Detail

from .golden import is_golden
from .workspace import ABOUT, ACTIONS, COMMON, SECTIONS

pytestmark = pytest.mark.req("GRP-14")

UNSEEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


def described(*actions: Action, detail: Detail = "full", **told: Any) -> list[str]:
    """Return the lines of the actions."""
    return [one for one in markdown_description(actions, detail=detail, **told).split("\n") if one.startswith("- ")]


def schema(fields: str, **more: Any) -> dict[str, Any]:
    """Return the schema of an object; a star marks the fields that are required."""
    names = fields.split()
    required = [one.rstrip("*") for one in names if one.endswith("*")]
    return {"type": "object", "properties": {one.rstrip("*"): {} for one in names}, "required": required, **more}


@pytest.mark.parametrize("detail", ["full", "brief"])
def test_a_platform_is_described_as_it_was_read_and_found_good(detail: Detail):
    text = markdown_description(ACTIONS, about=ABOUT, sections=SECTIONS, common=COMMON, detail=detail)
    assert is_golden(f"description_platform_{detail}.md", text)


def test_a_line_says_what_an_action_needs_takes_and_may_do_before_what_others_wrote():
    action = Action(
        key="drop", description="Drop it.", schema=schema("table* cascade"), annotations={"destructiveHint": True}
    )
    assert described(action) == ["- `drop` (needs table; takes cascade; destructive): Drop it."]


def test_hints_that_nobody_gave_are_not_told():
    assert described(Action(key="ping")) == ["- `ping`"]
    assert described(Action(key="a", annotations={"destructiveHint": False, "readOnlyHint": "yes"})) == ["- `a`"]


def test_a_brief_line_has_all_fields_and_the_first_sentence():
    action = Action(key="find", description="Finds e.g. books. Slowly!", schema=schema("query* limit"))
    assert described(action, detail="brief") == ["- find(query*, limit): Finds e.g. books"]


def test_a_title_stands_in_for_a_description_that_is_missing():
    assert described(Action(key="find", title="Find books")) == ["- `find`: Find books"]


def test_a_brief_sentence_ends_with_its_paragraph_or_at_a_word_within_eighty_characters():
    headline = Action(key="a", description="Search the web\n\nArgs:\n    query: what for")
    endless = Action(key="b", description="Returns every single one of the " + "many " * 40 + "things")
    first, second = described(headline, endless, detail="brief")
    assert first == "- a(): Search the web"
    assert second.endswith("many many...")
    assert len(second.partition(": ")[2]) <= 80


def test_a_long_text_is_bounded_where_all_is_told():
    (line,) = described(Action(key="a", description="word " * 500))
    assert line.endswith("word...")
    assert len(line) < 420


def test_fields_that_all_have_are_told_once():
    text = markdown_description([Action(key="a", schema=schema("tenant* id*"))], common=schema("tenant* verbose"))
    assert "Every action needs tenant and takes verbose." in text
    assert "- `a` (needs id)" in text


def test_a_field_that_all_may_have_is_told_again_of_an_action_that_needs_it():
    both = [Action(key="a", schema=schema("dry*")), Action(key="b", schema=schema("dry id"))]
    assert described(*both, common=schema("dry")) == ["- `a` (needs dry)", "- `b` (takes id)"]
    assert described(*both, common=schema("dry"), detail="brief") == ["- a(dry*)", "- b(id)"]


def test_an_index_names_the_action_that_explains_the_others_and_no_other():
    actions = [Action(key="find"), Action(key="help", description="Calls somebody.")]
    told = markdown_description(actions, helps=help_action(actions), detail="index")
    assert told.startswith("`action` is one of these, with its fields (which _help tells):")
    assert markdown_description(actions, detail="index").startswith("`action` is one of these:")
    assert markdown_description([], detail="index") == "`action` is one of these:"


def test_fields_in_branches_of_a_schema_are_told_and_those_that_are_forbidden_are_not():
    branches: list[dict[str, Any]] = [{"properties": {"url": {}}}, {"properties": {"path": {}}}]
    of_branches = Action(key="a", schema=schema("name*", oneOf=branches))
    forbidden = Action(key="b", schema={"properties": {"x": False, "y": True}})
    assert described(of_branches, forbidden, detail="brief") == ["- a(name*, url, path)", "- b(y)"]


def test_a_field_that_is_needed_but_not_described_is_told():
    assert described(Action(key="a", schema={"required": ["id", "id"]}), detail="brief") == ["- a(id*)"]


def test_actions_of_a_group_stand_together_and_those_of_none_come_first():
    text = markdown_description([Action(key=key) for key in ("b.one", "c.x.y", "top", "b.two")], sections={"c": "See."})
    body = text.partition("\n\n")[2]
    assert body == "- `top`\n\n## b\n\n- `b.one`\n- `b.two`\n\n## c: See.\n\n## c.x\n\n- `c.x.y`"


def test_another_discriminator_is_named():
    assert markdown_description([Action(key="a")], discriminator="do").startswith("`do` says")


def test_names_that_could_pass_for_several_are_quoted():
    action = Action(key="a b", schema=schema("plain", properties={"x, y": {}, "z\u202e\n": {}}))
    assert described(action, detail="brief") == ['- "a b"("x, y", "z\\u202e\\n")']


words = st.one_of(
    st.text(max_size=60),
    st.lists(
        st.sampled_from(["\n", "\n\n", "## b", "- `x`: y", "```", "|", "<!--", "\r", "\u2028", "\x1b[31m", "a"])
    ).map("".join),
)


@given(st.lists(st.tuples(words, words), max_size=4), st.none() | words, st.sampled_from(["full", "brief"]))
def test_no_text_of_others_breaks_the_structure(given: list[tuple[str, str]], section: str | None, detail: Detail):
    actions = [
        Action(key=f"g.a{number}", description=text, schema={"properties": {field: {}}})
        for number, (text, field) in enumerate(given)
    ]
    text = markdown_description(actions, sections={"g": section} if section else None, detail=detail)
    lines = text.split("\n")
    begun = [line for line in lines if re.match(r"- `?g\.a\d+", line)]
    assert len(begun) == len(actions)
    assert not UNSEEN.search(text)
    assert len([line for line in lines if line]) <= len(actions) + 2
