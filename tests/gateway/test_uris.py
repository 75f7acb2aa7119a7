"""Which template an address belongs to."""

from __future__ import annotations

import pytest

from weft.gateway.uris import matches, texts_of


@pytest.mark.parametrize(
    ("template", "uri", "fits"),
    [
        ("test://template/{id}/data", "test://template/123/data", True),
        ("test://template/{id}/data", "test://template/123/other", False),
        ("test://template/{id}/data", "test://templat/123/data", False),
        ("file:///{+path}", "file:///a/b/c.txt", True),
        ("file:///{+path}", "http://a/b", False),
        ("db://{table}/{row}", "db://users/1", True),
        ("db://{table}/{row}", "db://users", False),
        ("a://{x}{y}", "a://12", True),
        ("a://fixed", "a://fixed", True),
        ("a://fixed", "a://fixed2", False),
        ("a://{x}bc", "a://bc", True),
        ("ab{x}ba", "aba", False),
    ],
)
def test_an_address_fits_a_template(template: str, uri: str, fits: bool) -> None:
    assert matches(texts_of(template), uri) is fits


def test_a_hostile_template_is_matched_in_linear_time() -> None:
    """A regular expression for it would take longer than the universe has."""
    assert not matches(texts_of("{a}x" * 500 + "end"), "x" * 100_000)
