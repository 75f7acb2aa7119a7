"""Which action a call means, and what a model is told when it did not say so."""

from __future__ import annotations

from typing import Any

import pytest

from weft.errors import ExecutionFailed
from weft.groups.execution.resolving import MOST_CHOICES, resolve

ACTIONS = {key: key.upper() for key in ("users.create", "users.list", "projects.create", "projects.list", "ping")}
MANY = {f"area{area}.act{number}": number for area in range(50) for number in range(20)}


def refused(arguments: dict[str, Any], actions: dict[str, Any] = ACTIONS, **more: Any) -> ExecutionFailed:
    with pytest.raises(ExecutionFailed) as caught:
        resolve(actions, arguments, tool="platform", **more)
    return caught.value


def facts(error: ExecutionFailed) -> dict[str, Any]:
    return dict(error.facts or {})


@pytest.mark.req("GRP-22", "GRP-23")
def test_an_action_is_found_by_its_key_and_gets_the_other_arguments():
    sent = {"name": "Ann", "action": "users.create"}
    assert resolve(ACTIONS, sent, tool="platform") == ("users.create", "USERS.CREATE", {"name": "Ann"})
    assert sent == {"name": "Ann", "action": "users.create"}


def test_the_discriminator_may_be_called_otherwise():
    assert resolve(ACTIONS, {"do": "ping", "action": 1}, tool="platform", discriminator="do")[2] == {"action": 1}
    assert facts(refused({}, discriminator="do"))["field"] == "do"


@pytest.mark.req("GRP-22")
def test_a_call_that_does_not_say_which_action_hears_the_choices():
    error = refused({"name": "Ann"})
    assert error.code == "MissingAction"
    assert error.message == (
        "'platform' needs 'action', which says what it is to do. "
        "Its actions: users.create, users.list, projects.create, projects.list, ping"
    )
    assert facts(error) == {"field": "action", "choices": list(ACTIONS)}
    assert error.hint is None  # an example of an action might be done


def test_a_mistyped_discriminator_is_recognised_by_what_stands_under_it():
    error = refused({"acton": "ping"})
    assert error.code == "MissingAction"
    assert "'acton' was sent; did you mean 'action'?" in error.message
    assert (facts(error)["suggestion"], error.hint) == ("ping", 'send {"action": "ping"} and its fields')


@pytest.mark.req("GRP-22")
@pytest.mark.parametrize(("given", "shown"), [(None, "null"), (3, "3"), (["ping"], '["ping"]'), ({}, "{}")])
def test_an_action_must_be_a_string(given: Any, shown: str):
    error = refused({"action": given})
    assert error.code == "UnknownAction"
    assert error.message.startswith(f"'action' of 'platform' must be a string, the name of an action, not {shown}. Its")
    assert facts(error) == {"field": "action", "sent": given, "choices": list(ACTIONS)}


@pytest.mark.req("GRP-23")
@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("users.craete", "users.create"),
        ("users_create", "users.create"),
        ("UsersCreate", "users.create"),
        ("projects/list", "projects.list"),
        ("Ping", "ping"),
        ("create", None),
        ("wholly else", None),
        ("", None),
    ],
)
def test_an_unknown_action_hears_the_nearest_and_the_choices(given: str, meant: str | None):
    error = refused({"action": given})
    assert (error.code, error.origin) == ("UnknownAction", "caller")
    assert f"'platform' has no action \"{given}\"" in error.message
    assert "Its actions: users.create, users.list, projects.create" in error.message
    assert (f"did you mean '{meant}'?" in error.message) == (meant is not None)
    assert facts(error).get("suggestion") == meant
    assert facts(error)["sent"] == given


@pytest.mark.req("GRP-23", "GRP-27")
def test_an_action_named_without_its_group_is_found_when_there_is_only_one():
    assert facts(refused({"action": "list"}, {"users.list": 1, "ping": 2}))["suggestion"] == "users.list"


@pytest.mark.req("GRP-23", "GRP-27")
def test_the_name_of_a_group_is_answered_with_its_actions():
    error = refused({"action": "users"})
    assert error.message == ("'users' is a group of 'platform', not an action. Its actions: users.create, users.list")
    assert facts(error)["choices"] == ["users.create", "users.list"]


@pytest.mark.req("GRP-23")
def test_of_many_actions_those_most_likely_meant_are_listed_and_counted():
    error = refused({"action": "area7.act99"}, MANY)
    choices = facts(error)["choices"]
    assert "It has 1,000 actions, among them" in error.message
    assert {f"area7.act{number}" for number in range(20)} <= set(choices)
    assert len(choices) <= MOST_CHOICES
    assert len(choices) == len(set(choices))
    assert len(facts(refused({}, MANY))["choices"]) == MOST_CHOICES


def test_a_long_or_secret_looking_action_is_not_repeated_in_full():
    assert len(refused({"action": "x" * 10_000}).message) < 400
    secret = "ghp_" + "a1" * 18
    error = refused({"action": secret})
    assert secret not in error.message
    assert secret not in str(error.facts)


def test_a_group_without_actions_says_so():
    assert refused({"action": "x"}, {}).message == "'platform' has no action \"x\". It has no actions"


def test_what_stands_under_a_key_may_be_anything():
    assert resolve({"ping": None}, {"action": "ping"}, tool="platform") == ("ping", None, {})
