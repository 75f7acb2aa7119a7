"""The shelf, on every store: whose templates are whose, and what happens when several change them."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.stores.stores import Make, Place
from tests.workflows.templates import template
from weft.errors import InputError, NotFound
from weft.ports import Store
from weft.stores.memory import MemoryStore
from weft.workflows import shelf as shelves
from weft.workflows.library import built_in
from weft.workflows.shelf import Shelf
from weft.workflows.template import read_template

pytestmark = pytest.mark.req("WFL-17")
OURS = {"ours-v1": template("ours-v1", name="Ours", metadata={"category": "analysis", "tags": ["built"]})}


@pytest.fixture
def shelf(store: Store) -> Shelf:
    """Return a shelf beside a library of one template."""
    return Shelf(store, library=lambda: OURS)


async def ids(shelf: Shelf, tenant: str, **chosen: str) -> list[str]:
    """Return which templates a tenant sees."""
    return [card["id"] for card in await shelf.list(tenant, **chosen)]


async def test_what_was_created_is_there_with_its_document_as_it_was_written(shelf: Shelf):
    odd: dict[str, Any] = {"steps": [], "b": [1.5, None, 10**30, "ü\ud800"], "a": {}}
    made = await shelf.create("t", template("mine", composition=odd))
    found = await shelf.get("t", "mine")
    assert found.template.composition == odd
    assert list(found.template.composition) == list(odd)
    assert (found.version, found.created, found.built_in) == (made.version, made.created, False)
    assert found.created == found.updated


async def test_a_list_has_everything_but_document_and_example_by_id(shelf: Shelf):
    for id in ("zeta", "alpha"):
        await shelf.create("t", template(id, example_input={"a": 1}))
    cards = await shelf.list("t")
    assert [card["id"] for card in cards] == ["alpha", "ours-v1", "zeta"]
    assert [card["built_in"] for card in cards] == [False, True, False]
    assert all("composition" not in card and "example_input" not in card for card in cards)
    assert cards[0]["validation"]["required_tools"] == ["checkpoint_search", "context_fold", "checkpoint_save"]


async def test_tenants_see_their_own_and_those_that_come_with_weft(shelf: Shelf):
    names = ["a", "a|b", "a%7Cb", "", "ü\ud800", "x" * 5000, "x" * 5001, ":" + "0" * 64]
    for at, tenant in enumerate(names):
        await shelf.create(tenant, template(f"mine-{at}"))
    for at, tenant in enumerate(names):
        assert await ids(shelf, tenant) == [f"mine-{at}", "ours-v1"]
        for other in range(len(names)):
            if other != at:
                with pytest.raises(NotFound):
                    await shelf.get(tenant, f"mine-{other}")
                with pytest.raises(NotFound):
                    await shelf.delete(tenant, f"mine-{other}")


async def test_a_missing_template_names_the_one_that_was_meant(shelf: Shelf):
    await shelf.create("t", template("weekly-report"))
    with pytest.raises(NotFound, match="Template not found: weekly-reprot") as caught:
        await shelf.get("t", "weekly-reprot")
    assert caught.value.hint == "did you mean 'weekly-report'?"


async def test_lists_are_narrowed_by_category_tag_and_words(shelf: Shelf):
    await shelf.create("t", template("one", name="Nightly Backup", metadata={"category": "automation", "tags": ["db"]}))
    await shelf.create("t", template("two", description="of a DATABASE", metadata={"category": "analysis"}))
    assert await ids(shelf, "t", category="automation") == ["one"]
    assert await ids(shelf, "t", category="analysis") == ["ours-v1", "two"]
    assert await ids(shelf, "t", tag="db") == ["one"]
    assert await ids(shelf, "t", search="backup NIGHTLY") == ["one"]
    assert await ids(shelf, "t", search="database", category="automation") == []


async def test_an_id_is_taken_once(shelf: Shelf):
    await shelf.create("t", template("mine", name="first"))
    for taken in ("mine", "ours-v1"):
        with pytest.raises(InputError) as caught:
            await shelf.create("t", template(taken, name="second"))
        assert caught.value.code == "TemplateExists"
    assert (await shelf.get("t", "mine")).template.name == "first"


async def test_what_comes_with_weft_cannot_be_changed(shelf: Shelf):
    for change in (shelf.update("t", template("ours-v1")), shelf.delete("t", "ours-v1")):
        with pytest.raises(InputError) as caught:
            await change
        assert caught.value.code == "TemplateBuiltIn"
    assert (await shelf.get("t", "ours-v1")).built_in


async def test_a_template_that_a_tenant_had_before_weft_brought_one_stays_the_tenants(store: Store):
    await Shelf(store, library=dict).create("t", template("ours-v1", name="older"))
    shelf = Shelf(store, library=lambda: OURS)
    assert (await shelf.get("t", "ours-v1")).template.name == "older"
    assert [card["name"] for card in await shelf.list("t")] == ["older"]
    await shelf.delete("t", "ours-v1")
    assert (await shelf.get("t", "ours-v1")).template.name == "Ours"


async def test_an_update_takes_the_place_and_keeps_the_day_of_creation(shelf: Shelf):
    first = await shelf.create("t", template("mine", name="first"))
    second = await shelf.update("t", template("mine", name="second"), version=first.version)
    found = await shelf.get("t", "mine")
    assert (found.template.name, found.version, found.created) == ("second", second.version, first.created)
    assert [card["name"] for card in await shelf.list("t") if card["id"] == "mine"] == ["second"]


async def test_what_was_shown_can_be_changed_and_sent_back(shelf: Shelf):
    made = await shelf.create("t", template("mine"))
    shown = (await shelf.get("t", "mine")).to_json()
    assert (shown["etag"], shown["built_in"], shown["created"]) == (str(made.version), False, made.created)
    again = await shelf.update("t", read_template({**shown, "name": "Other"}), version=int(shown["etag"]))
    assert again.template.to_json() == {**made.template.to_json(), "name": "Other"}
    assert "etag" not in (await shelf.get("t", "ours-v1")).to_json()


async def test_a_change_to_an_older_version_is_refused(shelf: Shelf):
    first = await shelf.create("t", template("mine"))
    await shelf.update("t", template("mine", name="second"))
    for change in (
        shelf.update("t", template("mine", name="third"), version=first.version),
        shelf.delete("t", "mine", version=first.version),
    ):
        with pytest.raises(InputError) as caught:
            await change
        assert caught.value.code == "TemplateChanged"
    assert (await shelf.get("t", "mine")).template.name == "second"


async def test_a_version_of_a_deleted_template_is_not_one_of_the_next(shelf: Shelf):
    first = await shelf.create("t", template("mine"))
    await shelf.delete("t", "mine")
    assert await ids(shelf, "t") == ["ours-v1"]
    with pytest.raises(NotFound):
        await shelf.update("t", template("mine"))
    await shelf.create("t", template("mine", name="again"))
    with pytest.raises(InputError):
        await shelf.delete("t", "mine", version=first.version)


async def test_of_many_who_create_one_id_one_succeeds_and_no_other_template_is_lost(make: Make, place: Place):
    async with AsyncExitStack() as stack:
        stores = [await stack.enter_async_context(make(place))]
        if stores[0].shared:
            stores.append(await stack.enter_async_context(make(place)))
        two = [Shelf(store, library=dict) for store in stores] * (2 // len(stores))
        wanted = [template("same") for _ in range(6)] + [template(f"own-{at}") for at in range(6)]
        done = await asyncio.gather(
            *(two[at % 2].create("t", one) for at, one in enumerate(wanted)), return_exceptions=True
        )
        refused = [one for one in done if isinstance(one, BaseException)]
        assert [one.code for one in refused if isinstance(one, InputError)] == ["TemplateExists"] * 5
        assert await ids(two[1], "t") == [*(f"own-{at}" for at in range(6)), "same"]


async def test_of_two_who_update_one_version_one_succeeds(shelf: Shelf):
    first = await shelf.create("t", template("mine"))
    changes = [shelf.update("t", template("mine", name=f"n{at}"), version=first.version) for at in range(8)]
    done = await asyncio.gather(*changes, return_exceptions=True)
    (won,) = [one for one in done if not isinstance(one, BaseException)]
    assert all(isinstance(one, InputError) and one.code == "TemplateChanged" for one in done if one is not won)
    assert (await shelf.get("t", "mine")).template.name == won.template.name


async def test_a_shelf_is_full_at_its_limit_and_has_room_again(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shelves, "MOST", 3)
    shelf = Shelf(MemoryStore(), library=lambda: OURS)
    for at in range(3):
        await shelf.create("t", template(f"mine-{at}"))
    with pytest.raises(InputError, match="limit 3") as caught:
        await shelf.create("t", template("more"))
    assert caught.value.code == "TooManyTemplates"
    await shelf.create("other", template("more"))
    await shelf.delete("t", "mine-0")
    await shelf.create("t", template("more"))
    assert await ids(shelf, "t") == ["mine-1", "mine-2", "more", "ours-v1"]


async def test_a_thousand_templates_are_listed():
    shelf = Shelf(MemoryStore(), library=dict)
    for at in range(shelves.MOST):
        await shelf.create("t", template(f"mine-{at:04}"))
    assert len(await shelf.list("t")) == shelves.MOST == 1000


async def test_no_template_makes_room_for_others_in_memory():
    store = MemoryStore(max_entries=8)
    shelf = Shelf(store, library=dict)
    await shelf.create("t", template("mine"))
    for at in range(100):
        await store.set(f"other {at}", b"")
    assert await ids(shelf, "t") == ["mine"]
    assert (await shelf.get("t", "mine")).template.id == "mine"


async def test_the_library_is_on_every_shelf():
    assert await ids(Shelf(MemoryStore()), "anybody") == sorted(built_in())
