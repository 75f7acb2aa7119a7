"""Durations say their unit, and none is silently zero."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import ExpressionInvalid, WeftError
from weft.expr.durations import DAY, Duration, as_ms, hours, millis, minutes, parse_duration, seconds, to_ms


@pytest.mark.req("STA-52")
@pytest.mark.parametrize(
    ("value", "length"),
    [
        ("30s", 30.0),
        ("5m", 300.0),
        ("1h", 3600.0),
        ("250ms", 0.25),
        ("1.5s", 1.5),
        ("2d", 2 * DAY),
        ("0s", 0.0),
        ({"seconds": 5}, 5.0),
        ({"millis": 500}, 0.5),
        ({"minutes": 1}, 60.0),
        ({"hours": 1.5}, 5400.0),
        (Duration(2.5), 2.5),
    ],
)
def test_a_duration_is_a_text_with_a_unit_or_an_object(value: Any, length: float):
    assert parse_duration(value) == length


@pytest.mark.req("STA-52")
def test_builders_agree_with_texts():
    built = [millis(250), seconds(1.5), minutes(5), hours(1)]
    assert [one.seconds for one in built] == [parse_duration(text) for text in ("250ms", "1.5s", "5m", "1h")]
    assert [to_ms(one) for one in built] == [250, 1500, 300_000, 3_600_000]


TEXTS = [
    "",
    "60",
    "s",
    "-1s",
    "1 s",
    "1e3s",
    "1h30m",
    "infs",
    "nans",
    "٣s",
    "1.s",
    ".5s",
    "9" * 20 + "s",
    "999999999999d",
]
NUMBERS = [5, 1.5, -1, True, None]
OBJECTS: list[Any] = [
    {},
    {"seconds": "5"},
    {"seconds": True},
    {"seconds": 1, "millis": 1},
    {"days": 1},
    {"seconds": -1},
    {1: 2},
    [],
]
LENGTHS = [{"seconds": float("nan")}, {"hours": float("inf")}, {"minutes": 10**400}]


@pytest.mark.parametrize("value", [*TEXTS, *NUMBERS, *OBJECTS, *LENGTHS])
def test_bad_input_49_anything_else_is_refused(value: Any):
    with pytest.raises(ExpressionInvalid) as caught:
        parse_duration(value)
    assert caught.value.code == "DurationInvalid"


def test_bad_input_49_a_text_without_a_unit_suggests_seconds():
    with pytest.raises(ExpressionInvalid) as caught:
        parse_duration("60")
    assert caught.value.suggestion == "60s"


def test_a_mistyped_unit_suggests_the_right_one():
    with pytest.raises(ExpressionInvalid) as caught:
        parse_duration({"secnds": 5})
    assert caught.value.suggestion == "seconds"


@pytest.mark.req("STA-52")
@pytest.mark.parametrize("value", [0, "0s", "0.4ms", "0.0001s", {"millis": 0.2}, millis(0)])
def test_a_duration_that_would_round_to_zero_is_an_error(value: Any):
    with pytest.raises(ExpressionInvalid, match="rounds to 0") as caught:
        as_ms(value)
    assert caught.value.code == "DurationZero"


@pytest.mark.parametrize(
    ("value", "ms"), [(1, 1), (1500, 1500), ("0.6ms", 1), ("2s", 2000), (seconds(0.25), 250), (0.25, None)]
)
def test_a_field_of_milliseconds_takes_whole_numbers_and_durations(value: Any, ms: int | None):
    if ms is None:
        with pytest.raises(ExpressionInvalid):
            as_ms(value)
    else:
        assert as_ms(value) == ms


@pytest.mark.parametrize("value", ["25h", "2d", 86_400_001, 2**70, 10**400, -1, hours(24.5)])
def test_bad_input_53_more_than_the_field_allows_is_refused(value: Any):
    with pytest.raises(ExpressionInvalid) as caught:
        as_ms(value, most=DAY)
    assert caught.value.code == "DurationInvalid"
    assert as_ms("24h", most=DAY) == 86_400_000


@pytest.mark.parametrize("n", [-1, float("nan"), float("inf"), True, "5", None, 1e300])
def test_builders_refuse_what_is_no_length_of_time(n: Any):
    for build in (millis, seconds, minutes, hours, Duration):
        with pytest.raises(ExpressionInvalid):
            build(n)


@given(st.integers(1, 10**10))
def test_whole_milliseconds_survive_every_spelling(n: int):
    assert as_ms(n) == as_ms(f"{n}ms") == as_ms({"millis": n}) == to_ms(millis(n)) == n


@given(st.text(max_size=12) | st.text(alphabet="0123456789.smhd", max_size=8) | st.floats() | st.integers())
def test_parsing_raises_nothing_but_its_own_errors(value: Any):
    for read in (parse_duration, as_ms):
        with suppress(WeftError):
            read(value)
