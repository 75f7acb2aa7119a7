"""Who may not is refused kindly, and learns nothing of who may."""

from __future__ import annotations

from typing import Any

import pytest

from tests.groups.middlewares import ALICE, BOB, Lines, call_of, ended, result, through
from weft.errors import ExecutionFailed, ExpressionInvalid
from weft.groups.calling import ToolCall
from weft.groups.execution.results import wire_error
from weft.groups.middleware import only_for
from weft.ports import Principal


async def may(middleware: Any, call: ToolCall) -> bool:
    given = await ended(middleware, result("done"), call)
    assert given == result("done") or given.code == "NotAllowed"
    return given == result("done")


@pytest.mark.parametrize(
    ("rule", "allowed"),
    [
        ({"scopes": ["read"]}, {"alice"}),
        ({"scopes": "read"}, {"alice"}),
        ({"scopes": ["read", "admin"]}, set()),
        ({"agents": ["d*"]}, {"alice"}),
        ({"agents": ["*"]}, {"alice"}),
        ({"tenants": ["acme", "other"]}, {"bob"}),
        ({"subjects": ["[ab]*"]}, {"alice", "bob", "anonymous"}),
        ({"scopes": ["read"], "tenants": ["acme"]}, set()),
        ({"when": "principal.agentName == 'desk' && tool.name == 'shop' && tool.action == null"}, {"alice"}),
        ({"when": "arguments.amount < 100"}, {"alice", "bob", "anonymous"}),
        ({"when": "arguments.amount < 10"}, set()),
        ({"when": "arguments.missing < 10"}, set()),
        ({"when": lambda call: call.principal.subject == "bob"}, {"bob"}),  # pyright: ignore
        ({"when": lambda call: 1 / 0}, set()),  # pyright: ignore
    ],
)
async def test_a_call_goes_on_only_for_those_who_fit_all_that_is_asked(rule: dict[str, Any], allowed: set[str]):
    middleware = only_for(**rule, log=Lines())
    callers = [ALICE, BOB, Principal()]
    assert {one.subject for one in callers if await may(middleware, call_of(one, amount=50))} == allowed


async def test_a_judge_may_take_its_time():
    async def judge(call: ToolCall) -> bool:
        return call.action == "list"

    assert await may(only_for(when=judge, log=Lines()), call_of(action="list"))
    assert not await may(only_for(when=judge, log=Lines()), call_of(action="delete"))


async def test_a_yes_that_is_not_true_is_a_no():
    assert not await may(only_for(when=lambda _: "yes", log=Lines()), call_of())  # pyright: ignore


async def test_the_model_is_told_kindly_and_only_the_log_knows_why():
    lines = Lines()
    middleware = only_for(scopes=["payroll"], log=lines)
    with pytest.raises(ExecutionFailed) as caught:
        await through(middleware, 1, call_of(BOB, action="pay", card="4111"))
    text = wire_error(caught.value)["content"][0]["text"]
    assert text == (
        "'shop.pay' may not be called for this caller. Hint: go on without it, or ask who runs this server for access"
    )
    assert lines.told == [{"message": "refused", "tool": "shop.pay", "principal": BOB.id, "why": "scopes"}]


async def test_an_error_of_a_judge_is_logged_without_what_it_says():
    lines = Lines()

    def judge(call: ToolCall) -> bool:
        raise KeyError(call.arguments["card"])

    assert not await may(only_for(when=judge, log=lines), call_of(card="4111"))
    assert [one["why"] for one in lines.told] == ["when ended in an error: KeyError"]


def test_a_condition_that_names_what_there_is_not_is_refused_with_the_nearest():
    with pytest.raises(ExpressionInvalid, match="principal has no 'agentname'") as caught:
        only_for(when="principal.agentname == 'desk'")
    assert caught.value.suggestion == "principal.agentName"
    with pytest.raises(ExpressionInvalid, match="nothing here is called server"):
        only_for(when="server.name == 'x'")


def test_a_check_that_asks_nothing_is_refused():
    with pytest.raises(ValueError, match="only_for is for everybody"):
        only_for(scopes=[])
