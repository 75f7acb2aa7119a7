"""Registries in Python: the same JSON that a person would write, and mistakes told at the line that makes them."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any, TypedDict

import pytest
import yaml

import weft as w
from tests.documents import canonical, fixture
from tests.registry.registries import SOUND, Doc, parsed
from weft.app import load, local
from weft.errors import DocumentInvalid, Problem
from weft.ir.entities import SBOM

pytestmark = pytest.mark.req("REG-48")


def everything() -> w.RegistryBuilder:
    """Return the registry of everything-registry.json, with objects for its references."""
    r = w.RegistryBuilder()
    body = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
    query = r.schema(
        "Query", "1.0.0", body, description="What is looked for", deprecated=True, deprecation_message="use 1.1.0",
        metadata={"owner": "search"},
    )  # fmt: skip
    newer = r.schema("Query", "1.1.0", {"allOf": [query, {"properties": {"limit": {"type": "integer"}}}]})
    backend = r.server(
        "search-backend", "2.0.0", description="Searches", deprecated=False, deprecation_message="",
        metadata={"team": "a"},
    )  # fmt: skip
    find = backend.tool("find")
    r.tool("search", "1.0.0", source=find, input=query, deprecated=True, deprecation_message="use 1.1.0")
    search = r.tool("search", "1.1.0", source=find, input=newer)
    research = (
        r.agent(
            "research-agent", "2.1.0", description="Looks things up", url="https://agents.example.com/research",
            protocol_version="0.3.0", default_input_modes=["application/json"],
            default_output_modes=("application/json",), streaming=True, push_notifications=False,
            state_transition_history=False, provider={"organization": "Example", "url": "https://example.com"},
            security=[{"bearer": []}], security_schemes={"bearer": {"type": "http", "scheme": "bearer"}},
            deprecated=False, deprecation_message="", metadata={"tier": 1},
        )
        .skill(
            "research", name="Research", description="Find out", tags=["search"], examples=["what is a loom"],
            input_modes=["application/json"], output_modes=["application/json"], input=newer, output={"type": "object"},
        )
        .extension(SBOM, description="What it uses", required=False)
        .depends_on(search)
    )  # fmt: skip
    r.tool(
        "search_all",
        "1.0.0",
        spec=w.scatter_gather(search, w.agent("research-agent", "research")),
        depends=[search, research.ask("research")],
    )
    r.agent("planner", "1.0.0", depends=[research.ask("research")])
    r.group(
        "search.tools", title="Search", description="Everything that finds", include=["search*"], exclude=["*_all"],
        servers=[backend], tags=["read"], exclude_tags=["beta"], actions={"find": search}, discriminator="do",
        format="toon", detail="brief", keep_tools=True, select=False, max_items=20, max_text=500, max_bytes=65536,
    )  # fmt: skip
    return r


def test_a_registry_in_python_is_the_one_that_is_written_as_json():
    written = fixture("everything-registry.json")
    # The builder of the pattern also writes its defaults.
    written["tools"][2]["spec"]["scatterGather"] |= {"aggregation": {"ops": [{"flatten": True}]}, "failFast": False}
    assert everything().to_json() == written
    assert everything().build().document == parsed(written).document
    assert everything().build().resolved == parsed(written).resolved


def test_a_schema_a_server_and_a_card_of_the_seeds_are_built_as_they_are_written():
    r = w.RegistryBuilder()
    r.schema(
        "SearchQuery",
        "1.0.0",
        {
            "type": "object",
            "properties": {"query": {"type": "string"}, "limit": {"type": "integer", "default": 10}},
            "required": ["query"],
        },
        description="Standard search query input",
    )
    r.server(
        "document-service",
        "1.2.0",
        description="SQLite-backed document service",
        provides=["search_documents@1.0.0", "create_document@1.1.3"],
    )
    r.agent("t", "1.0.0", depends=["search_documents@1.0.0"])
    made = r.to_json()
    assert made["schemas"] == canonical(fixture("registry-schema-entity.json"))["schemas"]
    assert made["servers"] == canonical(fixture("registry-server-entity.json"))["servers"]
    assert made["agents"] == canonical(fixture("registry-agent-sbom-extension.json"))["agents"]


def test_references_by_text_and_by_object_give_the_same_registry():
    def build(*, objects: bool) -> Doc:
        r = w.RegistryBuilder()
        query = r.schema("Query", "1.0.0", {"type": "object"})
        web = r.server("web", "1.2.0", provides=() if objects else ["fetch@1.0.0"])
        of = query if objects else "#Query:1.0.0"
        fetch = r.tool("fetch", "1.0.0", source=web if objects else "web@1.2.0", input=of)
        editor = r.agent("editor", "1.0.0").skill("edit", input=of)
        depends = [fetch, editor.ask("edit"), query] if objects else ["fetch@1.0.0", "editor@1.0.0/edit", of]
        r.agent("reader", "1.0.0", depends=depends)
        return r.to_json()

    assert build(objects=True) == build(objects=False)
    assert build(objects=True)["agents"][1]["capabilities"]["extensions"][0]["params"]["depends"] == [
        {"type": "tool", "name": "fetch", "version": "1.0.0"},
        {"type": "agent", "name": "editor", "version": "1.0.0", "skill": "edit"},
        {"type": "schema", "name": "Query", "version": "1.0.0"},
    ]


def test_other_references_of_the_dsl_and_plain_json_are_dependencies_too():
    r = w.RegistryBuilder()
    r.agent("reader", "1.0.0").depends_on(
        w.tool("fetch", version="1.0.0"),
        w.agent("editor", "edit", version="1.0.0"),
        {"type": "schema", "name": "Query", "version": "1.0.0"},
    )
    (extension,) = r.to_json()["agents"][0]["capabilities"]["extensions"]
    assert [one["type"] for one in extension["params"]["depends"]] == ["tool", "agent", "schema"]


class Hit(TypedDict):
    title: str


def test_python_types_are_schemas():
    r = w.RegistryBuilder()
    hit = r.schema("Hit", "1.0.0", Hit)
    r.tool("search", "1.0.0", source="web@1.0.0", input=str, output={"type": "array", "items": hit})
    made = r.to_json()
    assert made["schemas"][0]["schema"]["properties"] == {"title": {"type": "string"}}
    assert made["tools"][0]["inputSchema"] == {"type": "string"}
    assert made["tools"][0]["outputSchema"] == {"type": "array", "items": {"$ref": "#Hit:1.0.0"}}


def test_a_source_keeps_its_defaults_and_hidden_fields_and_its_server_provides_the_tool_once():
    r = w.RegistryBuilder()
    web = r.server("web", "1.0.0", provides=["fetch@1.0.0"])
    source = web.tool("get", defaults={"depth": 1}, hide_fields=["depth"])
    transform = w.schema_map(w.path(Hit), {"title": w.path(Hit)["title"]})
    r.tool("fetch", "1.0.0", source=source, output_transform=transform)
    made = r.to_json()
    assert made["servers"][0]["provides"] == [{"tool": "fetch", "version": "1.0.0"}]
    assert made["tools"][0]["source"] == {
        "server": "web", "serverVersion": "1.0.0", "tool": "get", "defaults": {"depth": 1}, "hideFields": ["depth"],
    }  # fmt: skip
    assert made["tools"][0]["outputTransform"] == transform.to_ir()
    assert r.problems() == []


def test_a_spec_depends_on_the_objects_in_it_however_deep_in_exactly_their_versions():
    r = w.RegistryBuilder()
    web = r.server("web", "1.0.0")
    old = r.tool("fetch", "1.0.0", source=web)
    new = r.tool("fetch", "2.0.0", source=web)
    editor = r.agent("editor", "1.0.0").skill("edit")
    both = w.scatter_gather(old, w.pipeline(new, editor.ask("edit")))
    r.tool("compare", "1.0.0", spec=w.map_each(both))
    assert r.to_json()["tools"][2]["depends"] == [
        {"type": "tool", "name": "fetch", "version": "1.0.0"},
        {"type": "tool", "name": "fetch", "version": "2.0.0"},
        {"type": "agent", "name": "editor", "version": "1.0.0", "skill": "edit"},
    ]
    assert r.problems() == []


def test_compositions_and_their_named_parts_become_tools_of_the_registry():
    r = w.RegistryBuilder()
    fetch = r.tool("fetch", "1.0.0", source=r.server("web", "1.0.0"))
    part = w.named("part", w.pipeline(fetch))
    inner = w.composition("inner", "Fetch.", w.pipeline(part), version="1.1.0")
    outer = w.composition("outer", "Fetch twice.", w.pipeline(inner, part), input=str, output="Page")
    r.tool("outer", "3.0.0", spec=outer)
    tools = {tool["name"]: tool for tool in r.to_json()["tools"]}
    assert {name: tool["version"] for name, tool in tools.items()} == {
        "fetch": "1.0.0", "outer": "3.0.0", "inner": "1.1.0", "__part": "3.0.0",
    }  # fmt: skip
    assert tools["outer"]["description"] == "Fetch twice."
    assert (tools["outer"]["inputSchema"], tools["outer"]["outputType"]) == ({"type": "string"}, "Page")
    assert [one["name"] for one in tools["outer"]["depends"]] == ["inner", "__part"]
    assert tools["__part"]["depends"] == [{"type": "tool", "name": "fetch", "version": "1.0.0"}]
    assert r.problems() == []


def test_a_composition_that_is_registered_keeps_its_version_where_it_is_used():
    r = w.RegistryBuilder()
    inner = w.composition("inner", "Fetch.", w.pipeline(w.tool("fetch")))
    r.tool("outer", "1.0.0", spec=w.pipeline(inner))
    r.tool("inner", "2.0.0", spec=inner)
    made = r.to_json()["tools"]
    assert [tool["name"] for tool in made] == ["outer", "inner"]
    assert made[0]["depends"] == [{"type": "tool", "name": "inner", "version": "2.0.0"}]


@w.python_tool
def slug(text: str) -> str:
    """Make a slug."""
    return text.lower().replace(" ", "-")


@w.python_tool
def shout(text: str) -> str:
    return text.upper()


async def test_a_python_function_is_a_tool_and_a_step_also_under_its_own_name():
    r = w.RegistryBuilder()
    made = r.tool("slug", "1.0.0", spec=slug)
    r.tool("title", "1.0.0", spec=w.pipeline(made, shout))
    r.tool("heading", "1.0.0", spec=w.pipeline(slug, shout))
    tool = r.to_json()["tools"][0]
    assert (tool["description"], tool["outputSchema"]) == ("Make a slug.", {"type": "string"})
    assert tool["spec"] == {"tool": {"name": "__python_slug"}}
    assert r.problems() == []
    engine = local(r.validate().resolved, r.local())
    assert await engine.execute("slug", {"text": "A B"}) == "a-b"
    assert await engine.execute("title", {"text": "A B"}) == "A-B"
    assert await engine.execute("heading", {"text": "A B"}) == "A-B"


def test_what_is_saved_is_canonical_and_reads_back_the_same(tmp_path: Path):
    r = everything()
    r.save(tmp_path / "registry.json")
    r.save(str(tmp_path / "registry.yaml"))
    text = (tmp_path / "registry.json").read_text(encoding="utf-8")
    assert text == json.dumps(load(tmp_path / "registry.json").document.to_ir(), indent=2) + "\n"
    assert list(r.to_json()["tools"][2]) == list(json.loads(text)["tools"][2])
    assert yaml.safe_load((tmp_path / "registry.yaml").read_text()) == json.loads(text) == r.to_json()


def test_nothing_is_saved_when_there_is_an_error(tmp_path: Path):
    r = w.RegistryBuilder()
    r.agent("reader", "1.0.0", depends=["reed@1.0.0"])
    for attempt in (r.validate, lambda: r.save(tmp_path / "registry.json")):
        with pytest.raises(DocumentInvalid) as caught:
            attempt()
        assert [one.code for one in caught.value.problems] == ["UnknownName"]
    assert not (tmp_path / "registry.json").exists()


def test_a_problem_has_the_line_of_its_entity():
    r = w.RegistryBuilder()
    _, before = inspect.getsourcelines(test_a_problem_has_the_line_of_its_entity)
    r.agent("reader", "1.0.0").depends_on(
        "reed@1.0.0",
    )
    (problem,) = r.problems()
    assert (problem.file, problem.line) == (__file__, before + 3)
    part = w.named("part", w.pipeline(w.composition("inner", "d", w.tool("a"), version="1.0.0")))
    r.tool("outer", "1.0.0", spec=w.pipeline(part, w.tool("inner", version="9.0.0")))
    assert {one.line for one in r.problems() if one.pointer.startswith("/tools")} == {before + 9}
    empty = w.RegistryBuilder()
    assert [(one.code, one.line) for one in empty.problems()] == [("MissingKey", before + 11)]


Make = Callable[[w.RegistryBuilder], object]
DEEP = reduce(lambda inner, _: w.map_each(inner), range(31), w.tool("fetch"))
SOURCE: Doc = {"server": "web", "serverVersion": "1.2.0", "tool": "t"}
AT_ONCE: dict[str, tuple[Make, str, Doc]] = {
    "20 the version latest": (
        lambda r: r.tool("t", "latest", source=SOURCE), "tools", {"name": "t", "version": "latest", "source": SOURCE}),
    "21 a range of versions": (
        lambda r: r.schema("S", "^1.0.0", {}), "schemas", {"name": "S", "version": "^1.0.0", "schema": {}}),
    "21 a version that is a number": (
        lambda r: r.server("s", 1.0), "servers", {"name": "s", "version": 1.0}),  # pyright: ignore[reportArgumentType]
    "21 a version of a dependency": (
        lambda r: r.tool("t", "1.0.0", source=SOURCE, depends=["fetch@*"]), "tools",
        {"name": "t", "version": "1.0.0", "source": SOURCE,
         "depends": [{"type": "tool", "name": "fetch", "version": "*"}]}),
    "21 a version of a server": (
        lambda r: r.tool("t", "1.0.0", source="web@v1.2.0"), "tools",
        {"name": "t", "version": "1.0.0", "source": {**SOURCE, "serverVersion": "v1.2.0"}}),
    "23 both source and spec": (
        lambda r: r.tool("t", "1.0.0", source=SOURCE, spec=w.tool("fetch")), "tools",
        {"name": "t", "version": "1.0.0", "source": SOURCE, "spec": {"tool": {"name": "fetch"}}}),
    "23 neither": (lambda r: r.tool("t", "1.0.0"), "tools", {"name": "t", "version": "1.0.0"}),
    "28 an agent without a skill": (
        lambda r: r.tool("t", "1.0.0", source=SOURCE, depends=[{"type": "agent", "name": "a", "version": "1.0.0"}]),
        "tools", {"name": "t", "version": "1.0.0", "source": SOURCE,
                  "depends": [{"type": "agent", "name": "a", "version": "1.0.0"}]}),
    "31 no JSON Schema": (
        lambda r: r.schema("S", "1.0.0", {"type": "strng"}), "schemas",
        {"name": "S", "version": "1.0.0", "schema": {"type": "strng"}}),
    "30 a reference out of the registry": (
        lambda r: r.schema("S", "1.0.0", {"$ref": "http://example.com/s"}), "schemas",
        {"name": "S", "version": "1.0.0", "schema": {"$ref": "http://example.com/s"}}),
    "34 a name with a space": (
        lambda r: r.server("my server", "1.0.0"), "servers", {"name": "my server", "version": "1.0.0"}),
    "36 an unknown field of a source": (
        lambda r: r.tool("t", "1.0.0", source={**SOURCE, "hideField": []}), "tools",
        {"name": "t", "version": "1.0.0", "source": {**SOURCE, "hideField": []}}),
    "40 a strange address": (
        lambda r: r.agent("a", "1.0.0", url="javascript:x"), "agents",
        {"name": "a", "version": "1.0.0", "url": "javascript:x"}),
    "58 patterns that are nested too deep": (
        lambda r: r.tool("t", "1.0.0", spec=DEEP), "tools", {"name": "t", "version": "1.0.0", "spec": DEEP.to_ir()}),
    "two skills of one id": (
        lambda r: r.agent("a", "1.0.0").skill("s").skill("s"), "agents",
        {"name": "a", "version": "1.0.0", "skills": [{"id": "s"}, {"id": "s"}]}),
    "a description that is no text": (
        lambda r: r.agent("a", "1.0.0", description=5), "agents",  # pyright: ignore[reportArgumentType]
        {"name": "a", "version": "1.0.0", "description": 5}),
    "tags that are one text": (
        lambda r: r.agent("a", "1.0.0").skill("s", tags="abc"), "agents",
        {"name": "a", "version": "1.0.0", "skills": [{"id": "s", "tags": "abc"}]}),
    "an extension without its uri": (
        lambda r: r.agent("a", "1.0.0").extension(""), "agents",
        {"name": "a", "version": "1.0.0", "capabilities": {"extensions": [{"uri": ""}]}}),
}  # fmt: skip


def said(problem: Problem) -> tuple[str | None, ...]:
    """Return all of a problem but its file and line."""
    return (
        problem.severity, problem.code, problem.message, problem.pointer, problem.value, problem.expected,
        problem.suggestion,
    )  # fmt: skip


@pytest.mark.parametrize("case", AT_ONCE)
def test_what_is_wrong_with_one_entity_is_raised_at_its_line_as_a_file_with_it_would_be_told(case: str):
    make, section, entry = AT_ONCE[case]
    r = w.RegistryBuilder()
    document: Doc = {"schemaVersion": "2.0", section: [SOUND[section][0], entry]}
    first: dict[str, Make] = {
        "schemas": lambda r: r.schema("Query", "1.0.0", {}),
        "servers": lambda r: r.server("web", "1.2.0"),
        "tools": lambda r: r.tool("fetch", "1.0.0", source=SOURCE),
        "agents": lambda r: r.agent("reader", "3.0.0"),
    }
    first[section](r)
    with pytest.raises(DocumentInvalid) as caught:
        make(r)
    expected = [one for one in parsed(document).problems if one.pointer.startswith(f"/{section}/1")]
    assert expected
    assert [said(one) for one in caught.value.problems] == [said(one) for one in expected]


def of_agent(r: w.RegistryBuilder) -> Any:
    return r.agent("editor", "1.0.0").skill("edit")


WRONG: dict[str, tuple[Callable[[w.RegistryBuilder], object], str]] = {
    "an agent as a dependency": (lambda r: r.agent("a", "1.0.0", depends=[of_agent(r)]), r"the agent 'editor'.*\.ask"),
    "a server as a dependency": (
        lambda r: r.agent("a", "1.0.0", depends=[r.server("web", "1.0.0")]),  # pyright: ignore[reportArgumentType]
        "the server 'web'; depend on the tools that it provides"),
    "a function as a dependency": (lambda r: r.agent("a", "1.0.0", depends=[slug]), r"register it with \.tool"),
    "a tool without a version": (lambda r: r.agent("a", "1.0.0", depends=[w.tool("x")]), "say its version"),
    "text without a version": (lambda r: r.agent("a", "1.0.0", depends=["x"]), "'x' does not say which version"),
    "a schema's text without one": (lambda r: r.agent("a", "1.0.0", depends=["#X"]), "'#X' does not say which version"),
    "a number as a dependency": (
        lambda r: r.agent("a", "1.0.0", depends=[5]), "depends takes tools.*, not 5"),  # pyright: ignore
    "text as a spec": (
        lambda r: r.tool("t", "1.0.0", spec="fetch"), r"write w\.tool\('fetch'\)"),  # pyright: ignore
    "a function as a spec": (
        lambda r: r.tool("t", "1.0.0", spec=of_agent), r"wrap it with @w\.python_tool"),  # pyright: ignore
    "a number as a source": (
        lambda r: r.tool("t", "1.0.0", source=5), "source takes a server"),  # pyright: ignore[reportArgumentType]
    "a source without a version": (lambda r: r.tool("t", "1.0.0", source="web"), "'web' does not say which version"),
    "a name as a schema": (lambda r: r.tool("t", "1.0.0", source=SOURCE, input="Query"), "'#Name:1.0.0'.*not 'Query'"),
    "a number as a provided tool": (
        lambda r: r.server("s", "1.0.0", provides=[5]), "provides takes tools"),  # pyright: ignore
    "an agent that is no operation": (
        lambda r: w.pipeline(of_agent(r)), "takes operations"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_belong_there_is_a_type_error_that_says_what_does(case: str):
    make, told = WRONG[case]
    with pytest.raises(TypeError, match=rf"^w\..*{told}"):
        make(w.RegistryBuilder())


def test_a_value_that_is_no_json_is_told_with_its_field():
    r = w.RegistryBuilder()
    with pytest.raises(DocumentInvalid) as caught:
        r.server("s", "1.0.0", metadata={"at": {1, 2}})
    assert [(one.code, one.pointer) for one in caught.value.problems] == [("NotJson", "/servers/0/metadata")]


def test_an_entity_that_was_refused_is_not_in_the_registry_and_a_change_that_was_is_not_made():
    r = w.RegistryBuilder()
    web = r.server("web", "1.0.0")
    agent = r.agent("a", "1.0.0").skill("s")
    before = r.to_json()
    attempts: list[Callable[[], object]] = [
        lambda: r.tool("t", "latest", source=web),
        lambda: r.agent("b", "1.0.0", depends=["x@*"]),
        lambda: agent.skill("s"),
        lambda: agent.depends_on("x@*"),
        lambda: web.provides("t@latest"),
    ]
    for attempt in attempts:
        with pytest.raises(DocumentInvalid):
            attempt()
    assert r.to_json() == before


def test_a_group_takes_tools_and_servers_as_objects_or_by_their_names():
    def build(*, objects: bool) -> Doc:
        r = w.RegistryBuilder()
        web = r.server("web", "1.2.0")
        fetch = r.tool("fetch", "1.0.0", source=web)
        r.group("pages", servers=[web if objects else "web"], actions=[fetch if objects else "fetch"])
        r.group("more", actions={"get": fetch if objects else "fetch", "look.up": "lookup"})
        return r.to_json()

    made = build(objects=True)
    assert made == build(objects=False)
    assert made["groups"] == [
        {"name": "pages", "servers": ["web"], "actions": {"fetch": "fetch"}},
        {"name": "more", "actions": {"get": "fetch", "look.up": "lookup"}},
    ]


def test_what_is_wrong_with_a_group_is_raised_where_it_is_written():
    r = w.RegistryBuilder()
    r.group("pages", tags=["a"])
    with pytest.raises(DocumentInvalid) as caught:
        r.group("more")
    assert [(one.code, one.pointer) for one in caught.value.problems] == [("MissingKey", "/groups/1")]
    with pytest.raises(DocumentInvalid, match="list"):
        r.group("more", include="search_*")
    with pytest.raises(TypeError, match=r"actions takes tools of the registry, or their names, not the server 'web'"):
        r.group("more", actions={"a": r.server("web", "1.0.0")})  # pyright: ignore[reportArgumentType]  (on purpose)
    with pytest.raises(TypeError, match=r"servers takes servers of the registry, or their names, not 1"):
        r.group("more", servers=[1])  # pyright: ignore[reportArgumentType]  (on purpose)
    assert [one["name"] for one in r.to_json()["groups"]] == ["pages"]


def test_what_is_wrong_between_a_group_and_the_others_is_told_at_the_line_of_the_group():
    r = w.RegistryBuilder()
    web = r.server("web", "1.2.0")
    r.tool("fetch", "1.0.0", source=web)
    frame = inspect.currentframe()
    assert frame is not None
    line = frame.f_lineno + 1
    r.group("pages", actions={"get": "fetsh"})
    (problem,) = r.problems()
    assert (problem.code, problem.suggestion, problem.file, problem.line) == ("UnknownName", "fetch", __file__, line)
