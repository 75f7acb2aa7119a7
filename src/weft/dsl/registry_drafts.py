"""Drafts: the JSON of one entity of a registry in Python, checked at the line that writes it."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic.alias_generators import to_camel

from weft.errors import DocumentInvalid, ExpressionInvalid, Problem, errors_in, json_pointer, shown
from weft.expr.types import plain
from weft.ir.normalise import parse
from weft.ir.read import read

HERE = str(Path(__file__).parent)
# These are told once all entities are there: what an entity refers to may be written after it.
BETWEEN_ENTITIES = frozenset({"UnknownRef", "AmbiguousRef"})


class Draft:
    """One entity as JSON, and the line that wrote it. Each change is checked as a file with it would be."""

    def __init__(self, section: str, index: int, entry: Mapping[str, Any]) -> None:
        self.section = section
        self.index = index
        self.place = author()
        self.entry = self._checked(entry)

    @property
    def name(self) -> str:
        """The name of the entity."""
        return str(self.entry["name"])

    @property
    def version(self) -> str:
        """The exact version of the entity."""
        return str(self.entry["version"])

    def change(self, **fields: Any) -> None:
        """Put other values into fields.

        Raises:
            DocumentInvalid: with every problem of the entity; it stays as it was.
        """
        self.entry = self._checked({**self.entry, **camel(fields)})

    def _checked(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return the entity as canonical JSON."""
        text = json.dumps({"schemaVersion": "2.0", self.section: [self._plain(entry)]})
        parsed = parse(read(text, format="json"))
        wrong = [one for one in errors_in(parsed.problems) if one.code not in BETWEEN_ENTITIES]
        if wrong:
            raise DocumentInvalid([self._moved(one) for one in wrong])
        return parsed.document.listed(self.section)[0].to_ir()

    def _plain(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for key, value in entry.items():
            try:
                out[key] = plain(value)
            except ExpressionInvalid as error:
                loc = (self.section, self.index, key)
                wrong = Problem(
                    code="NotJson", message=error.message, loc=loc, pointer=json_pointer(loc), value=shown(value),
                    expected="a JSON value",
                )  # fmt: skip
                raise DocumentInvalid([wrong]) from None
        return out

    def _moved(self, problem: Problem) -> Problem:
        """Return a problem of the entity alone at its place in the registry; the file and line are the author's."""
        loc = (self.section, self.index, *problem.loc[2:])
        return replace(problem, loc=loc, pointer=json_pointer(loc), file=None, line=None, column=None)


def camel(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that were given, under the keys of documents."""
    return {to_camel(name): value for name, value in fields.items() if value is not None}


def author() -> tuple[str, int] | None:
    """Return the file and line that called the builder."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(HERE):
        frame = frame.f_back
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno)
