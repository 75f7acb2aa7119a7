"""Python files that define a whole registry."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from weft.dsl.modules import PythonFile
from weft.dsl.registry import RegistryBuilder
from weft.errors import DocumentInvalid, Problem
from weft.registry.findings import Severities
from weft.registry.validate import SEED


def registry_in(file: PythonFile) -> RegistryBuilder | None:
    """Return the registry that a file defines, or None when it has only compositions.

    Raises:
        DocumentInvalid: the file defines several.
    """
    found = file.registries
    if len(found) > 1:
        told = f"the file defines {len(found)} registries"
        expected = "one w.RegistryBuilder() at its top level"
        raise DocumentInvalid([Problem(code="SeveralRegistries", message=told, expected=expected, file=str(file.path))])
    return found[0] if found else None


def file_problems(
    file: PythonFile, registry: RegistryBuilder, *, severities: Severities = SEED, allow: Iterable[str] = ()
) -> list[Problem]:
    """Return every problem of a registry in a file, and the compositions of the file that are not in it."""
    inside = str(file.path.absolute())
    found = registry.problems(severities=severities, allow=allow)
    shown = [replace(one, file=str(file.path)) if one.file == inside else one for one in found]
    return [*shown, *(_left_out(file, one.name) for one in file.compositions if not registry.holds(one))]


def _left_out(file: PythonFile, name: str) -> Problem:
    problem = Problem(
        code="NotRegistered",
        severity="warning",
        message=f"composition {name!r} stands in the file and is not in its registry",
        value=name,
        expected="a tool of the registry with it as spec",
    )
    return file.placed(problem)
