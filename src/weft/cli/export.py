"""`weft export`: a view of the gateway as others register it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from weft.cli.files import write_file
from weft.cli.output import good, note, plain, result, result_text
from weft.errors import NotFound

if TYPE_CHECKING:
    from weft.config import Config


@click.command(
    "export",
    epilog="\b\nExample:\n  weft export server.json --name com.example/research --view research -o server.json",
)
@click.argument("what", type=click.Choice(["server.json"]))
@click.option("-c", "--config", type=click.Path(path_type=Path), help="The settings.  [default: ./weft.yaml, if there]")
@click.option("--name", required=True, help="A domain of yours turned around, a slash, a name: com.example/tools.")
@click.option("--view", help="One of the views.  [default: all tools]")
@click.option("--version", default="1.0.0", show_default=True, help="The version that is registered.")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="[default: print]")
def command(
    *, what: Literal["server.json"], config: Path | None, name: str, view: str | None, version: str, output: Path | None
) -> None:
    """Write the server.json with which the gateway, or a view of it, is listed in an MCP registry.

    It says where the tools are (listen.publicUrl) and what they are for; nothing of the servers behind is in it.
    """
    import json

    from weft.config import load_config
    from weft.registry.serverjson import server_json

    settings = load_config(config, os.environ)
    if view is not None and view not in settings.views:
        raise NotFound("view", view, settings.views)
    about = settings.views[view].description if view is not None else None
    made = server_json(
        name=name,
        url=f"{_base(settings)}/mcp{f'/{view}' if view is not None else ''}",
        version=version,
        description=about or "Tools of several MCP servers, and compositions of them, behind one URL",
    )
    text = json.dumps(made, indent=2, ensure_ascii=False) + "\n"
    if output is None:
        result_text(text)
        return
    write_file(output, text)
    result(good(f"Wrote {plain(str(output))}"))


def _base(settings: Config) -> str:
    listen = settings.listen
    if listen.public_url is not None:
        return listen.public_url.rstrip("/")
    note("listen.publicUrl is not set: the address is that of the listener, which others may not reach")
    host = f"[{listen.host}]" if ":" in listen.host else listen.host
    return f"{'https' if listen.tls is not None else 'http'}://{host}:{listen.port}"
