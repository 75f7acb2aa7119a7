"""Names that are offered twice."""

from __future__ import annotations

import pytest

from weft.gateway.names import Offer, OnCollision, named, prefixed_name, prefixed_uri


def offers(*pairs: tuple[str, str], owned: str | None = None) -> list[Offer[str]]:
    return [Offer(name, source, f"{source}/{name}", owned=source == owned) for source, name in pairs]


def test_a_name_that_is_offered_once_has_no_prefix() -> None:
    served, problems = named(offers(("a", "search"), ("b", "fetch")), on_collision="prefix", what="tool")
    assert list(served) == ["search", "fetch"]
    assert problems == []


def test_a_name_that_two_servers_offer_gets_both_their_prefixes() -> None:
    served, problems = named(
        offers(("a", "search"), ("b", "search"), ("b", "fetch")), on_collision="prefix", what="tool"
    )
    assert {name: one.thing for name, one in served.items()} == {
        "fetch": "b/fetch",
        "a_search": "a/search",
        "b_search": "b/search",
    }
    assert problems == []


def test_two_versions_of_a_server_stay_apart() -> None:
    pairs = (("search@1.0.0", "find"), ("search@2.0.0", "find"))
    served, _ = named(offers(*pairs), on_collision="prefix", what="tool")
    assert list(served) == ["search_1_0_0_find", "search_2_0_0_find"]


def test_what_the_registry_defines_keeps_its_name() -> None:
    served, problems = named(
        offers(("reg", "search"), ("b", "search"), owned="reg"), on_collision="prefix", what="tool"
    )
    assert {name: one.source for name, one in served.items()} == {"search": "reg", "b_search": "b"}
    assert problems == []


def test_priority_serves_the_first_and_says_so() -> None:
    served, problems = named(offers(("a", "search"), ("b", "search")), on_collision="priority", what="tool")
    assert {name: one.source for name, one in served.items()} == {"search": "a"}
    assert problems == [
        "tool 'search' is offered by 'a', 'b': that of 'a' is served (names.onCollision: priority)",
    ]


@pytest.mark.parametrize(("owned", "left"), [(None, []), ("b", ["search"])])
def test_error_serves_none_of_them_but_the_registrys(owned: str | None, left: list[str]) -> None:
    served, problems = named(offers(("a", "search"), ("b", "search"), owned=owned), on_collision="error", what="tool")
    assert list(served) == left
    assert len(problems) == 1


@pytest.mark.parametrize("rule", ["prefix", "priority", "error"])
def test_nothing_is_overwritten_silently(rule: OnCollision) -> None:
    """Also when the prefixed name is somebody's own."""
    given = offers(("a", "x"), ("b", "x"), ("c", "a_x"))
    served, problems = named(given, on_collision=rule, what="tool")
    gone = [one for one in given if one not in served.values()]
    assert all(any(repr(one.source) in problem for problem in problems) for one in gone)
    assert served["a_x"].source == "c"


def test_prefixes_have_only_letters_that_clients_take() -> None:
    assert prefixed_name("crm.example@1.0.0", "find") == "crm_example_1_0_0_find"
    assert prefixed_uri("docs@1.0.0", "file:///a b") == "weft://docs_1.0.0/file:///a b"
    assert len(prefixed_name("s" * 200, "find")) == 128
