"""References between schemas of a registry, `#Name:1.0.0`, and what becomes of them: plain JSON Schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import quote, unquote

from weft.errors import ExpressionInvalid, nearest
from weft.expr.subschemas import subschemas
from weft.ir.versions import precedence
from weft.ports import is_object

_REFS = ("$ref", "$dynamicRef", "$recursiveRef")
_ANNOTATIONS = frozenset({"$ref", "title", "description", "default", "examples", "deprecated", "$comment"})


def fragment_of(ref: object) -> str | None:
    """Return the name, perhaps with a version, by which a reference means a schema of the registry."""
    if not isinstance(ref, str) or len(ref) < 2 or ref[0] != "#":
        return None
    if ref[1] == "/":
        rest = ref.removeprefix("#/schemas/")
        return unquote(rest) if rest != ref and rest and "/" not in rest else None
    return unquote(ref[1:])


def names_entities(schema: Any) -> bool:
    """Tell whether a schema refers to schemas of the registry."""
    return next(references(schema), None) is not None


Named: TypeAlias = tuple[tuple[str | int, ...], str]
"""Where a reference stands, and the schema of the registry that it names."""


def references(schema: Any) -> Iterator[Named]:
    """Yield every reference of a schema that names one of the registry, with its place."""
    found: list[Named] = []
    anchors = set[str]()
    for loc, one in subschemas(schema):
        for keyword in ("$anchor", "$dynamicAnchor", "$id"):
            if isinstance(anchor := one.get(keyword), str):
                anchors.add(anchor.removeprefix("#"))
        if (fragment := fragment_of(one.get("$ref"))) is not None:
            found.append(((*loc, "$ref"), fragment))
    yield from (each for each in found if each[1] not in anchors) if anchors else found


@dataclass(slots=True)
class Schemas:
    """The schemas of a registry by `Name:1.0.0`, and what refers to them made plain."""

    by_key: Mapping[str, Mapping[str, Any]]
    _names: dict[str, list[str]] = field(default_factory=dict[str, list[str]], init=False)
    _bundled: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]], init=False)
    _direct: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]], init=False)
    _last: tuple[Any, list[Named]] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        for key in self.by_key:
            self._names.setdefault(key.partition(":")[0], []).append(key)
        for keys in self._names.values():
            keys.sort(key=lambda key: precedence(key.partition(":")[2]), reverse=True)

    def key_of(self, fragment: str) -> str:
        """Return the key of the schema that a reference means.

        Raises:
            ExpressionInvalid: there is none, or it does not say which of several versions.
        """
        if fragment in self.by_key:
            return fragment
        name, _, version = fragment.partition(":")
        known = self._names.get(name, [])
        if len(known) == 1 and not version:
            return known[0]
        versions = ", ".join(key.partition(":")[2] for key in known)
        if known:
            told = f"schema {name!r} has no version {version}" if version else f"schema {name!r} has several versions"
            raise ExpressionInvalid(
                f"{told}: there is {versions}",
                code="UnknownRef" if version else "AmbiguousRef",
                value=f"#{fragment}",
                expected=f"one of {versions}",
                suggestion=f"#{known[0]}",
            )
        close = nearest(name, self._names)
        raise ExpressionInvalid(
            f"the $ref leads nowhere: there is no schema {name!r}",
            code="UnknownRef",
            value=f"#{fragment}",
            expected="a schema of this registry, as in #Name:1.0.0",
            suggestion=f"#{self._names[close][0]}" if close else None,
        )

    def used_by(self, schema: Any) -> frozenset[str]:
        """Return the keys of all schemas that one refers to, directly or not.

        Raises:
            ExpressionInvalid: a reference leads nowhere.
        """
        reached = self._keys_in(schema)
        pending = list(reached)
        while pending:
            key = pending.pop()
            if key not in self._direct:
                self._direct[key] = self._keys_in(self.by_key[key])
            new = self._direct[key] - reached
            reached |= new
            pending += new
        return reached

    def named_in(self, schema: Any) -> list[Named]:
        """Return what `references` does; each schema is asked about several times in a row."""
        if self._last is None or self._last[0] is not schema:
            self._last = (schema, list(references(schema)))
        return self._last[1]

    def _keys_in(self, schema: Any) -> frozenset[str]:
        return frozenset(self.key_of(name) for _, name in self.named_in(schema))

    def plain(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Return a schema that needs no registry: what it refers to stands in its `$defs`.

        Raises:
            ExpressionInvalid: a reference leads nowhere.
        """
        sole = fragment_of(schema.get("$ref"))
        if sole is not None and schema.keys() <= _ANNOTATIONS and self.named_in(schema):
            # Callers of tools look for properties at the top of a schema: put there what it stands for.
            told = {key: value for key, value in schema.items() if key != "$ref"}
            schema = {**self.by_key[self.key_of(sole)], **told}
        used = self.used_by(schema)
        if not used:
            return dict(schema)
        made: dict[str, Any] = self._rewritten(schema, "")
        definitions = {key: self._definition(key) for key in sorted(used)}
        held = made.get("$defs")
        return {**made, "$defs": {**(held if is_object(held) else {}), **definitions}}

    def _definition(self, key: str) -> dict[str, Any]:
        known = self._bundled.get(key)
        if known is None:
            made: dict[str, Any] = self._rewritten(self.by_key[key], _pointer(key))
            made.pop("$schema", None)
            known = self._bundled[key] = made
        return known

    def _rewritten(self, schema: Mapping[str, Any], home: str) -> dict[str, Any]:
        """Return a copy whose references to the registry lead into `$defs`, and its own to where it now stands."""
        named = {loc[:-1]: name for loc, name in self.named_in(schema)}
        identity = schema.get("$id")
        copy = _copied(schema)
        if home:
            copy.pop("$id", None)
        for loc, one in list(subschemas(copy)):
            if loc in named:
                one["$ref"] = f"#{_pointer(self.key_of(named[loc]))}"
                continue
            for keyword in _REFS if home else ():
                ref = one.get(keyword)
                if isinstance(ref, str):
                    base, _, fragment = ref.partition("#")
                    if (not base or base == identity) and (not fragment or fragment[0] == "/"):
                        one[keyword] = f"#{home}{fragment}"
        return copy


def _pointer(key: str) -> str:
    return "/$defs/" + quote(key.replace("~", "~0").replace("/", "~1"), safe=":~+-._")


def _copied(value: Any) -> Any:
    if isinstance(value, Mapping):
        held: Mapping[str, Any] = value  # pyright: ignore[reportUnknownVariableType]  (JSON: the keys are text)
        return {key: _copied(item) for key, item in held.items()}
    if isinstance(value, list):
        items: list[Any] = value  # pyright: ignore[reportUnknownVariableType]  (JSON)
        return [_copied(item) for item in items]
    return value
