"""Names that lead nowhere, circles through every place that names a tool, and chains that are too long."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from weft.app import problems_of
from weft.errors import Problem
from weft.ir.normalise import parse
from weft.ir.read import read
from weft.registry.graph import MAX_RECURSION


def found(specs: dict[str, Any], **tools: Any) -> list[Problem]:
    compositions = [{"name": name, "spec": spec} for name, spec in specs.items()]
    virtual = [{"name": name, **tool} for name, tool in tools.items()]
    return problems_of(parse(read(json.dumps({"tools": virtual, "compositions": compositions}))))


PLACES: dict[str, Any] = {
    "/tool/name": {"tool": {"name": "NAME"}},
    "": "NAME",
    "/composition": {"composition": "NAME"},
    "/pipeline/steps/0/operation": {"pipeline": {"steps": [{"operation": "NAME"}]}},
    "/router/routes/0/then": {"router": {"routes": [{"when": "true", "then": "NAME"}]}},
    "/router/otherwise": {"router": {"routes": [{"when": "true", "then": "up"}], "otherwise": "NAME"}},
    "/scatter_gather/targets/1": {"scatter_gather": {"targets": ["up", "NAME"]}},
    "/mapEach/inner/tool": {"mapEach": {"inner": {"tool": "NAME"}}},
    "/enricher/enrichments/0/source": {"enricher": {"enrichments": [{"field": "f", "source": "NAME"}]}},
    "/wireTap/inner": {"wireTap": {"inner": "NAME", "taps": ["up"]}},
    "/wireTap/taps/0": {"wireTap": {"inner": "up", "taps": ["NAME"]}},
    "/recipientList/allowed/1": {"recipientList": {"recipients": "$", "allowed": ["up", "NAME"]}},
    "/recipientList/recipients": {"recipientList": {"recipients": "NAME", "allowed": ["up"]}},
}


def naming(place: str, name: str) -> Any:
    return json.loads(json.dumps(PLACES[place]).replace("NAME", name))


@pytest.mark.parametrize("place", PLACES)
def test_a_name_that_leads_nowhere_is_told_in_every_place(place: str):
    problems = [one for one in found({"fetch_all": "up", "c": naming(place, "fetch_al")}) if "fetch_al" in one.message]
    assert [(one.code, one.pointer, one.suggestion) for one in problems] == [
        ("UnknownName", f"/compositions/1/spec{place}", "fetch_all")
    ]


@pytest.mark.parametrize(
    ("spec", "severity"),
    [
        ("nowhere", "warning"),
        ({"tool": "nowhere"}, "warning"),
        ({"tool": "__internal"}, "error"),
        ({"composition": "nowhere"}, "error"),
        ({"recipientList": {"recipients": "$", "allowed": ["nowhere"]}}, "warning"),
    ],
)
def test_only_a_tool_may_live_on_a_server_that_nobody_listed(spec: Any, severity: str):
    assert [one.severity for one in found({"c": spec})] == [severity]


def test_a_tool_of_a_named_server_and_an_agent_are_not_looked_up_here():
    assert found({"c": {"tool": {"name": "c", "server": "s"}}, "d": {"agent": {"name": "c", "skill": "d"}}}) == []


@pytest.mark.parametrize("place", PLACES)
def test_a_composition_that_calls_itself_is_a_circle_in_every_place(place: str):
    circles = [one for one in found({"c": naming(place, "c")}) if one.code == "Cycle"]
    assert [one.message for one in circles] == ["compositions call each other in a circle: c -> c"]
    assert circles[0].pointer == f"/compositions/0/spec{place}"
    assert circles[0].severity == "error"


@pytest.mark.parametrize("place", PLACES)
def test_a_circle_is_printed_as_a_path(place: str):
    problems = found(
        {"a": naming(place, "b"), "b": {"mapEach": {"inner": "z"}}, "z": {"composition": "a"}, "other": "a"}
    )
    circles = [one for one in problems if one.code == "Cycle"]
    assert [one.message for one in circles] == ["compositions call each other in a circle: a -> b -> z -> a"]


def test_every_circle_is_told():
    problems = found({"a": "b", "b": "a", "c": "d", "d": "c", "e": "e"})
    assert [one.message.rpartition(": ")[2] for one in problems] == ["a -> b -> a", "c -> d -> c", "e -> e"]


def test_a_circle_through_an_output_transform_is_found():
    source = {"source": {"server": "s", "tool": "x"}, "outputTransform": {"composition": "c"}}
    problems = found({"c": "virtual"}, virtual=source)
    assert [one.code for one in problems if one.severity == "error"] == ["Cycle"]


def test_a_virtual_tool_may_have_the_name_of_the_tool_behind_it():
    assert found({"c": "search"}, search={"source": {"server": "s", "tool": "search"}}) == []


def test_compositions_nest_sixteen_deep_and_no_deeper():
    def chain(length: int) -> list[Problem]:
        specs = {f"c{index}": f"c{index + 1}" for index in range(length - 1)} | {f"c{length - 1}": "virtual"}
        return found(specs, virtual={"source": {"server": "s", "tool": "x"}})

    assert chain(MAX_RECURSION) == []
    problem = chain(MAX_RECURSION + 1)[0]
    assert (problem.code, problem.pointer, problem.value) == ("RecursionLimit", "/compositions/0/name", "17 deep")
    assert problem.expected == "at most 16"


def test_a_deep_chain_and_many_circles_are_found_without_recursion():
    started = time.process_time()
    long = found({f"c{index}": f"c{(index + 1) % 5000}" for index in range(5000)})
    assert [one.code for one in long] == ["Cycle"]
    assert time.process_time() - started < 2


def test_a_thousand_compositions_that_name_unknown_tools_are_checked_quickly():
    specs = {
        f"composition_{index}": {"scatterGather": {"targets": [f"tool_{index}_{n}" for n in range(5)]}}
        for index in range(1000)
    }
    started = time.process_time()
    assert len(found(specs)) == 5000
    assert time.process_time() - started < 3
