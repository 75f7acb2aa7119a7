"""Registries as documents: what they hold, in one file or several, and what of it is written again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.documents import PATTERNS, canonical, fixture
from tests.registry.registries import SOUND, Change, Doc, book, found, parsed, put, registry
from weft.app import load, problems_of
from weft.ir.normalise import parse
from weft.ir.read import read
from weft.registry.book import Book
from weft.registry.entities import Reference

assert PATTERNS
SEED = {
    "schemas": "registry-schema-entity.json",
    "servers": "registry-server-entity.json",
    "agents": "registry-agent-sbom-extension.json",
}


@pytest.mark.req("REG-2", "REG-7", "REG-9", "REG-12", "REG-15", "REG-16", "REG-61")
def test_the_entities_of_the_seed_make_a_registry_without_a_problem():
    document: Doc = {"schemaVersion": "2.0"}
    for section, name in SEED.items():
        document[section] = fixture(name)[section]
    source = {"server": "document-service", "serverVersion": "1.2.0", "tool": "search"}
    document["tools"] = [
        {
            "name": "search_documents",
            "version": "1.0.0",
            "inputSchema": {"$ref": "#SearchQuery:1.0.0"},
            "source": source,
        },
        {"name": "create_document", "version": "1.1.3", "source": {**source, "tool": "create"}},
    ]
    assert found(document) == []
    assert canonical(document) == document
    assert book(document).agents["t", "1.0.0"].depends[0].name == "search_documents"


@pytest.mark.req("REG-57", "REG-58", "REG-60", "REG-61")
@pytest.mark.parametrize("name", ["pipeline", "scatter-gather", "agent-pipeline"])
def test_the_patterns_of_the_seed_are_specs_of_a_registry(name: str):
    spec = fixture(f"registry-pattern-{name}.json")["tools"][0]["spec"]
    document = {"schemaVersion": "2.0", "tools": [{"name": "t", "version": "1.0.0", "spec": spec}]}
    assert {one.severity for one in problems_of(parsed(document))} <= {"warning"}


@pytest.mark.req("REG-13", "REG-14", "REG-15")
def test_a_card_comes_back_as_it_was_written():
    document = fixture("everything-registry.json")
    assert canonical(document) == document
    agent = parsed(document).document.agents[0]
    assert agent.skill("research") is not None
    assert agent.skill("sing") is None


@pytest.mark.req("REG-10")
@pytest.mark.parametrize(
    ("change", "code"),
    [
        (put(None, "tools", 0, "source"), "ExactlyOne"),
        (put({"tool": "x"}, "tools", 0, "spec"), "ExactlyOne"),
        (put(None, "tools", 0, "version"), "MissingKey"),
        (put(None, "tools", 0, "source", "serverVersion"), "MissingKey"),
    ],
)
def test_20_and_23_a_tool_has_a_version_and_a_source_or_a_spec(change: Change, code: str):
    problems = [one for one in found(registry(change)) if one.pointer.startswith("/tools/0")]
    assert [(one.severity, one.code) for one in problems] == [("error", code)]


WRONG: list[tuple[Doc, str, str]] = [
    ({"schemaVersion": "3.0"}, "UnknownVersion", "/schemaVersion"),
    ({"schemaVersion": 2.0}, "WrongType", "/schemaVersion"),
    ({"schemaVersion": "2.0"}, "MissingKey", ""),
    ({"schemaVersion": "1.0", "agents": [{"name": "a"}]}, "UnknownKey", "/agents"),
    ({"schemaVersion": "2.0", "agent": [], "tools": []}, "UnknownKey", "/agent"),
    ({"schemaVersion": "2.0", "servers": {}}, "WrongType", "/servers"),
    ({"schemaVersion": "2.0", "servers": [{"name": "s", "version": "1.0.0", "x": 1}]}, "UnknownKey", "/servers/0/x"),
]


@pytest.mark.parametrize(("document", "code", "pointer"), WRONG)
def test_18_and_19_a_document_says_what_it_is(document: Doc, code: str, pointer: str):
    problems = parse(read(json.dumps(document))).problems
    assert [(one.code, one.pointer) for one in problems] == [(code, pointer)]


@pytest.mark.req("REG-17")
@pytest.mark.parametrize(
    ("depends", "code", "place"),
    [
        ({"type": "agent", "name": "editor", "version": "1.0.0"}, "MissingKey", ""),
        ({"type": "tool", "name": "read", "version": "1.0.0", "skill": "x"}, "UnknownKey", "/skill"),
        ({"type": "tol", "name": "read", "version": "1.0.0"}, "WrongValue", "/type"),
        ({"type": "tool", "version": "1.0.0"}, "MissingKey", ""),
        ({"type": "tool", "name": "read", "version": "latest"}, "InvalidVersion", "/version"),
    ],
)
def test_28_a_dependency_says_exactly_what_it_is_on(depends: Doc, code: str, place: str):
    agent = {"uri": "urn:agentgateway:sbom", "params": {"depends": [depends]}}
    in_card = registry(lambda d: d["agents"][0].update(capabilities={"extensions": [agent]}))
    in_tool = registry(lambda d: d["tools"][2].update(depends=[depends]))
    for document, at in (
        (in_card, "/agents/0/capabilities/extensions/0/params/depends/0"),
        (in_tool, "/tools/2/depends/0"),
    ):
        problems = [one for one in found(document) if one.pointer.startswith(at)]
        assert [(one.code, one.pointer) for one in problems] == [(code, at + place)]


def test_two_skills_of_one_id_are_refused():
    document = registry(lambda d: d["agents"][1].update(skills=[{"id": "edit"}, {"id": "edit"}]))
    assert [(one.code, one.pointer) for one in parsed(document).problems] == [
        ("DuplicateName", "/agents/1/skills/1/id")
    ]


@pytest.mark.req("REG-3", "REG-16")
def test_the_book_finds_entities_their_versions_and_all_that_they_reach():
    made = book(SOUND)
    fetch, read_, editor = (
        Reference("tool", "fetch", "1.2.3"),
        Reference("tool", "read", "1.0.0"),
        Reference("agent", "editor", "1.0.0", "edit"),
    )
    assert made.versions("tool", "fetch") == ("1.2.3", "1.0.0")
    assert made.get("tool", "fetch", "9.9.9") is None
    assert [one.kind for one in made.entities()] == ["schema"] * 2 + ["server"] + ["tool"] * 3 + ["agent"] * 2
    reader = made.agents["reader", "3.0.0"]
    assert made.depends_on(reader) == (read_,)
    assert made.lent_by(made.tools["read", "1.0.0"]) == {fetch, editor}
    assert made.lent_by(made.tools["fetch", "1.2.3"]) == frozenset()
    assert made.uses(made.tools["fetch", "1.2.3"]) == (
        Reference("server", "web", "1.2.0"),
        Reference("schema", "Page", "2.0.0"),
        Reference("schema", "Query", "1.0.0"),
    )


def test_what_a_circle_lends_ends():
    tools = [{"name": one, "version": "1.0.0", "spec": {"tool": other}} for one, other in (("a", "b"), ("b", "a"))]
    made = book({"schemaVersion": "2.0", "tools": tools})
    a, b = Reference("tool", "a", "1.0.0"), Reference("tool", "b", "1.0.0")
    assert made.lent_by(made.tools["a", "1.0.0"]) == made.lent_by(made.tools["b", "1.0.0"]) == {a, b}


def test_a_composition_lends_what_it_depends_on_and_what_only_servers_have():
    steps = [{"tool": "charge"}, {"tool": "delete"}, {"tool": "raw"}, {"tool": {"name": "far", "server": "web"}}]
    spec = {"pipeline": {"steps": [{"id": f"s{index}", "operation": one} for index, one in enumerate(steps)]}}
    source = {"server": "bank", "serverVersion": "1.0.0", "tool": "x"}
    inner = {"name": "inner", "version": "1.0.0", "spec": {"tool": "charge"}}
    depends = [{"type": "tool", "name": one, "version": "1.0.0"} for one in ("charge", "inner")]
    tools = [
        *({"name": one, "version": "1.0.0", "source": source} for one in ("charge", "delete")),
        inner,
        {"name": "buy", "version": "1.0.0", "depends": depends, "spec": spec},
        {"name": "open", "version": "1.0.0", "spec": spec},
    ]
    made = book({"schemaVersion": "2.0", "tools": tools})
    charge, delete, inside = (Reference("tool", one, "1.0.0") for one in ("charge", "delete", "inner"))
    raw, far = Reference("tool", "raw"), Reference("tool", "far")
    assert made.lent_by(made.tools["buy", "1.0.0"]) == {charge, inside, raw, far}
    assert made.lent_by(made.tools["open", "1.0.0"]) == {charge, delete, raw, far}


def files(folder: Path, **documents: Any) -> Path:
    for name, document in documents.items():
        (folder / f"{name}.json").write_text(json.dumps(document), encoding="utf-8")
    return folder / "main.json"


@pytest.mark.req("REG-63")
def test_a_registry_may_stand_in_several_files(tmp_path: Path):
    (tmp_path / "parts").mkdir()
    files(tmp_path / "parts", schemas={"schemas": SOUND["schemas"], "$include": "../servers.json"})
    files(tmp_path, servers={"schemaVersion": "2.0", "servers": SOUND["servers"]})
    rest = {key: SOUND[key] for key in ("tools", "agents")}
    main = files(tmp_path, main={"schemaVersion": "2.0", "$include": ["parts/schemas.json", "servers.json"], **rest})
    result = load(main)
    assert problems_of(result) == []
    assert result.document.to_ir() == parsed(SOUND).document.to_ir()
    assert Book.of(result).servers.keys() == {("web", "1.2.0")}


@pytest.mark.req("REG-63")
def test_a_problem_of_an_included_file_is_told_there(tmp_path: Path):
    broken = {"servers": [{"name": "web", "version": "1.2.0", "provides": [{"tool": "fech", "version": "1.0.0"}]}]}
    main = files(tmp_path, main={"schemaVersion": "2.0", "$include": ["other.json"], "tools": []}, other=broken)
    problems = problems_of(load(main))
    assert [(one.code, one.pointer, Path(one.file or "").name) for one in problems] == [
        ("UnknownName", "/servers/0/provides/0/tool", "other.json")
    ]


@pytest.mark.req("REG-63")
def test_the_same_entity_in_two_files_is_told_with_both(tmp_path: Path):
    one = {"schemas": SOUND["schemas"][:1]}
    main = files(tmp_path, main={"schemaVersion": "2.0", "$include": "other.json", **one}, other=one)
    problems = load(main).problems
    assert [problem.code for problem in problems] == ["DuplicateName"]
    assert "main.json: /schemas/0" in problems[0].message


@pytest.mark.req("REG-63")
@pytest.mark.parametrize(
    ("include", "code"),
    [
        ("main.json", "Cycle"),
        ("loop.json", "Cycle"),
        ("nothing.json", "UnreadableFile"),
        ("https://example.com/registry.json", "IncludeRefused"),
        ("/etc/hostname", "IncludeRefused"),
        (7, "IncludeRefused"),
    ],
)
def test_an_include_that_cannot_be_is_told(tmp_path: Path, include: Any, code: str):
    loop = {"$include": ["main.json"]}
    main = files(tmp_path, main={"schemaVersion": "2.0", "$include": [include], "tools": []}, loop=loop)
    assert [one.code for one in load(main).problems] == [code]


@pytest.mark.req("REG-63", "REG-64")
def test_a_document_that_is_no_file_includes_nothing():
    problems = parse(read('{"schemaVersion": "2.0", "$include": ["registry.json"]}')).problems
    assert [(one.code, one.pointer) for one in problems] == [("IncludeRefused", "/$include/0")]
