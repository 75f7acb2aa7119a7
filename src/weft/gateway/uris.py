"""Addresses of resources: which template an address belongs to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.gateway.views import Owned

_EXPRESSION = re.compile(r"\{[^{}]*\}")


@dataclass(frozen=True, slots=True)
class Template:
    """A family of addresses that one server has: the texts between the gaps, and what stands before them here."""

    owned: Owned
    prefix: str
    texts: tuple[str, ...]

    def original(self, uri: str) -> str | None:
        """Return the address as its server knows it, or None when it is not of this family.

        What fills a gap is not looked at: the server decides that, and a pattern for it could be made slow to match.
        """
        if not uri.startswith(self.prefix):
            return None
        original = uri[len(self.prefix) :]
        return original if matches(self.texts, original) else None


def templates_of(owned: Mapping[str, Owned]) -> list[Template]:
    """Return the templates that are served, those that say most of an address first."""
    templates = [
        Template(one, served.removesuffix(one.upstream_name), texts_of(one.upstream_name))
        for served, one in owned.items()
    ]
    return sorted(templates, key=lambda one: -sum(map(len, one.texts)))


def texts_of(template: str) -> tuple[str, ...]:
    """Return the texts of a template (RFC 6570) between its expressions."""
    return tuple(_EXPRESSION.split(template))


def matches(texts: tuple[str, ...], uri: str) -> bool:
    """Tell whether an address has the texts of a template in their order, from its beginning to its end."""
    if len(texts) == 1:
        return uri == texts[0]
    first, *middle, last = texts
    if not uri.startswith(first):
        return False
    at = len(first)
    for text in middle:
        found = uri.find(text, at)
        if found < 0:
            return False
        at = found + len(text)
    return uri.endswith(last) and len(uri) - len(last) >= at
