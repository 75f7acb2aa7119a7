"""`weft import`: the servers of another client, as servers of weft.yaml."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weft.cli.files import standard_input, write_file
from weft.cli.output import as_json, error_json, good, note, plain, plural, result, result_text, warn
from weft.errors import InputError

if TYPE_CHECKING:
    from weft.config.mcpservers import Imported

CLIENTS = ("claude-desktop", "claude-code", "cursor", "vscode")


@click.command(
    "import",
    epilog="\b\nExample:\n  weft import claude_desktop_config.json\n  weft import .vscode/mcp.json -o weft.yaml\n"
    "  weft import --from cursor -o weft.yaml",
)
@click.argument("file", required=False, metavar="[FILE]")
@click.option("--from", "client", type=click.Choice(CLIENTS), help="Find the file of this client.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Add to this file.  [default: print]"
)
@click.option("--json", "json_", is_flag=True, help='Print {"servers", "variables", "notes", "written"}.')
def command(file: str | None, client: str | None, output: Path | None, json_: bool) -> None:
    """Make `servers` of weft.yaml from the mcpServers that other MCP clients have; - is stdin.

    Secrets become references to variables, which are listed for you to set; their values are neither written nor shown.
    An existing file keeps all that is in it, and a server of the same name is refused.
    """
    from weft.config.mcpservers import import_servers

    try:
        imported = import_servers(_read(file, client))
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


def _read(file: str | None, client: str | None) -> dict[str, Any]:
    from weft.config.mcpservers import without_comments
    from weft.ir.read import read, read_file

    if (file is None) == (client is None):
        raise InputError("name a file, or a client with --from", code="NoFile", hint=f"one of {', '.join(CLIENTS)}")
    if file == "-":
        data, name = standard_input(), "<stdin>"
    else:
        path = Path(file) if file is not None else _found(client or "")
        if path.suffix in (".yaml", ".yml"):
            return read_file(path).value
        data, name = _bytes(path), str(path)
    text = data.decode("utf-8-sig", errors="replace")
    return read(without_comments(text), name=name, format="json").value


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
