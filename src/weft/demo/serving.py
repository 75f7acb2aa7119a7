"""How the demo's servers are started: `python -m weft.demo.search`, over stdio or HTTP."""

from __future__ import annotations

import argparse
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import weft as w
from weft.app.serving import serve_tools
from weft.demo.shelf import MEMORY
from weft.dsl.local import PythonTool
from weft.errors import InputError

Tools: TypeAlias = Sequence[PythonTool[..., Any]]

reads = w.python_tool(annotations={"readOnlyHint": True, "openWorldHint": False})
"""Makes a tool of a function that changes nothing."""

adds = w.python_tool(
    annotations={"readOnlyHint": False, "destructiveHint": False, "idempotentHint": False, "openWorldHint": False}
)
"""Makes a tool of a function that adds something; given a key, it does so once."""

undoes = w.python_tool(
    annotations={"readOnlyHint": False, "destructiveHint": True, "idempotentHint": True, "openWorldHint": False}
)
"""Makes a tool of a function that takes something back; twice is as good as once."""


def serve(name: str, about: str, make: Callable[[str], Tools]) -> None:
    """Serve the tools that are made over a data file, as the command line says, until the client leaves."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--data", default=MEMORY, metavar="FILE", help="an SQLite file  [default: in memory]")
    parser.add_argument("--http", type=int, metavar="PORT", help="serve on 127.0.0.1 instead of stdio")
    given = parser.parse_args()
    try:
        serve_tools(*_made(make, given.data), name=name, port=given.http)
    except InputError as error:
        parser.error(error.message)


def _made(make: Callable[[str], Tools], data: str) -> Tools:
    """Return the tools over a data file.

    Raises:
        InputError: the file cannot be used.
    """
    try:
        return make(data)
    except sqlite3.Error as error:
        folder = Path(data).parent
        why = f"there is no folder {str(folder)!r}" if not folder.is_dir() else str(error)
        raise InputError(f"--data: cannot use {data!r}: {why}") from None
