"""What a template is, what it says of wrong ones, and that those of the library are templates."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workflows.templates import SEED
from weft.errors import DocumentInvalid, Problem
from weft.ir.read import read
from weft.workflows.library import built_in
from weft.workflows.steps import tools_of
from weft.workflows.template import MAX_BYTES, read_template

pytestmark = pytest.mark.req("WFL-17")


def changed(**changes: Any) -> dict[str, Any]:
    """Return the seed's template with other fields; `metadata__category` is a field of a field, None takes it away."""
    told: dict[str, Any] = deepcopy(SEED)
    for name, value in changes.items():
        *above, last = name.split("__")
        at = told
        for one in above:
            at = at[one]
        if value is None:
            del at[last]
        else:
            at[last] = value
    return told


def problems_of(value: object) -> list[Problem]:
    """Return what is wrong with a template."""
    with pytest.raises(DocumentInvalid) as caught:
        read_template(value)
    return caught.value.problems


def test_the_template_of_the_seed_is_one_and_its_document_stays_as_it_was_written():
    template = read_template(SEED)
    assert template.composition == SEED["composition"]
    assert list(template.composition) == list(SEED["composition"])
    assert template.metadata.category == "context-management"
    assert template.required_tools == ["checkpoint_search", "context_fold", "checkpoint_save"]


def test_what_weft_measures_is_not_believed():
    told = read_template(SEED).to_json()
    assert "success_rate" not in told["metadata"]
    assert "usage_count" not in told["metadata"]
    assert told["metadata"]["estimated_duration_ms"] == 500


def test_what_is_shown_reads_as_the_same_template():
    template = read_template(changed(example_input={"query": "ü"}, servers={"context_fold": "contextd"}))
    again = read_template(template.to_json())
    assert again.to_json() == template.to_json()


def test_both_spellings_of_keys_are_taken():
    told = changed(metadata={"category": "analysis", "estimatedDurationMs": 7}, exampleInput={"a": 1})
    assert read_template(told).metadata.estimated_duration_ms == 7
    assert read_template(told).to_json()["example_input"] == {"a": 1}


def test_tools_are_those_of_the_steps_unless_the_template_says_which():
    steps: list[dict[str, Any]] = [
        {"id": "a", "tool": {"name": "read", "server": "files"}, "undo": {"tool": "unread"}},
        {"id": "b", "tool": "write"},
        {"id": "c", "tool": "read"},
        {"id": "d", "elicit": {"message": "?", "schema": {}}},
    ]
    told = changed(validation=None, composition={"steps": steps})
    assert read_template(told).required_tools == ["read", "unread", "write"]
    assert read_template(told).to_json()["validation"] == {"required_tools": ["read", "unread", "write"]}
    assert read_template({**told, "validation": {"required_tools": ["write"]}}).required_tools == ["write"]


@pytest.mark.parametrize("steps", [None, 5, "x", {}, [5, None, {"tool": 5}, {"tool": {"name": []}}, {"undo": 5}]])
def test_tools_of_a_document_that_is_none_are_none(steps: Any):
    assert tools_of({"steps": steps}) == []


@pytest.mark.parametrize(
    ("changes", "code", "pointer", "said"),
    [
        ({"id": "Search_1"}, "WrongValue", "/id", "pattern"),
        ({"id": "-a"}, "WrongValue", "/id", "pattern"),
        ({"id": "a" * 65}, "WrongValue", "/id", "pattern"),
        ({"id": "a\n"}, "WrongValue", "/id", "pattern"),
        ({"id": None}, "MissingKey", "", "id"),
        ({"composition": None}, "MissingKey", "", "composition"),
        ({"composition": []}, "WrongType", "/composition", "dictionary"),
        ({"metadata__category": "Analysis"}, "WrongValue", "/metadata/category", "did you mean 'analysis'?"),
        ({"metadata__category": None}, "MissingKey", "/metadata", "category"),
        ({"metadata__tagz": ["a"]}, "UnknownKey", "/metadata/tagz", "did you mean 'tags'?"),
        ({"metadata__tags": ["a", ""]}, "WrongValue", "/metadata/tags/1", "at least 1"),
        ({"metadata__estimated_duration_ms": -1}, "WrongValue", "/metadata/estimated_duration_ms", "-1"),
        ({"validation__min_version": "v1.0.0"}, "InvalidVersion", "/validation/min_version", "did you mean '1.0.0'?"),
        ({"validation__min_version": "^1.0.0"}, "InvalidVersion", "/validation/min_version", "range"),
        ({"validation__required_tools": "x"}, "WrongType", "/validation/required_tools", "list"),
        ({"example_input": 5}, "WrongType", "/example_input", "dictionary"),
        ({"servers": {"a": 5}}, "WrongType", "/servers/a", "string"),
        ({"nmae": "x"}, "UnknownKey", "/nmae", "did you mean 'name'?"),
    ],
)  # fmt: skip
@pytest.mark.req("WFL-18")
def test_a_wrong_template_is_refused_with_the_place_and_what_was_expected(
    changes: dict[str, Any], code: str, pointer: str, said: str
):
    (problem,) = problems_of(changed(**changes))
    assert (problem.code, problem.pointer) == (code, pointer)
    assert said in str(problem)
    assert problem.expected is not None


def test_everything_wrong_is_said_at_once():
    told = changed(id="X", metadata__category="none", validation__min_version="latest")
    assert {problem.pointer for problem in problems_of(told)} == {
        "/id",
        "/metadata/category",
        "/validation/min_version",
    }


@pytest.mark.parametrize("value", [None, 5, "text", [], [1], True])
def test_what_is_no_object_is_no_template(value: object):
    assert [problem.code for problem in problems_of(value)] == ["WrongType"]


def test_a_template_is_at_most_256_kib():
    room = MAX_BYTES - len(str(read_template(changed(composition={"x": ""})).to_json())) - 1000
    assert read_template(changed(composition={"x": "a" * room}))
    (problem,) = problems_of(changed(composition={"x": "a" * MAX_BYTES}))
    assert problem.code == "TemplateTooLarge"
    assert str(MAX_BYTES) in str(problem)


def test_what_is_not_json_is_refused_without_a_traceback():
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    for odd in (deep, {"a": float("nan")}, {"a": object()}, {"a": {1, 2}}):
        (problem,) = problems_of(changed(composition={"x": odd}))
        assert problem.code == "NotJson"


def test_a_template_read_from_a_file_has_its_lines():
    source = read(b'{"id": "a",\n "name": "A",\n "composition": {},\n "metadata": {"category": "x"}}', name="a.json")
    with pytest.raises(DocumentInvalid) as caught:
        read_template(source.value, source)
    assert [(one.file, one.line) for one in caught.value.problems] == [("a.json", 4)]


scraps = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.sampled_from([*SEED]), inner, max_size=4)
    ),
    max_leaves=10,
)


@given(scraps, st.sampled_from([*SEED, "example_input", "servers"]))
def test_anything_is_a_template_or_has_problems(scrap: Any, where: str):
    for value in (scrap, {**SEED, where: scrap}):
        try:
            template = read_template(value)
        except DocumentInvalid as error:
            told = error.problems
        else:
            told = [read_template(template.to_json()).to_json() == template.to_json()]
        assert all(told)
        assert told


def test_the_library_is_read_once_and_nobody_can_change_it():
    library = built_in()
    assert built_in() is library
    assert library["search-fold-store-v1"].required_tools == read_template(SEED).required_tools
    with pytest.raises(TypeError):
        library["x"] = library["search-fold-store-v1"]  # pyright: ignore[reportIndexIssue]  (that is the point)
