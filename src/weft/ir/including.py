"""`$include`: a document in several files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from weft.errors import DocumentInvalid, Problem, shown
from weft.ir.read import Source, read, read_file
from weft.ir.reading import placed
from weft.ports import is_array

INCLUDE = "$include"
MAX_FILES = 1_000


def files_of(source: Source, folder: Path | None) -> tuple[list[Source], list[Problem]]:
    """Return a document and all that it includes, each once, in the order in which they are named.

    Paths are relative to the file that names them.
    """
    gathering = _Gathering()
    gathering.add(source, folder, ())
    return gathering.files, gathering.problems


def included(data: bytes, path: Path) -> frozenset[Path]:
    """Return the files that a document includes, directly or not, whether they are there or not."""
    if INCLUDE.encode() not in data:
        return frozenset()
    try:
        source = read(data, name=str(path))
    except DocumentInvalid:
        return frozenset()
    gathering = _Gathering()
    gathering.add(source, path.parent, ())
    return frozenset(gathering.known)


class _Gathering:
    def __init__(self) -> None:
        self.files: list[Source] = []
        self.problems: list[Problem] = []
        self.known = set[Path]()

    def add(self, source: Source, folder: Path | None, trail: tuple[Path, ...]) -> None:
        """Add a file, and then those that it names."""
        self.files.append(source)
        given: Any = source.value.get(INCLUDE)
        names = given if is_array(given) else [] if given is None else [given]
        for index, name in enumerate(names):
            loc = (INCLUDE, index) if is_array(given) else (INCLUDE,)
            problem = self._include(name, folder, trail or self._first(source, folder))
            if problem is not None:
                code, told, expected = problem
                wrong = Problem(code=code, message=told, loc=loc, value=shown(name), expected=expected)
                self.problems.append(placed(wrong, source))

    def _first(self, source: Source, folder: Path | None) -> tuple[Path, ...]:
        return () if folder is None else ((folder / Path(source.name).name).resolve(),)

    def _include(self, name: Any, folder: Path | None, trail: tuple[Path, ...]) -> tuple[str, str, str] | None:
        if folder is None:
            return "IncludeRefused", "only a document in a file can include others", "the entities themselves"
        if not isinstance(name, str) or not name or "://" in name or "\0" in name or Path(name).is_absolute():
            return "IncludeRefused", f"{shown(name)} is no path of a file", "a path relative to this file"
        path = (folder / name).resolve()
        if path in trail:
            circle = " -> ".join(one.name for one in (*trail[trail.index(path) :], path))
            return "Cycle", f"documents include each other in a circle: {circle}", "files that include only others"
        if path in self.known:
            return None
        self.known.add(path)
        if len(self.known) > MAX_FILES:
            return "TooLarge", f"the document has more than {MAX_FILES} files", f"at most {MAX_FILES}"
        try:
            self.add(read_file(path), path.parent, (*trail, path))
        except DocumentInvalid as error:
            self.problems += error.problems
        return None
