"""`weft schema`: the JSON Schema of documents, and of weft.yaml."""

from __future__ import annotations

import json

import click

from weft.cli.files import know_patterns
from weft.cli.output import result


@click.command(
    "schema", epilog="\b\nExample:\n  weft schema > weft-ir.schema.json\n  weft schema config > weft.schema.json"
)
@click.argument("what", type=click.Choice(["ir", "config"]), default="ir")
def command(what: str) -> None:
    """Print the JSON Schema of documents in canonical form, or of weft.yaml, for editors and other tools.

    Documents may be spelled in more ways than the schema describes; weft fmt rewrites them so that it holds.
    """
    from weft.config.schema import json_schema as config_schema
    from weft.ir.schema import json_schema

    know_patterns()

    result(json.dumps(config_schema() if what == "config" else json_schema(), indent=2, ensure_ascii=False))
