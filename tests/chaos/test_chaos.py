"""Gateways under load and in trouble: the short form of `make chaos`, and what it looks for in the ledger."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from scripts.chaos import STORES, run
from scripts.chaos_shop import UNDO, Ledger, refused
from scripts.chaos_verdict import violations

SECONDS, LONGEST = 8.0, 1.0
"""With its gateways and all that must settle, about 20 s for each store."""


def entries(*tools: str, order: str = "o1", what: str = "done") -> list[dict[str, str]]:
    return [{"tool": tool, "key": f"{order}{tool}", "order": order, "what": what} for tool in tools]


ALL = entries(*UNDO)
UNDONE = entries("reserve", "charge", "refund", "release")


@pytest.mark.req("STA-44")
@pytest.mark.parametrize("store", STORES)
def test_every_order_is_all_done_or_all_undone_whatever_is_killed(store: str):
    assert run(store, SECONDS, str(random.SystemRandom().randrange(10**6)), longest=LONGEST) == []


def test_a_ledger_in_order_has_no_violations():
    again = entries("charge", what="again")
    assert violations([*ALL, *again], {"o1": "COMPLETED"}, {"o1": "done"}) == []
    assert violations(UNDONE, {"o1": "COMPENSATED"}, {"o1": "failed"}) == []
    assert violations([], {}, {}) == []


def test_what_an_operator_had_undone_may_come_after_the_others():
    late = entries("reserve", "charge", "release", "refund")
    assert violations(late, {"o1": "COMPENSATED"}, {"o1": "failed"}, {"o1"}) == []
    assert violations(late[:3], {"o1": "COMPENSATED"}, {"o1": "failed"}, {"o1"}) != []


@pytest.mark.parametrize(
    ("ledger", "status", "told"),
    [
        (ALL[:3], "COMPLETED", "the ledger has"),
        ([*ALL, *entries("refund")], "COMPLETED", "the ledger has"),
        (UNDONE[:3], "COMPENSATED", "'reserve'] is not undone"),
        (entries("reserve", "charge", "release", "refund"), "COMPENSATED", "undone in the order"),
        (ALL, "RUNNING", "it is RUNNING"),
        (ALL, None, "it is None"),
        ([], "STUCK", "it is STUCK"),
        ([*ALL, *entries("mail")], "COMPLETED", "mail was done 2 times"),
        ([*ALL, {**ALL[0], "key": "another", "what": "again"}], "COMPLETED", "under several keys"),
    ],
)
def test_what_must_not_be_in_a_ledger_is_found(ledger: list[dict[str, str]], status: str | None, told: str):
    found = violations(ledger, {} if status is None else {"o1": status}, {})
    assert any(told in fault for fault in found), found


@pytest.mark.parametrize(
    ("status", "answer"), [("COMPENSATED", "done"), ("COMPLETED", "failed"), ("COMPLETED", "never")]
)
def test_a_client_that_was_told_otherwise_is_found(status: str, answer: str):
    ledger = ALL if status == "COMPLETED" else UNDONE
    assert any("the client" in fault for fault in violations(ledger, {"o1": status}, {"o1": answer}))


def test_the_shop_does_a_key_once_and_nothing_after_it_was_undone(tmp_path: Path):
    one, two = Ledger(str(tmp_path / "ledger")), Ledger(str(tmp_path / "ledger"))
    good = next(order for order in map(str, range(100)) if not refused(order))
    bad = next(order for order in map(str, range(100)) if refused(order))
    assert [shop.enter("charge", "k1", good) for shop in (one, two, one)] == ["done", "again", "again"]
    assert two.enter("recall", "k2", good) == "done"
    assert one.enter("ship", "k3", good) == "late"
    assert [one.enter("mail", f"k{order}", order) for order in (good, bad)] == ["done", "refused"]
