"""`openapi.json`: the API of compositions in OpenAPI 3.1, made of the tables that the door goes by."""

from __future__ import annotations

from typing import Any, Final

from weft.doors.composition_routes import BASE, JSON, ROUTES, Answer, Parameter, Route
from weft.doors.openapi_schemas import SCHEMAS, ref

PROBLEM: Final = "application/problem+json"

_ALWAYS: Final = (400, 401, 405, 429, 503)
_WITH_BODY: Final = (413, 415)
_HEADERS: Final = {
    "location": "Where it is.",
    "etag": "Which version it is, for `If-Match`.",
}
_ABOUT: Final = {
    400: "The request is not one: its JSON, its shape, or a parameter.",
    401: "The caller has not proven who it is.",
    403: "The caller may not do this.",
    404: "There is none, for this caller.",
    405: "The path does not have this method; `Allow` says which it has.",
    409: "It cannot be done to what there is.",
    412: "It was changed meanwhile.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    422: "The request is well-formed, and what it holds cannot be taken; `errors` say why.",
    429: "Too many requests, or too many calls.",
    503: "Not now; `Retry-After` says when.",
}


def openapi() -> dict[str, Any]:
    """Return the description."""
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(f"/{route.path}", {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "weft compositions",
            "version": "1",
            "description": "Templates of workflows, running them, and what became of their runs.",
        },
        "servers": [{"url": BASE}],
        "paths": paths,
        "components": {
            "schemas": dict(SCHEMAS),
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
        },
        # Where anybody may call, nobody needs to prove anything.
        "security": [{}, {"bearer": []}, {"key": []}],
    }


def _operation(route: Route) -> dict[str, Any]:
    body, right = () if route.body is None else _WITH_BODY, () if route.tool is None else (403,)
    statuses = sorted({*_ALWAYS, *route.problems, *body, *right})
    told: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.about,
        "responses": {
            **{str(status): _answer(answer) for status, answer in route.answers.items()},
            **{str(status): _problem(_ABOUT[status]) for status in statuses},
            "default": _problem("Any other error."),
        },
    }
    named = [part[1:-1] for part in route.parts if part.startswith("{")]
    parameters = [
        *({"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in named),
        *(_parameter(one, "query") for one in route.query),
        *(_parameter(one, "header") for one in route.headers),
    ]
    if parameters:
        told["parameters"] = parameters
    if route.body is not None:
        told["requestBody"] = {"required": True, "content": {JSON: {"schema": ref(route.body)}}}
    return told


def _parameter(given: Parameter, place: str) -> dict[str, Any]:
    return {"name": given.name, "in": place, "description": given.about, "schema": dict(given.schema)}


def _answer(answer: Answer) -> dict[str, Any]:
    told: dict[str, Any] = {"description": answer.about}
    if answer.schema is not None:
        told["content"] = {answer.media: {"schema": ref(answer.schema)}}
    if answer.headers:
        told["headers"] = {
            name: {"description": _HEADERS[name], "required": True, "schema": {"type": "string"}}
            for name in answer.headers
        }
    return told


def _problem(about: str) -> dict[str, Any]:
    return {"description": about, "content": {PROBLEM: {"schema": ref("Problem")}}}
