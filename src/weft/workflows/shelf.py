"""The shelf: the templates of a tenant in a store, beside those that come with weft."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from weft.errors import ExecutionFailed, InputError, NotFound
from weft.ports import ABSENT, Change, Delete, Put, Store
from weft.workflows.keys import key
from weft.workflows.library import built_in
from weft.workflows.template import Template, encoded, read_template

MOST: Final = 1000
TRIES: Final = 100
"""How often a change is begun again because another process changed the shelf meanwhile."""
AT_ONCE: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelved:
    """A template on the shelf; `version` is another one after each change, and 0 for those that come with weft."""

    template: Template
    version: int = 0
    created: float | None = None
    updated: float | None = None

    @property
    def built_in(self) -> bool:
        """Whether it comes with weft."""
        return self.version == 0

    def to_json(self) -> dict[str, Any]:
        """Return the whole template, and where it is from."""
        told = {**self.template.to_json(), **_origin(self.built_in, self.created, self.updated)}
        return told if self.built_in else {**told, "etag": str(self.version)}


class Shelf:
    """Templates by tenant and id; those that come with weft are everybody's, and nobody changes them."""

    def __init__(self, store: Store, *, library: Callable[[], Mapping[str, Template]] = built_in) -> None:
        self._store = store
        self._library = library
        # Within a process changes take turns, so that they only begin again because of other processes.
        self._turn = asyncio.Lock()

    async def list(
        self, tenant: str, *, category: str | None = None, tag: str | None = None, search: str | None = None
    ) -> list[dict[str, Any]]:
        """Return the cards of all templates that a tenant sees, by id: all of them but document and example.

        A tag is compared as it is; every word of `search` stands in the id, the name, the description or a tag.
        """
        own = {card["id"]: card for card in await self._cards(tenant)}
        cards = {id: {**one.card(), **_origin(True)} for id, one in self._library().items()} | own
        return [cards[id] for id in sorted(cards) if _fits(cards[id], category, tag, search)]

    async def get(self, tenant: str, id: str) -> Shelved:
        """Return a template; of one that a tenant had before weft brought another of its id, the tenant's own.

        Raises:
            NotFound: the tenant sees no template of this id; the hint names one that was probably meant.
        """
        found = await self._own(tenant, id)
        if found is None and id in self._library():
            return Shelved(template=self._library()[id])
        if found is None:
            raise NotFound("Template", id, [*self._library(), *(await self._ids(tenant))[0]])
        return found

    async def create(self, tenant: str, template: Template) -> Shelved:
        """Put a new template on the shelf.

        Raises:
            InputError: its id is taken (TemplateExists), or the shelf is full (TooManyTemplates).
        """
        if template.id in self._library():
            told = f"template '{template.id}' comes with weft"
            raise InputError(told, code="TemplateExists", hint="give yours another id")
        async with self._turn:
            for _ in range(TRIES):
                ids, version = await self._ids(tenant)
                if template.id in ids:
                    hint = "change that one, or give yours another id"
                    raise InputError(f"template '{template.id}' exists already", code="TemplateExists", hint=hint)
                if len(ids) >= MOST:
                    told = f"there are {len(ids)} templates already (limit {MOST})"
                    raise InputError(told, code="TooManyTemplates", hint="delete those that nobody uses")
                now = await self._store.now()
                index = self._index(tenant, [*ids, template.id], version)
                written = await self._store.batch([*self._written(tenant, template, now, now, ABSENT), index])
                if written is not None:
                    return Shelved(template=template, version=written[0], created=now, updated=now)
        raise _busy()

    async def update(self, tenant: str, template: Template, *, version: int | None = None) -> Shelved:
        """Put a template in the place of the one with its id; with a version only if it is still that one.

        Raises:
            NotFound: there is none.
            InputError: it comes with weft (TemplateBuiltIn), or was changed meanwhile (TemplateChanged).
        """
        for _ in range(TRIES):
            old = await self._changeable(tenant, template.id, version)
            now = await self._store.now()
            changes = self._written(tenant, template, old.created, now, old.version)
            written = await self._store.batch(changes)
            if written is not None:
                return Shelved(template=template, version=written[0], created=old.created, updated=now)
        raise _busy()

    async def delete(self, tenant: str, id: str, *, version: int | None = None) -> None:
        """Take a template from the shelf; with a version only if it is still that one.

        Raises:
            NotFound: there is none.
            InputError: it comes with weft (TemplateBuiltIn), or was changed meanwhile (TemplateChanged).
        """
        async with self._turn:
            for _ in range(TRIES):
                old = await self._changeable(tenant, id, version)
                ids, listed = await self._ids(tenant)
                index = self._index(tenant, [one for one in ids if one != id], listed)
                gone = [Delete(key("template", tenant, id), old.version), Delete(key("template-card", tenant, id))]
                if await self._store.batch([*gone, index]) is not None:
                    return
        raise _busy()

    async def _changeable(self, tenant: str, id: str, version: int | None) -> Shelved:
        old = await self.get(tenant, id)
        if old.built_in:
            told = f"template '{id}' comes with weft and cannot be changed"
            raise InputError(told, code="TemplateBuiltIn", hint="create one of your own, under another id")
        if version is not None and version != old.version:
            told = f"template '{id}' was changed meanwhile"
            raise InputError(told, code="TemplateChanged", hint="read it again, and make your change to that")
        return old

    async def _own(self, tenant: str, id: str) -> Shelved | None:
        stored = await self._store.get(key("template", tenant, id))
        if stored is None:
            return None
        told = json.loads(stored.value)
        template = read_template(told["template"])
        return Shelved(template=template, version=stored.version, created=told["created"], updated=told["updated"])

    async def _cards(self, tenant: str) -> Sequence[dict[str, Any]]:
        ids, _ = await self._ids(tenant)
        found: list[dict[str, Any]] = []
        for at in range(0, len(ids), AT_ONCE):
            keys = [key("template-card", tenant, id) for id in ids[at : at + AT_ONCE]]
            cards = await asyncio.gather(*map(self._store.get, keys))
            found += [json.loads(card.value) for card in cards if card is not None]
        return found

    async def _ids(self, tenant: str) -> tuple[Sequence[str], int]:
        """Return which templates a tenant has, and the version of that list.

        It is kept, since a scan may look at everything that is in a store.
        """
        stored = await self._store.get(key("templates", tenant))
        return ([], ABSENT) if stored is None else (json.loads(stored.value), stored.version)

    def _index(self, tenant: str, ids: Sequence[str], version: int) -> Put:
        return Put(key("templates", tenant), json.dumps(ids).encode(), None, version)

    def _written(
        self, tenant: str, template: Template, created: float | None, updated: float, version: int
    ) -> Sequence[Change]:
        told = {"template": template.to_json(), "created": created, "updated": updated}
        card = {**template.card(), **_origin(False, created, updated)}
        return [
            Put(key("template", tenant, template.id), encoded(told), None, version),
            Put(key("template-card", tenant, template.id), encoded(card)),
        ]


def _origin(built_in: bool, created: float | None = None, updated: float | None = None) -> dict[str, Any]:
    return {"built_in": built_in} if built_in else {"built_in": False, "created": created, "updated": updated}


def _fits(card: Mapping[str, Any], category: str | None, tag: str | None, search: str | None) -> bool:
    told: Mapping[str, Any] = card["metadata"]
    tags: Sequence[str] = told.get("tags", ())
    text = " ".join((card["id"], card["name"], card.get("description", ""), *tags)).casefold()
    return (
        category in (None, told["category"])
        and (tag is None or tag in tags)
        and all(word in text for word in (search or "").casefold().split())
    )


def _busy() -> ExecutionFailed:
    return ExecutionFailed("others change the templates all the time", code="TemplatesBusy", hint="try again")
