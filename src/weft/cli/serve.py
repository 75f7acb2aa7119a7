"""`weft serve`: the gateway."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from weft.cli.output import note

EXAMPLES = """\b
Example:
  weft serve                               ./weft.yaml and ./registry.json, as far as they are there
  weft serve -c weft.yaml --port 8080
  weft serve --registry research.py        compositions and Python tools of one file
  weft serve --stdio                       for a client that starts its servers itself
  weft serve --workers 4                   four processes on one port

\b
Signals: SIGTERM and Ctrl-C stop it when the calls in flight have ended, SIGHUP reads
registry and configuration again. Both files are watched anyway."""


@click.command("serve", epilog=EXAMPLES)
@click.option("-c", "--config", type=click.Path(path_type=Path), help="The settings.  [default: ./weft.yaml, if there]")
@click.option("--registry", type=click.Path(path_type=Path), help="JSON, YAML or Python, instead of registry.source.")
@click.option("--stdio", is_flag=True, help="Speak MCP on stdin and stdout instead of HTTP.")
@click.option("--agent", metavar="NAME[@VERSION]", help="With --stdio: which agent of the registry calls.")
@click.option("--host", help="The address to listen on.  [default: 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), help="The port; 0 takes a free one.  [default: 15000]")
@click.option("--admin-port", type=click.IntRange(0, 65535), help="The port for operators.  [default: 15001]")
@click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Processes on one port.")
@click.option("--insecure", is_flag=True, help="Listen on other addresses although nobody is asked who they are.")
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="[default: info]")
@click.option("--log-format", type=click.Choice(["text", "json"]), help="[default: text]")
def command(**given: Any) -> None:
    """Serve tools of MCP servers and compositions of them to any MCP client, at http://127.0.0.1:15000/mcp."""
    from weft.app.serving import Options, serve
    from weft.doors.listener import run

    sys.exit(run(serve(Options(tell=note, **given))))
