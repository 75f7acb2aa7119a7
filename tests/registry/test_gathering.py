"""Groups of a registry: what they name, held against what the registry has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.documents import PATTERNS
from tests.registry.registries import SOUND, Doc, found
from weft.app import load, problems_of
from weft.app.registries import content_of
from weft.gateway.sources import Loaded
from weft.ir.write import write

assert PATTERNS
PART: Doc = {"name": "__part", "spec": {"tool": {"name": "fetch"}}}
V1: Doc = {"schemaVersion": "1.0", "tools": [{"name": "fetch"}, PART]}


def with_groups(*groups: Doc, base: Doc = SOUND) -> Doc:
    return {**base, "groups": list(groups)}


def told(document: Doc) -> list[tuple[Any, ...]]:
    return [(one.code, one.severity, one.pointer, one.suggestion) for one in found(document)]


def test_a_group_of_what_there_is_has_no_problem():
    actions = {"get": "fetch", "look.at": "read", "again": "read"}
    assert told(with_groups({"name": "pages", "servers": ["web", "web@1.2.0"], "actions": actions})) == []


def test_a_tool_that_the_registry_does_not_have_is_a_warning_with_the_nearest():
    assert told(with_groups({"name": "pages", "actions": {"get": "fetsh"}})) == [
        ("UnknownName", "warning", "/groups/0/actions/get", "fetch")
    ]


def test_without_servers_any_of_them_may_have_the_tool():
    assert told(with_groups({"name": "pages", "servers": ["x"], "actions": {"a": "b"}}, base=V1)) == []


def test_a_server_that_the_registry_does_not_have_is_a_warning_with_the_nearest():
    assert told(with_groups({"name": "pages", "servers": ["wbe", "web@2.0.0"]})) == [
        ("UnknownName", "warning", "/groups/0/servers/0", "web"),
        ("UnknownName", "warning", "/groups/0/servers/1", "web@1.2.0"),
    ]


@pytest.mark.parametrize("base", [SOUND, V1])
def test_a_group_that_is_named_as_a_tool_is_an_error(base: Doc):
    assert told(with_groups({"name": "fetch", "tags": ["a"]}, base=base)) == [
        ("DuplicateName", "error", "/groups/0/name", None)
    ]


def test_a_part_of_other_compositions_is_never_an_action():
    (problem,) = found(with_groups({"name": "pages", "actions": {"a": "__part"}}, base=V1))
    assert (problem.code, problem.severity, problem.pointer) == ("UnknownName", "warning", "/groups/0/actions/a")


def test_the_line_of_a_warning_is_that_of_the_group(tmp_path: Path):
    text = write(with_groups({"name": "pages", "actions": {"get": "fetsh"}}), "yaml")
    (tmp_path / "registry.yaml").write_text(text)
    line = 1 + text.splitlines().index("    get: fetsh")
    assert [(one.code, one.line) for one in problems_of(load(tmp_path / "registry.yaml"))] == [("UnknownName", line)]


def test_a_registry_with_groups_brings_them_into_service():
    data = write(with_groups({"name": "pages", "servers": ["web"]}), "json").encode()
    content = content_of(Loaded(name="registry.json", data=data, format="json"))
    assert [one.name for one in content.document.groups] == ["pages"]


@pytest.mark.parametrize("key", ["title", "description"])
def test_characters_that_only_a_model_sees_are_told(key: str):
    assert told(with_groups({"name": "pages", "servers": ["web"], key: "Pages\u200b\U000e0041"})) == [
        ("HiddenText", "warning", f"/groups/0/{key}", None)
    ]
