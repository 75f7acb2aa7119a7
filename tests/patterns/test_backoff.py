"""Backoffs: the three formulas, their caps and their chance."""

from __future__ import annotations

import itertools
import math
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft as w
from weft.errors import DocumentInvalid, InputError
from weft.ir.reading import made
from weft.patterns.backoff import Backoff


def pauses(backoff: Backoff, count: int = 5) -> list[float]:
    """Return the first pauses, without chance."""
    return list(itertools.islice(backoff.delays(Random(0)), count))


def refused(body: Any) -> str:
    """Return where and why a backoff is refused."""
    with pytest.raises(DocumentInvalid) as caught:
        made(Backoff, body)
    (problem,) = caught.value.problems
    return f"{problem.pointer} {problem.message}"


@pytest.mark.req("STA-26", "STA-30")
@pytest.mark.parametrize(
    ("backoff", "expected"),
    [
        (w.fixed(0.3), [0.3, 0.3, 0.3, 0.3, 0.3]),
        (w.fixed(0), [0, 0, 0, 0, 0]),
        (w.linear("100ms", w.millis(50), max=0.225), [0.1, 0.15, 0.2, 0.225, 0.225]),
        (w.linear(0, 1), [0, 1, 2, 3, 4]),
        (w.exponential(0.2), [0.2, 0.4, 0.8, 1.6, 3.2]),
        (w.exponential(0.1, max=w.seconds(5), multiplier=3), [0.1, 0.3, 0.9, 2.7, 5]),
        (w.exponential(1, multiplier=1), [1, 1, 1, 1, 1]),
        (w.exponential(40), [40, 40, 40, 40, 40]),
    ],
)
def test_pauses_grow_by_their_formula_to_their_cap(backoff: Backoff, expected: list[float]):
    assert pauses(backoff) == pytest.approx(expected)


@pytest.mark.req("STA-26", "STA-30", "STA-54")
def test_the_spellings_of_the_seed_are_one_form():
    canonical = {"exponential": {"initialDelayMs": 100, "maxDelayMs": 5000, "multiplier": 2.0}}
    assert w.exponential(w.millis(100), max=w.seconds(5)).to_ir() == canonical
    body = {"initialDelayMs": 100, "maxDelayMs": 5000, "multiplier": 2}
    for spelt in (
        {"type": "exponential", **body},
        {"exponential": body},
        {"exponential": {"initial_delay_ms": 100, "max_delay_ms": 5000, "multiplier": 2}},
        {"type": "exponential", "initialDelay": "100ms", "maxDelay": {"seconds": 5}, "multiplier": 2},
    ):
        assert made(Backoff, spelt).to_ir() == canonical
    assert made(Backoff, {"exponential": {"initialDelayMs": 100}}).delay(3) == 0.4
    assert made(Backoff, {"type": "fixed", "delayMs": 7}) == w.fixed(w.millis(7))
    assert made(Backoff, {"linear": {"initialDelayMs": 1, "incrementMs": 2, "maxDelayMs": 3}}) == (
        w.linear("1ms", "2ms", max="3ms")
    )


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"type": "fixed", "delayMs": -1}, "/delayMs input should be greater than or equal to 0"),
        ({"fixed": {"delayMs": 3_600_001}}, "/fixed/delayMs input should be less than or equal to 3600000"),
        ({"fixed": {"delayMs": "0.2ms"}}, "/fixed/delayMs the duration rounds to 0 milliseconds"),
        ({"fixed": {"delayMs": True}}, "/fixed/delayMs input should be a valid integer"),
        ({"exponential": {"initialDelayMs": 0}}, "/exponential/initialDelayMs input should be greater than"),
        ({"exponential": {"initialDelayMs": 10, "multiplier": 0}}, "/exponential/multiplier input should be greater"),
        ({"exponential": {"initialDelayMs": 10, "multiplier": 0.5}}, "/exponential/multiplier input should be greater"),
        ({"exponential": {"initialDelayMs": 10, "multiplier": math.nan}}, "/exponential/multiplier input should be a"),
        ({"exponential": {"initialDelayMs": 10, "maxDelayMs": 9}}, "/exponential/maxDelayMs maxDelayMs 9 is less"),
        ({"type": "linear", "initialDelayMs": 10, "incrementMs": 1, "maxDelayMs": 9}, "/maxDelayMs maxDelayMs 9 is"),
        ({"linear": {"initialDelayMs": 10}}, "/linear missing key 'incrementMs'"),
        (
            {"fixed": {"delayMs": 1}, "linear": {"initialDelayMs": 1, "incrementMs": 1}},
            " exactly one backoff is needed",
        ),
        ({}, " exactly one backoff is needed"),
        ({"type": "fixd", "delayMs": 1}, " unknown key 'fixd'"),
    ],
)
def test_what_is_wrong_with_a_backoff_is_told_with_its_place(body: Any, place: str):
    assert refused(body).startswith(place)


def test_the_builders_refuse_what_a_document_may_not_have():
    for build in (
        lambda: w.fixed(-1),
        lambda: w.fixed(0.0001),
        lambda: w.exponential(0),
        lambda: w.exponential(2, max=1),
        lambda: w.exponential(1, multiplier=0.5),
        lambda: w.linear(4000, 1),
    ):
        with pytest.raises(InputError):
            build()


@pytest.mark.req("STA-27")
def test_retry_04_jitter_is_uniform_between_its_bounds_and_follows_the_seed():
    backoff = w.fixed(2)
    samples = list(itertools.islice(backoff.delays(Random(7), 0.25), 10_000))
    assert min(samples) >= 1.5
    assert max(samples) <= 2
    assert sum(samples) / len(samples) == pytest.approx(1.75, abs=0.01)
    quarters = [sum(low <= one < low + 0.125 for one in samples) for low in (1.5, 1.625, 1.75, 1.875)]
    assert all(2300 < count < 2700 for count in quarters)
    assert samples == list(itertools.islice(backoff.delays(Random(7), 0.25), 10_000))
    assert samples != list(itertools.islice(backoff.delays(Random(8), 0.25), 10_000))


@st.composite
def backoffs(draw: st.DrawFn) -> dict[str, dict[str, Any]]:
    """Return a backoff as a document has it."""
    kind = draw(st.sampled_from(["fixed", "linear", "exponential"]))
    cap = draw(st.integers(1, 3_600_000))
    if kind == "fixed":
        return {"fixed": {"delayMs": cap}}
    body: dict[str, Any] = {"initialDelayMs": draw(st.integers(1, cap)), "maxDelayMs": cap}
    if kind == "linear":
        return {"linear": {**body, "incrementMs": draw(st.integers(0, 3_600_000))}}
    return {"exponential": {**body, "multiplier": draw(st.floats(1, 1000))}}


@pytest.mark.req("STA-26", "STA-27")
@given(body=backoffs(), attempt=st.integers(1, 10**12), jitter=st.floats(0, 1), seed=st.integers())
def test_retry_05_no_pause_is_ever_above_the_cap_below_zero_or_shorter_than_the_one_before(
    body: Any, attempt: int, jitter: float, seed: int
):
    backoff = made(Backoff, body)
    ((kind, held),) = body.items()
    cap = held["delayMs"] if kind == "fixed" else held["maxDelayMs"]
    assert 0 <= backoff.delay(attempt) <= backoff.delay(attempt + 1) <= cap / 1000
    for plain, drawn in itertools.islice(
        zip(backoff.delays(Random(0)), backoff.delays(Random(seed), jitter), strict=False), 20
    ):
        assert plain * (1 - jitter) - 1e-9 <= drawn <= plain
