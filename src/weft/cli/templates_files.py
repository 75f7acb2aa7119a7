"""Templates and workflow documents in files."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.cli.files import know_patterns
from weft.errors import DocumentInvalid, InputError, Loc, Problem
from weft.ports import is_object

if TYPE_CHECKING:
    from weft.ir.read import Source

SUFFIXES = (".json", ".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class Found:
    """A workflow document in a file; `at` is where it stands there."""

    source: Source
    body: dict[str, Any]
    at: Loc

    @property
    def id(self) -> str:
        """The id of a template."""
        return str(self.body.get("id"))

    @property
    def composition(self) -> Any:
        """The workflow document."""
        return self.body["composition"]

    @contextmanager
    def placing(self) -> Generator[None]:
        """Tell of problems in the document by file and line."""
        try:
            yield
        except DocumentInvalid as error:
            told = DocumentInvalid([*map(self._placed, error.problems)])
            told.code = error.code
            raise told from None

    def _placed(self, problem: Problem) -> Problem:
        from weft.ir.reading import placed

        if problem.loc[:1] == ("composition",):
            problem = replace(problem, loc=(*self.at, *problem.loc[1:]))
        elif problem.loc[:1] in (("input",), ("options",)):
            return problem
        return placed(problem, self.source)


def is_file(given: str) -> bool:
    """Tell whether somebody means a file, not the id of a template."""
    return given.lower().endswith(SUFFIXES) or "/" in given


def template_in(path: Path, *, id: str | None, category: str | None) -> Found:
    """Return the template in a file; a bare workflow document becomes one, under an id.

    Raises:
        InputError: it is neither, or the id or category of a document is not told.
    """
    found = document_in(path)
    if not found.at:
        if id is None or category is None:
            told = f"{path} is a workflow document, not a template"
            raise InputError(
                told, code="NoId", hint="say as what to keep it: --id my-workflow-v1 --category automation"
            )
        composition: dict[str, Any] = found.composition
        body: dict[str, Any] = {
            "id": id,
            "name": composition.get("title") or composition["name"],
            "composition": composition,
            "metadata": {"category": category},
        }
        if composition.get("description"):
            body["description"] = composition["description"]
        return Found(found.source, body, ())
    if category is not None:
        raise InputError("--category is for workflow documents: a template has its own", code="GivenTwice")
    return found if id is None else Found(found.source, {**found.body, "id": id}, found.at)


def document_in(path: Path) -> Found:
    """Return the workflow document in a file: its own, or that of a template.

    Raises:
        InputError: there is none.
    """
    from weft.ir.normalise import is_workflow
    from weft.ir.read import read_file

    know_patterns()
    source = read_file(path)
    value: Any = source.value
    if is_workflow(value):
        named = value if value.get("name") is not None else {**value, "name": path.stem}
        return Found(source, {"composition": named}, ())
    if is_object(value) and "composition" in value:
        return Found(source, value, ("composition",))
    hint = (
        "a document has steps, a template has a composition; `weft run TOOL --registry FILE` runs a tool of a registry"
    )
    raise InputError(f"{path} is neither a workflow document nor a template", code="NoWorkflow", hint=hint)
