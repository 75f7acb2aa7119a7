"""Where a document, as it is written, departs from its canonical form."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from weft.errors import Loc, Problem, shown
from weft.ir.document import LISTS
from weft.ir.including import INCLUDE
from weft.ir.normalise import Parsed, is_workflow, placed, value_at
from weft.ports import is_array, is_object

MOST = 20
TOP = {"1.0": ("schemaVersion", "tools", "groups", INCLUDE), "2.0": ("schemaVersion", *LISTS, INCLUDE)}


def departures(parsed: Parsed) -> list[Problem]:
    """Return the first places that `weft fmt` would write differently."""
    value = parsed.source.value
    if is_workflow(value):
        found = [*_compare(value, bare(parsed.document.to_ir()), ())]
        return [placed(problem, parsed.source) for problem in found[:MOST]]
    found = [*_top(value, TOP[parsed.document.schema_version])]
    for key in LISTS:
        for at, one in zip(parsed.places[key], parsed.document.listed(key), strict=True):
            # What another file has is that file's own matter.
            if at.source is parsed.source:
                found += _compare(value_at(value, at.loc), one.to_ir(), at.loc)
    told = [placed(problem, parsed.source) for problem in found[:MOST]]
    if len(found) > MOST:
        rest = Problem(code="NotCanonical", message=f"{len(found) - MOST} more places are not in canonical form")
        told.append(placed(rest, parsed.source))
    return told


def bare(ir: dict[str, Any]) -> dict[str, Any]:
    """Return a document of one workflow as that workflow, with nothing around it."""
    tool: dict[str, Any] = dict(ir["tools"][0])
    workflow: dict[str, Any] = tool.pop("spec")["workflow"]
    return {**tool, **workflow}


def _top(value: dict[str, Any], top: tuple[str, ...]) -> Iterator[Problem]:
    if "schemaVersion" not in value:
        yield _departure((), "schemaVersion is not written", expected='"1.0"')
    for key in value:
        if key not in top:
            why = "compositions stand among the tools" if key == "compositions" else f"{shown(key)} is not written"
            yield _departure((key,), why, expected=f"only {', '.join(top[:-1])}")


def _compare(written: Any, canonical: Any, loc: Loc) -> Iterator[Problem]:
    if is_object(written) and is_object(canonical):
        yield from _fields(written, canonical, loc)
    elif is_array(written) and is_array(canonical) and len(written) == len(canonical):
        for index, (one, other) in enumerate(zip(written, canonical, strict=True)):
            yield from _compare(one, other, (*loc, index))
    elif isinstance(written, bool) != isinstance(canonical, bool) or written != canonical:
        yield _departure(loc, "written differently", expected=_text(canonical), value=_text(written))


def _fields(written: dict[str, Any], canonical: dict[str, Any], loc: Loc) -> Iterator[Problem]:
    missing = {key: value for key, value in canonical.items() if key not in written}
    for key, value in written.items():
        if key in canonical:
            yield from _compare(value, canonical[key], (*loc, key))
        else:
            instead = f"{_text(missing)} in its place" if missing else "nothing"
            yield _departure((*loc, key), f"{shown(key)} is spelled otherwise or left out", expected=instead)
    if written.keys() <= canonical.keys() and missing:
        yield _departure(loc, f"{', '.join(map(shown, missing))} is not written out", expected=_text(missing))


def _departure(loc: Loc, why: str, *, expected: str, value: str | None = None) -> Problem:
    return Problem(
        code="NotCanonical",
        message=f"not in canonical form: {why}",
        loc=loc,
        value=value,
        expected=f"{expected}, as weft fmt writes it",
    )


def _text(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 100 else text[:97] + "..."
