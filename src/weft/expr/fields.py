"""Typed paths: walk a model as if it were a value, and get the JSONPath of the field that was reached.

`path(Paper)` says that it returns a Paper, so a type checker knows its fields. It returns a FieldPath, which can do
nothing but go deeper: a path is data, and is read when a composition runs. `_Place` does the work, because every name
that FieldPath has itself is a name that no field can have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Never, TypeVar, cast, overload

from weft.errors import InputError, nearest, shown
from weft.expr.paths import compile_path, quote
from weft.expr.shapes import any_of, array_of, deref, may_be, types_of
from weft.expr.types import MODEL, Schema, annotated_schema, plain, public
from weft.ports import is_object

T = TypeVar("T")

_PARTS = {"object": "fields", "array": "items"}
_STRUCTURE = {"properties", "additionalProperties", "items", "prefixItems"}
_CHOICES = ("anyOf", "oneOf", "allOf")
_NESTED = 8


class FieldError(InputError, AttributeError, TypeError):
    """A field that the model does not have, or a path used as if it were a value."""

    code = "FieldError"

    def __init__(
        self, message: str, *, field: object = None, model: str | None = None, suggestion: str | None = None
    ) -> None:
        super().__init__(f"{message}; did you mean {suggestion!r}?" if suggestion else message)
        self.field = field
        self.model = model
        self.suggestion = suggestion


@overload
def path(model: type[T]) -> T: ...
@overload
def path(model: dict[str, Any]) -> Any: ...
def path(model: Any) -> Any:
    """Return the path of a whole value, to be walked to its fields: `path(Paper).authors[0].name`.

    The model is a TypedDict, a dataclass, a pydantic model, any other type with a JSON Schema, or a JSON Schema.

    Raises:
        ExpressionInvalid: the model has no JSON Schema.
    """
    schema = annotated_schema(model)
    name = schema.get("title", "the schema") if isinstance(model, dict) else _name(model)
    return FieldPath(_Place(name, schema, schema))


def some(field: T | None) -> T:
    """Return the same path, for the type checker: the field that may be null is taken to be there."""
    return cast("T", FieldPath(_place(field)))


def each(items: Sequence[T] | None) -> T:
    """Return the path of every item of a list: `each(p.authors).name` is `$.authors[*].name`, and gives a list."""
    return cast("T", _place(items).every())


def is_path(value: object) -> bool:
    """Tell whether a value is a path made by `path()`."""
    return isinstance(value, FieldPath)


def path_text(field: object) -> str:
    """Return the JSONPath of a path; a text that starts with `$` is one already.

    Raises:
        FieldError: it is no path.
        InvalidJsonPath: the text is not RFC 9535.
    """
    if isinstance(field, str) and field.startswith("$"):
        return compile_path(field).text
    return quote(_place(field).steps)


def path_schema(field: object) -> Schema:
    """Return the schema of what a path gives, a list if it has a `[*]`; {} when nothing is known of it."""
    if isinstance(field, str):
        return {}
    place = _place(field)
    schema = public(dict(array_of(place.schema) if None in place.steps else place.schema))
    alone = {key: value for key, value in schema.items() if key != "$defs"}
    return schema if "'$ref'" in str(alone) else alone


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a path stands: the steps to there, and the schema of what is there, with the `$defs` of the root."""

    model: str
    root: Schema
    schema: Schema
    steps: tuple[str | int | None, ...] = ()

    def __str__(self) -> str:
        return f"{quote(self.steps)} of {self.model}"

    def attribute(self, name: str) -> Any:
        options = self._options("object")
        if name == "get" and all(_is_map(one) or _note(one).get("by") == "item" for one in options):
            return self._get
        if all(_note(one).get("by") == "item" for one in options):
            raise FieldError(f"{self._named(options)} is a TypedDict: write [{name!r}], not .{name}", field=name)
        keys = [_fields(one).get(name) for one in options]
        # Tools that look for private hooks on any object must not find them on a path into a free-form value.
        return self._field(name, options, keys, open_ended=not name.startswith("_"))

    def item(self, key: object) -> FieldPath:
        if isinstance(key, str):
            options = self._options("object")
            return self._field(key, options, [_fields(one).get(key, key) for one in options])
        if isinstance(key, int) and not isinstance(key, bool):
            return self._to(key, [schema for one in self._options("array") for schema in _items(one, key)])
        raise FieldError(f"{self} takes a name or an index, not {shown(key)}; each() stands for every item", field=key)

    def every(self) -> FieldPath:
        return self._to(None, [schema for one in self._options("array") for schema in _items(one)])

    def _get(self, name: str, *default: object) -> FieldPath:
        if default:
            raise FieldError(f"{self}: get() takes no default here; use w.coalesce()", field=name)
        return self.item(name)

    def _field(
        self, name: str, options: list[Schema], keys: Sequence[str | None], *, open_ended: bool = True
    ) -> FieldPath:
        known = [(key, one.get("properties", {})) for key, one in zip(keys, options, strict=True) if key is not None]
        declared = [(key, fields[key]) for key, fields in known if key in fields]
        if declared:
            return self._to(declared[0][0], [schema for _, schema in declared])
        extra = [schema for one in options for schema in _extra(one)]
        if extra and open_ended:
            return self._to(name, extra)
        names = [python for one in options for python in _fields(one)]
        close, model = nearest(name, names), self._named(options)
        has = "" if close or not names else f"; it has {', '.join(names[:8])}"
        raise FieldError(f"{model} has no field {name!r}{has}", field=name, model=model, suggestion=close)

    def _to(self, step: str | int | None, schemas: list[Any]) -> FieldPath:
        schema = any_of(one if is_object(one) else {} for one in schemas)
        defs = {"$defs": self.root["$defs"]} if "$defs" in self.root and schema else {}
        return FieldPath(replace(self, schema={**schema, **defs}, steps=(*self.steps, step)))

    def _options(self, kind: str) -> list[Schema]:
        found = [one for one in _alternatives(self.schema) if may_be(one, kind)]
        if found:
            return found
        what = " or ".join(sorted((types_of(self.schema) or frozenset[str]()) - {"null"}))
        raise FieldError(
            f"{self} is of type {what}: it has no {_PARTS[kind]}, and a path has no methods", model=self.model
        )

    def _named(self, options: list[Schema]) -> str:
        names = " or ".join(_note(one)["name"] for one in options if _note(one))
        if not self.steps:
            return names or self.model
        return f"{names} ({self})" if names else str(self)


def _alternatives(schema: Mapping[str, Any], depth: int = _NESTED) -> Iterator[Schema]:
    """Yield each form that a schema allows, as far as its fields and items are concerned."""
    schema = deref(schema)
    defs = {"$defs": schema["$defs"]} if "$defs" in schema else {}
    choices: list[Any] = [branch for word in _CHOICES for branch in schema.get(word, ())]
    branches = [branch for branch in choices if is_object(branch)]
    own = {key: value for key, value in schema.items() if key not in _CHOICES}
    structured = bool(own.keys() & _STRUCTURE)
    if structured or not branches or not depth:
        yield own
    for branch in branches if depth else ():
        inner = _alternatives({**branch, **defs}, depth - 1)
        # Beside fields of its own, `anyOf: [{required: [a]}]` is a condition and not another form.
        yield from (one for one in inner if one.keys() & _STRUCTURE or not structured)


def _note(schema: Schema) -> dict[str, Any]:
    return schema.get(MODEL, {})


def _fields(schema: Schema) -> dict[str, str]:
    """Return the key in JSON of each field, by its name in Python."""
    return _note(schema).get("fields") or {key: key for key in schema.get("properties", {})}


def _extra(schema: Schema) -> list[Any]:
    if "patternProperties" in schema:
        return [{}]
    extra = schema.get("additionalProperties", "properties" not in schema)
    return [] if extra is False else [extra]


def _is_map(schema: Schema) -> bool:
    return "object" in schema.get("type", ()) and "properties" not in schema


def _items(schema: Schema, index: int | None = None) -> list[Any]:
    first: list[Any] = schema.get("prefixItems", [])
    exact = first[index : index + 1] if index is not None and index >= 0 else []
    return exact or [*first, schema.get("items", {})]


def _name(model: Any) -> str:
    return model.__name__ if isinstance(model, type) and not hasattr(model, "__args__") else str(model)


def _place(field: object) -> _Place:
    if isinstance(field, FieldPath):
        return object.__getattribute__(field, "_place")
    if isinstance(field, (Coalesce, TemplateText, Concat, Literal)):
        raise FieldError(f"{field} is a source for schema_map, not a path")
    hint = f"write p.{field}, or a JSONPath that starts with $" if isinstance(field, str) else "use a field of w.path()"
    raise FieldError(f"{shown(field)} is not a path; {hint}", field=field)


def _refuse(what: str, instead: str) -> Any:
    def refused(self: FieldPath, *_: object, **__: object) -> Never:
        raise FieldError(f"{self!r} {what}; {instead}")

    return refused


class FieldPath:
    """A field that a composition will read. It has no methods and no operators, so that any field name works."""

    __slots__ = ("_place",)

    def __init__(self, place: _Place) -> None:
        object.__setattr__(self, "_place", place)

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            return object.__getattribute__(self, name)
        return _place(self).attribute(name)

    def __getitem__(self, key: object) -> FieldPath:
        return _place(self).item(key)

    def __repr__(self) -> str:
        return f"<path {_place(self)}>"

    def __copy__(self) -> FieldPath:
        return self

    def __deepcopy__(self, memo: object) -> FieldPath:
        return self

    __call__ = _refuse("cannot be called", "a path has no methods, a template or a tool changes values")
    __add__ = __radd__ = _refuse("cannot be added to", "use w.concat() or w.template()")
    __mod__ = __rmod__ = __mul__ = __rmul__ = _refuse("cannot be computed with", "use w.template() or a tool")
    __sub__ = __rsub__ = __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__
    __divmod__ = __rdivmod__ = __pow__ = __rpow__ = __matmul__ = __rmatmul__ = __mod__
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = __neg__ = __pos__ = __abs__ = __mod__
    __int__ = __float__ = __complex__ = __index__ = __round__ = __trunc__ = __floor__ = __ceil__ = __mod__
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __invert__ = _refuse(
        "cannot be combined", "use w.coalesce() for the first that is there, several filters for several conditions"
    )
    __bool__ = _refuse(
        "is neither true nor false yet", "use w.coalesce(a, b) for `a or b`, w.filter() or w.router() for conditions"
    )
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse(
        "cannot be compared", "use a predicate, as in w.filter(p.x, w.gt(0.7))"
    )
    __hash__ = _refuse("cannot be a key or an item of a set", "keep paths in a list")
    __iter__ = __len__ = __reversed__ = __aiter__ = _refuse(
        "has no items yet", "use w.each(p.xs), p.xs[0] or w.map_each()"
    )
    __contains__ = _refuse("cannot be searched", "use a predicate, as in w.filter(p.x, w.contains('y'))")
    __str__ = __format__ = __bytes__ = __fspath__ = _refuse(
        "is not text yet", "use w.template('{x}', x=p.x) or w.concat()"
    )
    __setattr__ = __delattr__ = __setitem__ = __delitem__ = _refuse(
        "cannot be changed", "use w.schema_map() or w.enricher()"
    )
    __await__ = __enter__ = __exit__ = __aenter__ = __aexit__ = _refuse(
        "is not a value yet", "a path is read when it runs"
    )


@dataclass(frozen=True, slots=True)
class Coalesce:
    """The first of some paths that is there and not null."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TemplateText:
    """A text with `{name}` where values stand."""

    template: str
    vars: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Concat:
    """Some texts, one after another."""

    paths: tuple[str, ...]
    separator: str = ""


@dataclass(frozen=True, slots=True)
class Literal:
    """A value that is the same in every call."""

    value: Any


def coalesce(*paths: T | None) -> T:
    """Return a source that gives the first of these fields that is there and not null."""
    return cast("T", Coalesce(_texts("coalesce", paths)))


def template(text: str, **vars: object) -> str:
    """Return a source that fills `{name}` in a text: `template("by {who}", who=p.author)`."""
    return cast("str", TemplateText(text, {name: path_text(field) for name, field in vars.items()}))


def concat(*paths: object, separator: str = "") -> str:
    """Return a source that joins the fields that are texts."""
    return cast("str", Concat(_texts("concat", paths), separator))


def literal(value: T) -> T:
    """Return a source that always gives this JSON value."""
    return cast("T", Literal(plain(value)))


def _texts(source: str, paths: Iterable[object]) -> tuple[str, ...]:
    texts = tuple(path_text(one) for one in paths)
    if not texts:
        raise FieldError(f"{source}() needs at least one path")
    return texts
