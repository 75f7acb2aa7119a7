"""A registry in Python has exactly the problems that the same registry has as JSON, whoever looks."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import weft as w
from tests.registry.registries import FULL, SOUND, Doc, parsed, registry
from weft.app import problems_of
from weft.app.registries import content_of
from weft.cli import weft
from weft.dsl.registry_entities import RegisteredAgent, RegisteredSchema, RegisteredServer, RegisteredTool
from weft.errors import DocumentInvalid, Problem
from weft.gateway.sources import Loaded
from weft.registry.findings import Finding, Strictness

pytestmark = pytest.mark.req("REG-48")


@dataclass(frozen=True)
class Sound:
    """The sound registry of the other tests, in Python."""

    r: w.RegistryBuilder
    query: RegisteredSchema
    web: RegisteredServer
    fetch: RegisteredTool
    read: RegisteredTool
    reader: RegisteredAgent
    editor: RegisteredAgent


def sound() -> Sound:
    r = w.RegistryBuilder()
    query = r.schema("Query", "1.0.0", {"type": "object", "properties": {"q": {"type": "string"}}})
    page = r.schema("Page", "2.0.0", {"properties": {"of": query}})
    web = r.server("web", "1.2.0")
    r.tool("fetch", "1.0.0", source=web.tool("old_fetch"))
    fetch = r.tool("fetch", "1.2.3", source=web, input=page)
    read = r.tool(
        "read",
        "1.0.0",
        spec=w.pipeline(w.step(w.tool("fetch"), id="a"), w.step(w.agent("editor", "edit"), id="b")),
        depends=["fetch@1.2.3", "editor@1.0.0/edit"],
    )
    reader = r.agent("reader", "3.0.0", depends=[read])
    editor = r.agent("editor", "1.0.0", url="https://agents.example.com/e").skill("edit")
    return Sound(r, query, web, fetch, read, reader, editor)


def on(kind: str, name: str, version: str = "1.0.0", **more: str) -> Doc:
    return {"type": kind, "name": name, "version": version, **more}


def agent(name: str, *depends: Doc, **more: Any) -> Doc:
    extension = {"uri": "urn:agentgateway:sbom", "params": {"depends": list(depends)}}
    return {"name": name, "version": "1.0.0", "capabilities": {"extensions": [extension]}, **more}


def virtual(name: str, version: str = "1.0.0", server: str = "web", server_version: str = "1.2.0", **more: Any) -> Doc:
    source = {"server": server, "serverVersion": server_version, "tool": name, **more.pop("source", {})}
    return {"name": name, "version": version, "source": source, **more}


def composed(name: str, *steps: Doc, **more: Any) -> Doc:
    return {"name": name, "version": "1.0.0", "spec": spec(*steps), **more}


def spec(*steps: Doc, ids: str = "") -> Doc:
    """Return a pipeline with all that its builder writes."""
    names = list(ids) or [f"step_{at}" for at in range(len(steps))]
    inputs = [{"input": {"path": "$"}}, *({"step": {"stepId": name, "path": "$"}} for name in names)]
    operations = [one if "agent" in one else {"tool": one} for one in steps]
    written = zip(names, operations, inputs, strict=False)
    return {"pipeline": {"steps": [{"id": id, "operation": one, "input": given} for id, one, given in written]}}


Make = Callable[[Sound], object]
Entries = list[tuple[str, Doc]]
TEXT = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}


def circle_of_tools(s: Sound) -> None:
    b = s.r.tool("b", "1.0.0", spec=w.pipeline(w.tool("a")), depends=["a@1.0.0"])
    s.r.tool("a", "1.0.0", spec=w.pipeline(b))


def circle_of_agents(s: Sound) -> None:
    x = s.r.agent("x", "1.0.0").skill("do")
    y = s.r.agent("y", "1.0.0", depends=[x.ask("do")]).skill("do")
    x.depends_on(y.ask("do"))


def mixed_circle(s: Sound) -> None:
    x = s.r.agent("x", "1.0.0").skill("do")
    x.depends_on(s.r.tool("a", "1.0.0", spec=x.ask("do")))


def loop_of_schemas(s: Sound) -> None:
    one = s.r.schema("One", "1.0.0", {"$ref": "#Two:1.0.0"})
    s.r.schema("Two", "1.0.0", one)


CASES: dict[str, tuple[Make, Entries]] = {
    "nothing": (lambda s: None, []),
    "22 a duplicate schema": (
        lambda s: s.r.schema("Query", "1.0.0", {}), [("schemas", {"name": "Query", "version": "1.0.0", "schema": {}})]),
    "22 a duplicate server": (
        lambda s: s.r.server("web", "1.2.0"), [("servers", {"name": "web", "version": "1.2.0"})]),
    "22 a duplicate tool": (
        lambda s: s.r.tool("fetch", "1.0.0", source=s.web), [("tools", virtual("fetch"))]),
    "22 a duplicate agent": (
        lambda s: s.r.agent("editor", "1.0.0"), [("agents", {"name": "editor", "version": "1.0.0"})]),
    "24 a server that there is not": (
        lambda s: s.r.tool("t", "1.0.0", source="wbe@1.2.0"), [("tools", virtual("t", server="wbe"))]),
    "25 a version of a server that there is not": (
        lambda s: s.r.tool("t", "1.0.0", source="web@1.3.0"), [("tools", virtual("t", server_version="1.3.0"))]),
    "25 a tool that its server does not provide": (
        lambda s: s.r.tool("t", "1.0.0", source="web@1.2.0"), [("tools", virtual("t"))]),
    "26 a provided tool that nobody registered": (
        lambda s: s.r.server("s", "1.0.0", provides=["fecth@1.0.0", "fetch@9.0.0"]),
        [("servers", {"name": "s", "version": "1.0.0", "provides": [
            {"tool": "fecth", "version": "1.0.0"}, {"tool": "fetch", "version": "9.0.0"}]})]),
    "27 a tool that there is not": (
        lambda s: s.r.agent("x", "1.0.0", depends=["reed@1.0.0"]), [("agents", agent("x", on("tool", "reed")))]),
    "27 a version that there is not": (
        lambda s: s.r.agent("x", "1.0.0", depends=["fetch@1.2.4"]),
        [("agents", agent("x", on("tool", "fetch", "1.2.4")))]),
    "27 an agent that there is not": (
        lambda s: s.r.agent("x", "1.0.0", depends=["editr@1.0.0/edit"]),
        [("agents", agent("x", on("agent", "editr", skill="edit")))]),
    "27 a schema that there is not": (
        lambda s: s.r.agent("x", "1.0.0", depends=["#Qery:1.0.0"]), [("agents", agent("x", on("schema", "Qery")))]),
    "27 a tool of another registry": (
        lambda s: s.r.agent("x", "1.0.0", depends=[w.RegistryBuilder().tool("far", "1.0.0", source="a@1.0.0")]),
        [("agents", agent("x", on("tool", "far")))]),
    "28 a skill that there is not": (
        lambda s: s.r.agent("x", "1.0.0", depends=[s.editor.ask("edti")]),
        [("agents", agent("x", on("agent", "editor", skill="edti")))]),
    "28 a skill that there is not in a spec": (
        lambda s: s.r.tool("t", "1.0.0", spec=w.pipeline(s.editor.ask("edti"))),
        [("tools", composed("t", {"agent": {"name": "editor", "skill": "edti", "version": "1.0.0"}},
                            depends=[on("agent", "editor", skill="edti")]))]),
    "29 a circle of tools": (circle_of_tools, [
        ("tools", composed("b", {"name": "a"}, depends=[on("tool", "a")])),
        ("tools", composed("a", {"name": "b", "version": "1.0.0"}, depends=[on("tool", "b")]))]),
    "29 a circle of agents": (circle_of_agents, [
        ("agents", agent("x", on("agent", "y", skill="do"), skills=[{"id": "do"}])),
        ("agents", agent("y", on("agent", "x", skill="do"), skills=[{"id": "do"}]))]),
    "29 a circle of both": (mixed_circle, [
        ("tools", {"name": "a", "version": "1.0.0", "depends": [on("agent", "x", skill="do")],
                   "spec": {"agent": {"name": "x", "skill": "do", "version": "1.0.0"}}}),
        ("agents", agent("x", on("tool", "a"), skills=[{"id": "do"}]))]),
    "29 a tool that calls itself": (
        lambda s: s.r.tool("a", "1.0.0", spec=w.pipeline(w.tool("a")), depends=["a@1.0.0"]),
        [("tools", composed("a", {"name": "a"}, depends=[on("tool", "a")]))]),
    "30 a $ref that leads nowhere": (
        lambda s: s.r.tool("t", "1.0.0", spec=w.pipeline(s.fetch), input="#Pgae:2.0.0"),
        [("tools", composed("t", {"name": "fetch", "version": "1.2.3"}, depends=[on("tool", "fetch", "1.2.3")],
                            inputSchema={"$ref": "#Pgae:2.0.0"}))]),
    "30 a $ref to a version that there is not": (
        lambda s: s.r.agent("x", "1.0.0").skill("do", output={"items": {"$ref": "#Page:9.9.9"}}),
        [("agents", {"name": "x", "version": "1.0.0", "skills": [
            {"id": "do", "outputSchema": {"items": {"$ref": "#Page:9.9.9"}}}]})]),
    "30 a loop of schemas": (loop_of_schemas, [
        ("schemas", {"name": "One", "version": "1.0.0", "schema": {"$ref": "#Two:1.0.0"}}),
        ("schemas", {"name": "Two", "version": "1.0.0", "schema": {"$ref": "#One:1.0.0"}})]),
    "35 names that differ in capitals": (
        lambda s: s.r.agent("Editor", "1.0.0"), [("agents", {"name": "Editor", "version": "1.0.0"})]),
    "37 nothing declared": (
        lambda s: s.r.tool("t", "1.0.0", spec=w.pipeline(w.tool("read"))),
        [("tools", composed("t", {"name": "read"}))]),
    "37 not all declared, and something else": (
        lambda s: s.r.tool("t", "1.0.0", spec=w.pipeline(w.tool("read"))).depends_on(s.fetch),
        [("tools", composed("t", {"name": "read"}, depends=[on("tool", "fetch", "1.2.3")]))]),
    "37 a step that nobody has": (
        lambda s: s.r.tool("t", "1.0.0", spec=w.pipeline(w.tool("nowhere"))),
        [("tools", composed("t", {"name": "nowhere"}))]),
    "37 a version in a spec that there is not": (
        lambda s: s.r.tool("t", "1.0.0", spec=w.pipeline(w.tool("fetch", version="^1"))),
        [("tools", composed("t", {"name": "fetch", "version": "^1"}))]),
    "38 a hidden field that is required, and a default that does not fit": (
        lambda s: s.r.tool("t", "1.0.0", input=TEXT, source=s.web.tool("t", hide_fields=["q"]))
        and s.r.tool("u", "1.0.0", input=TEXT, source=s.web.tool("u", defaults={"q": 7})),
        [("tools", virtual("t", inputSchema=TEXT, source={"hideFields": ["q"]})),
         ("tools", virtual("u", inputSchema=TEXT, source={"defaults": {"q": 7}})),
         ("provides", {"tool": "t", "version": "1.0.0"}), ("provides", {"tool": "u", "version": "1.0.0"})]),
    "40 a private address": (
        lambda s: s.r.agent("x", "1.0.0", url="http://10.1.2.3/x"),
        [("agents", {"name": "x", "version": "1.0.0", "url": "http://10.1.2.3/x"})]),
    "43 hidden text": (
        lambda s: s.r.agent("x", "1.0.0", description="Nice\U000e0041"),
        [("agents", {"name": "x", "version": "1.0.0", "description": "Nice\U000e0041"})]),
    "the use of what is deprecated": (
        lambda s: s.r.agent("x", "1.0.0", depends=[
            s.r.tool("t", "1.0.0", spec=w.pipeline(s.fetch), deprecated=True, deprecation_message="use read")]),
        [("tools", composed("t", {"name": "fetch", "version": "1.2.3"}, depends=[on("tool", "fetch", "1.2.3")],
                            deprecated=True, deprecationMessage="use read")),
         ("agents", agent("x", on("tool", "t")))]),
    "a schema that nobody uses": (
        lambda s: s.r.schema("Lone", "1.0.0", {"items": s.query}),
        [("schemas", {"name": "Lone", "version": "1.0.0", "schema": {"items": {"$ref": "#Query:1.0.0"}}})]),
    "a type that does not fit": (
        lambda s: s.r.tool("t", "1.0.0", spec=w.pipeline(s.r.tool("n", "1.0.0", spec=w.pipeline(s.fetch), output=int),
                                                         s.r.tool("m", "1.0.0", spec=w.pipeline(s.fetch), input=str))),
        [("tools", composed("n", {"name": "fetch", "version": "1.2.3"}, depends=[on("tool", "fetch", "1.2.3")],
                            outputSchema={"type": "integer"})),
         ("tools", composed("m", {"name": "fetch", "version": "1.2.3"}, depends=[on("tool", "fetch", "1.2.3")],
                            inputSchema={"type": "string"})),
         ("tools", composed("t", {"name": "n", "version": "1.0.0"}, {"name": "m", "version": "1.0.0"},
                            depends=[on("tool", "n"), on("tool", "m")]))]),
}  # fmt: skip


def document_of(entries: Entries) -> Doc:
    """Return the sound registry as JSON, with more in it."""

    def change(document: Doc) -> None:
        agent = {"agent": {"name": "editor", "skill": "edit"}}
        document["tools"][2]["spec"] = spec({"name": "fetch"}, agent, ids="ab")
        for section, entry in entries:
            (document["servers"][0]["provides"] if section == "provides" else document[section]).append(entry)

    return registry(change)


def told(problems: list[Problem]) -> list[Doc]:
    """Return all of problems but their files and lines, which nobody could have in common."""
    return [{**one.to_json(), "file": None, "line": None, "column": None} for one in problems]


def ordered(problems: list[Doc]) -> list[Doc]:
    return sorted(problems, key=lambda one: json.dumps(one, sort_keys=True))


STRICT = [FULL, Strictness("warn", "error", "error"), Strictness("ignore", "ignore", "ignore")]


@pytest.mark.req("REG-19", "REG-20", "REG-21", "REG-22", "REG-23", "REG-24", "REG-25", "REG-26", "REG-28")
@pytest.mark.parametrize("severities", STRICT, ids=["full", "other", "lenient"])
@pytest.mark.parametrize("case", CASES)
def test_a_registry_in_python_and_the_same_as_json_have_the_same_problems(case: str, severities: Strictness):
    make, entries = CASES[case]
    s = sound()
    make(s)
    # Problems stand in the order of the text, and canonical text may have its keys in another one.
    expected = ordered(told(problems_of(parsed(document_of(entries)), severities=severities)))
    assert ordered(told(s.r.problems(severities=severities))) == expected
    assert expected != [] or case == "nothing" or severities is not FULL


def test_the_sound_registry_is_the_same_in_python_and_as_json():
    assert parsed(sound().r.to_json()).document == parsed(document_of([])).document
    assert {one["name"] for one in sound().r.to_json()["tools"]} == {one["name"] for one in SOUND["tools"]}


def test_an_agent_inside_is_a_problem_unless_egress_allows_it():
    s = sound()
    s.r.agent("x", "1.0.0", url="http://10.1.2.3/x")
    assert [one.code for one in s.r.problems()] == ["PrivateAddress"]
    assert s.r.problems(allow=["10.0.0.0/8"]) == []


@pytest.mark.parametrize("finding", ["error", "warn", "ignore"])
def test_severities_decide_whether_a_registry_is_valid(finding: Finding):
    s = sound()
    s.r.agent("x", "1.0.0", depends=["reed@1.0.0"])
    severities = Strictness(missing_entity=finding)
    if finding == "error":
        with pytest.raises(DocumentInvalid):
            s.r.validate(severities=severities)
    else:
        assert s.r.validate(severities=severities).document.agents[2].name == "x"


BROKEN = """
import weft as w

r = w.RegistryBuilder()
web = r.server("web", "1.2.0")
fetch = r.tool("fetch", "1.0.0", source=web, input="#Pgae:1.0.0")
r.tool("a", "1.0.0", spec=w.pipeline(w.tool("b")), depends=["b@1.0.0"])
r.tool("b", "1.0.0", spec=w.pipeline(w.tool("a")), depends=["a@1.0.0"])
r.agent("reader", "1.0.0", depends=["fecth@1.0.0", fetch])
r.agent("reader", "1.0.0")
"""


def test_weft_validate_and_the_gateway_tell_the_same_of_a_registry_in_python_and_as_json(tmp_path: Path):
    python, text = tmp_path / "registry.py", tmp_path / "registry.json"
    python.write_text(BROKEN)
    space: dict[str, Any] = {}
    exec(BROKEN, space)
    text.write_text(json.dumps(space["r"].to_json()))
    results = [CliRunner().invoke(weft, ["validate", "--json", str(file)]) for file in (python, text)]
    assert [one.exit_code for one in results] == [2, 2]
    by_python, by_json = (_without_places(json.loads(one.stdout)["errors"]) for one in results)
    assert by_python == by_json
    assert [one["code"] for one in by_json] == ["UnknownRef", "Cycle", "UnknownName", "DuplicateName"]
    lines = [one["line"] for one in json.loads(results[0].stdout)["errors"]]
    assert lines == [6, 7, 9, 10]
    for file in (python, text):
        with pytest.raises(DocumentInvalid) as caught:
            content_of(Loaded(name=str(file), data=file.read_bytes(), path=file))
        errors = [one.to_json() for one in caught.value.problems if one.severity == "error"]
        assert _without_places(errors) == by_json


def _without_places(problems: list[Doc]) -> list[Doc]:
    return [{key: value for key, value in one.items() if key not in ("file", "line", "column")} for one in problems]
