"""`openapi.json` is true: it has every route, and whatever Schemathesis makes of it is answered as it says."""

from __future__ import annotations

import asyncio
import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args

import jsonschema_rs
import pytest

from tests.doors.composing import ECHO, Api, api, composition, step, template
from weft.doors.composition_routes import BASE, ROUTES
from weft.doors.openapi import openapi
from weft.doors.openapi_schemas import SCHEMAS
from weft.doors.problems import CODES
from weft.gateway.asked import KEYS, OPTIONS
from weft.workflows.template import Category, Metadata, Template, Validation

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "unsupported_method",
    "allow_header_conformance",
)
SECONDS = 100.0


def test_the_description_has_every_route_and_every_schema_that_it_names():
    told = openapi()
    assert {(method.upper(), path[1:]) for path, one in told["paths"].items() for method in one} == {
        (route.method, route.path) for route in ROUTES
    }
    named = {part.split('"')[0] for part in json.dumps(told).split("#/components/schemas/")[1:]}
    assert named == set(SCHEMAS)
    for schema in SCHEMAS.values():
        jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})


def test_the_description_has_the_keys_that_are_read():
    request: dict[str, Any] = SCHEMAS["Request"]["properties"]
    assert tuple(request) == KEYS
    assert tuple(request["options"]["anyOf"][0]["properties"]) == OPTIONS
    kept: dict[str, Any] = SCHEMAS["NewTemplate"]["properties"]
    assert set(kept) == set(Template.model_fields)
    assert set(kept["metadata"]["properties"]) == set(Metadata.model_fields)
    assert set(kept["validation"]["anyOf"][0]["properties"]) == set(Validation.model_fields)
    assert kept["metadata"]["properties"]["category"]["enum"] == list(get_args(Category))


def test_the_reference_has_every_route_and_every_code():
    page = (Path(__file__).parents[2] / "docs/reference/http.md").read_text()
    assert [route for route in ROUTES if f"| `{route.path}` | {route.method} |" not in page] == []
    assert [code for code in CODES if f"`{code}`" not in page and CODES[code] != 400] == []


def with_examples(told: dict[str, Any], run: str) -> dict[str, Any]:
    """Return the description with values that lead somewhere at this gateway."""
    for path, operations in told["paths"].items():
        for operation in operations.values():
            for parameter in operation.get("parameters", ()):
                if parameter["in"] == "path":
                    parameter["example"] = run if path.startswith("/runs") else "mine"
    bodies: dict[str, list[Any]] = {
        "/execute": [
            {"composition": ECHO, "input": {"text": "bees"}},
            {"composition": ECHO, "input": {"text": "bees"}, "options": {"dry_run": True}},
            {"composition": composition(step("a")), "options": {"wait": False}},
            {"composition": composition(step("a", "refuse"))},
            {"template_id": "mine", "input": {"text": "bees"}},
        ],
        "/validate": [{"template_id": "mine"}, ECHO, composition(step("a", "ecko"))],
        "/templates": [template("another")],
    }
    for path, values in bodies.items():
        content = told["paths"][path]["post"]["requestBody"]["content"]["application/json"]
        content["examples"] = {str(at): {"value": value} for at, value in enumerate(values)}
    return told


async def tried(one: Api, file: Path, *arguments: str) -> tuple[int | None, str]:
    """Run Schemathesis, and return how it ended and what it said."""
    url = f"http://127.0.0.1:{one.gate.port}{BASE}"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "schemathesis.cli", "run", str(file), "--url", url, "--seed", "20261115"),
        *("--checks", ",".join(CHECKS), "--request-timeout", "20", "--no-shrink", "--warnings", "off", *arguments),
        cwd=file.parent,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(SECONDS):
            said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode, said.decode()


@pytest.mark.skipif(find_spec("schemathesis") is None, reason="the extra `test` has it")
async def test_whatever_is_made_of_the_description_is_answered_as_it_says(tmp_path: Path):
    async with api(tmp_path) as one:
        await one.post("templates", template(), status=201)
        run = (await one.post("execute", {"template_id": "mine", "input": {"text": "bees"}}))["run_id"]
        file = tmp_path / "openapi.json"
        file.write_text(json.dumps(with_examples(await one.get("openapi.json"), run)))
        code, said = await tried(one, file, "--phases", "examples,coverage,fuzzing", "--max-examples", "25")
        assert code == 0, said[-20_000:]
        assert (await one.gate.ask("GET", "/healthz")).status == 200
