"""Quotas: so many calls of a tool for each caller."""

from __future__ import annotations

import pytest

from weft.gateway.policy import ToolFacts
from weft.gateway.quotas import Quota, QuotaExceeded, Quotas
from weft.ports import Principal

ALICE = Principal(subject="alice", agent_name="research", method="jwt", strength="proven")
BOB = Principal(subject="bob", agent_name="writer", method="jwt", strength="proven")


class Time:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


def taken(quotas: Quotas, who: Principal, tool: str, tries: int = 20) -> int:
    """Return how many calls in a row are let through."""
    for count in range(tries):
        try:
            quotas.take(who, ToolFacts(tool))
        except QuotaExceeded:
            return count
    return tries


def test_each_caller_has_a_quota_for_each_tool():
    quotas = Quotas([Quota(name="q", calls=3, per=60)], now=Time())
    assert [taken(quotas, who, tool) for who in (ALICE, BOB) for tool in ("a", "b")] == [3, 3, 3, 3]
    assert taken(quotas, ALICE, "a") == 0


@pytest.mark.parametrize(("by", "counts"), [("caller", [3, 0, 3, 0]), ("tool", [3, 3, 0, 0])])
def test_a_quota_may_be_for_a_caller_or_for_a_tool_alone(by: str, counts: list[int]):
    quotas = Quotas([Quota(name="q", calls=3, per=60, by=by)], now=Time())  # pyright: ignore[reportArgumentType]
    assert [taken(quotas, who, tool) for who in (ALICE, BOB) for tool in ("a", "b")] == counts


def test_a_quota_fills_up_again_and_says_when():
    clock = Time()
    quotas = Quotas([Quota(name="slow", calls=6, per=60, burst=2)], now=clock)
    assert taken(quotas, ALICE, "a") == 2
    with pytest.raises(QuotaExceeded, match="slow") as caught:
        quotas.take(ALICE, ToolFacts("a"))
    assert (caught.value.code, caught.value.retryable) == ("QuotaExceeded", "yes")
    assert caught.value.retry_after == pytest.approx(10)
    clock.at += 10
    assert taken(quotas, ALICE, "a") == 1
    assert quotas.exceeded == {"slow": 3}


def test_a_quota_is_for_some_tools_and_some_agents():
    quotas = Quotas([Quota(name="q", calls=1, per=60, tools=("pay*",), agents=("res*",))], now=Time())
    assert [taken(quotas, who, tool) for who in (ALICE, BOB) for tool in ("payment", "search")] == [1, 20, 20, 20]


def test_a_call_that_one_quota_refuses_counts_in_no_other():
    clock = Time()
    quotas = Quotas([Quota(name="wide", calls=5, per=60), Quota(name="narrow", calls=1, per=1)], now=clock)
    assert taken(quotas, ALICE, "a") == 1
    assert taken(quotas, ALICE, "a") == 0
    total = 1
    for _ in range(4):
        clock.at += 1
        total += taken(quotas, ALICE, "a")
    assert total == 5


def test_a_tool_is_counted_by_its_servers_name_for_it_whatever_it_is_served_under():
    quotas = Quotas([Quota(name="q", calls=2, per=60, tools=("pay",), by="tool")], now=Time())
    quotas.take(ALICE, ToolFacts("pay", server="bank"))
    quotas.take(BOB, ToolFacts("bank_pay", server="bank", own_name="pay"))
    with pytest.raises(QuotaExceeded):
        quotas.take(ALICE, ToolFacts("bank_pay", server="bank", own_name="pay"))
