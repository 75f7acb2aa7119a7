"""Whatever tenants call, when and with whatever names: none ever sees, changes or slows down what is another's.

M3 and M4 of the semantics: many random calls in one world, and those of each tenant in a world of its own, must look
the same to everybody.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from tests.patterns.tenants import HOW, NAMES, PAUSES, Ask, World, mark
from weft.ports import Principal

LETTERS = "ab|:%*@/7C é"
TEXTS = st.text(LETTERS, min_size=1, max_size=5)
KEYS: list[Any] = [1, "1", "a", True, "a|b", "ab", "", 1.5, ["a", "b"], ["ab", ""], {"a": 1}, None]
CALLS = 10_000


def who(tenant: str, subject: str) -> Principal:
    return Principal(subject=subject, tenant=tenant, method="key", strength="proven")


@st.composite
def asking(draw: st.DrawFn) -> list[Ask]:
    """Draw calls of some tenants, whose names are made to be taken for each other."""
    tenants = draw(st.lists(TEXTS, min_size=2, max_size=3, unique=True))
    subjects = draw(st.lists(TEXTS, min_size=1, max_size=2, unique=True))
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True))
    ask = st.builds(
        Ask,
        st.sampled_from(PAUSES),
        st.builds(who, st.sampled_from(tenants), st.sampled_from(subjects)),
        st.sampled_from(names),
        st.sampled_from(KEYS),
        st.sampled_from(HOW),
    )
    return draw(st.lists(ask, min_size=2, max_size=24))


async def compare(asks: Sequence[Ask]) -> None:
    """Run all calls in one world, and each tenant's in one of its own, and look for any difference."""
    together, tenants = World(), sorted({ask.who.tenant for ask in asks})
    await together.run(asks)
    check_keys(together)
    check_marks(together, await together.stored(), tenants)
    alone = {tenant: World() for tenant in tenants}
    left: list[Any] = []
    for tenant, world in alone.items():
        await world.run(asks, tenant)
        assert world.seen[tenant] == together.seen[tenant], f"{tenant!r} sees that there are others"
        left += await world.left()
    assert sorted(map(repr, left)) == sorted(map(repr, await together.left()))


def check_keys(world: World) -> None:
    """Nobody's state is under a key that somebody else uses or could look for, and no upstream is told one by two."""
    assert {key: users for key, users in world.store.users.items() if len(users) > 1} == {}
    assert {room: tenants for room, tenants in world.store.rooms.items() if len(tenants) > 1} == {}
    told: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
    for sent in world.market.sent:
        if sent.key is not None:
            told[sent.key].add(sent.asked.owner)
    assert {key: owners for key, owners in told.items() if len(owners) > 1} == {}


def check_marks(world: World, stored: Sequence[tuple[str, bytes]], tenants: Sequence[str]) -> None:
    """What is one tenant's is not in what another saw, nor stored under a key of another's."""
    for tenant in tenants:
        others = [mark(other) for other in tenants if other != tenant]
        seen = repr(world.seen[tenant])
        assert not [other for other in others if other in seen], f"{tenant!r} sees what is another's"
    for key, value in stored:
        owners = {mark(tenant) for tenant in tenants if mark(tenant).encode() in value}
        assert len(owners) <= 1, f"{key} has what is of several tenants"


@settings(max_examples=150, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
@given(asking())
def test_m3_what_a_tenant_sees_is_the_same_with_and_without_others(asks: list[Ask]):
    note(f"{len(asks)} calls")
    asyncio.run(compare(asks))


def test_m3_two_tenants_make_the_same_ten_thousand_calls_and_neither_notices():
    rng, asks = random.Random(1), list[Ask]()
    tenants, subjects = ("acme", "acme|b"), ("alice", "b|alice")
    while len(asks) < CALLS:
        pause, subject = rng.choice(PAUSES), rng.choice(subjects)
        what = rng.choice(NAMES), rng.choice(KEYS[:4]), rng.choice(HOW)
        asks += [Ask(pause, who(tenants[0], subject), *what), Ask(0.0, who(tenants[1], subject), *what)]
    asyncio.run(compare(asks))
