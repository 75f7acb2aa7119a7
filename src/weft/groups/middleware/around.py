"""Which tools middleware stands around."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from weft.groups.calling import Middleware


@dataclass(frozen=True, slots=True)
class Around:
    """Middleware, and globs of the names of the tools that it is for."""

    globs: tuple[str, ...]
    middleware: Middleware

    def is_for(self, names: Iterable[str]) -> bool:
        """Tell whether it is for a tool that has one of these names."""
        return any(fnmatchcase(name, glob) for glob in self.globs for name in names)


def around(names: Sequence[str], rules: Sequence[Around]) -> tuple[Middleware, ...]:
    """Return the middleware of a tool that has these names, outermost first."""
    return tuple(one.middleware for one in rules if one.is_for(names))
