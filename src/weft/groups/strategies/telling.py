"""What a description tells of an action, whatever its format: words made short and harmless, fields, marks."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from weft.groups.action import OPENING, Action, fields_of, required_of
from weft.groups.strategies.fields import field_users
from weft.groups.words import UNSEEN, one_line, shortened
from weft.ir.groups import Detail
from weft.ports import Schema

LONGEST: Final = 400
"""Characters of what somebody else wrote, where all is told."""

BRIEF: Final = 80
"""Characters of it where each action has a line."""

INDEX: Final = 50
"""Characters of it where a line is all that is told."""

_PARAGRAPH: Final = re.compile(r"\n\s*\n")
_SENTENCE: Final = re.compile(r"(?<!\be\.g)(?<!\bi\.e)(?<!\bvs)(?<!\betc)[.!?](?=\s|\Z)")
_PLAIN_NAME: Final = re.compile(r"[\w$@.\-]+\Z")


def as_written(text: str) -> str:
    """Return a text with its lines as they are, without characters that cannot be seen."""
    return "\n".join(UNSEEN.sub(" ", line).rstrip() for line in text.splitlines()).strip()


def first_sentence(text: str, *, most: int = BRIEF) -> str:
    """Return the first sentence of a text on a short line, without what ends it."""
    paragraph = one_line(_PARAGRAPH.split(text.strip(), maxsplit=1)[0])
    end = _SENTENCE.search(paragraph)
    return shortened((paragraph[: end.end()] if end else paragraph).rstrip(".:;, "), most)


def all_of(text: str) -> str:
    """Return a text on one line, as much of it as a description has room for."""
    return shortened(one_line(text), LONGEST)


def what_it_does(action: Action, *, detail: Detail) -> str:
    """Return what an action says of itself: as much as fits, or its first sentence."""
    text = action.description or action.title or ""
    return all_of(text) if detail == "full" else first_sentence(text, most=BRIEF if detail == "brief" else INDEX)


def mark(action: Action) -> str:
    """Return in a word what an action may do, if it says so."""
    if action.annotations.get("readOnlyHint") is True:
        return "read-only"
    return "destructive" if action.annotations.get("destructiveHint") is True else ""


def is_plain(name: str) -> bool:
    """Tell whether a name can be taken for nothing else, such as two names."""
    return _PLAIN_NAME.match(name) is not None


def shown(name: str) -> str:
    """Return a name as it is, or as JSON when it is not plain."""
    return name if is_plain(name) else json.dumps(name, ensure_ascii=UNSEEN.search(name) is not None)


def needed(schema: Schema, *, common: Schema | None = None) -> list[str]:
    """Return the fields that must be there, apart from those that every action needs."""
    always = required_of(common or {})
    return [shown(name) for name in dict.fromkeys(required_of(schema)) if name not in always]


def taken(schema: Schema, *, common: Schema | None = None) -> list[str]:
    """Return the fields that may be there, apart from those that every action has."""
    fields = fields_of(schema)
    told = {*required_of(schema), *(name for name, one in fields.items() if one == {"not": {}})}
    if common:
        told |= {*fields_of(common), *required_of(common)}
    if any(keyword in schema for keyword in OPENING):
        fields = field_users([Action(key="this", schema=schema)])
    return [shown(name) for name in fields if name not in told]


def starred(schema: Schema, *, common: Schema | None = None) -> list[str]:
    """Return all fields, those that must be there with a star."""
    return [f"{name}*" for name in needed(schema, common=common)] + taken(schema, common=common)


def said_of_groups(sections: Mapping[str, str] | None) -> dict[str, str]:
    """Return what groups are for, of those of which anything is said."""
    return {group: text for group, text in (sections or {}).items() if group and one_line(text)}


def by_group(actions: Sequence[Action], said: Collection[str]) -> dict[str, list[Action]]:
    """Return the actions by the group that is before the last dot of their keys, in the order in which groups begin.

    A group that has only groups in it is there too when something is said of it.
    """
    found: dict[str, list[Action]] = {"": []}
    for action in actions:
        names = action.key.split(".")[:-1]
        above = [".".join(names[:count]) for count in range(1, len(names))]
        for group in above:
            if group in said:
                found.setdefault(group, [])
        found.setdefault(".".join(names), []).append(action)
    return found
