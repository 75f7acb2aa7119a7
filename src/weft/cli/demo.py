"""`weft demo`: the research example, run twice."""

from __future__ import annotations

import asyncio
import textwrap
from typing import TYPE_CHECKING, Any

import click

from weft.cli.output import plain, plural, result

if TYPE_CHECKING:
    from weft.ports import Upstream
    from weft.run.engine import Result

TOOL = "research_pipeline"
WIDTH = 100
MOST_LINES = 6


@click.command("demo", epilog='\b\nExample:\n  weft demo\n  weft demo --topic "street lamps"')
@click.option("--topic", default="bees in the city", show_default=True, help="What to search for.")
def command(topic: str) -> None:
    """Run the research example on in-memory tools: three sources of different shapes become one report.

    It runs twice, the second time with a source that is down, and prints what each step did and how long it took.
    """
    from weft.errors import UpstreamUnavailable
    from weft.testing import Canned

    result(f"{click.style(TOOL, bold=True)}: a composition of five tools (src: weft/demo/research.py).")
    result("Three sources are asked at once, each is brought to one shape, what is relevant is fetched and summed up.")
    _heading(plain(f'1. Research on "{topic}"'))
    _show(asyncio.run(_research(topic)))
    _heading("2. The same, while the server of arxiv_search is down")
    down = UpstreamUnavailable("papers.example", "connection refused")
    _show(asyncio.run(_research(topic, Canned({"arxiv_search": down}))))
    result("\nNext: weft run --help, weft compile --help, weft graph --help")


async def _research(topic: str, *instead: Upstream) -> Result:
    from weft.app import local
    from weft.demo.research import research_pipeline
    from weft.dsl.compositions import compile

    compiled = compile(research_pipeline)
    engine = local(compiled.document, *instead, compiled.local)
    try:
        return await engine.run(TOOL, topic)
    finally:
        await engine.close()


def _heading(text: str) -> None:
    result(f"\n{click.style(text, bold=True)}\n")


def _show(done: Result) -> None:
    result(textwrap.indent(str(done.trace), "  "))
    for warning in done.warnings:
        result(f"\n  {click.style('warning', fg='yellow', bold=True)}: {plain(warning)}")
    _show_report(done.value)


def _show_report(report: dict[str, Any]) -> None:
    sources: list[str] = report["sources"]
    lines = textwrap.wrap(report["summary"] or "Nothing was found.", WIDTH)
    result(f"\n  From {plural(len(sources), 'document')}:")
    for line in lines[:MOST_LINES]:
        result(f"    {line}")
    if len(lines) > MOST_LINES:
        result("    ...")
    for source in sources:
        result(f"    - {source}")
