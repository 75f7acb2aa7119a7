"""`weft sbom export`: what a registry, or one of its agents, is made of."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from weft.cli.files import know_patterns, write_file
from weft.cli.output import good, plain, plural, result, result_text
from weft.cli.outside import importing
from weft.errors import DocumentInvalid, errors_in

if TYPE_CHECKING:
    from weft.registry.book import Book


@click.group("sbom", epilog="\b\nExample:\n  weft sbom export --format cyclonedx -o bom.json")
def command() -> None:
    """Tell what a registry is made of."""


@command.command(
    "export",
    epilog="\b\nExample:\n  weft sbom export --format cyclonedx -o bom.json\n"
    "  weft sbom export --format spdx --agent research-agent --registry registry.json",
)
@click.option("--format", "form", type=click.Choice(["cyclonedx", "spdx"]), required=True, help="1.6, or 2.3; as JSON.")
@click.option(
    "--registry", type=click.Path(path_type=Path), default=Path("registry.json"), show_default=True,
    help="JSON, YAML or Python.",
)  # fmt: skip
@click.option("--agent", metavar="NAME[@VERSION]", help="Only this agent and all that it needs.")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="[default: print]")
def export(form: Literal["cyclonedx", "spdx"], registry: Path, agent: str | None, output: Path | None) -> None:
    """Write a bill of materials: agents, tools, servers and schemas, what each needs, and their hashes.

    The same registry gives the same bytes: there is no time in it, unless SOURCE_DATE_EPOCH is set.
    """
    from importlib.metadata import version

    from weft.registry.sbom import cyclonedx, materials, spdx

    name, _, wanted = (agent or "").partition("@")
    made = materials(_book(registry), agent=name or None, version=wanted or None, environ=os.environ)
    text = (cyclonedx if form == "cyclonedx" else spdx)(made, weft=version("weft"))
    if output is None:
        result_text(text)
        return
    write_file(output, text)
    result(good(f"Wrote {plain(str(output))}: {plural(len(made.parts), 'part')}"))


def _book(path: Path) -> Book:
    """Return a registry whose own problems are no errors."""
    from weft.app import load, open_registry, problems_of
    from weft.registry.book import Book

    know_patterns()
    if path.suffix == ".py":
        with importing(path):
            registry = open_registry(path)
        problems = registry.problems
        book = Book(registry.document) if registry.parsed is None else Book.of(registry.parsed)
    else:
        parsed = load(path)
        problems, book = problems_of(parsed), Book.of(parsed)
    if errors_in(problems):
        raise DocumentInvalid(problems)
    return book
