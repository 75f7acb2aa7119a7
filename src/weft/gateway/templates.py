"""Templates as a service: those that a caller sees and keeps, and what their runs tell."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from weft.errors import InputError, shown
from weft.gateway.draft import read_beside
from weft.gateway.drafts import Drafts
from weft.ports import Principal, is_object
from weft.workflows.book import StatisticsBook
from weft.workflows.learning import suggestions
from weft.workflows.runs import Runs
from weft.workflows.shelf import Shelf
from weft.workflows.template import Template, read_template

MISSING = "missing_tools"


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """Where templates, runs and statistics are kept."""

    shelf: Shelf
    runs: Runs
    book: StatisticsBook


class Templates:
    """The templates of each tenant, with what their runs so far tell."""

    def __init__(self, drafts: Drafts, library: Library) -> None:
        self._drafts = drafts
        self._library = library

    async def templates(
        self, principal: Principal, *, category: str | None = None, tag: str | None = None, search: str | None = None
    ) -> list[dict[str, Any]]:
        """Return the templates that a caller sees, each with what its runs so far tell."""
        cards = await self._library.shelf.list(principal.tenant, category=category, tag=tag, search=search)
        found = await asyncio.gather(*(self._library.book.get(principal.tenant, card["id"]) for card in cards))
        return [
            _measured(card, known.usage_count, known.success_rate) for card, known in zip(cards, found, strict=True)
        ]

    async def template(self, principal: Principal, id: str) -> dict[str, Any]:
        """Return a template with its document, and what it lacks to run here."""
        found = await self._library.shelf.get(principal.tenant, id)
        known = await self._library.book.get(principal.tenant, id)
        told = _measured(found.to_json(), known.usage_count, known.success_rate)
        told[MISSING] = self._drafts.missing(principal, found.template.required_tools)
        return told

    async def create(self, principal: Principal, body: Any) -> dict[str, Any]:
        """Keep a new template.

        Raises:
            DocumentInvalid, InputError: it is not well-formed, or its id is taken.
        """
        made = await self._library.shelf.create(principal.tenant, await self._sound(body))
        return made.to_json()

    async def update(self, principal: Principal, id: str, body: Any, *, version: int | None = None) -> dict[str, Any]:
        """Replace a template; with a version only if it is still that one."""
        if is_object(body) and body.get("id", id) != id:
            told = f"the body is of template {shown(body['id'])}"
            raise InputError(told, code="WrongId", hint=f"leave the id out, or write {id!r}")
        template = await self._sound({**body, "id": id} if is_object(body) else body)
        made = await self._library.shelf.update(principal.tenant, template, version=version)
        return made.to_json()

    async def delete(self, principal: Principal, id: str, *, version: int | None = None) -> None:
        """Forget a template and its statistics; with a version only if it is still that one."""
        await self._library.shelf.delete(principal.tenant, id, version=version)
        await self._library.book.forget(principal.tenant, id)

    async def _sound(self, body: Any) -> Template:
        # Somebody who sends back what was shown need not take it out.
        given = {key: one for key, one in body.items() if key != MISSING} if is_object(body) else body
        template = read_template(given)
        await read_beside(template.composition, ("composition",))
        return template

    async def stats(self, principal: Principal, id: str) -> dict[str, Any]:
        """Return what the runs of a template tell, and what they suggest."""
        found = await self._library.shelf.get(principal.tenant, id)
        known = await self._library.book.get(principal.tenant, id)
        advice = [one.to_json() for one in suggestions(found.template.composition, known)]
        return {"template": id, **known.to_json(), "suggestions": advice}


def _measured(told: dict[str, Any], usage: int, rate: float | None) -> dict[str, Any]:
    metadata: Mapping[str, Any] = told["metadata"]
    return {**told, "metadata": {**metadata, "usage_count": usage, "success_rate": rate}}
