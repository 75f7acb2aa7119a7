"""What must hold of every document, well-formed or not."""

from __future__ import annotations

import copy
import json
from contextlib import suppress
from typing import Any, cast
from zlib import crc32

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import weft as w
from tests.documents import canonical, composed
from tests.strategies import documents, operations, paths, values
from weft.app import problems_of
from weft.dsl.compositions import compile
from weft.errors import WeftError
from weft.expr.types import schema_of
from weft.ir.bindings import Binding
from weft.ir.document import Document
from weft.ir.nodes import Node
from weft.ir.normalise import parse
from weft.ir.operations import operation_ir
from weft.ir.read import read
from weft.patterns.contract import Operand
from weft.plan.compiler import compile_document
from weft.ports import Invoke, ToolRef, ToolType

Doc = dict[str, Any]
SLOW = settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much], deadline=None
)


@given(documents())
@SLOW
def test_normalising_twice_is_normalising_once(document: Doc):
    form = canonical(document)
    assert canonical(form) == form


@given(documents())
@SLOW
def test_a_canonical_document_is_its_own_canonical_form(document: Doc):
    assert canonical(document) == document


def _schemas() -> st.SearchStrategy[Any]:
    kinds: list[Any] = ["string", "number", "integer", "array", "object", "null", ["object", "null"]]
    several = st.lists(SCHEMAS, min_size=1, max_size=2)
    keywords: dict[str, st.SearchStrategy[Any]] = {
        "type": st.sampled_from(kinds),
        "properties": st.dictionaries(st.sampled_from("abcd"), SCHEMAS, max_size=2),
        "required": st.lists(st.sampled_from("abcd"), max_size=2, unique=True),
        "additionalProperties": SCHEMAS,
        "patternProperties": st.dictionaries(st.just("^a"), SCHEMAS, max_size=1),
        "items": SCHEMAS,
        "prefixItems": several,
        "anyOf": several,
        "oneOf": several,
        "allOf": several,
        "enum": st.lists(values(), min_size=1, max_size=2, unique_by=json.dumps),
        "const": values(),
        "$ref": st.sampled_from(["#/$defs/X", "#/$defs/Y", "#/properties/a", "#"]),
        "$defs": st.fixed_dictionaries({}, optional={"X": SCHEMAS, "Y": SCHEMAS}),
    }
    made: st.SearchStrategy[Any] = st.fixed_dictionaries({}, optional=keywords)
    return st.booleans() | st.just(cast("Any", {})) | made


SCHEMAS: st.SearchStrategy[Any] = st.deferred(_schemas)
OBJECTS: st.SearchStrategy[Any] = SCHEMAS.filter(lambda schema: isinstance(schema, dict))


class Described:
    """An upstream that has every tool, with schemas of all sorts, sound or not."""

    def __init__(self, schemas: list[Any]) -> None:
        self._schemas = schemas

    def bind(self, ref: ToolRef) -> Invoke | None:
        return None

    def describe(self, ref: ToolRef) -> ToolType | None:
        at = crc32(str(ref).encode())
        return ToolType(self._schemas[at % len(self._schemas)], self._schemas[(at + 1) % len(self._schemas)])

    def names(self) -> list[str]:
        return []


@given(documents(), st.lists(OBJECTS, min_size=4, max_size=4))
@SLOW
def test_checking_types_never_crashes(document: Doc, schemas: list[Any]):
    for index, tool in enumerate(document["tools"]):
        tool["inputSchema"], tool["outputSchema"] = schemas[index % 4], schemas[(index + 1) % 4]
    parsed = parse(read(json.dumps(document)))
    for problem in problems_of(parsed, Described(schemas)):
        assert problem.message
        assert problem.pointer.startswith("/tools/")


@given(documents())
@SLOW
def test_compiling_what_was_normalised_gives_a_plan_or_says_why_not(document: Doc):
    parsed = parse(read(json.dumps(document)))
    try:
        snapshot = compile_document(parsed.document, Described([{}]))
    except WeftError:
        return
    versions = [f"{tool.name}@{tool.version}" for tool in parsed.document.tools if tool.version is not None]
    assert list(snapshot.tools) == [*(tool.name for tool in parsed.document.tools), *versions]


ODD = st.one_of(
    st.none(), st.booleans(), st.integers(), st.just(""), st.just("$["), st.just("x"), st.just("pipeline"),
    st.just(cast("Any", [])), st.just(cast("Any", {})), st.just(cast("Any", [None])), st.just({"pattern": 1}),
    st.just({"source": []}), st.just({"name": {}}), st.just({"constant": None}), st.just({"values": {}}),
)  # fmt: skip
NAMES = st.sampled_from(
    [
        "",
        "$x",
        "pattern",
        "composition",
        "source",
        "path",
        "mappings",
        "steps",
        "op",
        "input",
        "value",
        "nmae",
        "\u202e",
    ]
)


@st.composite
def damaged(draw: st.DrawFn) -> Doc:
    """Return a document in which some values were deleted, replaced or put under another key."""
    document = copy.deepcopy(draw(documents()))
    for _ in range(draw(st.integers(1, 4))):
        places = list(_places(document))
        parent, key = places[draw(st.integers(0, len(places) - 1))]
        match draw(st.sampled_from(["delete", "replace", "rename", "wrap", "double"])):
            case "delete":
                del parent[key]
            case "rename" if isinstance(parent, dict):
                parent[draw(NAMES)] = cast("Doc", parent).pop(key)
            case "wrap":
                parent[key] = draw(st.sampled_from([[parent[key]], {"pattern": parent[key]}, {"tool": parent[key]}]))
            case "double" if isinstance(parent, dict):
                parent[draw(NAMES)] = parent[key]
            case _:
                parent[key] = copy.deepcopy(draw(ODD))
        if not document:
            break
    return document


def _places(value: Any) -> list[tuple[Any, Any]]:
    keys: list[Any] = list(cast("Doc", value)) if isinstance(value, dict) else list(range(len(value)))
    found: list[tuple[Any, Any]] = []
    for key in keys:
        found.append((cast("Any", value), key))
        if type(inner := cast("Any", value)[key]) in (dict, list):
            found += _places(inner)
    return found or [({"x": 1}, "x")]


@given(damaged())
@settings(SLOW, max_examples=300)
def test_a_damaged_document_gives_problems_and_never_a_traceback(document: Doc):
    text = json.dumps(document)
    parsed = parse(read(text))
    for problem in problems_of(parsed):
        assert problem.code
        assert problem.line == 1
        assert problem.value is None or len(problem.value) <= 80
    form = parsed.document.to_ir()
    assert canonical(form) == form
    with suppress(WeftError):
        compile_document(parsed.document, Described([{}]))


Ops = st.SearchStrategy[Operand]
P: Any = w.path(schema_of(dict[str, Any]))


def built() -> Ops:
    """Return operations made by the builders that authors call."""
    leaves: list[Ops] = [
        st.sampled_from(["a", "pipeline", "größe/x"]).map(lambda name: w.tool(name)),  # noqa: PLW0108  (an overload)
        st.just(w.agent("writer", "draft")),
        (st.none() | st.integers() | st.text(max_size=3)).map(_equal),
        st.integers().map(lambda count: w.filter(P.a, w.gt(count))),
        values().map(_constant),
        values().map(_nested),
        st.just(w.schema_map(P, {"u": w.coalesce(P.a, P.b), "t": w.template("{x}", x=P.a), "c": w.concat(P.a)})),
    ]
    return st.recursive(st.one_of(leaves), _patterns, max_leaves=6)


def _equal(value: Any) -> Operand:
    return w.filter(P.a, w.eq(value))  # pyright: ignore[reportUnknownArgumentType]  (an overload for each type)


def _constant(value: Any) -> Operand:
    return w.schema_map(P, {"f": w.literal(value), "path": P.a})


def _nested(value: Any) -> Operand:
    return w.schema_map(P, {"n": {"m": value, "mappings": P.b}})


def _patterns(inner: Ops) -> Ops:
    several = st.lists(inner, min_size=1, max_size=3)
    source = st.one_of(st.builds(w.from_input, paths), st.builds(w.constant, values()), st.just(w.from_previous()))
    made: list[Ops] = [
        several.map(_listed),
        st.tuples(inner, source).map(_bound),
        st.tuples(inner, inner).map(_routed),
        st.tuples(inner, inner).map(_tapped),
        several.map(lambda ops: w.scatter_gather(*ops, aggregate=[w.flatten(), w.sort("$.a", "desc")], timeout="5s")),
        inner.map(lambda op: w.map_each(op, max_concurrency=2, on_error="null")),
        inner.map(lambda op: w.enricher(field=("$.a", op), merge="spread")),
        inner.map(lambda op: w.recipient_list(op, allowed=["a"], aggregate=w.merge())),
    ]
    return st.one_of(made)


def _routed(given: tuple[Operand, Operand]) -> Operand:
    return w.router(w.when("input.a == 1", given[0]), otherwise=given[1])


def _tapped(given: tuple[Operand, Operand]) -> Operand:
    return w.wire_tap(*given, at="both")


def _listed(steps: list[Operand]) -> Operand:
    return w.pipeline([*steps])


def _bound(given: tuple[Operand, Binding]) -> Operand:
    return w.pipeline(w.step(given[0], id="s", input=given[1]), output=w.from_step("s"))


@pytest.mark.req("ALG-4")
@given(built())
@SLOW
def test_what_builders_make_is_the_same_after_a_way_through_json(operation: Operand):
    form = operation.to_ir()
    assert canonical(composed(json.loads(json.dumps(form))))["tools"][0]["spec"] == form
    top = w.composition("top", "d", w.pipeline(operation, operation))
    for split in (False, True):
        document = compile(top, split=split).document
        again = parse(read(json.dumps(document.to_ir())))
        assert again.problems == ()
        assert again.document == document


@given(operations(), st.sampled_from(["key", "tag", "wrapped"]))
@SLOW
def test_the_three_ways_to_tag_a_pattern_mean_the_same(operation: Doc, way: str):
    form = canonical(composed(operation))
    (kind, body), *_ = operation.items()
    spelt = {"key": operation, "tag": {"pattern": kind, **body}, "wrapped": {"pattern": operation}}[way]
    assert canonical(composed(spelt)) == form


def test_two_documents_that_say_the_same_are_equal():
    one, other = (Document.model_validate(composed({"tool": tool})) for tool in ("x", {"name": "x"}))
    assert one == other
    spec = one.tools[0].spec
    assert isinstance(spec, Node)
    assert operation_ir(spec) == {"tool": {"name": "x"}}
