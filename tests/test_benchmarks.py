"""The benchmark page says what the result file says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.page import PAGE, table

RESULTS = Path(__file__).parents[1] / "bench" / "results" / "engine.json"


@pytest.mark.req("ALG-57")
def test_the_benchmark_page_shows_the_figures_of_the_result_file():
    results = json.loads(RESULTS.read_text())
    assert table(results) in PAGE.read_text()


def test_the_results_come_from_a_quiet_run_that_kept_every_promise():
    results = json.loads(RESULTS.read_text())
    assert results["quiet"]
    assert [figure["name"] for figure in results["figures"] if not figure["kept"]] == []
