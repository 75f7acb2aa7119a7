"""The `weft` command itself: its help, its commands by name, and the one place where exceptions end."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from io import TextIOWrapper
from typing import Any

import click

from weft.errors import InputError, WeftError, nearest

SECTIONS: Mapping[str, Mapping[str, str]] = {
    "Run": {
        "demo": "Watch nine MCP servers composed behind one URL.",
        "serve": "Serve tools of MCP servers, and compositions of them, at one URL.",
        "run": "Run a tool of a registry, without a server.",
        "templates": "Find, run and keep workflows that are ready to use.",
        "call": "Call a tool of any MCP server.",
        "tools": "List the tools of any MCP server.",
        "trace": "Print what a recent call through the gateway did.",
    },
    "Author": {
        "init": "Make a project in an empty folder that works at once.",
        "compile": "Compile the compositions of a Python file into a registry.",
        "validate": "Report everything that is wrong with documents.",
        "fmt": "Rewrite documents in canonical form.",
        "test": "Run *.weft-test.yaml files against canned answers.",
        "graph": "Draw a composition, as Mermaid or SVG.",
        "schema": "Print the JSON Schema of documents, or of weft.yaml.",
    },
    "Operate": {
        "saga": "List sagas; go on with those that are stuck, or give them up.",
        "dlq": "List dead letters, and send them again.",
        "circuit": "List circuits, close them or hold them open.",
    },
    "Govern": {
        "lock": "Approve the tools of all servers as they are now.",
        "diff": "Tell what changed between two registries or two locks.",
        "sbom": "Write the bill of materials of a registry.",
        "audit": "Check that an audit log is as it was written.",
        "key": "Make, list and revoke API keys.",
        "migrate": "Make a registry of version 2 from one of version 1.",
        "import": "Make servers of weft.yaml from what other clients and registries have.",
        "export": "Write the server.json of a gateway, for MCP registries.",
    },
}
COMMANDS = {name: text for commands in SECTIONS.values() for name, text in commands.items()}
MODULES = {"import": "import_"}
"""Commands that no module can be named after."""
INTERRUPTED = 130
UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})


class Weft(click.Group):
    """Loads a command when it is run, so that `weft --help` needs nothing but the table above."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        return import_module(f"weft.cli.{MODULES.get(cmd_name, cmd_name)}").command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            close = nearest(name, COMMANDS)
            ctx.fail(f"There is no command {name!r}." + (f" Did you mean {close!r}?" if close else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for section, commands in SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl([(name.ljust(width), text) for name, text in commands.items()])

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        if not standalone_mode:
            return super().main(*args, standalone_mode=False, **extra)
        sys.exit(self._ended(*args, **extra))

    def _ended(self, *args: Any, **extra: Any) -> int:
        """Run and return the exit code: every exception ends here as a sentence."""
        try:
            code = super().main(*args, standalone_mode=False, **extra)
        except click.exceptions.Exit as stop:
            return stop.exit_code
        except click.ClickException as error:
            error.show()
            return error.exit_code
        except (click.Abort, KeyboardInterrupt):
            return INTERRUPTED
        except WeftError as error:
            return _told(error)
        except OSError as error:
            return _unwritable(error) if error.errno in UNWRITABLE and error.filename is None else _unexpected(error)
        except Exception as error:
            return _unexpected(error)
        return code if isinstance(code, int) else 0

    def invoke(self, ctx: click.Context) -> Any:
        if os.environ.get("NO_COLOR"):
            ctx.color = False
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            at_terminal = sys.stderr is not None and sys.stderr.isatty()
            click.echo("\nStopped." if at_terminal else "Stopped.", err=True)
            ctx.exit(INTERRUPTED)


def _told(error: WeftError) -> int:
    from weft.cli.output import show_error

    show_error(error)
    return 2 if isinstance(error, InputError) else 1


def _unwritable(error: OSError) -> int:
    """Tell that a stream of the process is full or gone; what it still holds must not fail again at the exit."""
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
    with suppress(OSError):
        click.echo(
            f"error: cannot write the result: {os.strerror(error.errno or 0).lower()} [UnwritableFile]", err=True
        )
    return 2


def _unexpected(error: Exception) -> int:
    from weft.cli.output import debugging, plain, show_traceback
    from weft.errors import said_by

    if debugging():
        show_traceback(error)
    what = plain(" ".join(said_by(error).split()))
    advice = "please report it to weft's issue tracker, with what WEFT_DEBUG=1 prints"
    click.echo(f"weft has a bug: {what[:200]} ({advice})", err=True)
    return 1


def _version(ctx: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"weft {version('weft')}")
        ctx.exit()


@click.group(
    cls=Weft,
    name="weft",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="`weft COMMAND --help` explains a command and shows an example.",
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Print the version."
)
def weft() -> None:
    """Compose tools into new tools: write compositions in Python, JSON or YAML, check them, run them.

    Results go to stdout, all else to stderr. Exit codes: 0 well, 1 the work failed, 2 the input is wrong.
    """


def main() -> None:
    """Run the command line; the console script `weft`."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A terminal that cannot show a character gets its escape, never an exception.
            stream.reconfigure(errors="backslashreplace")
    weft.main(prog_name="weft")
