"""`weft import`: the servers of another client or registry as servers of weft.yaml, composite tools as compositions."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weft.cli.composites import import_composites
from weft.cli.files import YAML, standard_input, write_file
from weft.cli.output import as_json, error_json, good, note, plain, plural, result, result_text, warn
from weft.errors import InputError

if TYPE_CHECKING:
    from weft.config.mcpservers import Imported

CLIENTS = ("claude-desktop", "claude-code", "cursor", "vscode")


@click.command(
    "import",
    epilog="\b\nExample:\n  weft import claude_desktop_config.json\n  weft import .vscode/mcp.json -o weft.yaml\n"
    "  weft import --from cursor -o weft.yaml\n  weft import server.json -o weft.yaml\n"
    "  weft import toolhive.yaml -o registry.json",
)
@click.argument("file", required=False, metavar="[FILE]")
@click.option("--from", "client", type=click.Choice(CLIENTS), help="Find the file of this client.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Add to this file.  [default: print]"
)
@click.option(
    "--json",
    "json_",
    is_flag=True,
    help='Print {"servers", "variables", "notes", "written"}, or {"registry", "notes", "written"}.',
)
def command(file: str | None, client: str | None, output: Path | None, json_: bool) -> None:
    """Make `servers` of weft.yaml from the mcpServers that other MCP clients have, or from a server.json; - is stdin.

    Secrets become references to variables, which are listed for you to set; their values are neither written nor shown.
    An existing file keeps all that is in it, and a server of the same name is refused.

    ToolHive's composite tools become a registry of compositions, with a report of what could not be carried over.
    """
    from weft.config.mcpservers import import_servers
    from weft.registry.toolhive import definitions_in

    try:
        documents = _read(file, client)
        if definitions := definitions_in(documents):
            import_composites(definitions, output, json_=json_)
            return
        imported = import_servers(documents[0] if documents else {})
        if not imported.servers:
            raise InputError("none of its servers can be imported", code="NoServers", hint="; ".join(imported.notes))
        if output is not None:
            write_file(output, _added(output, imported))
    except InputError as error:
        if not json_:
            raise
        result(as_json({"error": error_json(error)}))
        raise click.exceptions.Exit(2) from None
    _tell(imported, output, json_=json_)


def _read(file: str | None, client: str | None) -> list[dict[str, Any]]:
    from weft.config.mcpservers import without_comments
    from weft.ir.read import read

    if (file is None) == (client is None):
        raise InputError("name a file, or a client with --from", code="NoFile", hint=f"one of {', '.join(CLIENTS)}")
    if file == "-":
        data, name, suffix = standard_input(), "<stdin>", ""
    else:
        path = Path(file) if file is not None else _found(client or "")
        data, name, suffix = _bytes(path), str(path), path.suffix
    text = data.decode("utf-8-sig", errors="replace")
    if suffix in YAML:
        return [read(part, name=name, format="yaml").value for part in _parts(text)]
    return [read(without_comments(text), name=name, format="json").value]


def _parts(text: str) -> list[str]:
    """Return the documents of a YAML file, each with blank lines before it, so that lines keep their numbers."""
    found: list[str] = []
    lines = 0
    for part in re.split(r"^---[ \t]*(?:#.*)?$", text, flags=re.MULTILINE):
        if re.search(r"^[ \t]*[^#\s]", part, re.MULTILINE):
            found.append("\n" * lines + part)
        lines += part.count("\n")
    return found or [text]


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {(error.strerror or '').lower()}", code="UnreadableFile") from error


def _found(client: str) -> Path:
    places = list(_places(client))
    for path in places:
        if path.is_file():
            note(f"Reading {plain(str(path))}")
            return path
    hint = f"looked for {', '.join(map(str, places))}"
    raise InputError(f"there is no file of {client}", code="UnreadableFile", hint=hint)


def _places(client: str) -> list[Path]:
    """Return where a client keeps its servers: first for this project, then for this person."""
    settings = {
        "darwin": Path.home() / "Library" / "Application Support",
        "win32": Path(os.environ.get("APPDATA", "")),
    }.get(sys.platform, Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"))
    return {
        "claude-desktop": [settings / "Claude" / "claude_desktop_config.json"],
        "claude-code": [Path(".mcp.json"), Path.home() / ".claude.json"],
        "cursor": [Path(".cursor", "mcp.json"), Path.home() / ".cursor" / "mcp.json"],
        "vscode": [Path(".vscode", "mcp.json"), settings / "Code" / "User" / "mcp.json"],
    }[client]


def _added(output: Path, imported: Imported) -> str:
    from weft.config.additions import with_servers

    return with_servers(output.read_text(encoding="utf-8") if output.exists() else "", imported, name=str(output))


def _tell(imported: Imported, output: Path | None, *, json_: bool) -> None:
    if json_:
        written = None if output is None else str(output)
        told = {"servers": imported.servers, "variables": imported.variables, "notes": imported.notes}
        result(as_json({**told, "written": written}))
        return
    if output is None:
        result_text("\n".join(["servers:", *imported.lines()]) + "\n")
    else:
        result(good(f"Added {plural(len(imported.servers), 'server')} to {plain(str(output))}"))
    for one in imported.notes:
        warn(one)
    if imported.variables:
        note("Set these variables before you start weft:")
        for name, why in imported.variables.items():
            note(f"  {name}  ({plain(why)})")
