"""Keys: no two things share one, and every store takes them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from weft.stores.rules import MAX_KEY
from weft.workflows.keys import key

odd = st.text(st.sampled_from("a|%7C:\x00ü\ud800"), max_size=4) | st.integers(190, 210).map("a".__mul__) | st.text()
parts = st.lists(odd, max_size=4)


@given(parts, parts)
def test_other_parts_have_another_key(some: list[str], more: list[str]):
    assert (key("run", *some) == key("run", *more)) == (some == more)


def test_bars_and_hashes_in_names_do_not_lead_to_others():
    assert key("run", "a|b") != key("run", "a", "b")
    long = "x" * 5000
    assert key("run", key("run", long).removeprefix("v1|run|")) != key("run", long)


@given(st.lists(st.text(min_size=150, max_size=400), min_size=4, max_size=4))
def test_no_name_is_too_long_for_a_key(some: list[str]):
    assert len(key("template-statistics", *some).encode()) <= MAX_KEY
