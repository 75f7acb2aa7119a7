"""The protobuf files and the canonical JSON are one form: each reads what the other writes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NoReturn, cast, get_args, get_origin

import pytest
from google.protobuf import descriptor_pb2, json_format, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from hypothesis import given

from tests.documents import FILES, FIXTURES, PATTERNS, canonical, composed, fixture, problems_of
from tests.strategies import documents, unhurried
from weft.expr.predicates import same
from weft.ir.document import Document
from weft.ir.nodes import Node, OneOf
from weft.ir.normalise import MAX_PATTERN_DEPTH
from weft.ir.operations import kinds
from weft.ir.walk import walk
from weft.ir.write import write

pytestmark = pytest.mark.req("ALG-32")

SCHEMA = Path(__file__).resolve().parents[2] / "schema"
PACKAGE = "weft.ir.v1"
SCALARS = {str: "string", int: "int32", float: "double", bool: "bool"}
WELL_KNOWN = {"google.protobuf.Value": "Value", "google.protobuf.Struct": "Struct"}

Doc = dict[str, Any]
Proto = type[Message]


@pytest.fixture(scope="session")
def pool(tmp_path_factory: pytest.TempPathFactory) -> DescriptorPool:
    """Compile the files with protoc, as any user of them would."""
    out = tmp_path_factory.mktemp("proto") / "weft.binpb"
    files = sorted(str(path.relative_to(SCHEMA)) for path in SCHEMA.rglob("*.proto"))
    options = [f"--proto_path={SCHEMA}", f"--descriptor_set_out={out}", "--include_imports", "--fatal_warnings"]
    done = subprocess.run(
        [sys.executable, "-m", "grpc_tools.protoc", *options, *files], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    made = DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file:
        made.Add(file)
    return made


@pytest.fixture(scope="session")
def proto(pool: DescriptorPool) -> Proto:
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.Document"))


def there_and_back(proto: Proto, document: Doc) -> Doc:
    return json_format.MessageToDict(json_format.ParseDict(document, proto()))


@pytest.mark.req("ALG-19", "ALG-20", "ALG-21", "ALG-31")
@pytest.mark.parametrize("name", FILES)
def test_a_canonical_fixture_comes_back_from_protobuf_as_it_was(proto: Proto, name: str):
    document = canonical(fixture(name))
    assert same(there_and_back(proto, document), document)


@pytest.mark.parametrize("name", FILES)
def test_a_canonical_fixture_survives_the_wire(proto: Proto, name: str):
    document = canonical(fixture(name))
    sent = json_format.ParseDict(document, proto()).SerializeToString()
    assert same(json_format.MessageToDict(proto.FromString(sent)), document)


def test_protobuf_writes_keys_in_the_order_in_which_weft_does(proto: Proto):
    document = canonical(fixture("everything.json"))
    assert list(keys(there_and_back(proto, document))) == list(keys(document))


def keys(value: object) -> Iterator[str]:
    """Yield the keys of messages; those of maps and of free JSON have no order of their own."""
    if isinstance(value, list):
        for item in cast("list[object]", value):
            yield from keys(item)
    elif isinstance(value, dict):
        for key, item in cast("dict[str, object]", value).items():
            yield key
            if key not in (
                "metadata",
                "defaults",
                "inputSchema",
                "outputSchema",
                "mappings",
                "fields",
                "vars",
                "parameters",
                "schema",
                "output",
            ):
                yield from keys(item)


@pytest.mark.req("ALG-22", "ALG-23", "ALG-24", "ALG-25", "ALG-26", "ALG-28", "ALG-29", "ALG-30")
@pytest.mark.parametrize("name", ["everything.json", "everything-registry.json"])
def test_the_document_of_everything_is_canonical(name: str):
    text = (FIXTURES / name).read_text(encoding="utf-8")
    assert write(canonical(fixture(name)), "json") == text


def test_the_documents_of_everything_use_every_field_of_every_model():
    used: dict[type[Node], set[str]] = {}
    for name in ("everything.json", "everything-registry.json"):
        for _, node in walk(Document.model_validate(fixture(name))):
            used.setdefault(type(node), set()).update(node.model_fields_set)
    assert used == {model: set(model.model_fields) for model in models()}


@unhurried
@given(document=documents())
def test_random_documents_come_back_from_protobuf_and_from_weft(proto: Proto, document: Doc):
    assert same(there_and_back(proto, document), document)
    assert same(canonical(document), document)


@pytest.mark.parametrize(
    "operation",
    [
        {"tool": {"name": "a"}, "filter": {"predicate": {"op": "is_null"}}},
        {"tool": {"name": "a", "nmae": "b"}},
        {"tool": "a"},
        {"pipelin": {}},
        {"mapEach": {"inner": {"tool": {"name": "a"}}, "$comment": "no"}},
        {"schemaMap": {"mappings": {"a": {"path": "$", "literal": 1}}}},
        {"scatterGather": {"targets": [{"tool": {"name": "a"}}], "timeoutMs": "5s"}},
    ],
)
def test_protobuf_refuses_what_is_not_canonical(proto: Proto, operation: Doc):
    with pytest.raises(json_format.ParseError):
        json_format.ParseDict(composed(operation), proto())


NESTED: Mapping[str, Callable[[Doc], Doc]] = {
    "pipeline": lambda inner: {"steps": [{"id": "a", "operation": inner}]},
    "router": lambda inner: {"routes": [{"id": "a", "condition": "true", "target": inner}]},
    "scatterGather": lambda inner: {"targets": [inner]},
    "mapEach": lambda inner: {"inner": inner},
    "enricher": lambda inner: {"enrichments": [{"field": "a", "operation": inner}]},
    "wireTap": lambda inner: {"inner": {"tool": {"name": "a"}}, "taps": [inner]},
    "recipientList": lambda inner: {"recipients": {"operation": inner}, "allowed": ["a"]},
    "timeout": lambda inner: {"inner": inner, "durationMs": 1},
    "retry": lambda inner: {"inner": inner, "maxAttempts": 1},
    "throttle": lambda inner: {"inner": inner, "rate": 1},
    "cache": lambda inner: {"keyPaths": ["$"], "inner": inner, "ttlSeconds": 1},
    "circuitBreaker": lambda inner: {
        "name": "a",
        "inner": inner,
        "failureThreshold": 1,
        "failureWindowSeconds": 1,
        "resetTimeoutSeconds": 1,
    },
    "idempotent": lambda inner: {"keyPaths": ["$"], "inner": inner},
    "deadLetter": lambda inner: {"inner": inner, "deadLetterTool": "a"},
    "claimCheck": lambda inner: {"storeTool": "a", "retrieveTool": "b", "inner": inner},
    "saga": lambda inner: {"steps": [{"id": "a", "name": "a", "action": inner}]},
    "workflow": lambda inner: {"steps": [{"id": "a", "operation": inner}]},
}
LEAVES: Mapping[str, Doc] = {
    "filter": {"predicate": {"field": "$.a", "op": "eq", "value": [1]}},
    "schemaMap": {"mappings": {"a": {"template": {"template": "{b}", "vars": {"b": "$.b"}}}}},
}


def deep(kind: str, depth: int) -> Doc:
    """Return a document whose patterns are nested so deep."""
    operation: Doc = {"tool": {"name": "a"}}
    for _ in range(depth):
        operation = {kind: NESTED[kind](operation)}
    return composed(operation)


@pytest.mark.parametrize("kind", NESTED)
def test_patterns_as_deep_as_weft_takes_them_parse_with_protobuf(proto: Proto, kind: str):
    document = deep(kind, MAX_PATTERN_DEPTH)
    assert canonical(document) == document
    assert there_and_back(proto, document) == document


@pytest.mark.parametrize("kind", NESTED)
def test_patterns_that_are_one_deeper_are_refused(kind: str):
    assert [problem.code for problem in problems_of(deep(kind, MAX_PATTERN_DEPTH + 1))] == ["MaxPatternDepth"]


def test_the_tests_of_depth_know_every_pattern():
    assert {*NESTED, *LEAVES} == set(PATTERNS)


@pytest.mark.parametrize("kind", LEAVES)
def test_patterns_that_hold_none_parse_below_the_deepest(proto: Proto, kind: str):
    operation: Doc = {kind: LEAVES[kind]}
    for _ in range(MAX_PATTERN_DEPTH - 1):
        operation = {"pipeline": NESTED["pipeline"](operation)}
    document = composed(operation)
    assert canonical(document) == document
    assert there_and_back(proto, document) == document


def test_every_model_is_a_message_with_the_same_fields_in_the_same_order(pool: DescriptorPool):
    written = {model.__name__: [*fields_of(model)] for model in models()}
    written["Operation"] = [f"{kind}: oneof {model.__name__}" for kind, model in kinds().items()]
    assert {message.name: [*fields_in(message)] for message in messages(pool)} == written


def models() -> list[type[Node]]:
    """Return every model that a document can hold."""
    found: dict[type[Node], None] = {}
    pending: list[Any] = [Document, *kinds().values()]
    while pending:
        held = pending.pop()
        if not isinstance(held, type):
            pending += get_args(held)
        elif issubclass(held, Node) and held is not Node and held not in found:
            found[held] = None
            pending += [field.annotation for field in held.model_fields.values()]
    return list(found)


def fields_of(model: type[Node]) -> Iterator[str]:
    """Yield the fields of a model in the words of protobuf."""
    for name, field in model.model_fields.items():
        kind = type_of(field.annotation)
        one_of = issubclass(model, OneOf) and name not in model.beside
        label = "oneof " if one_of else "optional " if kind in SCALARS.values() else ""
        yield f"{field.alias}: {label}{kind}"


def type_of(annotation: Any) -> str:
    """Return the protobuf type of an annotation; a bare Node is the union of operations."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is list:
        return f"repeated {type_of(arguments[0])}"
    if origin is dict:
        inner = type_of(arguments[1])
        return "Struct" if inner == "Value" else f"map {inner}"
    if origin is Literal:
        return SCALARS[type(arguments[0])]
    if annotation is Any:
        return "Value"
    if arguments:  # Annotated, or a union with None
        return type_of(arguments[0])
    if annotation is Node:
        return "Operation"
    return SCALARS.get(annotation) or annotation.__name__


def messages(pool: DescriptorPool) -> Iterator[Descriptor]:
    """Yield the messages of all files."""
    for path in sorted(SCHEMA.rglob("*.proto")):
        file = pool.FindFileByName(str(path.relative_to(SCHEMA)))
        assert file.package == PACKAGE
        yield from file.message_types_by_name.values()


def fields_in(message: Descriptor) -> Iterator[str]:
    """Yield the fields of a message by number: without gaps, since none was ever removed."""
    fields = sorted(message.fields, key=lambda field: field.number)
    assert [field.number for field in fields] == list(range(1, len(fields) + 1))
    for field in fields:
        yield f"{field.json_name}: {label_of(field)}{name_of(field)}"


def label_of(field: FieldDescriptor) -> str:
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        return "map "
    if field.is_repeated:
        return "repeated "
    if field.containing_oneof is not None and not field.containing_oneof.name.startswith("_"):
        return "oneof "
    if field.type != FieldDescriptor.TYPE_MESSAGE:
        assert field.has_presence, f"{field.full_name} loses false, 0 and empty text"
        return "optional "
    return ""


def name_of(field: FieldDescriptor) -> str:
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        return name_of(message.fields_by_name["value"])
    if message is not None:
        return WELL_KNOWN.get(message.full_name, message.name)
    names = {
        FieldDescriptor.TYPE_STRING: "string",
        FieldDescriptor.TYPE_INT32: "int32",
        FieldDescriptor.TYPE_DOUBLE: "double",
        FieldDescriptor.TYPE_BOOL: "bool",
    }
    return names.get(field.type) or no_such_type(field)


def no_such_type(field: FieldDescriptor) -> NoReturn:
    pytest.fail(f"{field.full_name}: JSON does not write this type as the canonical form does")
