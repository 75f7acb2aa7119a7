"""Groups in documents: one canonical form in both versions, and what is told of those that are wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.documents import canonical, problems_of
from weft.app.groups import registry_groups
from weft.expr.schemas import compile_schema
from weft.groups.rule import GroupRule
from weft.ir.document import Document
from weft.ir.normalise import parse
from weft.ir.read import read, read_file
from weft.ir.schema import json_schema
from weft.ir.write import write

Doc = dict[str, Any]
GROUP: Doc = {"name": "research", "include": ["search_*"], "actions": {"web.find": "search"}}


def document(*given: Any, version: str = "1.0") -> Doc:
    return {"schemaVersion": version, "groups": list(given)}


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_a_group_stands_in_documents_of_both_versions(version: str):
    written = document(GROUP, version=version)
    assert canonical(written) == written
    assert compile_schema(json_schema()).problems(written) == []


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_a_group_comes_back_from_its_text_as_it_was(form: Any):
    made = parse(read(write(document(GROUP), form), format=form))
    assert made.problems == ()
    assert made.document.to_ir() == document(GROUP)


def test_snake_case_null_and_what_is_empty_are_other_spellings():
    spelt: Doc = {
        **GROUP,
        "keep_tools": True,
        "exclude_tags": [],
        "title": None,
        "response": {"max_items": 3},
        "$why": 1,
    }
    assert canonical({"groups": [spelt]}) == document({**GROUP, "keepTools": True, "response": {"maxItems": 3}})


def test_groups_stand_behind_the_entities():
    tool = {"name": "t", "version": "1.0.0", "spec": {"tool": {"name": "a"}}}
    made = canonical({"groups": [GROUP], "tools": [tool], "schemaVersion": "2.0"})
    assert list(made) == ["schemaVersion", "tools", "groups"]


def test_what_a_group_leaves_out_is_as_the_rule_has_it():
    found = registry_groups(Document.model_validate(document({"name": "a", "tags": ["x"]})))
    assert found == (GroupRule(name="a", tags=frozenset({"x"})),)


WRONG: dict[str, tuple[Doc, str, str, str | None]] = {
    "no name": ({"tags": ["a"]}, "MissingKey", "/groups/0", None),
    "a name with a blank": ({"name": "a b", "tags": ["a"]}, "InvalidName", "/groups/0/name", None),
    "a name that ends in a line break": ({"name": "a\n", "tags": ["a"]}, "InvalidName", "/groups/0/name", None),
    "a reserved name": ({"name": "__a", "tags": ["a"]}, "InvalidName", "/groups/0/name", None),
    "nothing gathered": ({"name": "a", "exclude": ["b"]}, "MissingKey", "/groups/0", None),
    "an unknown key": ({**GROUP, "inclde": ["b"]}, "UnknownKey", "/groups/0/inclde", "include"),
    "a version": ({**GROUP, "version": "1.0.0"}, "UnknownKey", "/groups/0/version", None),
    "middleware": ({**GROUP, "middleware": []}, "UnknownKey", "/groups/0/middleware", None),
    "an empty glob": ({**GROUP, "exclude": [""]}, "InvalidGlob", "/groups/0/exclude/0", None),
    "a wrong key of an action": ({**GROUP, "actions": {".a": "t"}}, "InvalidName", "/groups/0/actions/.a", None),
    "an action that is too long": (
        {**GROUP, "actions": {"a" * 129: "t"}}, "InvalidName", f"/groups/0/actions/{'a' * 129}", None),
    "an action without a tool": ({**GROUP, "actions": {"a": ""}}, "WrongValue", "/groups/0/actions/a", None),
    "a field of weft's own": ({**GROUP, "discriminator": "_a"}, "InvalidName", "/groups/0/discriminator", None),
    "an unknown format": ({**GROUP, "format": "markdwn"}, "WrongValue", "/groups/0/format", "markdown"),
    "an unknown detail": ({**GROUP, "detail": "ful"}, "WrongValue", "/groups/0/detail", "full"),
    "a limit of nothing": ({**GROUP, "response": {"maxText": 0}}, "WrongValue", "/groups/0/response/maxText", None),
    "a size as text": ({**GROUP, "response": {"maxBytes": "1KiB"}}, "WrongType", "/groups/0/response/maxBytes", None),
}  # fmt: skip


@pytest.mark.parametrize(("group", "code", "pointer", "suggestion"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_told_with_its_place(group: Doc, code: str, pointer: str, suggestion: str | None):
    (problem,) = problems_of(document(group))
    assert (problem.code, problem.pointer, problem.suggestion) == (code, pointer, suggestion)
    assert problem.expected


NEEDS_A_COMPILER = {"an empty glob", "a reserved name", "a wrong key of an action", "an action that is too long"}


@pytest.mark.parametrize("reason", sorted(WRONG.keys() - NEEDS_A_COMPILER))
def test_the_schema_refuses_it_as_well(reason: str):
    assert not compile_schema(json_schema()).accepts(document(WRONG[reason][0]))


def test_groups_are_a_list():
    (problem,) = problems_of({"groups": {"research": {"tags": ["a"]}}})
    assert (problem.code, problem.pointer) == ("WrongType", "/groups")


def test_one_wrong_group_hides_neither_another_nor_the_tools():
    made = parse(read(json.dumps({"tools": [{"name": "t"}], "groups": [{"name": "a"}, GROUP, {"name": "b"}]})))
    assert [one.pointer for one in made.problems] == ["/groups/0", "/groups/2"]
    assert [one.name for one in made.document.groups] == ["research"]
    assert [one.name for one in made.document.tools] == ["t"]


def test_a_document_brings_the_groups_of_the_files_that_it_includes_each_name_once(tmp_path: Path):
    (tmp_path / "more.yaml").write_text("groups: [{name: research, tags: [a]}, {name: other, tags: [b]}]\n")
    (tmp_path / "main.yaml").write_text("$include: more.yaml\ngroups: [{name: research, tags: [c]}]\n")
    made = parse(read_file(tmp_path / "main.yaml"), folder=tmp_path)
    assert [(one.name, one.tags) for one in made.document.groups] == [("research", ["c"]), ("other", ["b"])]
    (problem,) = made.problems
    assert (problem.code, problem.file, problem.pointer) == (
        "DuplicateName", str(tmp_path / "more.yaml"), "/groups/0/name",
    )  # fmt: skip
    assert "main.yaml: /groups/0" in problem.message
