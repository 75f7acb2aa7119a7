"""Several versions of one tool, side by side: which one is meant, by whom, and that each can be called."""

from __future__ import annotations

from typing import Any

import pytest

from tests.documents import PATTERNS
from tests.registry.registries import Doc, parsed
from weft.app import local, problems_of
from weft.app.documents import snapshot_of
from weft.errors import NotFound
from weft.ir.versions import is_exact, precedence
from weft.ports import Invoke, ToolRef, ToolType

assert PATTERNS


class Server:
    """An upstream whose tools say which server and name they were asked for by."""

    def bind(self, ref: ToolRef) -> Invoke | None:
        async def call(arguments: Any, _call: Any) -> Any:
            return str(ref)

        return call

    def describe(self, ref: ToolRef) -> ToolType | None:
        return None

    def names(self) -> list[str]:
        return []


def sourced(version: str) -> Doc:
    return {"name": "fetch", "version": version, "source": {"server": "s", "serverVersion": version, "tool": "f"}}


def composed(name: str, spec: Any, *depends: str) -> Doc:
    made: Doc = {"name": name, "version": "1.0.0", "spec": spec}
    if depends:
        made["depends"] = [{"type": "tool", "name": "fetch", "version": version} for version in depends]
    return made


def registry(*tools: Doc) -> Doc:
    return {"schemaVersion": "2.0", "tools": [sourced("1.2.3"), sourced("1.10.0"), sourced("2.0.0-rc.1"), *tools]}


@pytest.mark.req("REG-3")
@pytest.mark.parametrize(
    ("name", "server"),
    [
        ("fetch", "s:f@2.0.0-rc.1"),
        ("fetch@1.2.3", "s:f@1.2.3"),
        ("fetch@1.10.0", "s:f@1.10.0"),
        ("newest", "s:f@2.0.0-rc.1"),
        ("exact", "s:f@1.2.3"),
        ("pinned", "s:f@1.10.0"),
        ("exact_beats_pin", "s:f@1.2.3"),
        ("told", ["s:f@1.10.0"]),
    ],
)
async def test_a_name_means_the_version_given_or_depended_on_or_the_newest(name: str, server: Any):
    document = registry(
        composed("newest", {"tool": "fetch"}),
        composed("exact", {"tool": {"name": "fetch", "version": "1.2.3"}}),
        composed("pinned", {"tool": "fetch"}, "1.10.0"),
        composed("exact_beats_pin", {"tool": {"name": "fetch", "version": "1.2.3"}}, "1.2.3", "1.10.0"),
        composed("told", {"recipientList": {"recipients": {"path": "$.to"}, "allowed": ["fetch"]}}, "1.10.0"),
    )
    engine = local(parsed(document).resolved, Server())
    assert await engine.execute(name, {"to": ["fetch"]}) == server


@pytest.mark.req("REG-3")
def test_a_snapshot_has_every_version_and_names_those_that_there_are():
    snapshot = snapshot_of(parsed(registry()), Server())
    assert list(snapshot.tools) == ["fetch", "fetch@1.2.3", "fetch@1.10.0", "fetch@2.0.0-rc.1"]
    assert snapshot.tools["fetch"] is snapshot.tools["fetch@2.0.0-rc.1"]
    with pytest.raises(NotFound):
        snapshot.step("fetch@9.9.9")


@pytest.mark.req("REG-3")
def test_a_bare_name_of_several_versions_is_a_warning_unless_depends_says_which():
    document = registry(composed("open", {"tool": "fetch"}), composed("closed", {"tool": "fetch"}, "1.2.3"))
    problems = [one for one in problems_of(parsed(document)) if one.code == "AmbiguousVersion"]
    assert [(one.severity, one.pointer) for one in problems] == [("warning", "/tools/3/spec/tool")]
    assert "the newest, 2.0.0-rc.1" in problems[0].message


def test_a_version_that_a_tool_does_not_have_is_an_error_with_those_that_it_has():
    document = registry(composed("c", {"tool": {"name": "fetch", "version": "1.2.4"}}))
    problem = next(one for one in problems_of(parsed(document)) if one.severity == "error")
    assert (problem.code, problem.pointer) == ("UnknownVersion", "/tools/3/spec/tool/version")
    assert problem.message == "Tool 'fetch' has no version '1.2.4': there is 2.0.0-rc.1, 1.10.0, 1.2.3"


async def test_a_version_that_is_missing_is_never_replaced_by_another():
    document = parsed(registry(composed("c", {"tool": "fetch"}, "7.0.0"))).resolved
    engine = local(document, Server())
    with pytest.raises(NotFound) as caught:
        await engine.execute("c", {})
    assert "fetch@7.0.0" in str(caught.value)


@pytest.mark.req("REG-4", "REG-18", "REG-65")
@pytest.mark.parametrize(
    ("version", "why"),
    [
        ("1", "three numbers"),
        ("1.0", "three numbers"),
        ("v1.0.0", "without the 'v'"),
        ("01.0.0", "not an exact version"),
        ("^1.0.0", "a range"),
        ("~1.0.0", "a range"),
        (">=1", "a range"),
        ("1.x.0", "a range"),
        ("*", "a range"),
        ("latest", "another one tomorrow"),
        ("", "not an exact version"),
        ("1.0.0\n", "not an exact version"),
        ("1.0.0-01", "not an exact version"),
        ("\u0661.0.0", "not an exact version"),
        ("1." + "0" * 100 + ".0", "not an exact version"),
        (1.0, "quote it"),
    ],
)
def test_21_only_exact_versions_are_taken_anywhere(version: Any, why: str):
    call = {"tool": {"name": "fetch", "version": version if isinstance(version, str) else "*"}}
    document: Doc = {
        "schemaVersion": "2.0",
        "schemas": [{"name": "S", "version": version, "schema": {}}],
        "servers": [{"name": "s", "version": version, "provides": [{"tool": "t", "version": version}]}],
        "tools": [
            {**sourced("1.0.0"), "version": version},
            {**sourced("1.0.1"), "source": {"server": "s", "serverVersion": version, "tool": "t"}},
            composed("c", {"tool": "x"}, version),
            composed("d", call),
        ],
        "agents": [{"name": "a", "version": version}],
    }
    found = {one.pointer: one for one in problems_of(parsed(document)) if one.code == "InvalidVersion"}
    places = ["/agents/0/version", "/schemas/0/version", "/servers/0/provides/0/version", "/servers/0/version",
              "/tools/0/version", "/tools/1/source/serverVersion", "/tools/2/depends/0/version"]  # fmt: skip
    assert set(places) <= found.keys()
    assert all(why in found[place].message for place in places)
    assert all(found[place].expected == "an exact version such as 1.0.0" for place in places)
    assert "/tools/3/spec/tool/version" in found


@pytest.mark.req("REG-4")
def test_versions_are_ordered_as_semver_orders_them():
    ordered = ["1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11",
               "1.0.0-rc.1", "1.0.0", "1.2.0", "1.10.0", "2.0.0"]  # fmt: skip
    assert all(map(is_exact, ordered))
    assert [*map(precedence, ordered)] == sorted({*map(precedence, ordered)})
    assert precedence(None) < precedence("anything") < precedence("0.0.0")
