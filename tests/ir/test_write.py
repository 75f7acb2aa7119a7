"""Writing documents: what is written reads back as the same value."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from weft.ir.read import Format, read
from weft.ir.write import write

texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
words = st.sampled_from(
    [
        "yes",
        "on",
        "null",
        "~",
        "1e3",
        "0o7",
        "0x1f",
        ".5",
        "1.",
        "+1",
        "<<",
        "=",
        "2024-01-01",
        "# x",
        "a: b",
        "- x",
        "",
    ]
)
scalars = st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    scalars | texts | words,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts | words, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize("format", ["json", "yaml"])
@given(value=st.dictionaries(texts | words, values, max_size=4))
@example(value={"a": "1e3", "1e3": ["0o7", 1e20, 1e-7, -0.0]})
@example(value={"a": "line\nbreak \u2028 \x85 \x07 end", "b": " lead", "c": "tab\t"})
def test_a_value_survives_being_written_and_read(format: Format, value: Any):
    back = read(write(value, format), format=format).value
    assert back == value
    assert repr(back) == repr(value)


def test_a_value_that_stands_twice_is_written_twice():
    shared = [1]
    assert write({"a": shared, "b": shared}, "yaml") == "a:\n- 1\nb:\n- 1\n"
