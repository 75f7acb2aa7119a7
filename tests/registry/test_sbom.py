"""Bills of materials: valid by the formats' own schemas, complete, and the same byte for byte."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from weft.errors import InputError, NotFound, errors_in
from weft.expr.jcs import hash_of
from weft.ir.normalise import parse
from weft.ir.read import read
from weft.registry.book import Book
from weft.registry.sbom import cyclonedx, materials, spdx

import_module("weft.patterns")  # closes the union of operations
Write = Callable[..., str]


def _depends(*names: str) -> list[dict[str, str]]:
    parts = [name.replace("@", ":").split(":") for name in names]
    skill = {"agent": {"skill": "write"}}
    return [{"type": kind, "name": name, "version": version, **skill.get(kind, {})} for kind, name, version in parts]


def _agent(name: str, *depends: str, **more: Any) -> dict[str, Any]:
    extension = {"uri": "urn:agentgateway:sbom", "params": {"depends": _depends(*depends)}}
    return {"name": name, "version": "1.0.0", "capabilities": {"extensions": [extension]}, **more}


WEB = {"server": "web", "serverVersion": "1.0.0", "tool": "search"}
REGISTRY: dict[str, Any] = {
    "schemaVersion": "2.0",
    "schemas": [{"name": "Page", "version": "1.0.0", "schema": {"type": "object"}}],
    "servers": [
        {"name": "web", "version": "1.0.0"},
        {"name": "mail", "version": "1.0.0", "provides": [{"tool": "send", "version": "1.0.0"}]},
    ],
    "tools": [
        {"name": "search", "version": "1.0.0", "source": WEB, "outputSchema": {"$ref": "#Page:1.0.0"}},
        {"name": "search", "version": "2.0.0", "source": WEB, "deprecated": True},
        {"name": "send", "version": "1.0.0", "source": {**WEB, "server": "mail"}},
        {"name": "find/it", "version": "1.0.0", "source": WEB},
        {"name": "find_it", "version": "1.0.0", "source": WEB},
        {
            "name": "report",
            "version": "1.0.0",
            "spec": {"pipeline": {"steps": [{"operation": {"tool": {"name": "search"}}}, {"operation": "send"}]}},
            "depends": _depends("tool:search@2.0.0", "tool:send@1.0.0"),
        },
    ],
    "agents": [
        _agent("planner", "tool:search@1.0.0", "agent:writer@1.0.0"),
        _agent("writer", "tool:report@1.0.0", "tool:gone@1.0.0", description="Writes."),
        _agent("idle", url="https://h.example/a2a?key=canary"),
    ],
}
SECTIONS = ("schemas", "servers", "tools", "agents")


def _book(registry: dict[str, Any]) -> Book:
    parsed = parse(read(json.dumps(registry), name="registry.json", format="json"))
    assert not errors_in(parsed.problems)
    return Book.of(parsed)


BOOK = _book(REGISTRY)
EMPTY = _book({"schemaVersion": "2.0", "tools": []})
BOOKS = [BOOK, EMPTY, _book({**REGISTRY, "tools": [], "agents": []})]


def _bill(write: Write, book: Book = BOOK, **options: Any) -> dict[str, Any]:
    return json.loads(write(materials(book, **options), weft="0.1.0"))


@pytest.mark.req("REG-47")
@pytest.mark.parametrize("book", BOOKS)
@pytest.mark.parametrize("options", [{}, {"environ": {"SOURCE_DATE_EPOCH": "1700000000"}}])
def test_cyclonedx_is_valid_by_its_official_schema(book: Book, options: dict[str, Any]):
    text = cyclonedx(materials(book, **options), weft="0.1.0")
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    spoilt = text.replace('"bomFormat"', '"bomform"')
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(spoilt) is not None


@pytest.mark.req("REG-47")
@pytest.mark.parametrize("book", BOOKS)
@pytest.mark.parametrize("options", [{}, {"environ": {"SOURCE_DATE_EPOCH": "1700000000"}}])
def test_spdx_is_valid_by_its_official_tools(book: Book, options: dict[str, Any], tmp_path: Path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its parsers use what Python no longer likes
        from spdx_tools.spdx.parser.parse_anything import parse_file  # noqa: PLC0415
        from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document  # noqa: PLC0415

        (tmp_path / "bill.spdx.json").write_text(spdx(materials(book, **options), weft="0.1.0"), encoding="utf-8")
        document: Any = parse_file(str(tmp_path / "bill.spdx.json"))
        assert validate_full_spdx_document(document) == []
    assert len(document.packages) == len(json.loads((tmp_path / "bill.spdx.json").read_text())["packages"])


@pytest.mark.parametrize("write", [cyclonedx, spdx])
def test_the_same_registry_gives_the_same_bytes_whatever_its_order(write: Write):
    turned = _book({**REGISTRY, **{name: list(reversed(REGISTRY[name])) for name in SECTIONS}})
    assert write(materials(BOOK), weft="1") == write(materials(turned), weft="1")
    assert write(materials(BOOK), weft="1") != write(
        materials(_book({**REGISTRY, "agents": REGISTRY["agents"][1:]})), weft="1"
    )


def test_every_entity_stands_in_the_bill_with_its_hash_and_what_it_needs():
    bill = _bill(cyclonedx)
    assert {one["bom-ref"] for one in bill["components"]} == {
        "agent:idle@1.0.0", "agent:planner@1.0.0", "agent:writer@1.0.0", "schema:Page@1.0.0",
    }  # fmt: skip
    page = next(one for one in bill["components"] if one["name"] == "Page")
    assert page["hashes"] == [{"alg": "SHA-256", "content": hash_of(BOOK.schemas["Page", "1.0.0"].to_json())}]
    needs = {one["ref"]: one.get("dependsOn", []) for one in bill["dependencies"]}
    assert needs["agent:planner@1.0.0"] == ["agent:writer@1.0.0", "tool:search@1.0.0"]
    assert needs["tool:search@1.0.0"] == ["schema:Page@1.0.0", "server:web@1.0.0"]
    assert needs["tool:report@1.0.0"] == ["tool:search@2.0.0", "tool:send@1.0.0"]
    assert needs["tool:send@1.0.0"] == ["server:mail@1.0.0"]
    assert needs["tool:find/it@1.0.0"] == ["server:web@1.0.0"]
    known = {one["bom-ref"] for one in (*bill["components"], *bill["services"])}
    assert {ref for several in needs.values() for ref in several} <= known


def test_what_is_needed_and_not_registered_is_marked():
    gone = next(one for one in _bill(cyclonedx)["services"] if one["name"] == "gone")
    assert gone["properties"] == [
        {"name": "weft:kind", "value": "tool"},
        {"name": "weft:registered", "value": "false"},
    ]


@pytest.mark.parametrize(
    ("agent", "names"),
    [
        ("writer", "gone@1.0.0 mail@1.0.0 report@1.0.0 search@2.0.0 send@1.0.0 web@1.0.0 writer@1.0.0"),
        ("idle", "idle@1.0.0"),
    ],
)
def test_the_bill_of_an_agent_has_what_it_needs_and_nothing_else(agent: str, names: str):
    bill = _bill(spdx, agent=agent)
    assert sorted(f"{one['name']}@{one['versionInfo']}" for one in bill["packages"]) == names.split()
    described = [one for one in bill["relationships"] if one["relationshipType"] == "DESCRIBES"]
    assert [one["relatedSpdxElement"] for one in described] == [f"SPDXRef-agent-{agent}-1.0.0"]


def test_an_unknown_agent_is_told_with_the_nearest_name():
    with pytest.raises(NotFound) as caught:
        materials(BOOK, agent="planer")
    assert caught.value.hint == "did you mean 'planner'?"
    with pytest.raises(NotFound, match=r"planner@2\.0\.0"):
        materials(BOOK, agent="planner", version="2.0.0")


@pytest.mark.parametrize("write", [cyclonedx, spdx])
def test_no_secret_of_a_url_comes_into_a_bill(write: Write):
    text = write(materials(BOOK), weft="1")
    assert "canary" not in text
    assert "canary" not in json.dumps(_bill(write, agent="idle"))


def test_names_that_spdx_cannot_spell_keep_identifiers_of_their_own():
    identifiers = [one["SPDXID"] for one in _bill(spdx)["packages"]]
    assert len(set(identifiers)) == len(identifiers)


def test_there_is_a_time_only_when_one_is_given():
    assert "timestamp" not in _bill(cyclonedx)["metadata"]
    given = {"SOURCE_DATE_EPOCH": "0"}
    assert _bill(cyclonedx, environ=given)["metadata"]["timestamp"] == "1970-01-01T00:00:00Z"
    with pytest.raises(InputError, match="SOURCE_DATE_EPOCH"):
        materials(BOOK, environ={"SOURCE_DATE_EPOCH": "soon"})
