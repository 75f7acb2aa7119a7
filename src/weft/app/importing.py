"""Functions that weft.yaml names as `module:name`, imported from beside it or from where Python looks."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from contextlib import redirect_stdout, suppress
from pathlib import Path
from traceback import walk_tb
from types import ModuleType
from typing import Any

from weft.errors import Problem, nearest, said_by, shown


class CannotImport(Exception):
    """There is no such function; `problem` says why, without its place."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


def imported(written: str, folder: Path) -> Any:
    """Return what `module:name` stands for; what the module prints goes to stderr.

    Raises:
        CannotImport: there is no such module or name, or the module raises an error.
    """
    module, _, names = written.partition(":")
    found: Any = _module(module, folder)
    for name in names.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            told = f"{module} has no {name!r}"
            known = _functions(found)
            raise _refused(
                "UnknownName", told, written, expected=_one_of(known), suggestion=nearest(name, known)
            ) from None
        except (Exception, SystemExit) as error:  # modules and classes may have a __getattr__
            raise _failed(module, error) from error
    return found


def _functions(found: Any) -> list[str]:
    names: list[str] = []
    for name in dir(found):
        with suppress(Exception):  # to read a name may run somebody's code
            if not name.startswith("_") and callable(getattr(found, name)):
                names.append(name)
    return names


def _module(name: str, folder: Path) -> ModuleType:
    # For good: a function may import a neighbour only when it is called.
    if (place := str(folder)) not in sys.path:
        sys.path.insert(0, place)
    importlib.invalidate_caches()
    try:
        with redirect_stdout(sys.stderr):
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _failed(name, error) from error
        wanted = f"a module in {folder}, or one that PYTHONPATH leads to"
        close = nearest(name, [one.stem for one in folder.glob("*.py")])
        raise _refused(
            "UnknownModule", f"there is no module {name!r}", name, expected=wanted, suggestion=close
        ) from None
    except (Exception, SystemExit) as error:
        raise _failed(name, error) from error


def _failed(name: str, error: BaseException) -> CannotImport:
    ours = ("<frozen", importlib.__file__, __file__)
    places = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]
    own = [f" ({Path(file).name}:{line})" for file, line in places if not file.startswith(ours)]
    said = " ".join(said_by(error).split())
    told = f"the module {name!r} cannot be imported: {said}{own[-1] if own else ''}"
    return _refused("ModuleFailed", told, name, expected="a module that can be imported")


def _refused(
    code: str, message: str, value: str, *, expected: str | None, suggestion: str | None = None
) -> CannotImport:
    return CannotImport(
        Problem(code=code, message=message, value=shown(value), expected=expected, suggestion=suggestion)
    )


def _one_of(names: Iterable[str]) -> str:
    known = sorted(names)
    return f"one of {', '.join(known[:20])}" if known else "a module with a function"
