"""One store after another, for tests that hold for all of them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.stores.stores import STORES, Make, Place
from weft.ports import Store


@pytest.fixture(params=sorted(STORES))
def make(request: pytest.FixtureRequest) -> Make:
    """Return what makes the stores of a kind."""
    return STORES[request.param]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Return a place where nothing is stored."""
    return Place(tmp_path)


@pytest.fixture
async def store(make: Make, place: Place) -> AsyncGenerator[Store]:
    """Yield an empty store."""
    async with make(place) as made:
        yield made
