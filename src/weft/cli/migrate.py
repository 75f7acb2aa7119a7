"""`weft migrate`: a registry of version 1 as one of version 2."""

from __future__ import annotations

from pathlib import Path

import click

from weft.cli.files import format_of, write_file
from weft.cli.output import as_json, good, note, plain, plural, result, result_text
from weft.errors import DocumentInvalid, InputError, errors_in, shown


@click.command(
    "migrate",
    epilog="\b\nExample:\n  weft migrate registry.json -o registry-v2.json\n"
    "  weft migrate registry.json -o - --from summarize=llm-tools@2.0.0",
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("-o", "--output", required=True, metavar="FILE", help="JSON, or YAML by its name; - for stdout.")
@click.option(
    "--from", "homes", multiple=True, metavar="TOOL=SERVER[@VERSION]", help="Where a tool is; * for all not named."
)
@click.option("--json", "json_", is_flag=True, help="Tell what was done as JSON.")
def command(file: Path, output: str, homes: tuple[str, ...], json_: bool) -> None:
    """Write a registry of schemaVersion 2.0 that means what one of 1.0 does.

    Versions, servers with what they provide, and dependencies are filled in. What nobody wrote down, such as the
    version of a server, is assumed, and told: those are for a person to decide. Exits with 2 when nothing was written.
    """
    from weft.app import load, problems_of
    from weft.ir.write import write
    from weft.registry.migrate import migrate

    parsed = load(file)
    problems = problems_of(parsed)
    if errors_in(problems):
        raise DocumentInvalid(problems)
    made = migrate(parsed.document, homes=dict(map(_home, homes)))
    if output == "-":
        result_text(write(made.document, "json"))
    else:
        write_file(Path(output), write(made.document, format_of(Path(output))))
    tell = note if output == "-" else result
    if json_:
        tell(as_json({"written": output, "decisions": list(made.decisions)}))
        return
    for decision in made.decisions:
        tell(f"Decide: {plain(decision)}")
    where = "standard output" if output == "-" else plain(output)
    tell(good(f"Written to {where}: {plural(len(made.document['tools']), 'tool')}"))


def _home(text: str) -> tuple[str, tuple[str, str]]:
    from weft.ir.versions import EXPECTED, is_exact, why_not_exact
    from weft.registry.migrate import FIRST

    tool, equals, server = text.partition("=")
    name, at, version = server.partition("@")
    if not equals or not tool or not name:
        raise InputError(f"{shown(text)} does not say where a tool is", code="WrongValue", hint="write TOOL=SERVER")
    if at and not is_exact(version):
        raise InputError(why_not_exact(version), code="InvalidVersion", hint=f"write {EXPECTED}")
    return tool, (name, version or FIRST)
