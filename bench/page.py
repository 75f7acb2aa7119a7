"""The table of the documentation, made from the result file so that the two cannot differ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"


def table(results: dict[str, Any]) -> str:
    """Return the figures as Markdown."""
    lines = ["| what | measured | quartiles | limit |", "|---|---|---|---|"]
    for figure in results["figures"]:
        low, high = figure.get("quartiles", ("", ""))
        spread = f"{low:.2f} to {high:.2f}" if low else ""
        measured = f"{figure['value']:.2f} {figure['unit']}"
        lines.append(f"| {figure['name']} | {measured} | {spread} | {figure['limit']} {figure['unit']} |")
    lines += ["", "| the same chain of three no-op tools in | takes, against weft traced |", "|---|---|"]
    lines += [f"| {one['library']} {one['version']} | {one['ratio']:.0f}x |" for one in results["libraries"]]
    same = results["same_against_same"]["ratio"]
    machine = f"Python {results['python']}, {results['cores']} cores"
    return "\n".join([*lines, "", f"{machine}; hand-written against itself in the same run: {same:.3f}."])


def with_table(page: str, results: dict[str, Any]) -> str:
    """Return the page with its table replaced."""
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n\n{table(results)}\n\n{END}{after}"
