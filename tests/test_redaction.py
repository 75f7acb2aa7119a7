"""Redaction: by name, by the marks of a schema, by form."""

from __future__ import annotations

from typing import Any

import pytest

from weft.expr.marks import marked_names
from weft.redaction import HIDDEN, WHOLE, is_secret_name, redact, secrets_in

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
    ({"properties": {"pin": {"writeOnly": False, "x-secret": "no"}}}, set()),
]


@pytest.mark.parametrize(("schema", "names"), SCHEMAS)
def test_marks_of_a_schema(schema: dict[str, Any], names: set[str]):
    assert marked_names(schema) == names


def test_what_is_marked_is_secret_a_number_too():
    assert secrets_in({"pin": 123456, "q": "text"}, frozenset({"pin"})) == ("123456",)
    assert secrets_in({"q": ["text"]}, frozenset({WHOLE})) == ("text",)
