"""The HTTP API of compositions as tables: what the door answers to, and what `openapi.json` says of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, get_args

from weft.workflows.recorded import STATUSES
from weft.workflows.runs import MOST
from weft.workflows.template import Category

BASE: Final = "/api/v1/compositions"
JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"
LAST_EVENT: Final = "last-event-id"
IF_MATCH: Final = "if-match"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter of the query, or a header; `schema` has what it may be."""

    name: str
    about: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer that is no error: the schema of its body, and the headers that it has."""

    about: str
    schema: str | None = None
    media: str = JSON
    headers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One method of one path below BASE; `problems` are the statuses of errors that only some routes have.

    `tool` is the one that does the same for models, whose right it takes; what only looks at runs, or ends one, is not
    counted as its call.
    """

    name: str
    method: str
    path: str
    about: str
    answers: Mapping[int, Answer]
    query: tuple[Parameter, ...] = ()
    headers: tuple[Parameter, ...] = ()
    body: str | None = None
    problems: tuple[int, ...] = ()
    tool: str | None = None
    counts: bool = True

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of its path; those in braces stand for a name."""
        return tuple(self.path.split("/"))


def _text(name: str, about: str, **schema: Any) -> Parameter:
    return Parameter(name=name, about=about, schema={"type": "string", "minLength": 1, "maxLength": 200, **schema})


_CHOICE: Final = (
    _text("category", "Only those of a category.", enum=list(get_args(Category))),
    _text("tag", "Only those with this tag."),
    _text("search", "Only those with all of these words in id, name, description or tags."),
)
_PAGE: Final = (
    _text("template", "Only runs of this template."),
    _text("status", "Only runs of this status.", enum=list(STATUSES)),
    Parameter(
        name="limit", about="How many, 50 unless given.", schema={"type": "integer", "minimum": 1, "maximum": MOST}
    ),
    _text("before", "Where to go on: the `next` of the page before.", pattern="^[0-9]{1,7}-[0-9]{1,18}$"),
)
_MATCH: Final = Parameter(
    name=IF_MATCH, about="Only if the template still has this `ETag`.", schema={"type": "string", "minLength": 1}
)
_RESUME: Final = Parameter(
    name=LAST_EVENT, about="Go on after this event.", schema={"type": "string", "pattern": "^([0-9]{1,15}|end)$"}
)

ROUTES: Final = (
    Route(
        name="listTemplates",
        method="GET",
        path="templates",
        about="The templates that the caller sees, without their documents.",
        tool="composition_list_templates",
        query=_CHOICE,
        answers={200: Answer(about="The templates, by id.", schema="Templates")},
    ),
    Route(
        name="createTemplate",
        method="POST",
        path="templates",
        about="Keep a new template.",
        tool="composition_create_template",
        body="NewTemplate",
        answers={201: Answer(about="It is kept.", schema="Template", headers=("location", "etag"))},
        problems=(409, 422),
    ),
    Route(
        name="getTemplate",
        method="GET",
        path="templates/{id}",
        about="A template with its document, and which tools it lacks here.",
        tool="composition_get_template",
        answers={200: Answer(about="The template.", schema="Template")},
        problems=(404,),
    ),
    Route(
        name="replaceTemplate",
        method="PUT",
        path="templates/{id}",
        about="Put another in its place.",
        tool="composition_create_template",
        headers=(_MATCH,),
        body="ReplacedTemplate",
        answers={200: Answer(about="It is replaced.", schema="Template", headers=("etag",))},
        problems=(404, 409, 412, 422),
    ),
    Route(
        name="deleteTemplate",
        method="DELETE",
        path="templates/{id}",
        about="Forget a template and its statistics.",
        tool="composition_delete_template",
        headers=(_MATCH,),
        answers={204: Answer(about="It is gone.")},
        problems=(404, 409, 412),
    ),
    Route(
        name="getTemplateStats",
        method="GET",
        path="templates/{id}/stats",
        about="What the runs of a template tell, and what they suggest.",
        tool="composition_get_template",
        answers={200: Answer(about="Counts, durations, and suggestions.", schema="Statistics")},
        problems=(404,),
    ),
    Route(
        name="execute",
        method="POST",
        path="execute",
        about="Run a template or a document, or tell what would be done.",
        tool="composition_execute",
        body="Request",
        answers={
            200: Answer(about="It ran, well or not; or, of a dry run, the plan.", schema="Outcome"),
            202: Answer(about="It runs: nobody is to wait.", schema="Begun", headers=("location",)),
        },
        problems=(404, 422),
    ),
    Route(
        name="validate",
        method="POST",
        path="validate",
        about="Tell whether a template or a document can run for the caller.",
        tool="composition_validate",
        body="Checked",
        answers={200: Answer(about="Whether it can, and why not.", schema="Validity")},
        problems=(404,),
    ),
    Route(
        name="listRuns",
        method="GET",
        path="runs",
        about="The newest runs of the caller's tenant, a page of them.",
        tool="composition_execute",
        counts=False,
        query=_PAGE,
        answers={200: Answer(about="The runs, and where to go on.", schema="Runs")},
    ),
    Route(
        name="getRun",
        method="GET",
        path="runs/{id}",
        about="A run with its steps.",
        tool="composition_execute",
        counts=False,
        answers={200: Answer(about="The run.", schema="Run")},
        problems=(404,),
    ),
    Route(
        name="cancelRun",
        method="POST",
        path="runs/{id}/cancel",
        about="End a run that the caller began, and wait until it has ended.",
        tool="composition_execute",
        counts=False,
        answers={200: Answer(about="The run as it ended.", schema="Run")},
        problems=(404, 409),
    ),
    Route(
        name="followRun",
        method="GET",
        path="runs/{id}/events",
        about="What happens in a run, as it happens: server-sent events, until `run_ended`.",
        tool="composition_execute",
        counts=False,
        headers=(_RESUME,),
        answers={
            200: Answer(about="The events.", schema="Events", media=EVENTS),
            204: Answer(about="The end was told already; there is no more."),
        },
        problems=(404,),
    ),
    Route(
        name="getOpenapi",
        method="GET",
        path="openapi.json",
        about="This description.",
        answers={200: Answer(about="OpenAPI 3.1.", schema="Anything")},
    ),
)


def found(parts: tuple[str, ...]) -> tuple[dict[str, Route], dict[str, str]]:
    """Return the routes at a path by their method, and the names that stand in it."""
    for route in ROUTES:
        names = _names(route.parts, parts)
        if names is not None:
            return {one.method: one for one in ROUTES if one.path == route.path}, names
    return {}, {}


def _names(wanted: tuple[str, ...], parts: tuple[str, ...]) -> dict[str, str] | None:
    if len(wanted) != len(parts):
        return None
    names: dict[str, str] = {}
    for want, part in zip(wanted, parts, strict=True):
        if want.startswith("{") and part:
            names[want[1:-1]] = part
        elif want != part:
            return None
    return names
