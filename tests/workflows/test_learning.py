"""Learning: what is suggested of which runs, with which numbers, and when nothing is."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workflows.recording import run, step
from weft.workflows.learning import Suggestion, suggestions
from weft.workflows.library import built_in
from weft.workflows.recorded import RecordedStep
from weft.workflows.schedule import has_order, outlook
from weft.workflows.statistics import Statistics, merged
from weft.workflows.steps import DocumentStep, steps_of


def seen(times: Mapping[str, float | list[float]], count: int = 40) -> Statistics:
    """Return the statistics of runs in which the steps took so long, the same each time or in turn."""

    def nth(at: int) -> Statistics:
        took = {id: one[at % len(one)] if isinstance(one, list) else one for id, one in times.items()}
        steps = [step(id, took=one) for id, one in took.items()]
        return Statistics.of(run(template="t", started=float(at)).ended("succeeded", duration_ms=1.0, steps=steps))

    return merged(map(nth, range(count)))


def failing(id: str, codes: list[str | None], attempts: int = 1) -> Statistics:
    """Return the statistics of runs of one step; each code is that of a run that failed."""
    steps: list[RecordedStep] = [
        step(id, "failed" if code else "succeeded", attempts=attempts, error=code) for code in codes
    ]
    return merged(
        Statistics.of(run(template="t").ended("failed" if one.error else "succeeded", duration_ms=1.0, steps=[one]))
        for one in steps
    )


def of_kind(kind: str, composition: dict[str, Any], statistics: Statistics) -> list[Suggestion]:
    """Return the suggestions of a kind."""
    return [one for one in suggestions(composition, statistics) if one.kind == kind]


def one_step(**more: Any) -> dict[str, Any]:
    """Return a document of one step."""
    return {"steps": [{"id": "a", "tool": "x", **more}]}


CHAIN: dict[str, Any] = {
    "steps": [
        {"id": "read", "tool": "read", "output_key": "page"},
        {"id": "log", "tool": "log", "depends_on": ["read"], "parameters": {"who": "{{input.who}}"}},
        {"id": "fold", "tool": "fold", "dependsOn": ["log", "read"], "parameters": {"text": ["{{page.text}}"]}},
    ]
}


@pytest.mark.req("WFL-37")
def test_a_step_without_a_time_limit_gets_one_above_all_that_was_seen():
    (found,) = of_kind("timeout", one_step(), seen({"a": [*([100.0] * 39), 430.0]}))
    assert found.to_json() == {
        "kind": "timeout", "step": "a", "current": None, "suggested": 860,
        "why": "step 'a' has no time limit: of 40 runs, 99 % took at most 430 ms and the longest 430 ms",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("timeout", "said"),
    [
        ({"timeout_ms": 200}, None),
        ({"timeoutMs": 1000}, None),
        ({"timeout": "1s"}, None),
        ({"timeout_ms": 1001}, "far longer"),
        ({"timeoutMs": "30s"}, "far longer"),
        ({"timeout_ms": 105}, "hardly enough"),
        ({"timeout_ms": 50}, "hardly enough"),
    ],
)
def test_a_time_limit_is_questioned_when_it_is_far_off(timeout: dict[str, Any], said: str | None):
    found = of_kind("timeout", one_step(**timeout), seen({"a": 100.0}))
    assert [(one.suggested, said is not None and said in one.why) for one in found] == (
        [] if said is None else [(200, True)]
    )


def test_short_steps_get_a_limit_that_a_busy_machine_keeps():
    assert [one.suggested for one in of_kind("timeout", one_step(), seen({"a": 0.0}))] == [100]


def test_nineteen_runs_say_nothing_and_twenty_do():
    assert suggestions(one_step(), seen({"a": 100.0}, 19)) == []
    assert len(suggestions(one_step(), seen({"a": 100.0}, 20))) == 1


def test_people_and_lists_get_no_time_limit_from_how_long_they_took():
    others: list[dict[str, Any]] = [{"for_each": "{{input.all}}"}, {"elicit": {"message": "?", "schema": {}}}]
    for more in others:
        assert of_kind("timeout", one_step(**more), seen({"a": 100.0})) == []


@pytest.mark.req("WFL-36")
def test_a_step_that_uses_nothing_of_what_it_waits_for_could_run_beside_it():
    found = of_kind("parallel", CHAIN, seen({"read": 100.0, "log": 200.0, "fold": 50.0}))
    assert [(one.step, one.current, one.suggested, one.saves_ms) for one in found] == [
        ("log", ["read"], [], 100.0),
        ("fold", ["log", "read"], ["read"], 50.0),
    ]
    assert found[0].why == (
        "step 'log' waits for 'read' and uses nothing of that; at the same time the workflow would go from 350 ms to "
        "250 ms, by median durations, unless it needs what 'read' changed"
    )


@pytest.mark.parametrize(
    "reads",
    [
        {"parameters": {"x": "say {{page.text}}"}},
        {"parameters": {"x": [{"y": "{{read}}"}]}},
        {"arguments": {"x": "{{read ?? 1}}"}},
        {"when": "page.size > 3"},
        {"condition": 'steps["read"].size > 3'},
        {"for_each": "{{page.items}}"},
        {"forEach": {"items": "{{page.items}}", "as": "one"}},
        {"elicit": {"message": "is {{page.text}} right?", "schema": {}}},
        {"undo": {"tool": "z", "parameters": {"id": "{{page.id}}"}}},
        {"join": "any"},
    ],
)
def test_a_step_that_uses_what_it_waits_for_stays_where_it_is(reads: dict[str, Any]):
    steps = [{"id": "read", "tool": "read", "output_key": "page"}, {"id": "b", "depends_on": ["read"], **reads}]
    assert of_kind("parallel", {"steps": steps}, seen({"read": 100.0, "b": 100.0})) == []


def test_the_item_of_a_list_is_not_the_step_of_its_name():
    steps = [
        {"id": "read", "tool": "read"},
        {
            "id": "b",
            "depends_on": ["read"],
            "for_each": {"items": "{{input.x}}", "as": "read"},
            "parameters": "{{read}}",
        },
    ]
    found = of_kind("parallel", {"steps": steps}, seen({"read": 100.0, "b": 100.0}))
    assert [one.step for one in found] == ["b"]


def test_an_order_that_costs_nothing_is_left_alone():
    steps = [
        {"id": "slow", "tool": "x"},
        {"id": "a", "tool": "x"},
        {"id": "b", "tool": "x", "depends_on": ["a"]},
    ]
    assert of_kind("parallel", {"steps": steps}, seen({"slow": 500.0, "a": 1.0, "b": 1.0})) == []


def test_steps_that_only_help_together_are_both_named():
    steps = [
        {"id": "a", "tool": "x"},
        {"id": "b", "tool": "x", "depends_on": ["a"]},
        {"id": "c", "tool": "x", "depends_on": ["a"]},
    ]
    found = of_kind("parallel", {"steps": steps}, seen({"a": 100.0, "b": 100.0, "c": 100.0}))
    assert [(one.step, one.saves_ms) for one in found] == [("b", 100.0), ("c", 100.0)]
    assert "by 100 ms, with the others" in found[0].why


def wide(count: int, **more: Any) -> tuple[dict[str, Any], Statistics]:
    """Return a document of steps that wait for nobody, each of 100 ms."""
    steps = [{"id": f"s{at}", "tool": "x"} for at in range(count)]
    return {"steps": steps, **more}, seen({f"s{at}": 100.0 for at in range(count)})


@pytest.mark.req("WFL-36")
def test_a_limit_that_makes_steps_wait_could_be_higher():
    (found,) = of_kind("max_concurrency", *wide(6, max_concurrency=2))
    assert (found.current, found.suggested, found.saves_ms) == (2, 6, 200.0)
    assert found.why == (
        "6 steps could run at the same moment and only 2 may; with 6 the workflow would go from 300 ms to 100 ms, "
        "by median durations"
    )
    (found,) = of_kind("max_concurrency", *wide(17))
    assert (found.current, found.suggested) == (None, 17)


def test_a_limit_that_is_never_reached_could_be_lower_where_somebody_wrote_it():
    (found,) = of_kind("max_concurrency", *wide(3, maxConcurrency=10))
    assert (found.current, found.suggested, found.saves_ms) == (10, 3, None)
    assert of_kind("max_concurrency", *wide(3)) == []
    assert of_kind("max_concurrency", *wide(3, max_concurrency=3)) == []


def test_how_wide_a_workflow_is_that_nobody_has_measured_is_not_guessed():
    document, _ = wide(6, max_concurrency=2)
    assert of_kind("max_concurrency", document, seen({"s1": 100.0})) == []


@pytest.mark.req("WFL-37")
def test_a_step_that_fails_now_and_then_with_what_passes_could_be_tried_again():
    (found,) = of_kind("retry", one_step(), failing("a", ["UpstreamUnavailable"] * 4 + [None] * 36))
    assert (found.step, found.current, found.suggested) == ("a", None, 1)
    assert found.why == (
        "step 'a' failed in 4 of 40 runs with what may pass (UpstreamUnavailable 4); 1 retry would leave about 1.0%"
    )
    (found,) = of_kind("retry", one_step(), failing("a", ["UpstreamUnavailable"] * 12 + [None] * 28))
    assert found.suggested == 3


def test_what_may_have_been_done_already_is_said():
    unsure = failing("a", ["Timeout"] * 4 + [None] * 36)
    (found,) = of_kind("retry", one_step(), unsure)
    assert "if doing it twice does no harm" in found.why
    assert of_kind("retry", one_step(at_most_once=True), unsure) == []


@pytest.mark.parametrize(
    ("document", "codes"),
    [
        (one_step(), ["ToolFailed"] * 4 + [None] * 36),
        (one_step(), [None] * 40),
        (one_step(), ["UpstreamUnavailable"] * 4 + [None] * 10),
        (one_step(), ["UpstreamUnavailable"] * 30 + [None] * 10),
        (one_step(retry_count=1), ["UpstreamUnavailable"] * 4 + [None] * 36),
        ({**one_step(), "error_handling": {"max_retries": 2}}, ["UpstreamUnavailable"] * 4 + [None] * 36),
        ({**one_step(), "errorHandling": {"failureStrategy": "retry"}}, ["UpstreamUnavailable"] * 4 + [None] * 36),
    ],
    ids=["for good", "never", "too few runs", "mostly", "has one", "has two", "has three"],
)
def test_retries_are_not_suggested_where_they_do_not_help(document: dict[str, Any], codes: list[str | None]):
    assert of_kind("retry", document, failing("a", codes)) == []


def test_retries_that_are_not_enough_could_be_more():
    known = failing("a", ["UpstreamUnavailable"] * 6 + [None] * 34, attempts=2)
    assert of_kind("retry", one_step(retry_count=3), known) == []
    known = failing("a", ["UpstreamUnavailable"] * 8, attempts=2).merge(failing("a", [None] * 32))
    (found,) = of_kind("retry", one_step(retry_count=1), known)
    assert (found.current, found.suggested) == (1, 3)


def test_a_document_is_never_changed_and_needs_no_statistics():
    before = copy.deepcopy(CHAIN)
    suggestions(CHAIN, seen({"read": 100.0, "log": 200.0, "fold": 50.0}))
    assert before == CHAIN
    assert suggestions(CHAIN, Statistics()) == []


def test_a_document_that_goes_in_a_circle_gets_no_advice():
    steps = [{"id": "a", "depends_on": ["b"]}, {"id": "b", "depends_on": ["a"]}]
    assert suggestions({"steps": steps}, seen({"a": 1.0, "b": 1.0})) == []


scraps = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["a", "b", "{{a.x}}", "{{", "{{b ??", "any", "30s"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["items", "as", "tool", "x", "max_retries"]), inner, max_size=3)
    ),
    max_leaves=6,
)
FIELDS = ["id", "depends_on", "parameters", "when", "for_each", "timeout_ms", "retry_count", "join", "undo", "elicit"]
documents = st.fixed_dictionaries(
    {"steps": st.lists(st.dictionaries(st.sampled_from(FIELDS), scraps, max_size=6) | scraps, max_size=4) | scraps},
    optional={"max_concurrency": scraps, "error_handling": scraps},
)


@given(documents)
def test_any_document_is_read_without_an_error(document: dict[str, Any]):
    for one in suggestions(document, seen({"a": 100.0, "b": 50.0}, 20)):
        assert one.to_json()["why"]


def test_every_template_of_the_library_is_understood():
    for template in built_in().values():
        steps = steps_of(template.composition)
        assert len(steps) == len(template.composition["steps"])
        assert has_order(steps)
        found = suggestions(template.composition, seen({one.id: 50.0 for one in steps}, 20))
        assert {one.step for one in found} <= {None, *(one.id for one in steps)}


@st.composite
def dags(draw: st.DrawFn) -> tuple[list[DocumentStep], dict[str, float]]:
    """Return steps that wait for earlier ones, in any order, and how long each takes."""
    count = draw(st.integers(1, 12))
    made: list[DocumentStep] = []
    for at in range(count):
        earlier = [f"s{one}" for one in range(at)]
        waits = draw(st.lists(st.sampled_from(earlier), unique=True, max_size=3)) if earlier else []
        made.append(DocumentStep(id=f"s{at}", depends_on=tuple(waits)))
    durations = {f"s{at}": float(draw(st.integers(1, 50))) for at in range(count)}
    return draw(st.permutations(made)), durations


@given(dags(), st.integers(1, 5))
def test_a_workflow_takes_no_less_than_its_longest_path_and_no_more_than_all_its_steps(
    drawn: tuple[list[DocumentStep], dict[str, float]], at_once: int
):
    steps, durations = drawn
    by_id = {one.id: one for one in steps}
    longest: dict[str, float] = {}
    for at in range(len(steps)):
        one = by_id[f"s{at}"]
        longest[one.id] = durations[one.id] + max((longest[other] for other in one.depends_on), default=0.0)
    free, bound = outlook(steps, durations), outlook(steps, durations, at_once=at_once)
    assert free.takes == max(longest.values())
    assert free.takes <= bound.takes <= sum(durations.values())
    assert bound.takes >= sum(durations.values()) / at_once
    assert bound.widest <= at_once
    assert outlook(steps, durations, at_once=1).takes == sum(durations.values())


def test_the_first_of_several_is_enough_where_a_step_says_so():
    steps = [
        DocumentStep(id="fast"),
        DocumentStep(id="slow"),
        DocumentStep(id="then", depends_on=("fast", "slow"), first=True),
    ]
    durations = {"fast": 10.0, "slow": 100.0, "then": 50.0}
    assert outlook(steps, durations).takes == 100.0
    assert outlook(steps, {**durations, "slow": 40.0}).takes == 60.0
