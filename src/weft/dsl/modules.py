"""Python files: imported from their path, with the compositions, the tools and the groups that stand in them."""

from __future__ import annotations

import ast
import importlib.util
import sys
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, replace
from importlib.machinery import SourceFileLoader
from pathlib import Path
from traceback import walk_tb
from types import CodeType, ModuleType
from typing import Any

from pydantic import ValidationError

from weft.dsl.compositions import Composition
from weft.dsl.local import PythonTool
from weft.dsl.registry import RegistryBuilder
from weft.errors import DocumentInvalid, Problem, WeftError, json_pointer
from weft.groups.authoring.builder import GroupedTool
from weft.ir.document import INTERNAL, Document

OURS = str(Path(__file__).parent.parent)
_loaded: dict[Path, tuple[int, ModuleType]] = {}
_numbers: dict[Path, int] = {}


@dataclass(frozen=True, slots=True)
class PythonFile:
    """What a Python file has for weft, in the order in which it is written."""

    path: Path
    compositions: tuple[Composition[Any, Any], ...]
    tools: tuple[PythonTool[..., Any], ...]
    registries: tuple[RegistryBuilder, ...] = ()
    groups: tuple[GroupedTool, ...] = ()

    def placed(self, problem: Problem, document: Document | None = None) -> Problem:
        """Return a problem of the compiled document with the file, and the line where its composition begins."""
        index = problem.loc[1] if problem.loc[:1] == ("tools",) and len(problem.loc) > 1 else None
        name = document.tools[index].name if document is not None and isinstance(index, int) else problem.value
        line = self._line_of(name or "")
        return replace(problem, pointer=json_pointer(problem.loc), file=str(self.path), line=line)

    def _line_of(self, name: str) -> int | None:
        """Return the line of the call that gives a composition its name."""
        with suppress(OSError, SyntaxError, ValueError):
            for node in ast.walk(ast.parse(self.path.read_bytes())):
                first = node.args[0] if isinstance(node, ast.Call) and node.args else None
                if isinstance(first, ast.Constant) and first.value in (name, name.removeprefix(INTERNAL)):
                    return first.lineno
        return None


def read_module(path: Path) -> PythonFile:
    """Import a file and return its compositions, tools, registries and groups; what it prints goes to stderr.

    Raises:
        DocumentInvalid: with the line, when the file cannot be read or raises an error.
    """
    members: list[Any] = list(vars(_module(path.absolute(), path)).values())
    compositions: list[Composition[Any, Any]] = [one for one in members if isinstance(one, Composition)]
    tools: list[PythonTool[..., Any]] = [one for one in members if isinstance(one, PythonTool)]
    tops = [one for one in dict.fromkeys(compositions) if not one.internal]
    registries = dict.fromkeys(one for one in members if isinstance(one, RegistryBuilder))
    groups = dict.fromkeys(one for one in members if isinstance(one, GroupedTool))
    return PythonFile(path, tuple(tops), tuple(dict.fromkeys(tools)), tuple(registries), tuple(groups))


def _module(path: Path, shown_as: Path) -> ModuleType:
    try:
        changed = path.stat().st_mtime_ns
        known = _loaded.get(path)
        if known is None or known[0] != changed:
            known = _loaded[path] = (changed, _imported(path))
        return known[1]
    except (Exception, SystemExit) as error:
        raise DocumentInvalid(_problems(error, path, shown_as)) from error


def _imported(path: Path) -> ModuleType:
    name = _name(path)
    loader = _Fresh(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and TypedDicts look their module up by name.
    sys.modules[name] = module
    try:
        _make_siblings_importable(path)
        with redirect_stdout(sys.stderr):
            loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


class _Fresh(SourceFileLoader):
    """Reads the source each time: a cached file of the same second and size would hide an edit."""

    def get_code(self, fullname: str) -> CodeType | None:
        return self.source_to_code(self.get_data(self.path), self.path)


def _name(path: Path) -> str:
    taken = path.stem in sys.modules or path.stem in sys.stdlib_module_names or not path.stem.isidentifier()
    # The same file has the same name however often it is read: nothing piles up.
    return f"weft_module_{_numbers.setdefault(path, len(_numbers))}_{path.stem}" if taken else path.stem


def _make_siblings_importable(path: Path) -> None:
    # For good: a function may import a neighbour only when it is called.
    if (folder := str(path.parent)) not in sys.path:
        sys.path.insert(0, folder)


def _problems(error: BaseException, path: Path, shown_as: Path) -> list[Problem]:
    if isinstance(error, OSError) and error.filename == str(path):
        reason = (error.strerror or str(error)).lower()
        return [Problem(code="UnreadableFile", message=f"cannot read the file: {reason}", file=str(shown_as))]
    if isinstance(error, SyntaxError) and error.filename is not None:
        where = _shown(error.filename, path, shown_as)
        return [Problem(code="InvalidPython", message=f"not valid Python: {error.msg}", file=where, line=error.lineno)]
    where, line = _place(error, path, shown_as)
    if isinstance(error, DocumentInvalid):
        return [replace(problem, file=where, line=line) for problem in error.problems]
    return [Problem(code="ModuleFailed", message=_sentence(error), file=where, line=line)]


def _place(error: BaseException, path: Path, shown_as: Path) -> tuple[str, int | None]:
    """Return the deepest line of the author's own code that the error passed through."""
    found: tuple[str, int | None] = (str(shown_as), None)
    for frame, line in walk_tb(error.__traceback__):
        file = frame.f_code.co_filename
        foreign = file.startswith(("<", OURS)) or "site-packages" in file
        if file == str(path) or (not foreign and file.startswith(str(path.parent))):
            found = (_shown(file, path, shown_as), line)
    return found


def _shown(file: str, path: Path, shown_as: Path) -> str:
    return str(shown_as) if file == str(path) else file


def _sentence(error: BaseException) -> str:
    if isinstance(error, WeftError):
        return str(error) + (f"; {error.hint}" if error.hint else "")
    if isinstance(error, ValidationError):
        told = [(".".join(map(str, one["loc"])), one["msg"]) for one in error.errors(include_url=False)]
        return f"{error.title}: " + "; ".join(f"{place}: {text}" if place else text for place, text in told)
    if isinstance(error, SystemExit):
        return "the module calls sys.exit when it is imported"
    text = " ".join(str(error).split())
    return text if isinstance(error, TypeError) and text.startswith("w.") else f"{type(error).__name__}: {text}"
