"""What clients call themselves is a label on who they are, made once, and nothing more."""

from __future__ import annotations

import pytest

from tests.doors.mcp.fakes import serving
from weft.doors.mcp.labels import MOST, Labels
from weft.ports import ANONYMOUS, LABEL, Principal

INFO = "io.modelcontextprotocol/clientInfo"
ALICE = Principal(subject="alice", method="key", scopes=frozenset({"read"}))


@pytest.mark.req("REG-37", "REG-39")
async def test_a_modern_client_has_the_label_of_its_request() -> None:
    async with serving() as place:
        for name in ("one", "two"):
            await place.modern("tools/list", headers={"X-Principal": "alice"}, meta={INFO: {"name": name}})
        await place.modern("tools/list", meta={INFO: {"name": 7}})
        told = [(one.principal.label, one.principal.subject) for one in place.gateway.seen]
    assert told == [("one", "alice"), ("two", "alice"), (None, "anonymous")]


@pytest.mark.req("REG-37", "REG-39")
async def test_a_legacy_client_has_the_label_of_its_handshake() -> None:
    async with serving() as place:
        who = {"X-Principal": "alice"}
        session = await place.session(who, clientInfo={"name": "old\x1b[31m", "version": "2"})
        for id_ in (1, 2):
            await place.legacy(session, {"id": id_, "method": "tools/list"}, who)
        first, second = (one.principal for one in place.gateway.seen)
    assert (first.label, first.subject) == ("old?[31m 2", "alice")
    assert first is second


def test_a_label_is_made_once_and_other_rights_are_another_principal() -> None:
    labels = Labels()
    made = labels.on(ALICE, {"name": "a"})
    assert made == ALICE
    assert made.id == ALICE.id
    again = Principal(subject="alice", method="key", scopes=frozenset({"read"}))
    assert labels.on(again, {"name": "a"}) is made
    more = Principal(subject="alice", method="key", scopes=frozenset({"read", "admin"}))
    assert labels.on(more, {"name": "a"}).scopes == {"read", "admin"}
    assert labels.on(ALICE, {"name": "a"}).scopes == {"read"}
    assert labels.on(ALICE, {}) is ALICE


def test_many_and_long_names_do_not_pile_up() -> None:
    labels = Labels()
    for number in range(3 * MOST):
        made = labels.on(ANONYMOUS, {"name": f"{number} " + "x" * 100_000})
        assert made.label is not None
        assert len(made.label) == LABEL
    assert labels.count <= MOST
