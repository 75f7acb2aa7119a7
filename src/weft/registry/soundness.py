"""Soundness of single entities: names that look alike, hidden text, arguments that cannot be, addresses inside."""

from __future__ import annotations

import ipaddress
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from weft.errors import ExpressionInvalid, Loc, Problem, shown
from weft.expr.schemas import compile_schema
from weft.expr.shapes import deref, properties_of, required_of
from weft.ir.groups import GroupDef
from weft.registry.book import Book, reference_to
from weft.registry.entities import AgentEntity, Entity, Kind, ToolDef
from weft.registry.hidden import hidden_characters


def check_soundness(book: Book, allow: Iterable[str]) -> Iterator[Problem]:
    """Report what is wrong with entities each on its own, and names that people would take for one another."""
    yield from _alike(book)
    networks = [*allow]
    for entity in book.entities():
        loc = book.place(reference_to(entity))
        yield from _hidden(entity, reference_to(entity).name, loc)
        if isinstance(entity, ToolDef) and entity.source is not None and entity.input_schema is not None:
            yield from _arguments(book, entity, loc)
        elif isinstance(entity, AgentEntity) and entity.url is not None:
            yield from _inside(entity.url, networks, loc)
    for index, group in enumerate(book.document.groups):
        yield from _hidden(group, group.name, ("groups", index))


def _alike(book: Book) -> Iterator[Problem]:
    seen: dict[tuple[Kind, str], str] = {}
    for entity in book.entities():
        ref = reference_to(entity)
        folded = (ref.type, unicodedata.normalize("NFKC", ref.name).casefold())
        first = seen.setdefault(folded, ref.name)
        if first != ref.name:
            yield Problem(
                code="SimilarName",
                severity="warning",
                message=f"{shown(ref.name)} differs from {shown(first)} only in capitals",
                loc=(*book.place(ref), "name"),
                value=shown(ref.name),
                expected="a name that nobody takes for another",
            )


def _hidden(entity: Entity | GroupDef, name: str, loc: Loc) -> Iterator[Problem]:
    texts: list[tuple[Loc, str | None]] = [(("description",), getattr(entity, "description", None))]
    if isinstance(entity, ToolDef | GroupDef):
        texts.append((("title",), entity.title))
    if isinstance(entity, AgentEntity):
        texts += [(("skills", index, "description"), skill.description) for index, skill in enumerate(entity.skills)]
    for at, text in texts:
        if text and not text.isascii() and (characters := hidden_characters(text)):
            named = ", ".join(sorted({f"U+{ord(char):04X}" for char in characters})[:4])
            yield Problem(
                code="HiddenText",
                severity="warning",
                message=f"the {at[-1]} of {shown(name)} has characters that nobody sees: {named}",
                loc=(*loc, *at),
                value=shown(text),
                expected="text that people can read as models do",
            )


def _arguments(book: Book, tool: ToolDef, loc: Loc) -> Iterator[Problem]:
    """Report hidden arguments that nobody can give, and defaults that the tool itself would refuse."""
    source, schema = tool.source, tool.input_schema
    assert source is not None
    assert schema is not None
    if not source.hide_fields and not source.defaults:
        return
    try:
        plain = deref(book.schema_refs.plain(schema))
    except ExpressionInvalid:
        return
    for index, name in enumerate(source.hide_fields):
        if name in required_of(plain) and name not in source.defaults:
            yield Problem(
                code="HiddenRequired",
                message=f"{shown(name)} is hidden and required, and has no default: nobody could call the tool",
                loc=(*loc, "source", "hideFields", index),
                value=shown(name),
                expected="a default for it, or a field that is not required",
            )
    properties = properties_of(plain)
    for name, value in source.defaults.items():
        if (wrong := _misfit(plain, properties.get(name), value)) is not None:
            yield Problem(
                code="WrongDefault",
                message=f"the default of {shown(name)} does not fit: {wrong}",
                loc=(*loc, "source", "defaults", name),
                value=shown(value),
                expected="a value that the inputSchema takes",
            )


def _misfit(whole: Mapping[str, Any], schema: Any, value: Any) -> str | None:
    if not isinstance(schema, dict):
        return None
    definitions = {key: whole[key] for key in ("$defs", "definitions") if key in whole}
    try:
        problems = compile_schema({**schema, **definitions}).problems(value)
    except ExpressionInvalid:
        return None
    return problems[0].message if problems else None


def _inside(url: str, allow: list[str], loc: Loc) -> Iterator[Problem]:
    host = urlsplit(url).hostname or ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return
    if address.is_loopback or address.is_global or host in allow:
        return
    if any(address in network for network in _networks(allow)):
        return
    yield Problem(
        code="PrivateAddress",
        message=f"the agent is at {host}, an address inside somebody's network",
        loc=(*loc, "url"),
        value=shown(url),
        expected="a public address, or one that egress.allow lists",
    )


def _networks(allow: list[str]) -> Iterator[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    for one in allow:
        try:
            yield ipaddress.ip_network(one, strict=False)
        except ValueError:
            continue
