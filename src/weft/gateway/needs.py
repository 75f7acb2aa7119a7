"""What a template says that it needs: tools that are there for its caller, and new enough."""

from __future__ import annotations

from weft.errors import DocumentInvalid, InputError, Loc, Problem, errors_in, json_pointer, shown
from weft.gateway.drafts import Drafts
from weft.ports import Principal
from weft.workflows.steps import tools_of
from weft.workflows.template import Template

TOO_OLD = "ToolTooOld"


def lacking(drafts: Drafts, principal: Principal, template: Template) -> list[Problem]:
    """Return what a template lacks to run for a caller; tools of its own steps are missed where they are called."""
    missing = set(drafts.missing(principal, template.required_tools))
    steps = set(tools_of(template.composition))
    found = [
        _missing(name, index, template.servers.get(name))
        for index, name in enumerate(template.validation.required_tools)
        if name in missing and name not in steps
    ]
    least = template.validation.min_version
    if least is not None:
        there = [name for name in template.required_tools if name not in missing]
        found += [
            _unversioned(name, least) if version is None else _too_old(name, version, least, template.servers.get(name))
            for name, version in drafts.older(principal, there, least)
        ]
    return found


def require(drafts: Drafts, principal: Principal, template: Template) -> None:
    """Make sure that a template has what it needs.

    Raises:
        DocumentInvalid, InputError: it has not.
    """
    wrong = errors_in(lacking(drafts, principal, template))
    missing = [one for one in wrong if one.code != TOO_OLD]
    if missing:
        raise DocumentInvalid(missing)
    if wrong:
        raise InputError(wrong[0].message, code=TOO_OLD)


def _missing(name: str, index: int, server: str | None) -> Problem:
    loc: Loc = ("validation", "required_tools", index)
    return Problem(
        code="UnknownName",
        message=f"Tool not found: {name}" + (f" ({server} would provide it)" if server else ""),
        loc=loc,
        pointer=json_pointer(loc),
        value=shown(name),
        expected=f"a tool of {server}" if server else "a tool that there is for this caller",
    )


def _too_old(name: str, version: str, least: str, server: str | None) -> Problem:
    loc: Loc = ("validation", "min_version")
    return Problem(
        code=TOO_OLD,
        message=f"Tool '{name}' is of version {version}, and the template needs {least}"
        + (f"; {server} provides it" if server else ""),
        loc=loc,
        pointer=json_pointer(loc),
        value=version,
        expected=f"{least} or newer",
    )


def _unversioned(name: str, least: str) -> Problem:
    loc: Loc = ("validation", "min_version")
    return Problem(
        code="VersionNotKnown",
        severity="warning",
        message=f"Tool '{name}' says no version, and the template needs {least}",
        loc=loc,
        pointer=json_pointer(loc),
        value=shown(name),
        expected=f"a tool of version {least} or newer",
    )
