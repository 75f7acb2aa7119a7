"""The benchmark page says what the result files say, and what makes the figures measures what it says."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from bench.figure import Figure
from bench.gateway.load import Job, answer, percentile
from bench.gateway.pairs import in_turn, ratio_of
from bench.gateway.places import upstream, url
from bench.gateway.processes import Load, Process, measurable, tools_of
from bench.page import PAGE, RESULTS, table, with_tables

PARTS = ("engine", "gateway", "registry", "state", "workflows", "groups")
linux = pytest.mark.skipif(not measurable(), reason="only Linux tells the CPU time of a process precisely")


def results_of(part: str) -> dict[str, Any]:
    return json.loads((RESULTS / f"{part}.json").read_text())


@pytest.mark.req("ALG-57")
@pytest.mark.parametrize("part", PARTS)
def test_the_benchmark_page_shows_the_figures_of_the_result_file(part: str):
    assert table(part, results_of(part)) in PAGE.read_text()


@pytest.mark.parametrize("part", PARTS)
def test_the_results_come_from_a_quiet_run_that_kept_its_promises(part: str):
    results = results_of(part)
    assert results["quiet"]
    assert [figure["name"] for figure in results["figures"] if not figure["kept"]] == []


def test_a_table_is_replaced_and_the_other_stays():
    page = PAGE.read_text()
    changed = {**results_of("gateway"), "cores": 64}
    written = with_tables(page, {"gateway": changed})
    assert "64 cores" in written
    assert table("engine", results_of("engine")) in written


def test_a_limit_that_is_not_kept_is_told():
    over = Figure("a call", 1.7, 1.5, "x")
    assert not over.kept
    told = {**results_of("gateway"), "figures": [over.to_json()]}
    assert "| 1.5 x, **not kept** |" in table("gateway", told)


def test_a_figure_without_a_limit_only_tells():
    assert Figure("a call", 1e9, None, "us").kept


def test_the_ratio_is_the_median_of_neighbours():
    found = ratio_of([2.0, 20.0, 30.0], [1.0, 10.0, 10.0])
    assert found.ratio == 2.0
    assert (found.ours, found.theirs) == (20.0, 10.0)


def test_sides_are_measured_in_turn_in_changing_order():
    order: list[str] = []

    def side(name: str) -> str:
        order.append(name)
        return name

    ours, theirs = in_turn(lambda: side("ours"), lambda: side("theirs"), turns=3)
    assert order == ["theirs", "ours", "ours", "theirs", "theirs", "ours"]
    assert (ours, theirs) == (["ours"] * 3, ["theirs"] * 3)


def test_a_percentile_is_a_time_that_was_measured():
    times = [float(number) for number in range(100)]
    assert percentile(times, 0.99) == 99.0
    assert percentile([7.0], 0.99) == 7.0


def test_tools_are_taken_from_all_over_a_long_list():
    assert tools_of([str(number) for number in range(5000)])[-1] == "4500"
    assert tools_of(["a", "b"]) == ["a", "b"]


@linux
def test_the_load_makes_the_calls_and_the_cpu_of_a_process_grows_with_them():
    with upstream() as server, Load() as load:
        before = server.cpu()
        outcome = load.run(Job(port=server.port, path=_path(server), calls=200))
        assert outcome.calls == 200
        assert 0 < outcome.p50_ms <= outcome.p99_ms
        assert server.cpu() > before
        assert server.memory()[0] > 1


@linux
def test_a_call_that_fails_fails_the_measurement():
    with upstream() as server, Load() as load, pytest.raises(RuntimeError, match="status 404"):
        load.run(Job(port=server.port, path="/elsewhere", calls=1))


@linux
def test_a_process_that_does_not_start_says_what_it_said():
    with pytest.raises(RuntimeError, match="no such thing"):
        Process("sh", "-c", "echo no such thing; exit 1")


@linux
def test_the_server_behind_answers_after_its_delay():
    async def took(server: Process) -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()
        await answer(server.port, "tool_0", path=f"{_path(server).removesuffix('/0')}/50")
        return loop.time() - began

    with upstream() as server:
        assert asyncio.run(took(server)) >= 0.05


def _path(server: Process) -> str:
    return url(server).partition(str(server.port))[2]
