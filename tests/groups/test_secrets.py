"""Secrets that actions take: errors do not say them, and schemas do not have them as defaults."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel, Field, SecretStr, model_validator

import weft as w

SECRET = "SECRETVALUE"


def bad(value: Any) -> Any:
    raise ValueError("not a good one")


def telling(value: SecretStr) -> SecretStr:
    raise ValueError(f"{value.get_secret_value()} is not a good one")


class Inside(BaseModel):
    pin: Annotated[SecretStr, AfterValidator(bad)]


class Together(BaseModel):
    pin: SecretStr
    n: int = 0

    @model_validator(mode="after")
    def refuse(self) -> Together:
        raise ValueError("not together")


class WriteOnly(BaseModel):
    pin: str = Field(json_schema_extra={"writeOnly": True})

    @model_validator(mode="after")
    def refuse(self) -> WriteOnly:
        raise ValueError("not together")


@dataclass
class Plain:
    pin: Annotated[SecretStr, AfterValidator(bad)]


def directly(pin: Annotated[SecretStr, AfterValidator(bad)]) -> None: ...
def aloud(pin: Annotated[SecretStr, AfterValidator(telling)]) -> None: ...
def inside(of: Inside) -> None: ...
def together(of: Together) -> None: ...
def write_only(of: WriteOnly) -> None: ...
def listed(of: list[Inside]) -> None: ...
def plain(of: Plain) -> None: ...
def dated(since: date) -> None: ...


@pytest.mark.parametrize(
    ("function", "params", "sent"),
    [
        (directly, None, {"pin": SECRET}),
        (aloud, None, {"pin": SECRET}),
        (inside, None, {"of": {"pin": SECRET}}),
        (together, None, {"of": {"pin": SECRET}}),
        (write_only, None, {"of": {"pin": SECRET}}),
        (listed, None, {"of": [{"pin": SECRET}]}),
        (plain, None, {"of": {"pin": SECRET}}),
        (together, Together, {"pin": SECRET}),
        (directly, {"properties": {"pin": {"type": "string"}}, "required": ["pin"]}, {"pin": SECRET}),
        (
            dated,
            {"properties": {"since": {"type": "string", "writeOnly": True}}, "required": ["since"]},
            {"since": SECRET},
        ),
    ],
)
async def test_a_secret_that_its_type_refuses_is_not_told(function: Callable[..., Any], params: Any, sent: Any):
    it = w.group("platform").add("use", function, params=params)
    result = await it.call({"action": "use", **sent})
    assert result["_meta"]["weft/error"]["code"] == "InvalidArguments"
    assert SECRET not in json.dumps(result)


async def test_a_common_secret_that_its_model_refuses_is_not_told():
    for it in (
        w.group("platform", common=Together),
        w.group("platform").common(pin=Inside.model_fields["pin"].annotation),
    ):
        it.common(key=Annotated[SecretStr, AfterValidator(bad)]).add("use", lambda: None)
        result = await it.call({"action": "use", "pin": SECRET, "key": SECRET})
        assert result["_meta"]["weft/error"]["code"] == "InvalidArguments"
        assert SECRET not in json.dumps(result)


async def test_what_is_no_secret_is_still_told():
    def use(count: Annotated[int, AfterValidator(bad)]) -> None: ...

    result = await w.group("platform").add("use", use).call({"action": "use", "count": 7})
    assert "'count' is 7; not a good one" in result["content"][0]["text"]


class Login(BaseModel):
    password: str = "hunter2"
    retries: int = 3


def test_nobody_is_told_the_default_of_a_secret():
    key, login_of = SecretStr("abcdef"), Login()

    def login(
        key: SecretStr = key,
        password: str = "hunter2",
        of: Login = login_of,
        max_tokens: int = 100,
        name: str = "Ada",
    ) -> None: ...

    fields = w.group("platform").add("login", login).definition["inputSchema"]["properties"]
    assert "hunter2" not in json.dumps(fields)
    assert "default" not in fields["key"]
    assert fields["of"]["properties"]["retries"]["default"] == 3
    assert (fields["max_tokens"]["default"], fields["name"]["default"]) == (100, "Ada")
    common = w.group("platform").common(password=(str, "hunter2")).add("one", lambda: 1)
    assert "hunter2" not in json.dumps(common.definition)


async def test_a_secret_default_is_not_told_and_yet_used():
    params = {"properties": {"password": {"type": "string", "default": "hunter2"}}}

    def login(password: str) -> int:
        return len(password)

    it = w.group("platform").add("login", login, params=params)
    assert "hunter2" not in json.dumps(it.definition)
    assert await it.execute({"action": "login"}) == 7
