"""The demo: the research example on real tools over bundled documents."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from weft.app import compile_file, local, local_engine
from weft.cli import weft
from weft.demo.documents import DOCUMENTS
from weft.demo.research import research_pipeline
from weft.dsl.compositions import compile
from weft.dsl.modules import read_module
from weft.testing import Canned, down

FILE = Path(__file__).resolve().parent.parent / "src" / "weft" / "demo" / "research.py"


@pytest.mark.req("ALG-17")
async def test_three_sources_become_one_report_of_what_is_relevant():
    report = await local_engine(research_pipeline).execute("research_pipeline", "bees in the city")
    assert len(report["sources"]) == 6
    assert not any("garden.example" in source for source in report["sources"]), "web results have a relevance of 0.6"
    assert "/wiki/" in report["sources"][0], "our own documents are the most relevant"
    assert any("(demo.0001)" in source for source in report["sources"]), "a paper without a PDF goes by its id"
    assert "ees" in report["summary"]


@pytest.mark.req("ALG-17")
async def test_a_source_that_is_down_is_dropped_with_a_warning():
    compiled = compile(research_pipeline)
    engine = local(compiled.document, Canned({"arxiv_search": down("refused")}), compiled.local)
    result = await engine.run("research_pipeline", "bees")
    assert len(result.warnings) == 1
    assert "__arxiv_normalized" in result.warnings[0]
    assert all("/wiki/" in source for source in result.value["sources"])


@pytest.mark.req("ALG-17", "ALG-33")
def test_the_example_compiles_without_a_problem_into_one_tool_and_three_parts():
    compiled, registry = compile_file(read_module(FILE))
    assert registry.problems == []
    assert compiled.top_level == ["research_pipeline"]
    assert compiled.internal == ["__web_normalized", "__arxiv_normalized", "__internal_normalized"]


def test_the_demo_shows_the_trace_the_report_and_a_dropped_source():
    done = CliRunner().invoke(weft, ["demo"])
    assert done.exit_code == 0
    assert "├─ step_0  scatterGather" in done.stdout
    assert "From 6 documents:" in done.stdout
    assert "warning: Target '__arxiv_normalized' failed" in done.stdout
    assert "From 3 documents:" in done.stdout


def test_the_demo_takes_another_topic_even_one_that_nobody_knows():
    assert 'Research on "street lamps"' in CliRunner().invoke(weft, ["demo", "--topic", "street lamps"]).stdout
    assert "Nothing was found." in CliRunner().invoke(weft, ["demo", "--topic", "qqq"]).stdout


def test_the_demo_works_in_any_folder(tmp_path: Path):
    command = [sys.executable, "-m", "weft.cli", "demo"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert list(tmp_path.iterdir()) == []


def test_the_bundled_documents_have_places_of_their_own():
    assert len({one.url for one in DOCUMENTS}) == len(DOCUMENTS) == 15
