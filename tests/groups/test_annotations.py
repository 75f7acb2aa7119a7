"""The hints of a grouped tool say what holds for all its actions."""

from __future__ import annotations

import pytest
from mcp.types import ToolAnnotations

from weft.groups.action import Action
from weft.groups.strategies.annotations import merged_annotations

READS = {"readOnlyHint": True, "openWorldHint": False}
ADDS = {"destructiveHint": False, "openWorldHint": False}
SETS = {"destructiveHint": True, "idempotentHint": True, "openWorldHint": False}


def hints(*each: dict[str, object]) -> dict[str, object]:
    return merged_annotations([Action(key=f"a{at}", annotations=one) for at, one in enumerate(each)])


@pytest.mark.req("GRP-16")
@pytest.mark.parametrize(
    ("each", "reads", "destroys", "again", "opens"),
    [
        ([READS, READS], True, False, True, False),
        ([READS, ADDS], False, False, False, False),
        ([READS, SETS], False, True, True, False),
        ([ADDS, SETS], False, True, False, False),
        ([READS, {}], False, True, False, True),
        ([{"readOnlyHint": True, "destructiveHint": True}], True, False, True, True),
        ([{"readOnlyHint": "yes", "openWorldHint": None}], False, True, False, True),
    ],
)
def test_a_group_is_read_only_if_all_are_destructive_if_one_is_and_idempotent_if_all_are(
    each: list[dict[str, object]], reads: bool, destroys: bool, again: bool, opens: bool
) -> None:
    told = hints(*each)
    assert told == {
        "readOnlyHint": reads,
        "destructiveHint": destroys,
        "idempotentHint": again,
        "openWorldHint": opens,
    }
    assert ToolAnnotations.model_validate(told).destructive_hint is destroys


def test_the_title_is_told_as_given_and_a_group_without_actions_has_no_hints():
    assert merged_annotations([Action(key="a")], title="Users")["title"] == "Users"
    assert merged_annotations([], title="Users") == {}
