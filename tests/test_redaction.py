"""Redaction: by name, by the marks of a schema, by form."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft import redaction
from weft.expr.marks import marked_names
from weft.redaction import HIDDEN, PART, WHOLE, Known, is_secret_name, redact, secrets_in

CANARY = "canary-9f8e7d6c"


@pytest.mark.parametrize(
    "name", ["password", "userPassword", "api_key", "apiKey", "X-API-Key", "accessToken", "client_secret", "jwt", "pwd"]
)
def test_names_that_say_that_something_is_secret(name: str):
    assert is_secret_name(name)
    assert redact(f"{name}={CANARY}") == f"{name}={HIDDEN}"
    assert CANARY not in redact(f'{{"{name}": "{CANARY} and more"}}')
    assert CANARY not in redact(f'"{{\\"{name}\\": \\"{CANARY} and more\\"}}"')


@pytest.mark.parametrize("name", ["query", "keyword", "author", "passage", "monkey", "description"])
def test_names_that_do_not(name: str):
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    "secret",
    [
        "weft_0123456789_" + "aB3-" * 10 + "xyz",
        "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln",
        "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhI",
        "sk_live_0123456789abcdefXYZ",
        "hf_0123456789abcdefghijXYZ",
    ],
)
def test_forms_of_tokens(secret: str):
    assert redact(f"refused: {secret} is not known") == f"refused: {HIDDEN} is not known"


def test_secrets_of_a_value_are_found_by_name_at_any_depth_the_longest_first():
    value = {
        "user": "ada",
        "login": {"password": "hunter2", "tries": 3},
        "tokens": ["first-token", {"x": "second-one-here"}],
        "max_tokens": 4096,
        "secret": None,
        "pwd": "abc",
    }
    assert secrets_in(value) == ("second-one-here", "first-token", "hunter2")
    assert secrets_in([{"user": "ada"}, "text", 1]) == ()


def test_a_secret_is_also_known_as_json_writes_it():
    secrets = secrets_in({"password": 'a"b\nc\u00e9'})
    assert redact('{"text": "a\\"b\\nc\\u00e9"} and a"b\nc\u00e9', secrets) == f'{{"text": "{HIDDEN}"}} and {HIDDEN}'


def test_a_long_secret_is_hidden_also_where_a_sentence_was_cut():
    secret = "".join(f"{n:03d}" for n in range(100))
    told = redact(f'"{secret[:119]}...{secret[-40:]}" is too long, {secret} too', [secret])
    assert told == f'"{HIDDEN}...{HIDDEN}" is too long, {HIDDEN} too'
    assert redact("short one: canary-9f8e", [CANARY]) == "short one: canary-9f8e"


def test_a_secret_inside_another_does_not_leave_the_rest_of_it():
    assert redact("no canary-code", ["canary", "canary-code"]) == f"no {HIDDEN}"


SCHEMAS: list[tuple[dict[str, Any], set[str]]] = [
    ({"properties": {"pin": {"writeOnly": True}, "q": {"type": "string"}}}, {"pin"}),
    ({"properties": {"a": {"properties": {"code": {"x-secret": True}}}}}, {"code"}),
    ({"properties": {"codes": {"type": "array", "items": {"format": "password"}}}}, {"codes"}),
    ({"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"writeOnly": True}}}, {"a"}),
    (
        {"properties": {"a": {"$ref": "#/$defs/B"}}, "$defs": {"A": {"writeOnly": True}, "B": {"$ref": "#/$defs/A"}}},
        {"a"},
    ),
    ({"$defs": {"A": {"properties": {"inner": {"x-secret": True}}}}}, {"inner"}),
    ({"properties": {"properties": {"properties": {"deep": {"writeOnly": True}}}}}, {"deep"}),
    ({"anyOf": [{"properties": {"one": {"writeOnly": True}}}, {}]}, {"one"}),
    ({"writeOnly": True}, {WHOLE}),
    ({"properties": {"pin": {"writeOnly": True}, "a": {"$ref": {}}, "b": {"$ref": ["x"]}}}, {"pin"}),
    ({"properties": {"pin": {"writeOnly": False, "x-secret": "no"}}}, set()),
]


@pytest.mark.parametrize(("schema", "names"), SCHEMAS)
def test_marks_of_a_schema(schema: dict[str, Any], names: set[str]):
    assert marked_names(schema) == names


def test_what_is_marked_is_secret_a_number_too():
    assert secrets_in({"pin": 123456, "q": "text"}, frozenset({"pin"})) == ("123456",)
    assert secrets_in({"q": ["text"]}, frozenset({WHOLE})) == ("text",)


@pytest.mark.parametrize(
    "text",
    [
        "pa\u017fsword: hunter22",
        "X" * 100 + " sk-" + "a1" * 10,
        "X" * 100 + " ghr_" + "a1" * 12,
        "BeaRer abcdefgh12",
        "Ba\u017fic abcdefgh12",
        "X" * 100 + " eyJhbGciOiJFUzI1NiJ9.eyJz",
        "postgres://ann:pw@host/x",
        "-----BEGIN RSA PRIVATE KEY-----abc",
        "to\u212aen=abc",
    ],
)
def test_a_first_look_at_words_misses_nothing(text: str):
    shown = redact(text)
    assert HIDDEN in shown
    assert all(one not in shown for one in ("hunter22", "a1a1", "abcdefgh", "eyJz", ":pw@", "KEY-----abc", "=abc"))


SHORT = st.text(st.sampled_from("AB"), min_size=4, max_size=9)
LONG = st.text(st.sampled_from("ABC"), min_size=2 * PART, max_size=60)


@given(secrets=st.lists(SHORT, min_size=1, max_size=6), text=st.text(st.sampled_from("ABC"), max_size=60))
def test_of_short_secrets_all_is_hidden_and_nothing_else(secrets: list[str], text: str):
    hidden = {at + n for at in range(len(text)) for one in secrets if text.startswith(one, at) for n in range(len(one))}
    rest = "".join(letter for at, letter in enumerate(text) if at not in hidden)
    assert Known(secrets).hidden_in(text).replace(HIDDEN, "") == rest


@given(data=st.data(), secrets=st.lists(LONG, min_size=1, max_size=6))
def test_of_long_secrets_neither_the_beginning_nor_the_end_is_left(data: st.DataObject, secrets: list[str]):
    cut = st.sampled_from(secrets).flatmap(
        lambda one: st.tuples(st.integers(0, len(one)), st.integers(0, len(one))).map(lambda at: one[min(at) : max(at)])
    )
    text = "".join(data.draw(st.lists(cut | st.sampled_from([*"ABC x"]), max_size=12)))
    shown = Known(secrets).hidden_in(text)
    assert not any(one[:PART] in shown or one[-PART:] in shown for one in secrets)
    # What stays stands there in this order, and what has no beginning and no end of a secret is as it was.
    rest, at = shown.split(HIDDEN), 0
    for one in rest:
        at = text.index(one, at) + len(one)
    if not any(one[:PART] in text or one[-PART:] in text for one in secrets):
        assert shown == text


def test_past_a_hundred_thousand_places_the_whole_text_is_hidden():
    known = Known(["AAAA"])
    assert known.hidden_in("A" * 120_000) == HIDDEN
    assert known.hidden_in("nothing of it") == HIDDEN
    assert redact("nothing of it", ["AAAA"]) == "nothing of it"


def test_with_many_secrets_as_with_one():
    many = [f"secret-{n:05d}" for n in range(3000)]
    text = "say secret-00007, secret-02999 and secret-03000 " * 3
    assert redact(text, many) == f"say {HIDDEN}, {HIDDEN} and secret-03000 " * 3


@pytest.mark.parametrize(
    ("secrets", "text"),
    [
        (["A" * 16 + "B" * 32], ("A" * 16 + "x") * 500),
        (["A" * 16 + "B" * 5000], ("A" * 16 + "B" * 100 + "x") * 60),
        (["A" * 5000 + "B"], "A" * 4000),
        (["B" + "A" * 5000], "A" * 4000),
        ([f"{'A' * 40}{n:04d}" for n in range(1000)], ("A" * 40 + "x") * 200),
    ],
)
def test_what_a_text_repeats_of_a_secret_is_not_compared_again_and_again(
    secrets: list[str], text: str, monkeypatch: pytest.MonkeyPatch
):
    compared = 0

    def same(one: str, other: str) -> int:
        nonlocal compared
        found = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
        compared += found + 1
        return found

    monkeypatch.setattr(redaction, "_same", same)
    assert "A" * PART not in Known(secrets).hidden_in(text)
    assert 0 < compared <= 4 * len(text)
