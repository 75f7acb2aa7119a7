"""What changed between two JSON Schemas: whether fewer or more values are taken than before, keyword by keyword."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from weft.errors import Loc, shown
from weft.expr.jcs import canonical
from weft.ports import is_array, is_object

Direction = Literal["input", "output"]
Effect = Literal["narrower", "wider", "other", "text", "breaking", "risky", "safe", "cosmetic"]
"""What a change does to the values that are taken; `other` is neither, and the last four are the same for everybody."""

TYPES = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
_TEXT = frozenset({"title", "description", "$comment"})
_NOTES = frozenset({"$schema", "$id", "$anchor", "examples", "contentMediaType", "contentEncoding"})
_FLOORS = frozenset({"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "minContains"})
_CEILINGS = frozenset({"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties", "maxContains"})
_SUBSCHEMAS = frozenset({"items", "contains", "propertyNames", "unevaluatedItems", "unevaluatedProperties"})
_LIMITS = frozenset({"pattern", "format", "multipleOf", "patternProperties", "dependentRequired", "not"})
_TOGETHER = frozenset({"type", "enum", "const", "properties", "required", "additionalProperties"})
_DEFINITIONS = frozenset({"$defs", "definitions"})
Found: TypeAlias = "Iterator[SchemaChange]"


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """One difference between two schemas."""

    effect: Effect
    loc: Loc
    what: str
    before: Any = None
    after: Any = None


def schema_changes(before: Any, after: Any) -> list[SchemaChange]:
    """Return every difference between two schemas; references within each are followed.

    A property that is gone breaks whoever gave or read it, whether or not the schema still lets it pass.
    """
    return list(_Comparison(before, after).changes())


@dataclass(slots=True)
class _Comparison:
    before: Any
    after: Any
    _seen: set[tuple[bytes, bytes]] = field(default_factory=set[tuple[bytes, bytes]])
    _followed: set[str | None] = field(default_factory=set["str | None"])

    def changes(self) -> Found:
        yield from self.compare(self.before, self.after, ())
        yield from self._unused_definitions()

    def compare(self, old: Any, new: Any, loc: Loc) -> Found:
        """Yield the differences of two subschemas that stand at the same place."""
        if _ref(old) is not None or _ref(new) is not None:
            # A schema may refer to itself: each pair of places is compared once.
            pair = (_without_definitions(old), _without_definitions(new))
            if pair in self._seen:
                return
            self._seen.add(pair)
            self._followed |= {_ref(old), _ref(new)}
            followed = _resolved(self.before, old), _resolved(self.after, new)
            if None in followed:
                if not _same(old, new):
                    yield SchemaChange("other", loc, "another schema is referred to", old, new)
                return
            old, new = followed
        if _same(old, new) and not _has_reference(old):
            return
        if not is_object(old) or not is_object(new):
            yield from self._of_booleans(old, new, loc)
            return
        yield from _of_types(old, new, loc)
        yield from _of_values(old, new, loc)
        yield from self._of_properties(old, new, loc)
        for key in sorted({*old, *new} - _TOGETHER - _DEFINITIONS - {"$ref"}):
            if key not in old or key not in new or not _same(old[key], new[key]) or _has_reference(old[key]):
                yield from self._of_keyword(key, old, new, loc)

    def _of_booleans(self, old: Any, new: Any, loc: Loc) -> Found:
        if old is False or new is False:
            effect: Effect = "wider" if old is False else "narrower"
            told = "values are taken where none were" if old is False else "no value is taken any more"
            yield SchemaChange(effect, loc, told, old, new)
        else:
            yield from self.compare(_open(old), _open(new), loc)
            if _same(_open(old), _open(new)):
                yield SchemaChange("cosmetic", loc, "the schema is spelt another way", old, new)

    def _of_keyword(self, key: str, old: dict[str, Any], new: dict[str, Any], loc: Loc) -> Found:
        was, now, place = old.get(key), new.get(key), (*loc, key)
        if key in _TEXT:
            yield SchemaChange("text", place, _told(key, was, now), was, now)
        elif key in _SUBSCHEMAS:
            yield from self.compare(_open(was), _open(now), place)
            if (key in old) != (key in new) and _same(_open(was), _open(now)):
                yield SchemaChange("cosmetic", place, f"an empty {key!r} is written or left out", was, now)
        elif key in ("anyOf", "oneOf", "allOf", "prefixItems") and is_array(was or []) and is_array(now or []):
            yield from self._of_branches(key, was or [], now or [], place)
        elif key in _FLOORS or key in _CEILINGS:
            yield _of_bound(key, was, now, place)
        elif key in _NOTES:
            yield SchemaChange("cosmetic" if key == "$schema" else "risky", place, _told(key, was, now), was, now)
        elif key in _LIMITS:
            effect: Effect = "narrower" if key not in old else "wider" if key not in new else "other"
            yield SchemaChange(effect, place, _told(key, was, now), was, now)
        elif key == "uniqueItems":
            effect = "narrower" if now is True else "wider" if was is True else "cosmetic"
            yield SchemaChange(effect, place, _told(key, was, now), was, now)
        elif key in ("if", "then", "else", "dependentSchemas", "dependencies", "$dynamicRef"):
            if not _same(was, now):
                yield SchemaChange("other", place, _told(key, was, now), was, now)
        elif not _same(was, now) or (key in old) != (key in new):
            # A default, an annotation, a word that weft does not know: a model or a server may act on it.
            yield SchemaChange("risky", place, _told(key, was, now), was, now)

    def _of_branches(self, key: str, was: list[Any], now: list[Any], loc: Loc) -> Found:
        if len(was) == len(now):
            for index, (old, new) in enumerate(zip(was, now, strict=True)):
                yield from self.compare(old, new, (*loc, index))
            return
        if key == "prefixItems":
            yield SchemaChange("other", loc, f"{len(was)} -> {len(now)} items are described", was, now)
            return
        old, new = {canonical(one) for one in was}, {canonical(one) for one in now}
        more, fewer = ("narrower", "wider") if key == "allOf" or not was or not now else ("wider", "narrower")
        effect: Effect = "other"
        if old == new:
            # The same branch twice: only of those that exclude each other does it say something.
            effect = "other" if key == "oneOf" else "cosmetic"
        elif old <= new or not was:
            effect = more
        elif new <= old or not now:
            effect = fewer
        yield SchemaChange(effect, loc, f"{len(was)} -> {len(now)} branches of {key}", was, now)

    def _of_properties(self, old: dict[str, Any], new: dict[str, Any], loc: Loc) -> Found:
        was, now = _mapping(old.get("properties")), _mapping(new.get("properties"))
        for name in sorted({*was, *now}):
            place = (*loc, "properties", name)
            if name not in now:
                yield SchemaChange("breaking", place, f"the property {shown(name)} is gone", was[name])
            elif name not in was:
                effect: Effect = "wider" if old.get("additionalProperties") is False else "safe"
                yield SchemaChange(effect, place, f"a new property {shown(name)}", None, now[name])
            else:
                yield from self.compare(was[name], now[name], place)
        yield from _of_required(old, new, loc)
        yield from self._of_additional(old, new, (*loc, "additionalProperties"))
        if not was and not now and not _same(old.get("properties"), new.get("properties")):
            yield SchemaChange("cosmetic", (*loc, "properties"), "empty properties are written or left out")

    def _of_additional(self, old: dict[str, Any], new: dict[str, Any], loc: Loc) -> Found:
        key = "additionalProperties"
        was, now = old.get(key, True), new.get(key, True)
        if now is False and was is not False:
            yield SchemaChange("narrower", loc, "other properties are not taken any more", was, now)
        elif was is False and now is not False:
            yield SchemaChange("wider", loc, "other properties are taken", was, now)
        else:
            yield from self.compare(_open(was), _open(now), loc)
            if _same(_open(was), _open(now)) and (key in old, was) != (key in new, now):
                yield SchemaChange("cosmetic", loc, f"{key} is spelt another way", was, now)

    def _unused_definitions(self) -> Found:
        """Yield changed definitions that nothing refers to: they take no values, but a model may read them."""
        for key in sorted(_DEFINITIONS):
            was, now = _definitions(self.before, key), _definitions(self.after, key)
            for name in sorted({*was, *now}):
                if not _same(was.get(name), now.get(name)) and f"#/{key}/{name}" not in self._followed:
                    told = f"the definition {shown(name)} changed, and nothing refers to it"
                    yield SchemaChange("risky", (key, name), told, was.get(name), now.get(name))


def _of_types(old: dict[str, Any], new: dict[str, Any], loc: Loc) -> Found:
    was, now = old.get("type"), new.get("type")
    if _same(was, now):
        return
    before, after = _types(was), _types(now)
    told = f"type {_or_any(was)} -> {_or_any(now)}"
    yield SchemaChange(_effect(before, after), (*loc, "type"), told, was, now)


def _of_values(old: dict[str, Any], new: dict[str, Any], loc: Loc) -> Found:
    for key, listed in (("enum", _listed), ("const", _only)):
        was, now = (listed(one[key]) if key in one else None for one in (old, new))
        place = (*loc, key)
        if was is None and now is None:
            continue
        if was is None or now is None:
            effect: Effect = "narrower" if was is None else "wider"
            told = f"only {shown(now)} is taken" if was is None else f"not only {shown(was)} is taken"
            yield SchemaChange(effect, place, told, was, now)
        elif not _same(was, now):
            before, after = ({canonical(one) for one in several} for several in (was, now))
            gone = [one for one in was if canonical(one) not in after]
            more = [one for one in now if canonical(one) not in before]
            told = "; ".join(
                f"{word} {', '.join(map(shown, several))}"
                for word, several in (("gone:", gone), ("new:", more))
                if several
            )
            yield SchemaChange(_effect(before, after), place, told or "the values stand in another order", was, now)


def _of_required(old: dict[str, Any], new: dict[str, Any], loc: Loc) -> Found:
    was, now = (
        [one for one in _listed(several) if isinstance(one, str)]
        for several in (old.get("required", []), new.get("required", []))
    )
    place = (*loc, "required")
    for name in sorted({*now} - {*was}):
        yield SchemaChange("narrower", place, f"{shown(name)} must be there now", None, name)
    for name in sorted({*was} - {*now}):
        yield SchemaChange("wider", place, f"{shown(name)} may be missing now", name)
    if {*was} == {*now} and not _same(old.get("required"), new.get("required")):
        yield SchemaChange(
            "cosmetic", place, "the same names are written another way", old.get("required"), new.get("required")
        )


def _of_bound(key: str, was: Any, now: Any, loc: Loc) -> SchemaChange:
    told = _told(key, was, now)
    if not all(one is None or _is_number(one) for one in (was, now)):
        return SchemaChange("other", loc, told, was, now)
    higher = was is None or (now is not None and now > was)
    if was is None or now is None:
        effect: Effect = "narrower" if was is None else "wider"
    else:
        effect = "narrower" if higher == (key in _FLOORS) else "wider"
    return SchemaChange(effect, loc, told, was, now)


def _effect(before: frozenset[Any] | set[Any], after: frozenset[Any] | set[Any]) -> Effect:
    if before == after:
        return "cosmetic"
    return "narrower" if after < before else "wider" if before < after else "other"


def _types(value: Any) -> frozenset[str]:
    if value is None:
        return TYPES
    named = frozenset(str(one) for one in (value if is_array(value) else [value]))
    return named | {"integer"} if "number" in named else named


def _or_any(value: Any) -> str:
    return "any" if value is None else shown(value)


def _ref(schema: Any) -> str | None:
    ref = schema.get("$ref") if is_object(schema) else None
    return ref if isinstance(ref, str) else None


def _resolved(root: Any, schema: Any) -> Any:
    """Return a schema with its reference followed within the document, beside its own keywords; None leads nowhere."""
    for _ in range(32):
        if (ref := _ref(schema)) is None:
            return schema
        found: Any = root
        if ref != "#" and not ref.startswith("#/"):
            return None
        for part in ref.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if is_array(found) and key.isdecimal() and int(key) < len(found):
                found = found[int(key)]
            elif is_object(found) and key in found:
                found = found[key]
            else:
                return None
        own = {key: value for key, value in schema.items() if key != "$ref"}
        schema = {**found, **own} if is_object(found) else found
    return None


def _has_reference(value: Any) -> bool:
    if is_object(value):
        return "$ref" in value or any(map(_has_reference, value.values()))
    return is_array(value) and any(map(_has_reference, value))


def _open(schema: Any) -> Any:
    return {} if schema is None or schema is True else schema


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if is_object(value) else {}


def _without_definitions(schema: Any) -> bytes:
    return canonical(
        {key: value for key, value in schema.items() if key not in _DEFINITIONS} if is_object(schema) else schema
    )


def _definitions(root: Any, key: str) -> Mapping[str, Any]:
    return _mapping(root.get(key)) if is_object(root) else {}


def _listed(value: Any) -> list[Any]:
    return value if is_array(value) else []


def _only(value: Any) -> list[Any]:
    return [value]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _told(key: str, was: Any, now: Any) -> str:
    if was is None:
        return f"{key} was added: {shown(now)}"
    return f"{key} was removed" if now is None else f"{key} {shown(was)} -> {shown(now)}"


def _same(old: Any, new: Any) -> bool:
    return canonical(old) == canonical(new)
