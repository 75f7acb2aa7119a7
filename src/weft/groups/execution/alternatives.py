"""Alternatives of which none fits: which one was meant, and what is wrong with that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from weft.errors import Loc, nearest
from weft.expr.schemas import SchemaProblem
from weft.groups.action import fields_of, required_of
from weft.groups.execution.expected import followed, schema_at
from weft.ports import Schema, is_array, is_object

_OTHER_KIND: Final = ("type", "const", "enum", "falseSchema")
_MORE: Final = ("additionalProperties", "unevaluatedProperties")
_NESTED: Final = 3


@dataclass(frozen=True, slots=True)
class WrongTag:
    """The field that tells alternatives apart is not there, or has a value that it has in none of them."""

    loc: Loc
    choices: Sequence[Any]
    missing: bool


@dataclass(frozen=True, slots=True)
class _Tag:
    values: Sequence[Any]
    needed: bool


Reason: TypeAlias = SchemaProblem | WrongTag


class Alternatives:
    """What is wrong with arguments, told of one alternative where a schema has several."""

    def __init__(self, schema: Schema, arguments: Any) -> None:
        self._schema = schema
        self._arguments = arguments

    def closest(self, problem: SchemaProblem) -> Sequence[Reason]:
        """Return the problem; of alternatives, what is wrong with the one that was meant, when that can be known."""
        meant = [branch for branch in problem.branches if branch and not _is_other(branch, problem.loc)]
        tags = self._tags(problem) if len(meant) > 1 else {}
        value = value_at(self._arguments, problem.loc)
        for name, tag in tags.items():
            if (wrong := _wrong(name, tag, value, problem.loc)) is not None:
                return [wrong, *self._beside(problem, wrong, meant, value)]
        if len(meant) > 1:
            meant = [branch for branch in meant if not any(_is_tag(one, problem.loc, tags) for one in branch)]
        if len(meant) == 1:
            return self._all(meant[0])
        if problem.branches and not problem.loc:
            # That the whole is wrong names no field: what is wrong with the alternative that fits best does.
            return [problem, *self._all(min(meant or problem.branches, key=len))]
        return [problem]

    def _all(self, problems: Iterable[SchemaProblem]) -> list[Reason]:
        return [inner for one in problems for inner in self.closest(one)]

    def _tags(self, problem: SchemaProblem) -> dict[str, _Tag]:
        branches: Any = schema_at(self._schema, problem.rule)
        return tags_of(branches, self._schema) if is_array(branches) else {}

    def _beside(
        self, problem: SchemaProblem, wrong: WrongTag, meant: Sequence[Sequence[SchemaProblem]], value: dict[str, Any]
    ) -> list[Reason]:
        """Return what else is wrong: with the alternative of the nearest tag, or else with each of them."""
        branch = self._nearest(problem, wrong, value.get(str(wrong.loc[-1])))
        if branch is None:
            places = set[str | int].intersection(*(_places(one, problem.loc) for one in meant))
            branch = list(_only(meant[0], problem.loc, places))
        return [one for one in self._all(branch) if one.loc != wrong.loc]

    def _nearest(self, problem: SchemaProblem, wrong: WrongTag, given: Any) -> Sequence[SchemaProblem] | None:
        close = nearest(given, [one for one in wrong.choices if isinstance(one, str)])
        branches: Any = schema_at(self._schema, problem.rule)
        if close is None or len(branches) != len(problem.branches):
            return None
        name = str(wrong.loc[-1])
        each = [_fixed(one, self._schema, 0) or {} for one in branches]
        holding = (at for at, tags in enumerate(each) if name in tags and close in tags[name].values)
        return next((problem.branches[at] for at in holding), None)


def tags_of(branches: Sequence[Any], root: Schema, *, level: int = 0) -> dict[str, _Tag]:
    """Return the fields that have listed values in each alternative that is an object."""
    each = [tags for one in branches if (tags := _fixed(one, root, level)) is not None]
    names = [name for name in each[0] if all(name in tags for tags in each)] if len(each) > 1 else []
    return {
        name: _Tag([value for tags in each for value in tags[name].values], all(tags[name].needed for tags in each))
        for name in names
    }


def _fixed(schema: Any, root: Schema, level: int) -> dict[str, _Tag] | None:
    """Return the fields of an alternative that have listed values; None of one that is no object."""
    schema = followed(schema, root)
    if not is_object(schema):
        return {} if schema is True else None
    kinds: object = schema.get("type", "object")
    if "const" in schema or "enum" in schema or "object" not in (kinds if is_array(kinds) else [kinds]):
        return None
    fields, needed = fields_of(schema), required_of(schema)
    branches: object = schema.get("oneOf", schema.get("anyOf"))
    if not fields and is_array(branches) and level < _NESTED:
        return tags_of(branches, root, level=level + 1)
    listed = {name: _listed(followed(one, root)) for name, one in fields.items()}
    return {name: _Tag(values, name in needed) for name, values in listed.items() if values is not None}


def _listed(schema: Any) -> Sequence[Any] | None:
    if not is_object(schema):
        return None
    values: object = [schema["const"]] if "const" in schema else schema.get("enum")
    return values if is_array(values) else None


def _wrong(name: str, tag: _Tag, value: Any, loc: Loc) -> WrongTag | None:
    if not is_object(value):
        return None
    if name not in value:
        return WrongTag((*loc, name), tag.values, missing=True) if tag.needed else None
    given = value[name]
    # 1 and true are equal in Python, and not in JSON.
    known = any(one == given and isinstance(one, bool) == isinstance(given, bool) for one in tag.values)
    return None if known else WrongTag((*loc, name), tag.values, missing=False)


def _is_tag(problem: SchemaProblem, loc: Loc, tags: Mapping[str, _Tag]) -> bool:
    """Tell whether an alternative is none for the value that its tag has; a field that must be one value may be one."""
    if len(problem.loc) != len(loc) + 1:
        return False
    return problem.keyword == "const" or (problem.keyword == "enum" and problem.loc[-1] in tags)


def _is_other(branch: Iterable[SchemaProblem], loc: Loc) -> bool:
    """Tell whether an alternative is something else altogether than the value itself."""
    return any(one.loc == loc and one.keyword in _OTHER_KIND for one in branch)


def _places(branch: Iterable[SchemaProblem], loc: Loc) -> set[str | int]:
    """Return the fields that are wrong in an alternative, apart from those that it misses."""
    found: set[str | int] = set()
    for one in branch:
        if len(one.loc) > len(loc):
            found.add(one.loc[len(loc)])
        elif one.keyword in _MORE:
            found.update(one.names)
        elif one.branches:
            found |= set[str | int].intersection(*(_places(inner, loc) for inner in one.branches))
    return found


def _only(branch: Iterable[SchemaProblem], loc: Loc, places: set[str | int]) -> Iterator[SchemaProblem]:
    """Yield the problems of an alternative with these fields."""
    for one in branch:
        if len(one.loc) > len(loc):
            if one.loc[len(loc)] in places:
                yield one
        elif one.keyword in _MORE:
            if names := tuple(name for name in one.names if name in places):
                yield replace(one, names=names)
        elif one.branches:
            yield from _only(one.branches[0], loc, places)


def value_at(value: Any, loc: Loc) -> Any:
    """Return what stands at a place of a value; None when nothing does."""
    try:
        for step in loc:
            value = value[step]
    except (LookupError, TypeError):
        return None
    return value
