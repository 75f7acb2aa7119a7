"""What the API of compositions is sent and cannot take: each is refused with its status, its code and where."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import pytest_asyncio

from tests.doors.composing import ECHO, Api, api, composition, step, template
from weft.doors.composition_routes import ROUTES

EMPTY: dict[str, Any] = {}


class Bad(NamedTuple):
    """A request, and how it is refused; `pointer` is the place of the first problem."""

    method: str
    path: str
    body: Any
    status: int
    code: str
    pointer: str | None = None
    headers: dict[str, str] = {}


def _changed(**fields: Any) -> dict[str, Any]:
    return {**template("other"), **fields}


WITH_BODY = [(route.method, route.path.replace("{id}", "mine")) for route in ROUTES if route.body is not None]
OLD = {"min_version": "new"}
UNKNOWN = composition(step("a", "ecko"))
CIRCLE = composition(step("a", depends_on=["a"]))
OPTIONS: list[tuple[str, Any]] = [
    ("timeot", "1s"),
    ("timeout", "soon"),
    ("timeout", "0s"),
    ("timeout", "25h"),
    ("timeout", -1),
    ("timeout", 1.5),
    ("timeout", True),
    ("timeout", 10**40),
    ("timeout", []),
    ("max_concurrency", 0),
    ("max_concurrency", 10**9),
    ("max_concurrency", "4"),
    ("max_concurrency", True),
    ("error_strategy", "panic"),
    ("error_strategy", {"a": 1}),
    ("dry_run", "yes"),
    ("wait", 1),
]


def _option(key: str, value: Any) -> Bad:
    asked = {"template_id": "mine", "options": {key: value}}
    return Bad("POST", "execute", asked, 400, "RequestInvalid", f"/options/{key}")


BAD = [
    # Paths and methods.
    Bad("GET", "", None, 404, "NotFound"),
    Bad("GET", "template", None, 404, "NotFound"),
    Bad("GET", "templates/a/b/c", None, 404, "NotFound"),
    Bad("GET", "templates%2Fmine", None, 404, "NotFound"),
    Bad("GET", "templates/..%2F..%2Fruns", None, 404, "NotFound"),
    Bad("GET", "templates/%00%ff", None, 404, "NotFound"),
    *(Bad("PATCH", route.path.replace("{id}", "mine"), None, 405, "MethodNotAllowed") for route in ROUTES),
    Bad("GET", "execute", None, 405, "MethodNotAllowed"),
    Bad("DELETE", "templates", None, 405, "MethodNotAllowed"),
    # Queries.
    Bad("GET", "templates?catgory=analysis", None, 400, "InvalidQuery"),
    Bad("GET", "templates?category=analysys", None, 400, "InvalidQuery"),
    Bad("GET", "templates?tag=a&tag=b", None, 400, "InvalidQuery"),
    Bad("GET", "templates?search=", None, 400, "InvalidQuery"),
    Bad("GET", f"templates?search={'x' * 201}", None, 400, "InvalidQuery"),
    Bad("GET", f"templates?{'&'.join(f'a{at}=1' for at in range(60))}", None, 400, "InvalidQuery"),
    Bad("GET", "templates/mine?x=1", None, 400, "InvalidQuery"),
    Bad("GET", "openapi.json?x=1", None, 400, "InvalidQuery"),
    *(Bad("GET", f"runs?limit={one}", None, 400, "InvalidQuery") for one in ("0", "201", "-1", "1.5", "x", "")),
    Bad("GET", f"runs?limit={'9' * 40}", None, 400, "InvalidQuery"),
    Bad("GET", "runs?status=failing", None, 400, "InvalidQuery"),
    *(Bad("GET", f"runs?before={one}", None, 400, "InvalidQuery") for one in ("x", "1", "1-", "-1-1", "1-%0a")),
    # Bodies that are none, on every route that has one.
    *(
        bad
        for method, path in WITH_BODY
        for bad in (
            Bad(method, path, b"", 400, "EmptyDocument"),
            Bad(method, path, b"{", 400, "InvalidJson"),
            Bad(method, path, b'{"a": 1, "a": 2}', 400, "DuplicateKey", "/a"),
            Bad(method, path, b'{"a": NaN}', 400, "NonFiniteNumber", "/a"),
            Bad(method, path, b'{"a": "\xff"}', 400, "NotUtf8"),
            Bad(method, path, b'{"a": "\\ud800"}', 400, "InvalidUnicode", "/a"),
            Bad(method, path, b"[" * 500 + b"]" * 500, 400, "MaxDepth"),
            Bad(method, path, b"[]", 400, "InvalidRequest"),
            Bad(method, path, b"null", 400, "InvalidRequest"),
            Bad(method, path, b'{"a": "' + b"x" * 5000 + b'"}', 413, "BodyTooLarge"),
            Bad(method, path, EMPTY, 415, "UnsupportedMediaType", None, {"content-type": "text/plain"}),
            Bad(method, path, EMPTY, 415, "UnsupportedMediaType", None, {"content-type": "application/yaml"}),
            Bad(method, path, EMPTY, 415, "UnsupportedMediaType", None, {"content-encoding": "gzip"}),
        )
    ),
    # Templates.
    Bad("POST", "templates", EMPTY, 422, "DocumentInvalid", ""),
    Bad("POST", "templates", _changed(id="No Spaces"), 422, "DocumentInvalid", "/id"),
    Bad("POST", "templates", _changed(name=""), 422, "DocumentInvalid", "/name"),
    Bad("POST", "templates", _changed(metadata={"category": "bees"}), 422, "DocumentInvalid", "/metadata/category"),
    Bad("POST", "templates", _changed(metadata={}), 422, "DocumentInvalid", "/metadata"),
    Bad("POST", "templates", _changed(validation=OLD), 422, "DocumentInvalid", "/validation/min_version"),
    Bad("POST", "templates", _changed(tags=["x"]), 422, "DocumentInvalid", "/tags"),
    Bad("POST", "templates", _changed(composition={}), 422, "DocumentInvalid", "/composition"),
    Bad("POST", "templates", _changed(composition=[]), 422, "DocumentInvalid", "/composition"),
    Bad("POST", "templates", _changed(composition=composition()), 422, "DocumentInvalid", "/composition/steps"),
    Bad("POST", "templates", template(), 409, "TemplateExists"),
    Bad("POST", "templates", template("demo-order-v1"), 409, "TemplateExists"),
    Bad("PUT", "templates/none", template("none"), 404, "NotFound"),
    Bad("PUT", "templates/mine", template("other"), 422, "WrongId"),
    Bad("PUT", "templates/mine", EMPTY, 422, "DocumentInvalid", ""),
    Bad("PUT", "templates/demo-order-v1", template("demo-order-v1"), 409, "TemplateBuiltIn"),
    Bad("DELETE", "templates/demo-order-v1", None, 409, "TemplateBuiltIn"),
    Bad("DELETE", "templates/none", None, 404, "NotFound"),
    Bad("GET", "templates/none/stats", None, 404, "NotFound"),
    *(
        Bad("DELETE", "templates/mine", None, 400, "InvalidETag", None, {"if-match": tag})
        for tag in ("5", "W/5", '"', '"5" "6"x', "W/*")
    ),
    Bad("DELETE", "templates/demo-order-v1", None, 409, "TemplateBuiltIn", None, {"if-match": '"0"'}),
    # Requests to run something.
    Bad("POST", "execute", EMPTY, 400, "RequestInvalid", ""),
    Bad("POST", "execute", {"template_id": "mine", "composition": ECHO}, 400, "RequestInvalid", ""),
    Bad("POST", "execute", {"template_id": 7}, 400, "RequestInvalid", "/template_id"),
    Bad("POST", "execute", {"template": "mine"}, 400, "RequestInvalid", "/template"),
    Bad("POST", "execute", {"template_id": "mine", "input": []}, 400, "RequestInvalid", "/input"),
    Bad("POST", "execute", {"template_id": "mine", "options": []}, 400, "RequestInvalid", "/options"),
    *(_option(key, value) for key, value in OPTIONS),
    Bad("POST", "execute", {"template_id": "none"}, 404, "NotFound"),
    Bad("POST", "execute", {"template_id": "mine"}, 422, "InvalidInput", "/input"),
    Bad("POST", "execute", {"template_id": "mine", "input": {"text": 1}}, 422, "InvalidInput", "/input/text"),
    Bad("POST", "execute", {"composition": "x"}, 422, "DocumentInvalid", "/composition"),
    Bad("POST", "execute", {"composition": UNKNOWN}, 422, "DocumentInvalid", "/composition/steps/0/tool"),
    Bad("POST", "execute", {"composition": CIRCLE}, 422, "DocumentInvalid", "/composition/steps/0/depends_on/0"),
    Bad("POST", "validate", {"template_id": "none"}, 404, "NotFound"),
    # Runs.
    Bad("GET", "runs/none", None, 404, "NotFound"),
    Bad("POST", "runs/none/cancel", None, 404, "NotFound"),
    Bad("GET", "runs/none/events", None, 404, "NotFound"),
    Bad("GET", "runs/none/events", None, 404, "NotFound", None, {"last-event-id": "end"}),
    *(
        Bad("GET", "runs/none/events", None, 400, "InvalidEventId", None, {"last-event-id": id})
        for id in ("x", "-1", "1.5", "9" * 40, "END")
    ),
]  # fmt: skip


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def one(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Api]:
    folder: Path = tmp_path_factory.mktemp("bad")
    async with api(folder, {"limits": {"body": 4096, "depth": 100}}) as made:
        await made.post("templates", template(), status=201)
        yield made


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("bad", BAD, ids=lambda bad: f"{bad.method} {bad.path[:40]} {bad.status} {bad.code}")
async def test_what_cannot_be_taken_is_refused_and_told_why(one: Api, bad: Bad):
    answer = await one.ask(bad.method, bad.path, bad.body, **bad.headers)
    told = answer.json
    assert (answer.status, told["status"], told["code"]) == (bad.status, bad.status, bad.code), told
    assert answer.headers["content-type"] == "application/problem+json"
    assert told["type"] == "about:blank"
    assert told["title"]
    assert told["detail"]
    assert "Traceback" not in answer.body.decode()
    if bad.pointer is not None:
        assert bad.pointer in [problem["pointer"] for problem in told["errors"]], told
        assert all(problem["message"] and problem["severity"] for problem in told["errors"])
    if bad.status == 405:
        there = {route.method for route in ROUTES if route.path.replace("{id}", "mine") == bad.path}
        assert set(answer.headers["allow"].split(", ")) == there
    assert one.up.calls == 0


@pytest.mark.asyncio(loop_scope="module")
async def test_a_problem_names_the_value_what_was_expected_and_what_was_probably_meant(one: Api):
    refused = await one.ask("POST", "execute", {"template_id": "mine", "options": {"error_strategy": "fail-fast"}})
    (found,) = refused.json["errors"]
    assert (found["value"], found["suggestion"]) == ("'fail-fast'", "fail_fast")
    assert "partial_success" in found["expected"]


@pytest.mark.asyncio(loop_scope="module")
async def test_all_problems_of_a_request_come_at_once(one: Api):
    refused = await one.ask("POST", "execute", {"input": [], "options": {"wait": 1, "timeout": "x"}})
    assert [found["pointer"] for found in refused.json["errors"]] == ["", "/input", "/options/wait", "/options/timeout"]
    assert refused.json["detail"].startswith("4 problems, of which the first is ")


@pytest.mark.asyncio(loop_scope="module")
async def test_validate_tells_of_a_request_that_is_none_as_of_any_other(one: Api):
    told = await one.post("validate", {"template_id": "mine", "option": 1})
    assert (told["valid"], told["errors"][0]["suggestion"]) == (False, "options")
