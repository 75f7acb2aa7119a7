"""The schemas of `openapi.json`: bodies, results, and problems."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, get_args

from weft.gateway.asked import STRATEGIES
from weft.patterns.workflow_plan import StepStatus
from weft.patterns.workflow_steps import MOST_AT_ONCE
from weft.workflows.learning import Kind
from weft.workflows.recorded import ENDED, STATUSES
from weft.workflows.template import Category

Schema = Mapping[str, Any]

TEXT: Final[Schema] = {"type": "string"}
NUMBER: Final[Schema] = {"type": "number"}
COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
FLAG: Final[Schema] = {"type": "boolean"}
OBJECT: Final[Schema] = {"type": "object"}
LABEL: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": 200}
EVENTS: Final = ("run_started", "step_started", "step_retried", "step_ended", "run_ended")
COUNTS: Final[Schema] = {"type": "object", "additionalProperties": COUNT}


def ref(name: str) -> Schema:
    """Return a reference to one of the schemas."""
    return {"$ref": f"#/components/schemas/{name}"}


def _list(items: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": items, **more}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _object(*required: str, **properties: Schema) -> Schema:
    return {"type": "object", "required": list(required), "properties": properties}


def _closed(schema: Schema) -> Schema:
    return {**schema, "additionalProperties": False}


_ID: Final[Schema] = {"type": "string", "pattern": "^[a-z0-9][a-z0-9-]{0,63}$"}
_METADATA: Final[Mapping[str, Schema]] = {
    "category": {"enum": list(get_args(Category))},
    "tags": _or_null(_list(LABEL, maxItems=32)),
    "estimated_duration_ms": _or_null({"type": "integer", "minimum": 0, "maximum": 24 * 3600 * 1000}),
    "author": _or_null(LABEL),
    "success_rate": _or_null({"type": "number", "minimum": 0, "maximum": 1}),
    "usage_count": _or_null(COUNT),
}
_TEMPLATE: Final[Mapping[str, Schema]] = {
    "id": _ID,
    "name": LABEL,
    "description": _or_null({"type": "string", "maxLength": 4000}),
    "metadata": _object("category", **_METADATA),
    "validation": _or_null(_object(required_tools=_or_null(_list(LABEL, maxItems=1000)), min_version=_or_null(TEXT))),
    "servers": _or_null({"type": "object", "maxProperties": 1000, "additionalProperties": LABEL}),
}
_KEPT: Final[Mapping[str, Schema]] = {**_TEMPLATE, "composition": ref("Composition"), "example_input": _or_null(OBJECT)}
_ORIGIN: Final[Mapping[str, Schema]] = {
    "built_in": FLAG,
    "created": _or_null(NUMBER),
    "updated": _or_null(NUMBER),
}
_OPTIONS: Final[Mapping[str, Schema]] = {
    "timeout": {
        "description": 'A duration such as "30s", or nanoseconds.',
        "anyOf": [TEXT, {"type": "integer", "minimum": 1_000_000, "maximum": 24 * 3600 * 10**9}, {"type": "null"}],
    },
    "max_concurrency": _or_null({"type": "integer", "minimum": 1, "maximum": MOST_AT_ONCE}),
    "error_strategy": _or_null({"enum": list(STRATEGIES)}),
    "dry_run": _or_null(FLAG),
    "wait": _or_null(FLAG),
}
_WHAT: Final[Mapping[str, Schema]] = {
    "template_id": _or_null(TEXT),
    "composition": _or_null(ref("Composition")),
    "input": _or_null(OBJECT),
    "options": _or_null(_closed(_object(**_OPTIONS))),
}
_STEP: Final[Mapping[str, Schema]] = {
    "id": TEXT,
    "status": {"enum": list(get_args(StepStatus))},
    "started_ms": NUMBER,
    "duration_ms": NUMBER,
    "attempts": COUNT,
}
_RUN: Final[Mapping[str, Schema]] = {
    "run_id": TEXT,
    "template": _or_null(TEXT),
    "name": TEXT,
    "tenant": TEXT,
    "principal": TEXT,
    "status": {"enum": list(STATUSES)},
    "started": {"type": "number", "description": "Seconds since 1970."},
    "duration_ms": _or_null(NUMBER),
    "input_bytes": COUNT,
    "error": _or_null(TEXT),
    "step_counts": COUNTS,
}
_RUN_HAS: Final = tuple(name for name in _RUN if name != "step_counts")
_DURATIONS: Final = _or_null(_object("count", "p50", "p95", "max", count=COUNT, p50=NUMBER, p95=NUMBER, max=NUMBER))
_FIGURES: Final[Mapping[str, Schema]] = {
    "usage_count": COUNT,
    "successes": COUNT,
    "failures": COUNTS,
    "duration_ms": _DURATIONS,
}
_SUGGESTION: Final = _object("kind", "why", kind={"enum": list(get_args(Kind))}, step=_or_null(TEXT), why=TEXT)
_ERROR: Final = _object("step", "code", "message", step=_or_null(TEXT), code=TEXT, message=TEXT)
_RESULT: Final[Mapping[str, Schema]] = {
    "success": FLAG,
    "status": {"enum": list(ENDED)},
    "results": OBJECT,
    "output": {},
    "errors": _list(_ERROR),
    "warnings": _list(TEXT),
    "duration": {"type": "string", "description": "As Go writes it."},
    "duration_ms": NUMBER,
    "steps_executed": COUNT,
    "steps": _list(_object("id", "status", **_STEP)),
    "run_id": TEXT,
    "trace_id": TEXT,
}
_PLANNED: Final = _object("id", "level", "waits_for", "parameters", id=TEXT, level=COUNT, waits_for=_list(TEXT))
_PLAN: Final[Mapping[str, Schema]] = {
    "steps": _list(_PLANNED),
    "order": _list(TEXT),
    "levels": _list(_list(TEXT)),
    "concurrency": COUNT,
    "max_concurrency": COUNT,
    "error_strategy": {"enum": list(STRATEGIES)},
    "rolls_back": FLAG,
    "durable": FLAG,
}

SCHEMAS: Final[Mapping[str, Schema]] = {
    "Anything": {},
    "Events": {
        "description": "One event of the stream: `run_started`, `step_started`, `step_retried`, `step_ended`, each "
        "with the step as JSON, and last `run_ended` with the run. The id of the last one is `end`.",
        **_object("id", "event", "data", id=TEXT, event={"enum": list(EVENTS)}, data=TEXT),
    },
    "Composition": {
        "type": "object",
        "description": "A workflow document, in snake_case or camelCase; the guide to workflows has all of it.",
        "required": ["steps"],
        "properties": {
            "name": _or_null(TEXT),
            "description": _or_null(TEXT),
            "version": _or_null(TEXT),
            "steps": _list(OBJECT, minItems=1),
        },
    },
    "Card": _object("id", "name", "metadata", "built_in", **_TEMPLATE, **_ORIGIN),
    "Templates": _object("templates", templates=_list(ref("Card"))),
    "Template": _object(
        *("id", "name", "metadata", "composition", "built_in"),
        **_KEPT,
        **_ORIGIN,
        etag=TEXT,
        missing_tools=_list(TEXT),
    ),
    "NewTemplate": _object("id", "name", "composition", "metadata", **_KEPT),
    "ReplacedTemplate": _object("name", "composition", "metadata", **_KEPT),
    "Request": {
        "description": "With `template_id` or `composition`; `options` override the document.",
        **_closed(_object(**_WHAT)),
    },
    "Checked": {
        "type": "object",
        "description": "A `Request`, of which input and options are not needed, or a `Composition` itself; whatever "
        "else is sent is not valid, and told so.",
    },
    "Validity": _object(
        *("valid", "errors", "warnings"), valid=FLAG, errors=_list(ref("Finding")), warnings=_list(ref("Finding"))
    ),
    "Outcome": {"anyOf": [ref("Result"), ref("Plan")]},
    "Result": _object(*_RESULT, **_RESULT),
    "Plan": _object("dry_run", "plan", dry_run={"const": True}, plan=_object(*_PLAN, **_PLAN)),
    "Begun": _object("run_id", "status", run_id=TEXT, status={"const": "running"}),
    "Runs": _object("runs", "next", runs=_list(_object(*_RUN_HAS, **_RUN)), next=_or_null(TEXT)),
    "Run": _object(*_RUN_HAS, "steps", **_RUN, steps=_list(_object("id", "status", **_STEP, error=TEXT))),
    "Statistics": _object(
        *("template", *_FIGURES, "success_rate", "statuses", "last_run", "steps", "suggestions"),
        **_FIGURES,
        template=TEXT,
        success_rate=_or_null(NUMBER),
        statuses=COUNTS,
        last_run=_or_null(_object("started", "run_id", "status", started=NUMBER, run_id=TEXT, status=TEXT)),
        steps={"type": "object", "additionalProperties": _object(*_FIGURES, **_FIGURES, attempts=COUNT)},
        suggestions=_list(_SUGGESTION),
    ),
    "Finding": _object(
        *("severity", "code", "pointer", "message"),
        severity={"enum": ["error", "warning"]},
        code=TEXT,
        pointer={"type": "string", "description": "A JSON Pointer into what was sent."},
        message=TEXT,
        value=TEXT,
        expected=TEXT,
        suggestion=TEXT,
        line=COUNT,
        column=COUNT,
    ),
    "Problem": _object(
        *("type", "title", "status", "detail", "code"),
        type=TEXT,
        title=TEXT,
        status={"type": "integer", "minimum": 400, "maximum": 599},
        detail=TEXT,
        code=TEXT,
        hint=TEXT,
        errors=_list(ref("Finding")),
    ),
}
