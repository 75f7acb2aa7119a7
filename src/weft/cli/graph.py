"""`weft graph`: a composition as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from weft.cli.files import REGISTRY, file_meant, no_registry_hint, only_tool, write_file
from weft.cli.output import note, plain, result_text
from weft.cli.outside import importing
from weft.errors import InputError

Picture = Literal["mermaid", "svg"]


@click.command(
    "graph",
    epilog="\b\nExample:\n  weft graph research_pipeline --registry research.py\n"
    "  weft graph research_pipeline -o research.svg\n  weft graph workflow.yaml",
)
@click.argument("tool", metavar="TOOL|FILE")
@click.option("--registry", type=click.Path(path_type=Path), help="JSON, YAML or Python.  [default: ./registry.json]")
@click.option("--format", "picture", type=click.Choice(["mermaid", "svg"]), help="By the name of -o, else mermaid.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write to a file instead of stdout.")
def command(tool: str, registry: Path | None, picture: Picture | None, output: Path | None) -> None:
    """Draw the composition TOOL as a Mermaid flowchart, or as an SVG that needs nothing else.

    FILE is a document with one tool, such as a workflow document. Internal parts are drawn where they are used, other
    compositions as one box.
    """
    by_name: Picture = "svg" if output is not None and output.suffix == ".svg" else "mermaid"
    drawn = _drawn(tool, registry, picture or by_name)
    if output is None or str(output) == "-":
        result_text(drawn)
        return
    write_file(output, drawn)
    note(plain(f"Drew {tool} into {output}"))


def _drawn(tool: str, registry: Path | None, picture: Picture) -> str:
    from weft.app import open_registry
    from weft.cli.drawing.blocks import blocks_of
    from weft.cli.drawing.mermaid import mermaid
    from weft.cli.drawing.svg import svg

    given = file_meant(tool) if registry is None else None
    registry = given or registry
    if registry is None and not REGISTRY.exists():
        raise InputError("there is no registry to look into", code="NoRegistry", hint=no_registry_hint())
    with importing(file := registry or REGISTRY):
        opened = open_registry(file).valid()
    tool = tool if given is None else only_tool(opened.document, given)
    block = blocks_of(opened.document, tool)
    return svg(block, tool) if picture == "svg" else mermaid(block)
