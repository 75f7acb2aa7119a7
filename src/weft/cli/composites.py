"""ToolHive's composite tools, imported as a registry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from weft.cli.files import know_patterns, write_file
from weft.cli.output import as_json, good, plain, plural, result, result_text, warn
from weft.errors import DocumentInvalid, InputError, errors_in


def import_composites(definitions: Iterable[Mapping[str, Any]], output: Path | None, *, json_: bool) -> None:
    """Print or write composite tools as a registry, and tell what could not be carried over.

    Raises:
        InputError: none can be carried over, or the file is there already.
    """
    import json

    from weft.registry.toolhive import composites

    made = composites(definitions)
    if not made.tools:
        raise InputError("none of its composite tools can be imported", code="NoTools", hint="; ".join(made.notes))
    text = json.dumps(made.document, indent=2, ensure_ascii=False) + "\n"
    _check(text)
    if output is not None:
        if output.exists():
            raise InputError(
                f"{output} is there already", code="FileExists", hint="name a new file, or print without -o"
            )
        write_file(output, text)
    if json_:
        written = None if output is None else str(output)
        result(as_json({"registry": made.document, "notes": made.notes, "written": written}))
        return
    if output is None:
        result_text(text)
    else:
        result(good(f"Wrote {plural(len(made.tools), 'composition')} to {plain(str(output))}"))
    for one in made.notes:
        warn(one)


def _check(text: str) -> None:
    """Refuse to write what `weft validate` would not take."""
    from weft.app import problems_of
    from weft.ir.normalise import parse
    from weft.ir.read import read

    know_patterns()
    problems = problems_of(parse(read(text, name="the imported registry", format="json")))
    if errors_in(problems):
        raise DocumentInvalid(problems)
