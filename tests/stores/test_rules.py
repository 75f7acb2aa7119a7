"""What every store takes, told once for all of them."""

from __future__ import annotations

import pytest

from weft.errors import StoreError
from weft.stores.rules import LARGEST, added, holds, key_bytes, key_text, lifetime


def test_a_lifetime_is_at_least_a_millisecond_which_is_what_every_server_can_count():
    assert lifetime("s", 1e-9) == 0.001
    assert lifetime("s", 2.5) == 2.5
    assert lifetime("s", None) is None


@pytest.mark.parametrize("key", ["", "a\x00", "é", "\ud800", "\U0001f9f5"])
def test_a_key_comes_back_from_its_bytes(key: str):
    assert key_text(key_bytes("s", key)) == key


def test_numbers_end_where_63_bits_do():
    assert added("s", None, LARGEST) == LARGEST
    assert added("s", b"%d" % -LARGEST, 0) == -LARGEST
    for value, by in ((None, LARGEST + 1), (b"%d" % -LARGEST, -1), (b"9" * 19, 0)):
        with pytest.raises(StoreError) as raised:
            added("s", value, by)
        assert raised.value.code == "NumberTooLarge"


def test_a_condition_holds_anyhow_where_nothing_is_or_of_one_version():
    assert [holds(when, version) for when in (-1, 0, 7) for version in (0, 7, 8)] == [
        *(True, True, True),
        *(True, False, False),
        *(False, True, False),
    ]
