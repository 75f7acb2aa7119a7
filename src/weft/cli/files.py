"""Files that commands read and write."""

from __future__ import annotations

import errno
import os
import stat
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

from weft.errors import InputError

if TYPE_CHECKING:
    from weft.ir.document import Document
    from weft.ir.read import Format

YAML = (".yaml", ".yml")
REGISTRY = Path("registry.json")
"""Where commands look for a registry when none is named."""


def format_of(path: Path) -> Format:
    """Return the format that a file's name asks for."""
    return "yaml" if path.suffix.lower() in YAML else "json"


def file_meant(given: str) -> Path | None:
    """Return the file that somebody names where a name is wanted; None for a name."""
    path = Path(given)
    return path if path.suffix.lower() in (".json", *YAML) and path.is_file() else None


def only_tool(document: Document, file: Path) -> str:
    """Return the name of the tool that a file has: a workflow document is one.

    Raises:
        InputError: it has several, or none.
    """
    names = [tool.name for tool in document.tools if not tool.internal]
    if len(names) != 1:
        told = f"{file} has {', '.join(names[:5]) or 'no tools'}{', ...' if len(names) > 5 else ''}"
        raise InputError(told, code="NotOneTool", hint=f"name one of its tools, with --registry {file}")
    return names[0]


def write_file(path: Path, text: str) -> None:
    """Write a file whole or not at all, and keep its mode; one that may not be written is left alone.

    Raises:
        InputError: it cannot be written.
    """
    try:
        _replace(path.resolve(), text.encode())
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"cannot write {path}: {reason}", code="UnwritableFile") from error


def _replace(path: Path, data: bytes) -> None:
    if path.exists() and not path.is_file():
        # A device or a pipe is written to: put a file in its place, and it is gone.
        path.write_bytes(data)
        return
    if path.exists() and not os.access(path, os.W_OK):
        # Its folder may allow to put another file in its place, but its owner said no.
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(_mode(path))
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _mode(path: Path) -> int:
    if path.exists():
        return stat.S_IMODE(path.stat().st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def standard_input() -> bytes:
    """Return all that is piped in; a terminal is told how to end it.

    Raises:
        InputError: there is nothing to read from.
    """
    if sys.stdin is None:
        raise InputError("cannot read stdin: it is closed", code="UnreadableFile")
    if sys.stdin.isatty():
        click.echo("Reading from the terminal; end with Ctrl-D.", err=True)
    try:
        return sys.stdin.buffer.read()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"cannot read stdin: {reason}", code="UnreadableFile") from error


def no_registry_hint() -> str:
    """Return what to do when no registry was named and the usual one is not there; files of this folder may tell."""
    found = next((name for name in ("registry.yaml", "registry.yml", "registry.py") if Path(name).exists()), None)
    return f"there is no ./{REGISTRY}: name one with --registry{'' if found is None else f' {found}'}"


def know_patterns() -> None:
    """Close the union of operations: what reads documents without weft.app does not know them yet."""
    import_module("weft.patterns")
