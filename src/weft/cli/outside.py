"""Code that is not weft's: what a module raises becomes a problem of its file, whatever it is."""

from __future__ import annotations

import sysconfig
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from traceback import walk_tb

import weft
from weft.errors import DocumentInvalid, Problem, WeftError, said_by

NOT_AUTHORS = ("<", str(Path(weft.__file__).parent), sysconfig.get_path("stdlib"))


@contextmanager
def importing(file: Path) -> Generator[None]:
    """Tell what a module raises when it is imported as a problem of its file.

    Raises:
        DocumentInvalid: the module, and not weft, raised something.
    """
    try:
        yield
    except (WeftError, KeyboardInterrupt):
        raise
    except BaseException as error:
        if not _raised_outside(error):
            raise
        where, line = _place(error) or (str(file), None)
        raise DocumentInvalid(
            [Problem(code="ModuleFailed", message=said_by(_cause(error)), file=where, line=line)]
        ) from error


def _raised_outside(error: BaseException) -> bool:
    # weft raises nothing but exceptions of class Exception.
    return not isinstance(error, Exception) or _cause(error) is not error or _place(error) is not None


def _cause(error: BaseException) -> BaseException:
    """Return the exception whose text was asked for when this one was raised, or this one."""
    above = error.__context__
    return above if above is not None and _is_mute(above) else error


def _is_mute(error: BaseException) -> bool:
    try:
        str(error)
    except Exception:
        return True
    return False


def _place(error: BaseException) -> tuple[str, int] | None:
    """Return the deepest line of an author's own code that the exception passed through."""
    found: tuple[str, int] | None = None
    for frame, line in walk_tb(_cause(error).__traceback__):
        file = frame.f_code.co_filename
        if not file.startswith(NOT_AUTHORS) and "site-packages" not in file:
            found = (file, line)
    return None if found is None else (_near(found[0]), found[1])


def _near(file: str) -> str:
    here = Path.cwd()
    return str(Path(file).relative_to(here)) if Path(file).is_relative_to(here) else file
