"""The description of a grouped tool in Markdown: what a model reads before it chooses an action."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from weft.groups.action import DISCRIMINATOR, Action
from weft.groups.strategies.telling import (
    all_of,
    as_written,
    by_group,
    first_sentence,
    is_plain,
    mark,
    needed,
    said_of_groups,
    shown,
    starred,
    taken,
    what_it_does,
)
from weft.ir.groups import Detail
from weft.ports import Schema


def markdown_description(
    actions: Sequence[Action],
    *,
    about: str | None = None,
    sections: Mapping[str, str] | None = None,
    common: Schema | None = None,
    discriminator: str = DISCRIMINATOR,
    detail: Detail = "full",
    helps: Action | None = None,
) -> str:
    """Return what a grouped tool is for, and a line for each of its actions.

    In a line the fields stand before the words: words are often somebody else's, and must not pass for fields.

    Args:
        about: what the whole tool is for, in its author's own lines.
        sections: what groups of actions are for, by their dotted names.
        common: the fields that every action has.
        helps: one action more, which explains the others.
    """
    actions = actions if helps is None else [*actions, helps]
    said = said_of_groups(sections)
    if detail == "full":
        lines = _full(actions, said, common or {}, discriminator)
    else:
        lines = _short(actions, said, common or {}, discriminator, detail=detail, helps=helps)
    return "\n\n".join([*filter(None, [as_written(about or "")]), *lines])


def _full(actions: Sequence[Action], sections: Mapping[str, str], common: Schema, discriminator: str) -> Iterator[str]:
    needs, takes = needed(common), taken(common)
    every = " and ".join([*_listed("needs", needs), *_listed("takes", takes)])
    yield f"{_code(discriminator)} says what to do." + (f" Every action {every}." if every else "")
    for group, inside in by_group(actions, sections).items():
        if group:
            text = all_of(sections.get(group, ""))
            yield f"## {shown(group)}" + (f": {text}" if text else "")
        if inside:
            yield "\n".join(_full_line(action, common) for action in inside)


def _full_line(action: Action, common: Schema) -> str:
    needs, takes = needed(action.schema, common=common), taken(action.schema, common=common)
    facts = "; ".join([*_listed("needs", needs), *_listed("takes", takes), *filter(None, [mark(action)])])
    return _line(_code(action.key) + (f" ({facts})" if facts else ""), what_it_does(action, detail="full"))


def _short(
    actions: Sequence[Action],
    sections: Mapping[str, str],
    common: Schema,
    discriminator: str,
    *,
    detail: Detail,
    helps: Action | None,
) -> Iterator[str]:
    every = ", ".join(starred(common))
    use = f"{_code(discriminator)} is one of these"
    if detail == "brief":
        use += ", with its fields (* required)"
    elif helps is not None:
        use += f", with its fields (which {shown(helps.key)} tells)"
    use += f", and always {every}" if every else ""
    lines = [f"{use}:"]
    for group, inside in by_group(actions, sections).items():
        if group in sections:
            lines.append(f"## {shown(group)}: {first_sentence(sections[group])}")
        for action in inside:
            fields = f"({', '.join(starred(action.schema, common=common))})" if detail == "brief" else ""
            lines.append(_line(f"{shown(action.key)}{fields}", what_it_does(action, detail=detail)))
    yield "\n".join(lines)


def _code(name: str) -> str:
    return f"`{name}`" if is_plain(name) else shown(name)


def _line(subject: str, text: str) -> str:
    return f"- {subject}: {text}" if text else f"- {subject}"


def _listed(verb: str, names: Sequence[str]) -> list[str]:
    return [f"{verb} {', '.join(names)}"] if names else []
