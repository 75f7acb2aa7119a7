"""The description of a grouped tool in TOON: a table of its actions with a line each, in few tokens.

It is written as version 4 of TOON's specification wants it, which decoders of version 3 read the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from weft.groups.action import DISCRIMINATOR, Action
from weft.groups.strategies.telling import (
    all_of,
    by_group,
    first_sentence,
    mark,
    needed,
    one_line,
    said_of_groups,
    starred,
    taken,
    what_it_does,
)
from weft.ir.groups import Detail
from weft.ports import Schema

_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*\Z")
# What a reader would take for a number, for a comment, for structure or for the end of a cell.
_NUMBER: Final = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?\Z")
_STRUCTURE: Final = re.compile(r'[:"\\\[\]{}|\x00-\x1f]|\A[-#\s]|\s\Z')
_WORDS: Final = frozenset({"", "true", "false", "null"})


def toon_description(
    actions: Sequence[Action],
    *,
    about: str | None = None,
    sections: Mapping[str, str] | None = None,
    common: Schema | None = None,
    discriminator: str = DISCRIMINATOR,
    detail: Detail = "full",
    helps: Action | None = None,
) -> str:
    """Return what a grouped tool is for and a table of its actions, parted by pipes.

    Args:
        about: what the whole tool is for.
        sections: what groups of actions are for, by their dotted names.
        common: the fields that every action has.
        helps: one action more, which explains the others.
    """
    actions = actions if helps is None else [*actions, helps]
    said = said_of_groups(sections)
    grouped = by_group(actions, said)
    ordered = [action for inside in grouped.values() for action in inside]
    lines = [f"about: {_value(text)}"] if (text := one_line(about or "")) else []
    if detail != "full":
        lines += [*_use(detail, helps), *_array("always", starred(common or {}))]
    else:
        lines += [*_array("alwaysNeeds", needed(common or {})), *_array("alwaysTakes", taken(common or {}))]
    short = all_of if detail == "full" else first_sentence
    lines += _table("groups", [{"group": one_line(one), "about": short(said[one])} for one in grouped if one in said])
    lines += _table("actions", _rows(ordered, common or {}, discriminator=discriminator, detail=detail))
    return "\n".join(lines)


def _use(detail: Detail, helps: Action | None) -> Iterator[str]:
    if detail == "brief":
        yield "use: * marks required fields"
    elif helps is not None:
        yield f"use: {_value(f'{one_line(helps.key)} tells the fields of an action')}"


def _rows(actions: Sequence[Action], common: Schema, *, discriminator: str, detail: Detail) -> list[dict[str, str]]:
    asked = one_line(discriminator)
    rows: list[dict[str, str]] = []
    marked = any(mark(action) for action in actions)
    for action in actions:
        row = {"does": what_it_does(action, detail=detail)}
        if detail == "brief":
            row["fields"] = ",".join(starred(action.schema, common=common))
        elif detail == "full":
            row["needs"] = ",".join(needed(action.schema, common=common))
            row["takes"] = ",".join(taken(action.schema, common=common))
            if marked:
                row["is"] = mark(action)
        rows.append({DISCRIMINATOR if asked in row else asked: one_line(action.key), **row})
    return rows


def _array(name: str, values: Sequence[str]) -> Iterator[str]:
    if values:
        yield f"{name}[{len(values)}|]: {'|'.join(map(_value, values))}"


def _table(name: str, rows: Sequence[Mapping[str, str]]) -> Iterator[str]:
    if rows:
        yield f"{name}[{len(rows)}|]{{{'|'.join(map(_key, rows[0]))}}}:"
    for row in rows:
        yield f"  {'|'.join(map(_value, row.values()))}"


def _key(name: str) -> str:
    return name if _KEY.match(name) else _quoted(name)


def _value(text: str) -> str:
    plain = text not in _WORDS and not _NUMBER.match(text) and not _STRUCTURE.search(text)
    return text if plain else _quoted(text)


def _quoted(text: str) -> str:
    # JSON escapes what TOON escapes, and the same way, but for \b and \f: one_line leaves no such characters.
    return json.dumps(text, ensure_ascii=False)
