"""The page about the IR is true: its examples are canonical, its tables are those of the models.

A `json` block is a whole document, when it has `tools`, or an operation. A comment before a table says what it is:
`fields: Model` lists the keys of a model, `spellings: what` has JSON on both sides.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.documents import PATTERNS, canonical, composed
from weft.expr.cel import MAX_BYTES as MAX_CONDITION
from weft.expr.paths import MAX_PATH
from weft.expr.templates import MAX_BYTES as MAX_TEMPLATE
from weft.ir.nodes import MAX_LITERAL, Node
from weft.ir.normalise import MAX_PATTERN_DEPTH
from weft.ir.read import DOCUMENT_LIMITS
from weft.ir.schema import IDENTITY
from weft.patterns.scatter_gather import MAX_TARGETS
from weft.registry.graph import MAX_RECURSION

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "reference" / "ir.md").read_text(encoding="utf-8")
EXAMPLE = re.compile(r"^```json\n(.*?)^```", re.MULTILINE | re.DOTALL)
TABLE = re.compile(r"^<!-- (fields|spellings): (\w+) -->\n\n((?:\|.*\n)+)", re.MULTILINE)

EXAMPLES = [json.loads(text) for text in EXAMPLE.findall(PAGE)]
DOCUMENTS = [example for example in EXAMPLES if "tools" in example]
OPERATIONS = [example for example in EXAMPLES if "tools" not in example]


def tables(kind: str) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield what the tables of a kind are about, and their rows without the two at the top."""
    for found, subject, text in TABLE.findall(PAGE):
        if found == kind:
            rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines()]
            yield subject, rows[2:]


@pytest.mark.req("ALG-22", "ALG-23", "ALG-24", "ALG-25", "ALG-28")
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: next(iter(operation)))
def test_an_example_of_an_operation_is_canonical(operation: dict[str, Any]):
    assert canonical(composed(operation)) == composed(operation)


@pytest.mark.req("ALG-19", "ALG-20")
@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document["tools"][0]["name"])
def test_an_example_of_a_document_is_canonical_unless_it_shows_another_spelling(document: dict[str, Any]):
    assert (canonical(document) == document) == ("compositions" not in document)


def test_every_pattern_has_an_example():
    assert {kind for operation in OPERATIONS for kind in operation} >= set(PATTERNS)


FIELDS = dict(tables("fields"))


def models(model: type[Node] = Node) -> Iterator[type[Node]]:
    for one in model.__subclasses__():
        yield one
        yield from models(one)


MODELS = {model.__name__: model for model in models()}


@pytest.mark.parametrize("name", FIELDS)
def test_a_table_of_fields_has_the_keys_and_defaults_of_the_model(name: str):
    written = {key.strip("`"): default.strip("`") for key, _, default, _ in FIELDS[name]}
    assert written == {field.alias: default_of(field) for field in MODELS[name].model_fields.values()}


def default_of(field: Any) -> str:
    if field.is_required():
        return "required"
    default = field.default.to_ir() if isinstance(field.default, Node) else field.default
    return "-" if default is None else json.dumps(default)


def test_every_pattern_has_a_table():
    assert {name[0].lower() + name[1:] for name in FIELDS} >= set(PATTERNS)


def in_pipeline(binding: Any) -> Any:
    first = {"id": "first", "operation": {"tool": {"name": "a"}}}
    return {"pipeline": {"steps": [first, {"id": "second", "operation": {"tool": {"name": "a"}}, "input": binding}]}}


PLACES: Mapping[str, Callable[[Any], Any]] = {
    "operation": lambda operation: operation,
    "binding": in_pipeline,
    "predicate": lambda predicate: {"filter": {"predicate": predicate}},
    "aggregation": lambda given: {"scatterGather": {"targets": [{"tool": {"name": "a"}}], "aggregation": given}},
    "source": lambda source: {"schemaMap": {"mappings": {"field": source}}},
}
SPELLINGS = [(what, *row) for what, rows in tables("spellings") for row in rows]


@pytest.mark.req("ALG-23", "ALG-24", "ALG-25", "ALG-26", "ALG-27", "ALG-28", "ALG-29", "ALG-30", "ALG-31")
@pytest.mark.parametrize(("what", "written", "expected"), SPELLINGS)
def test_a_spelling_becomes_the_canonical_form_beside_it(what: str, written: str, expected: str):
    place = PLACES[what]
    document = composed(place(json.loads(expected.strip("`"))))
    assert canonical(document) == document
    assert canonical(composed(place(json.loads(written.strip("`"))))) == document


def test_every_kind_of_spelling_is_shown():
    assert {what for what, *_ in SPELLINGS} == set(PLACES)


LIMITS = {
    "size of a document": f"{DOCUMENT_LIMITS.bytes >> 20} MiB",
    "nesting of JSON in a document": f"{DOCUMENT_LIMITS.depth}",
    "values in a document": f"{DOCUMENT_LIMITS.nodes}",
    "digits of a number": f"{DOCUMENT_LIMITS.digits}",
    "patterns nested in each other, in one tool": f"{MAX_PATTERN_DEPTH}",
    "compositions that call each other in a row": f"{MAX_RECURSION}",
    "targets of a scatterGather, names in `allowed`": f"{MAX_TARGETS}",
    "a literal, constant or default": f"{MAX_LITERAL >> 20} MiB",
    "a path": f"{MAX_PATH} characters",
    "a CEL condition": f"{MAX_CONDITION >> 10} KiB",
    "a template": f"{MAX_TEMPLATE >> 10} KiB",
}


@pytest.mark.parametrize("what", LIMITS)
def test_a_limit_is_the_one_that_holds(what: str):
    assert f"| {what} | {LIMITS[what]} |\n" in PAGE


@pytest.mark.req("ALG-32")
def test_the_published_schema_is_where_the_page_says():
    root = Path(__file__).resolve().parents[1]
    files = {path.name for path in (root / "schema" / "weft" / "ir" / "v1").iterdir()}
    assert files == set(re.findall(r"`(\w+\.proto)`", PAGE))
    assert IDENTITY in PAGE
