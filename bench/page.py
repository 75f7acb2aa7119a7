"""The tables of the documentation, made from the result files so that the two cannot differ."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
RESULTS = Path(__file__).parent / "results"
END = "<!-- end of figures -->"
COMPARED = {
    "engine": ("the same chain of three no-op tools in", "takes, against weft traced"),
    "gateway": ("the same call passed through by", "costs in CPU, against weft"),
    "state": ("the same four durable steps on the same Postgres in", "weft does as many a second times"),
}
ITSELF = {
    "engine": "hand-written",
    "gateway": "the bare proxy",
    "registry": "a plain gateway",
    "state": "a plain call",
    "workflows": "hand-written",
    "groups": "a function",
}


def table(part: str, results: Mapping[str, Any]) -> str:
    """Return the figures of a part as Markdown."""
    lines = ["| what | measured | quartiles | limit |", "|---|---|---|---|"]
    for figure in results["figures"]:
        low, high = figure.get("quartiles", ("", ""))
        spread = f"{low:.2f} to {high:.2f}" if low else ""
        measured = f"{figure['value']:.2f} {figure['unit']}"
        lines.append(f"| {figure['name']} | {measured}{_sides(figure)} | {spread} | {_limit(figure)} |")
    if results.get("libraries"):
        lines += ["", "| {} | {} |".format(*COMPARED[part]), "|---|---|"]
        lines += [f"| {one['library']} {one['version']} | {_times(one)}x |" for one in results["libraries"]]
    same = results["same_against_same"]["ratio"]
    machine = ", ".join([*_date(results), f"Python {results['python']}", f"{results['cores']} cores"])
    return "\n".join([*lines, "", f"{machine}; {ITSELF[part]} against itself in the same run: {same:.3f}."])


def with_tables(page: str, results: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the page with the tables of some parts replaced."""
    for part, told in results.items():
        begin = f"<!-- figures of the {part} -->"
        before, rest = page.split(begin)
        after = rest.split(END, maxsplit=1)[1]
        page = f"{before}{begin}\n\n{table(part, told)}\n\n{END}{after}"
    return page


def _sides(figure: Mapping[str, Any]) -> str:
    """Return what the two sides of a ratio were, where it says more than the ratio alone."""
    for unit, shown in (("us", "us"), ("ms", "ms")):
        if figure["unit"] == "x" and f"ours_{unit}" in figure and "calls_a_batch" not in figure:
            return f" ({figure[f'ours_{unit}']:.3g} / {figure[f'theirs_{unit}']:.3g} {shown})"
    return ""


def _limit(figure: Mapping[str, Any]) -> str:
    if figure["limit"] is None:
        return ""
    return f"{figure['limit']} {figure['unit']}" + ("" if figure["kept"] else ", **not kept**")


def _times(library: Mapping[str, Any]) -> str:
    return f"{library.get('ratio', library.get('value')):.0f}"


def _date(results: Mapping[str, Any]) -> list[str]:
    return [results["date"]] if "date" in results else []
