"""`weft schema`: the JSON Schema of documents."""

from __future__ import annotations

import json

import click

from weft.cli.files import know_patterns
from weft.cli.output import result


@click.command("schema", epilog="\b\nExample:\n  weft schema > weft.schema.json")
@click.argument("what", type=click.Choice(["ir"]), default="ir")
def command(what: str) -> None:
    """Print the JSON Schema of documents in canonical form, for editors and other tools.

    Documents may be spelled in more ways than the schema describes; weft fmt rewrites them so that it holds.
    """
    from weft.ir.schema import json_schema

    know_patterns()

    result(json.dumps(json_schema(), indent=2, ensure_ascii=False))
