"""`weft compile`: from Python to a registry."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from weft.cli.files import format_of, write_file
from weft.cli.output import as_json, error_json, good, note, plain, plural, result, result_text, show_problems
from weft.cli.outside import importing
from weft.errors import InputError

if TYPE_CHECKING:
    from weft.dsl.compositions import Compiled
    from weft.ir.document import Document


@click.command(
    "compile",
    epilog="\b\nExample:\n  weft compile research.py -o registry.json\n"
    "  weft compile research.py -o - | weft validate -",
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("-o", "--output", required=True, metavar="FILE", help="JSON, or YAML by its name; - for stdout.")
@click.option("--split", is_flag=True, help="Give every nested pattern a name of its own.")
@click.option("--json", "json_", is_flag=True, help="Tell what was done as JSON.")
def command(file: Path, output: str, split: bool, json_: bool) -> None:
    """Compile every composition that stands in a Python file, and write the registry.

    The file is imported; each w.composition(..) at its top level is compiled with all that it uses, or else
    the w.RegistryBuilder() there. Names, circles and types are checked first, and nothing is written after an error.
    """
    try:
        compiled = _compiled(file, split=split)
    except InputError as error:
        if json_:
            result(as_json({"error": error_json(error)}))
            raise click.exceptions.Exit(2) from None
        raise
    _write(compiled, output)
    _tell(compiled, output, json_=json_)


def _compiled(file: Path, *, split: bool) -> Compiled:
    from weft.app import compile_file
    from weft.dsl.modules import read_module

    if file.suffix != ".py":
        hint = "weft fmt rewrites JSON and YAML"
        raise InputError(f"{file} is not a Python file", code="NotPython", hint=hint)
    with importing(file):
        module = read_module(file)
    if not module.compositions and not module.registries:
        hint = 'write one at the top level: research = w.composition("research", "What it does.", w.pipeline(..))'
        raise InputError(f"{file} has no compositions", code="NoCompositions", hint=hint)
    compiled, registry = compile_file(module, split=split)
    show_problems(problem for problem in registry.valid().problems if problem.severity == "warning")
    return compiled


def _write(compiled: Compiled, output: str) -> None:
    from weft.ir.write import write

    ir = compiled.document.to_ir()
    if output == "-":
        result_text(write(ir, "json"))
    else:
        write_file(Path(output), write(ir, format_of(Path(output))))


def _tell(compiled: Compiled, output: str, *, json_: bool) -> None:
    tell = note if output == "-" else result
    tops, parts = compiled.top_level, compiled.internal
    where = "standard output" if output == "-" else plain(output)
    if json_:
        tell(as_json({"compositions": tops, "internal": parts, "written": output}))
        return
    if compiled.document.versioned:
        tell(good(f"Compiled {_counted(compiled.document)}"))
    else:
        tell(good(f"Compiled {', '.join(tops)}"))
        tell(good(f"Generated {len(tops) + len(parts)} compositions ({len(tops)} top-level, {len(parts)} internal)"))
    tell(good(f"Written to {where}"))


def _counted(document: Document) -> str:
    held = {"schema": document.schemas, "server": document.servers, "tool": document.tools, "agent": document.agents}
    held |= {"group": document.groups}
    return ", ".join(plural(len(several), kind) for kind, several in held.items() if several)
