"""Groups in weft.yaml: what they may say, and what is told of those that say something wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from weft.app.groups import groups_of
from weft.app.middleware import Kept
from weft.app.specs import naming_of
from weft.config.schema import json_schema
from weft.errors import DocumentInvalid
from weft.groups.rule import GroupRule, ResponseRule

from .written import loaded, refused

SERVERS = "servers: {documents: {command: [x]}, search@2.0.0: {command: [y]}}\n"
VIEWS = "views: {small: {}}\n"
WHOLE = """\
groups:
  documents:
    title: Documents
    description: Reads and writes.
    include: ["doc_*"]
    exclude: ["*_raw"]
    servers: [documents, search, search@2.0.0]
    tags: [read]
    excludeTags: [beta]
    actions: {find: doc_search, text.find: doc_search}
    discriminator: operation
    format: toon
    detail: brief
    keepTools: true
    views: [small]
    response: {select: false, maxItems: 20, maxText: 500, maxBytes: 4KiB}
"""


def rules(folder: Path, text: str) -> tuple[GroupRule, ...]:
    return groups_of(loaded(folder, SERVERS + text))


def test_a_group_becomes_the_rule_that_says_the_same(tmp_path: Path):
    assert rules(tmp_path, VIEWS + WHOLE) == (
        GroupRule(
            name="documents",
            title="Documents",
            description="Reads and writes.",
            include=("doc_*",),
            exclude=("*_raw",),
            servers=("documents", "search", "search@2.0.0"),
            tags=frozenset({"read"}),
            exclude_tags=frozenset({"beta"}),
            actions={"find": "doc_search", "text.find": "doc_search"},
            discriminator="operation",
            format="toon",
            detail="brief",
            views=("small",),
            keep_tools=True,
            response=ResponseRule(select=False, max_items=20, max_text=500, max_bytes=4096),
        ),
    )


def test_what_a_group_does_not_say_is_as_the_rule_has_it(tmp_path: Path):
    assert rules(tmp_path, "groups: {a: {include: ['*']}}") == (GroupRule(name="a", include=("*",)),)


@pytest.mark.parametrize("name", ["A-b_c.1", "x" * 64])
def test_a_group_may_be_named_as_a_tool_of_mcp_may_be(tmp_path: Path, name: str):
    assert rules(tmp_path, f"groups: {{{name}: {{tags: [a]}}}}")[0].name == name


@pytest.mark.parametrize("name", ["a b", "a/b", "'é'", "x" * 65, "''", "__a"])
def test_another_name_is_refused(tmp_path: Path, name: str):
    (problem,) = refused(tmp_path, f"groups: {{{name}: {{tags: [a]}}}}")
    assert (problem.code, problem.line) == ("InvalidName", 1)
    assert problem.value
    assert problem.expected


@pytest.mark.parametrize("written", ["{}", "{exclude: [a], excludeTags: [b]}", "{include: [], actions: {}}"])
def test_a_group_that_gathers_nothing_is_refused(tmp_path: Path, written: str):
    (problem,) = refused(tmp_path, f"groups:\n  a: {written}\n")
    assert (problem.code, problem.pointer, problem.line) == ("MissingKey", "/groups/a", 2)
    assert problem.expected == "at least one of include, servers, tags, actions"


def test_a_server_that_there_is_not_is_refused_with_the_nearest(tmp_path: Path):
    problems = refused(tmp_path, f"{SERVERS}groups: {{a: {{servers: [document, 'search@3.0.0', documents]}}}}")
    assert [(one.code, one.pointer, one.value, one.suggestion) for one in problems] == [
        ("UnknownServer", "/groups/a/servers/0", "'document'", "documents"),
        ("UnknownServer", "/groups/a/servers/1", "'search@3.0.0'", "search@2.0.0"),
    ]
    assert {one.line for one in problems} == {2}
    assert problems[0].expected == "one of documents, search, search@2.0.0"


def test_without_servers_no_group_can_have_one(tmp_path: Path):
    (problem,) = refused(tmp_path, "groups: {a: {servers: [b]}}")
    assert (problem.code, problem.expected) == ("UnknownServer", "a server, of which there are none")


WRONG: dict[str, tuple[str, str, str, str | None]] = {
    "an unknown key": ("{include: [a], exlude: [b]}", "UnknownKey", "/exlude", "exclude"),
    "a glob that matches nothing": ("{include: ['']}", "InvalidGlob", "/include/0", None),
    "a glob that is no list": ("{include: a}", "WrongType", "/include", None),
    "a key with an empty part": ("{actions: {a..b: t}}", "InvalidName", "/actions/a..b", None),
    "a key with a blank": ("{actions: {a b: t}}", "InvalidName", "/actions/a b", None),
    "a tool without a name": ("{actions: {a: ''}}", "WrongValue", "/actions/a", None),
    "a tool that is a number": ("{actions: {a: 1}}", "WrongType", "/actions/a", None),
    "two actions of one key": ("{actions: {a: t, a: u}}", "DuplicateKey", "/actions", None),
    "a discriminator of weft's own": ("{tags: [a], discriminator: _do}", "InvalidName", "/discriminator", None),
    "a discriminator with a dot": ("{tags: [a], discriminator: a.b}", "InvalidName", "/discriminator", None),
    "an unknown format": ("{tags: [a], format: tone}", "WrongValue", "/format", "toon"),
    "an unknown detail": ("{tags: [a], detail: breif}", "WrongValue", "/detail", "brief"),
    "a tag of blanks": ("{tags: [' ']}", "WrongValue", "/tags/0", None),
    "a limit of nothing": ("{tags: [a], response: {maxItems: 0}}", "WrongValue", "/response/maxItems", None),
    "a size that is none": ("{tags: [a], response: {maxBytes: 4KX}}", "SizeInvalid", "/response/maxBytes", None),
    "an unknown key of the response": ("{tags: [a], response: {maxItem: 1}}", "UnknownKey", "/response/maxItem",
                                       "maxItems"),
    "middleware for some tools": ("{tags: [a], middleware: [{use: timed, tools: [b]}]}", "WrongKey",
                                  "/middleware/0/tools", None),
}  # fmt: skip


@pytest.mark.parametrize(("written", "code", "pointer", "suggestion"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_told_with_its_place(
    tmp_path: Path, written: str, code: str, pointer: str, suggestion: str | None
):
    (problem,) = refused(tmp_path, f"groups:\n  g: {written}\n")
    assert (problem.code, problem.suggestion, problem.line) == (code, suggestion, 2)
    assert problem.pointer.startswith(f"/groups/g{pointer}")
    assert problem.expected


def test_everything_wrong_is_told_in_one_run(tmp_path: Path):
    text = "groups:\n  a b: {discriminator: _x, servers: [s]}\n  c: {format: x}\n"
    told = {(one.code, one.pointer) for one in refused(tmp_path, text)}
    assert told == {
        ("InvalidName", "/groups/a b"),
        ("InvalidName", "/groups/a b/discriminator"),
        ("UnknownServer", "/groups/a b/servers/0"),
        ("MissingKey", "/groups/c"),
        ("WrongValue", "/groups/c/format"),
    }


def test_the_schema_of_weft_yaml_takes_groups():
    schema = jsonschema_rs.validator_for(json_schema())
    given: dict[str, Any] = {"include": ["*"], "actions": {"a.b": "t"}, "response": {"maxBytes": "4KiB"}}
    assert schema.is_valid({"groups": {"a": given}, "views": {"flat": {"groups": False}}})
    assert not schema.is_valid({"groups": {"a": {**given, "discriminator": "_a"}}})
    assert not schema.is_valid({"groups": {"a": {**given, "exlude": []}}})


def test_a_view_may_show_the_tools_of_groups_themselves(tmp_path: Path):
    views = naming_of(loaded(tmp_path, "views: {flat: {groups: false}, usual: {}}")).views
    assert (views["flat"].grouped, views["usual"].grouped) == (False, True)


OWN = "import weft\n\nasync def mine(call, next):\n    return await next(call)\n"
GUARDED = "groups: {a: {tags: [x], middleware: [{use: 'guards_of_a:mine'}, {use: rateLimited, perSecond: 5}]}}"


def test_the_middleware_of_a_group_is_made_once_and_stays_while_its_settings_do(tmp_path: Path):
    (tmp_path / "guards_of_a.py").write_text(OWN)
    kept = Kept()
    (before,) = groups_of(loaded(tmp_path, GUARDED), kept=kept)
    (after,) = groups_of(loaded(tmp_path, GUARDED), kept=kept)
    (other,) = groups_of(loaded(tmp_path, GUARDED.replace("5", "6")), kept=kept)
    assert len(before.middleware) == 2
    assert after.middleware == before.middleware
    assert (other.middleware[0], other.middleware[1] == before.middleware[1]) == (before.middleware[0], False)


def test_functions_of_middleware_that_are_not_there_are_told_for_all_groups_at_once(tmp_path: Path):
    text = (
        "groups:\n  a: {tags: [x], middleware: [{use: 'no_such:a'}]}\n  b: {tags: [x], middleware: [{use: 'none:b'}]}\n"
    )
    with pytest.raises(DocumentInvalid) as caught:
        groups_of(loaded(tmp_path, text))
    assert [(one.pointer, one.line) for one in caught.value.problems] == [
        ("/groups/a/middleware/0/use", 2),
        ("/groups/b/middleware/0/use", 3),
    ]
