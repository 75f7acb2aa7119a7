"""Names: what is offered twice gets a prefix, or the first one wins, or neither is served; never silently."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, Literal, TypeAlias, TypeVar

T = TypeVar("T")

OnCollision: TypeAlias = Literal["prefix", "priority", "error"]
Prefixed: TypeAlias = Callable[[str, str], str]
LONGEST = 128


@dataclass(frozen=True, slots=True)
class Offer(Generic[T]):
    """Something with a name, from somewhere; what a registry defines is `owned` and keeps its name."""

    name: str
    source: str
    thing: T
    owned: bool = False


def prefixed_name(source: str, name: str) -> str:
    """Return the name of a tool or prompt with its server's before it, in letters that every client takes."""
    return f"{re.sub(r'[^A-Za-z0-9_-]', '_', source)}_{name}"[:LONGEST]


def prefixed_uri(source: str, uri: str) -> str:
    """Return the address of a resource with its server's name before it."""
    return f"weft://{re.sub(r'[^A-Za-z0-9_.-]', '_', source)}/{uri}"


def named(
    offers: Iterable[Offer[T]], *, on_collision: OnCollision, what: str, prefixed: Prefixed = prefixed_name
) -> tuple[dict[str, Offer[T]], list[str]]:
    """Return what is served under which name, and a sentence for each name that was offered more than once."""
    groups: dict[str, list[Offer[T]]] = {}
    for offer in offers:
        groups.setdefault(offer.name, []).append(offer)
    served: dict[str, Offer[T]] = {}
    problems: list[str] = []
    moved: list[tuple[str, Offer[T]]] = []
    for name, group in groups.items():
        if len(group) == 1:
            served[name] = group[0]
            continue
        keeps = next((one for one in group if one.owned), None)
        if on_collision == "priority":
            keeps = keeps or group[0]
        if keeps is not None:
            served[name] = keeps
        rest = [one for one in group if one is not keeps]
        sources = ", ".join(repr(one.source) for one in group)
        told = f"{what} {name!r} is offered by {sources}"
        if on_collision == "prefix":
            moved += [(prefixed(one.source, name), one) for one in rest]
        elif on_collision == "priority":
            problems.append(f"{told}: that of {served[name].source!r} is served (names.onCollision: priority)")
        else:
            kept = "only the registry's is served" if keeps is not None else "none is served"
            problems.append(f"{told}: {kept} (names.onCollision: error)")
    for name, offer in moved:
        if name in served:
            problems.append(f"{what} {offer.name!r} of {offer.source!r} is not served: {name!r} is taken")
        else:
            served[name] = offer
    return served, problems
