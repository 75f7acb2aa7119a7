"""Schema map: build an object, field by field, from a value of another shape."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator

from weft.errors import ExecutionFailed, ExpressionInvalid, LimitExceeded
from weft.expr.fields import Coalesce as CoalesceText
from weft.expr.fields import Concat as ConcatText
from weft.expr.fields import Literal as LiteralText
from weft.expr.fields import TemplateText, is_path, path_text
from weft.expr.paths import MISSING, compile_path
from weft.expr.rows import Apply, FirstOf, Fixed, Names, Part, mapping, names_of
from weft.expr.shapes import any_of, look, object_of
from weft.expr.templates import MAX_BYTES, canonical, compile_template
from weft.expr.types import plain
from weft.ir.nodes import LiteralJson, Node, OneOf, PathText, expression, refuse, refused
from weft.ir.normalise import made
from weft.ir.values import unwrap
from weft.patterns.contract import Compiler, Flow, Op, Pattern, Pure, Run, Value
from weft.patterns.copies import NEW, OFTEN, ONCE, Copies, guarded, overlap
from weft.patterns.flows import at_path
from weft.ports import Schema, is_array, is_object

T = TypeVar("T")
U = TypeVar("U")

WRITTEN: Mapping[str, frozenset[str]] = {
    "path": frozenset({"default"}),
    "literal": frozenset[str](),
    "coalesce": frozenset({"default"}),
    "template": frozenset({"vars"}),
    "concat": frozenset({"separator"}),
    "nested": frozenset[str](),
}
"""The kinds of sources, each with what may stand beside it."""
SOURCE_KEYS = WRITTEN.keys() | {key for beside in WRITTEN.values() for key in beside}


def _canonical_template(text: Any) -> Any:
    try:
        return canonical(text) if isinstance(text, str) else text
    except ExpressionInvalid as error:
        raise refused(error) from None


TemplateString = Annotated[str, BeforeValidator(_canonical_template), AfterValidator(expression(compile_template))]


class Coalesce(Node):
    """The first of several places that is there and not null; null when none is."""

    paths: Annotated[list[PathText], Field(min_length=1)]

    @classmethod
    def spell(cls, value: Any) -> Any:
        return {"paths": value} if is_array(value) else value

    def read(self) -> Callable[[Value], Value]:
        """Return the look-up."""
        finds = [compile_path(path).get for path in self.paths]

        def run(row: Value) -> Value:
            for find in finds:
                if (found := find(row)) is not None:
                    return found
            return None

        return run


class Template(Node):
    """Text with `{name}` in it; each name is a place in the value."""

    template: TemplateString
    vars: dict[str, PathText] = {}

    @classmethod
    def spell(cls, value: Any) -> Any:
        return {"template": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _names(self) -> Template:
        try:
            compile_template(self.template, self.vars)
        except ExpressionInvalid as error:
            raise refused(error, "template") from None
        return self

    def read(self) -> Callable[[Value], Value]:
        """Return the rendering."""
        render = compile_template(self.template, self.vars).render
        finds = {name: _required(path) for name, path in self.vars.items()}
        return lambda row: render({name: find(row) for name, find in finds.items()})


class Concat(Node):
    """Several strings, joined; what is not a string is left out."""

    paths: Annotated[list[PathText], Field(min_length=1)]
    separator: str = ""

    @classmethod
    def spell(cls, value: Any) -> Any:
        return {"paths": value} if is_array(value) else value

    def read(self) -> Callable[[Value], Value]:
        """Return the join."""
        finds = [compile_path(path).get for path in self.paths]
        separator = self.separator

        def run(row: Value) -> Value:
            text = separator.join(found for find in finds if isinstance(found := find(row), str))
            if len(text) > MAX_BYTES:
                raise LimitExceeded("TemplateSize", MAX_BYTES, "concatenated text is too long")
            return text

        return run


class Mappings(Node):
    """An object inside the object, built from the same value."""

    mappings: dict[str, FieldSource] = {}

    @classmethod
    def spell(cls, value: Any) -> Any:
        """Take the fields without `mappings` around them; a field may have that name, too."""
        if not is_object(value):
            return value
        given = {key: item for key, item in value.items() if not key.startswith("$")}
        if len(given) != 1 or not is_object(fields := given.get("mappings")):
            return {"mappings": given}
        source = fields.keys() <= SOURCE_KEYS and not all(isinstance(one, dict | Node) for one in fields.values())
        return {"mappings": given} if source else given


DEFAULT_RULE: dict[str, Any] = {
    "dependentSchemas": {"default": {"anyOf": [{"required": ["path"]}, {"required": ["coalesce"]}]}}
}
"""What JSON Schema can say about which sources have a use for a default."""


class FieldSource(OneOf):
    """Where one field comes from; a path that is not there is an error unless there is a `default`."""

    model_config = ConfigDict(json_schema_extra=DEFAULT_RULE)
    noun: ClassVar[str] = "source of a field"
    beside: ClassVar[frozenset[str]] = frozenset({"default"})
    keeps_null: ClassVar[frozenset[str]] = frozenset({"literal", "default"})

    path: PathText | None = None
    literal: LiteralJson = None
    coalesce: Coalesce | None = None
    template: Template | None = None
    concat: Concat | None = None
    nested: Mappings | None = None
    default: LiteralJson = None

    @classmethod
    def spell(cls, value: Any) -> Any:
        if isinstance(value, str) and value.startswith("$"):
            return {"path": value}
        if not is_object(value):
            return value
        given = dict(value)
        if "literal" in given:
            given["literal"] = unwrap(given["literal"])
        if isinstance(given.get("template"), str):
            given["template"] = {"template": given["template"], "vars": given.pop("vars", {})}
        if isinstance(given.get("concat"), list) and "separator" in given:
            given["concat"] = {"paths": given["concat"], "separator": given.pop("separator")}
        return given

    @model_validator(mode="after")
    def _default_is_used(self) -> FieldSource:
        if "default" in self.model_fields_set and self.kind not in ("path", "coalesce"):
            told = f"a {self.kind} has no use for a default"
            raise refuse("UnusedDefault", told, expected="a path or coalesce beside default", at=("default",))
        return self

    def part(self) -> Part:
        """Return how a row gives this field, in the terms of generated loops."""
        if self.path is not None:
            names = names_of(compile_path(self.path))
            if names is not None and "default" not in self.model_fields_set:
                return Names(names)
        elif self.coalesce is not None:
            names = [names_of(compile_path(path)) for path in self.coalesce.paths]
            single = [name[0] for name in names if name is not None and len(name) == 1]
            if len(single) == len(names) and "default" not in self.model_fields_set:
                return FirstOf(tuple(single))
        elif self.nested is not None:
            return {name: source.part() for name, source in self.nested.mappings.items()}
        elif self.kind == "literal" and not isinstance(self.literal, list | dict):
            return Fixed(self.literal)
        return Apply(self.read())

    def read(self) -> Callable[[Value], Value]:
        """Return how a row gives this field, precisely."""
        match self.kind:
            case "path":
                if "default" in self.model_fields_set:
                    return _defaulted(self.path or "$", self.default)
                return _required(self.path or "$")
            case "literal":
                literal = self.literal
                return lambda row: copy.deepcopy(literal)
            case "nested":
                return _precise(self.chosen.mappings)
            case "coalesce" if "default" in self.model_fields_set:
                first, default = self.chosen.read(), self.default
                return lambda row: copy.deepcopy(default) if (found := first(row)) is None else found
            case _:
                source: Coalesce | Template | Concat = self.chosen
                return source.read()

    def flow(self, given: Schema, f: Flow, *at: str | int) -> Schema:
        """Return the schema of this field; report places that cannot be there."""
        match self.kind:
            case "path" if "default" in self.model_fields_set:
                return any_of([_tried(given, self.path or "$", f, *at, "path"), {"const": self.default}])
            case "path":
                return at_path(given, self.path or "$", f, *at, "path")
            case "literal":
                return {"const": self.literal}
            case "coalesce":
                paths = enumerate(self.chosen.paths)
                found = [_tried(given, path, f, *at, "coalesce", "paths", index) for index, path in paths]
                return any_of([*found, {"type": "null"}])
            case "nested":
                fields = self.chosen.mappings.items()
                return object_of({name: one.flow(given, f, *at, "nested", "mappings", name) for name, one in fields})
            case "template":
                for name, path in self.chosen.vars.items():
                    at_path(given, path, f, *at, "template", "vars", name)
                return {"type": "string"}
            case _:
                for index, path in enumerate(self.chosen.paths):
                    _tried(given, path, f, *at, "concat", "paths", index)
                return {"type": "string"}


def _tried(given: Schema, path: str, f: Flow, *at: str | int) -> Schema:
    """Return the schema of a place that may be missing; one that is always missing was hardly meant."""
    found = look(given, compile_path(path))
    if found.verdict != "impossible":
        return found.schema
    told = f"Path {path}: {found.reason}, so it is never used"
    f.warning("PathImpossible", told, *at, value=path, expected="a place that there is", suggestion=found.suggestion)
    return {"type": "null"}


def _required(path: str) -> Callable[[Value], Value]:
    find = compile_path(path).find

    def run(row: Value) -> Value:
        if (found := find(row)) is MISSING:
            raise ExecutionFailed(f"Path {path} not found")
        return found

    return run


def _defaulted(path: str, default: Value) -> Callable[[Value], Value]:
    find = compile_path(path).find
    return lambda row: copy.deepcopy(default) if (found := find(row)) is MISSING else found


def _precise(mappings: Mapping[str, FieldSource]) -> Callable[[Value], Value]:
    reads = [(name, source.read()) for name, source in mappings.items()]
    return lambda row: {name: read(row) for name, read in reads}


def _taken(mappings: Mapping[str, FieldSource]) -> Iterator[list[str]]:
    """Yield, for each field that holds a part of the row as it is, the paths of which one gives it."""
    for source in mappings.values():
        if source.path is not None:
            yield [source.path]
        elif source.coalesce is not None:
            yield source.coalesce.paths
        elif source.nested is not None:
            yield from _taken(source.nested.mappings)


class SchemaMap(Pattern):
    """Each field of the result has a source in the value."""

    mappings: Annotated[dict[str, FieldSource], Field(min_length=1)]

    def compile(self, c: Compiler) -> Run | Pure:
        parts = {name: source.part() for name, source in self.mappings.items()}
        row, rows = mapping(parts, _precise(self.mappings))
        return Pure(guarded(row), guarded(rows)) if self.copies(c).shared else Pure(row, rows)

    def copies(self, c: Compiler) -> Copies:
        taken = list(_taken(self.mappings))
        return (OFTEN if overlap(taken) else ONCE) if taken else NEW

    def flow(self, given: Schema, f: Flow) -> Schema:
        return object_of({name: source.flow(given, f, "mappings", name) for name, source in self.mappings.items()})


Mappings.model_rebuild()


def schema_map(root: T, fields: U) -> Op[T, U]:
    """Build an object from a value: `w.schema_map(p, {"title": p.title, "url": w.coalesce(p.pdf, p.id)})`.

    A field's source is a path, a constant, `w.coalesce`, `w.template`, `w.concat`, `w.literal` or an object of these.
    Given as a TypedDict (`Unified(title=p.title, ..)`), the fields are checked and the result is typed.
    """
    if not is_path(root):
        raise TypeError("w.schema_map takes a path first: p = w.path(Model); w.schema_map(p, {..})")
    if not is_object(fields):
        raise TypeError("w.schema_map takes an object of fields, for instance a dict or a TypedDict")
    return Op(made(SchemaMap, {"mappings": _sources(fields)}))


def _sources(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _source(source) for name, source in fields.items()}


def _source(source: Any) -> Any:
    if is_path(source):
        return {"path": path_text(source)}
    match source:
        case CoalesceText(paths=paths):
            return {"coalesce": {"paths": list(paths)}}
        case TemplateText(template=text, vars=names):
            return {"template": {"template": text, "vars": dict(names)}}
        case ConcatText(paths=paths, separator=separator):
            return {"concat": {"paths": list(paths), "separator": separator}}
        case LiteralText(value=value):
            return _literal(value)
        case FieldSource():
            return source
        case _:
            return _object(source) if is_object(source) else _literal(plain(source))


def _literal(value: Any) -> Any:
    """Write a constant; an object that documents would take for a typed wrapper is built from its field instead."""
    if is_object(value) and unwrap(value) is not value:
        return {"nested": {"mappings": {name: {"literal": held} for name, held in value.items()}}}
    return {"literal": value}


def _object(source: dict[str, Any]) -> Any:
    """Take `{"literal": ..}`, `{"coalesce": [..]}` and the like as written; any other object is nested."""
    kind = next((key for key in source if key in WRITTEN), None)
    if kind is None or source.keys() - {kind} - WRITTEN[kind] or (kind == "path" and is_path(source[kind])):
        return {"nested": {"mappings": _sources(source)}}
    if kind == "literal":
        return _literal(plain(source[kind]))
    if kind == "nested":
        return {"nested": {"mappings": _sources(source[kind])}}
    return {key: _texts(value) for key, value in source.items()}


def _texts(value: Any) -> Any:
    if is_path(value):
        return path_text(value)
    if is_array(value):
        return [_texts(item) for item in value]
    if is_object(value):
        return {key: _texts(item) for key, item in value.items()}
    return value
