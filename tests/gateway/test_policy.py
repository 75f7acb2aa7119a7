"""Policy: what denies wins, what fails counts against the caller, and mistakes are told when rules are read."""

from __future__ import annotations

import itertools

import pytest

from weft.errors import ExpressionInvalid
from weft.expr.rules import compile_rule
from weft.gateway.policy import Policy, Rule, ToolFacts, Verdict
from weft.ports import ANONYMOUS, Principal

ALICE = Principal(
    subject="alice",
    tenant="blue",
    agent_name="research-agent",
    agent_version="2.1.0",
    scopes=frozenset({"read"}),
    method="jwt",
    strength="proven",
)
SEARCH = ToolFacts("search", "1.0.0", "search-backend", "2.0.0", annotations={"readOnlyHint": True})
CHARGE = ToolFacts("charge", "1.0.0", "payment", "1.0.0")
COMPOSED = ToolFacts("checkout", "1.0.0")


def test_without_rules_everything_is_allowed():
    assert Policy().judge(ANONYMOUS, CHARGE) == Verdict(True)
    assert Policy().is_open


def test_with_a_rule_that_allows_the_rest_is_denied():
    policy = Policy([Rule(name="readers", effect="allow", when="'read' in principal.scopes", tools=("search",))])
    assert policy.judge(ALICE, SEARCH) == Verdict(True, "readers")
    assert policy.judge(ALICE, CHARGE) == Verdict(False)
    assert policy.judge(ANONYMOUS, SEARCH) == Verdict(False)
    assert not policy.is_open


def test_with_rules_that_only_deny_the_rest_is_allowed():
    policy = Policy([Rule(name="no money", effect="deny", when="principal.tenant != 'red'", servers=("pay*",))])
    assert policy.judge(ALICE, CHARGE) == Verdict(False, "no money")
    assert policy.judge(ALICE, SEARCH) == Verdict(True)
    assert policy.judge(ALICE, COMPOSED) == Verdict(True)


def test_what_denies_wins_in_whatever_order():
    rules = [
        Rule(name="all", effect="allow"),
        Rule(name="team", effect="allow", when="principal.tenant == 'blue'"),
        Rule(name="stop", effect="deny", when="principal.agentName == 'research-agent'"),
    ]
    for order in itertools.permutations(rules):
        assert Policy(order).judge(ALICE, SEARCH) == Verdict(False, "stop")
        assert Policy(order).judge(ANONYMOUS, SEARCH).allowed


def test_a_condition_that_fails_counts_against_the_caller():
    broken = "principal.agentName.startsWith('x')"
    denying = Policy([Rule(name="deny", effect="deny", when=broken)])
    allowing = Policy([Rule(name="allow", effect="allow", when=broken)])
    assert not denying.judge(ANONYMOUS, SEARCH).allowed
    assert not allowing.judge(ANONYMOUS, SEARCH).allowed
    assert denying.failed == {"deny": 1}
    assert denying.judge(ALICE, SEARCH).allowed


@pytest.mark.parametrize(
    "when",
    [
        "principal.subject == 'alice' && principal.method == 'jwt' && principal.strength == 'proven'",
        "principal.agentVersion == '2.1.0'",
        "tool.name == 'search' && tool.version == '1.0.0' && !tool.deprecated",
        "has(tool.annotations.readOnlyHint) && tool.annotations.readOnlyHint",
        "server.name == 'search-backend' && server.version == '2.0.0'",
        "principal.scopes.exists(one, one == 'read')",
    ],
)
def test_conditions_see_the_caller_the_tool_and_the_server(when: str):
    assert Policy([Rule(name="r", effect="allow", when=when)]).judge(ALICE, SEARCH).allowed


def test_a_composition_has_no_server():
    assert Policy([Rule(name="r", effect="allow", when="server.name == null")]).judge(ALICE, COMPOSED).allowed


@pytest.mark.parametrize(
    ("when", "code", "suggestion"),
    [
        ("principal.agnetName == 'x'", "CelUnknownName", "principal.agentName"),
        ("tool.nmae == 'x'", "CelUnknownName", "tool.name"),
        ("principle.subject == 'x'", "CelUnknownName", "principal"),
        ("principal.subject ==", "CelSyntax", None),
        ("'x'", "CelNotBool", None),
    ],
)
def test_a_condition_that_cannot_hold_is_told_with_the_nearest_name(when: str, code: str, suggestion: str | None):
    with pytest.raises(ExpressionInvalid) as caught:
        compile_rule(when)
    assert (caught.value.code, caught.value.suggestion) == (code, suggestion)


def test_a_text_in_a_condition_is_no_field():
    assert compile_rule("principal.subject == 'principal.nobody' || principal.subject == \"tool.none\"")


def test_a_tool_may_need_the_callers_own_right():
    policy = Policy([Rule(name="money", tools=("charge",), caller_must_also_have=True)])
    assert policy.needs_own_right(ALICE, CHARGE) == "money"
    assert policy.needs_own_right(ALICE, SEARCH) is None
    assert policy.is_open


def test_a_tool_that_is_served_under_another_name_is_still_denied_by_its_own_and_not_allowed_by_it():
    moved = ToolFacts("s1_pay", server="s1", own_name="pay")
    assert not Policy([Rule(name="no", effect="deny", tools=("pay",))]).judge(ANONYMOUS, moved).allowed
    assert not Policy([Rule(name="no", effect="deny", when="tool.name == 'pay'")]).judge(ANONYMOUS, moved).allowed
    assert not Policy([Rule(name="yes", effect="allow", tools=("pay",))]).judge(ANONYMOUS, moved).allowed
    assert Policy([Rule(name="yes", effect="allow", tools=("s1_pay",))]).judge(ANONYMOUS, moved).allowed
