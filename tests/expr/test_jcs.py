"""Canonical JSON: the vectors of RFC 8785, and equal bytes for equal values."""

from __future__ import annotations

import hashlib
import json
import random
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import unhurried
from weft.errors import InputError
from weft.expr.jcs import canonical, hash_of
from weft.ports import is_array, is_object

# RFC 8785, appendix B: the bits of a double, and how it is written.
NUMBERS = [
    ("0000000000000000", "0"),
    ("8000000000000000", "0"),
    ("0000000000000001", "5e-324"),
    ("8000000000000001", "-5e-324"),
    ("7fefffffffffffff", "1.7976931348623157e+308"),
    ("4340000000000000", "9007199254740992"),
    ("c340000000000000", "-9007199254740992"),
    ("4430000000000000", "295147905179352830000"),
    ("44b52d02c7e14af5", "9.999999999999997e+22"),
    ("44b52d02c7e14af6", "1e+23"),
    ("444b1ae4d6e2ef4e", "999999999999999700000"),
    ("444b1ae4d6e2ef50", "1e+21"),
    ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
    ("3eb0c6f7a0b5ed8d", "0.000001"),
    ("41b3de4355555553", "333333333.3333332"),
    ("41b3de4355555557", "333333333.33333343"),
    ("becbf647612f3696", "-0.0000033333333333333333"),
    ("43143ff3c1cb0959", "1424953923781206.2"),
]


@pytest.mark.parametrize(("bits", "written"), NUMBERS)
def test_numbers_are_written_as_the_rfc_says(bits: str, written: str):
    value = struct.unpack(">d", bytes.fromhex(bits))[0]
    assert canonical(value) == written.encode()


def test_the_example_of_the_rfc():
    given = r"""{"numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
      "string": "€$\nA'B\"\\\\\"/", "literals": [null, true, false]}"""
    wanted = (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        r'"string":"€$\u000f\nA' + "'" + r'B\"\\\\\"/"}'
    )
    value = json.loads(given)
    value["string"] = '€$\u000f\nA\'B"\\\\"/'
    assert canonical(value).decode() == wanted


def test_keys_stand_in_the_order_of_utf_16():
    keys = ["€", "\r", "\ufb33", "1", "😀", "\x80", "ö"]
    assert list(json.loads(canonical(dict.fromkeys(keys, 0)))) == ["\r", "1", "\x80", "ö", "€", "😀", "\ufb33"]


doubles = st.floats(allow_nan=False, allow_infinity=False)
values: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), doubles, st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)),
    max_leaves=10,
)


def _shuffled(value: Any, rng: random.Random) -> Any:
    if is_object(value):
        pairs = list(value.items())
        rng.shuffle(pairs)
        return {key: _shuffled(item, rng) for key, item in pairs}
    return [_shuffled(item, rng) for item in value] if is_array(value) else value


@unhurried
@given(values, st.randoms(use_true_random=False))
def test_the_order_of_keys_does_not_matter_and_reading_gives_the_value_back(value: Any, rng: random.Random):
    text = canonical(value)
    assert canonical(_shuffled(value, rng)) == text
    assert canonical(json.loads(text)) == text
    assert hash_of(value) == hashlib.sha256(text).hexdigest()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1: 0.5}, b"x", {"a": {1, 2}}])
def test_what_is_not_json_is_refused(value: Any):
    with pytest.raises(InputError, match=r"JSON|text"):
        canonical(value)


@unhurried
@given(values)
def test_the_short_way_and_the_long_way_agree(value: Any):
    # A number with a point beside it makes the whole go the long way.
    assert canonical([value, 0.5]) == b"[" + canonical(value) + b",0.5]"


def test_two_large_integers_never_share_a_hash():
    assert hash_of(2**53) != hash_of(2**53 + 1)
