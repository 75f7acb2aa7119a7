"""The section about middleware: what is wrong in it is told with its place and the nearest name."""

from __future__ import annotations

from pathlib import Path

import jsonschema_rs
import pytest
import yaml

from tests.config.written import loaded, refused
from weft.config.schema import json_schema

ALL = """
middleware:
  - {use: logged}
  - {use: timed, tools: ["search_*"]}
  - {use: rateLimited, tools: [pay], perSecond: 0.5, burst: 10, by: tool}
  - {use: redacted, fields: [email], patterns: ['\\d{16}'], keep: [token], arguments: true}
  - {use: onlyFor, scopes: [read], agents: ["desk*"], tenants: [acme], subjects: [ann], when: "arguments.n < 3"}
  - {use: "own.checks:Audit.layer", with: {key: "${env:KEY}", deep: [{a: "${env:KEY}"}], n: 3}}
"""


def test_everything_can_be_written_and_fits_the_schema(tmp_path: Path):
    config = loaded(tmp_path, ALL, {"KEY": "s3cret"})
    logged, timed, limited, redacted, only, own = config.middleware
    assert (logged.use, logged.tools, timed.tools) == ("logged", ("*",), ("search_*",))
    assert (limited.per_second, limited.burst, limited.by) == (0.5, 10, "tool")
    assert (redacted.fields, redacted.patterns, redacted.arguments) == (("email",), (r"\d{16}",), True)
    assert (only.scopes, only.agents, only.when) == (("read",), ("desk*",), "arguments.n < 3")
    assert own.given == {"key": "s3cret", "deep": [{"a": "s3cret"}], "n": 3}
    validator = jsonschema_rs.validator_for(json_schema())
    assert list(validator.iter_errors(yaml.safe_load(ALL))) == []
    assert not validator.is_valid({"middleware": [{"use": "logd"}]})


def test_what_own_middleware_is_given_is_shown_as_it_was_written(tmp_path: Path):
    shown = loaded(tmp_path, ALL, {"KEY": "s3cret"}).shown()["middleware"][-1]
    assert shown["with"] == {"key": "${env:KEY}", "deep": [{"a": "${env:KEY}"}], "n": 3}


def test_a_secret_of_own_middleware_may_be_in_a_file_and_not_in_the_text(tmp_path: Path):
    (tmp_path / "token").write_text("s3cret\n")
    config = loaded(tmp_path, "middleware: [{use: 'm:f', with: {key: 'file:token', password: hunter22}}]")
    assert config.middleware[0].given == {"key": "s3cret", "password": "hunter22"}
    assert [(one.code, one.pointer) for one in config.problems] == [("LiteralSecret", "/middleware/0/with/password")]
    assert "hunter22" not in str(config.shown())


def test_a_rate_may_come_from_the_environment(tmp_path: Path):
    text = "middleware: [{use: rateLimited, perSecond: '${env:RATE}', burst: '${env:BURST}'}]"
    rule = loaded(tmp_path, text, {"RATE": "2.5", "BURST": "4"}).middleware[0]
    assert (rule.per_second, rule.burst) == (2.5, 4)


@pytest.mark.parametrize(
    ("rule", "code", "place", "words"),
    [
        ("{use: rate_limited, perSecond: 1}", "UnknownMiddleware", "/use", ["'rate_limited'", "'rateLimited'?"]),
        ("{use: loged}", "UnknownMiddleware", "/use", ["there is no middleware 'loged'", "'logged'?"]),
        ("{use: 'my-module:f'}", "UnknownMiddleware", "/use", ["my_module:my_middleware"]),
        ("{use: 3}", "WrongType", "/use", ["a number"]),
        ("{tools: [a]}", "MissingKey", "", ["'use'"]),
        ("{use: logged, tool: [a]}", "UnknownKey", "/tool", ["'tools'?"]),
        ("{use: logged, burst: 3}", "WrongKey", "/burst", ["logged has no 'burst'", "rateLimited"]),
        ("{use: timed, with: {}}", "WrongKey", "/with", ["a function of your own"]),
        ("{use: 'm:f', fields: [a]}", "WrongKey", "/fields", ["m:f has no 'fields'"]),
        ("{use: rateLimited}", "MissingKey", "", ["perSecond"]),
        (
            "{use: rateLimited, perSecond: 0}",
            "WrongValue",
            "/perSecond",
            ["0 calls a second", "from 0.000001 to 1000000"],
        ),
        ("{use: rateLimited, perSecond: 5.0e-324}", "WrongValue", "/perSecond", ["a number from 0.000001"]),
        ("{use: rateLimited, perSecond: 2000000}", "WrongValue", "/perSecond", ["to 1000000"]),
        ("{use: rateLimited, perSecond: fast}", "WrongType", "/perSecond", ["number"]),
        ("{use: rateLimited, perSecond: 1, by: agent}", "WrongValue", "/by", ["'caller'"]),
        ("{use: redacted, patterns: ['(']}", "InvalidPattern", "/patterns/0", ["regular expression"]),
        ("{use: redacted, patterns: ['\\b']}", "InvalidPattern", "/patterns/0", ["fits the empty text"]),
        ("{use: redacted, patterns: ['x', '(?=key)']}", "InvalidPattern", "/patterns/1", ["fits the empty text"]),
        ("{use: redacted, fields: [a, '']}", "WrongValue", "/fields/1", ["the name is empty"]),
        ("{use: redacted, keep: [' ']}", "WrongValue", "/keep/0", ["the name is empty"]),
        ("{use: onlyFor, scopes: ['']}", "WrongValue", "/scopes/0", ["the name is empty"]),
        ("{use: logged, tools: []}", "WrongValue", "/tools", ["it is for no tools", "at least one glob"]),
        ("{use: logged, tools: refund}", "WrongType", "/tools", ["a valid list"]),
        ("{use: onlyFor}", "MissingKey", "", ["everybody", "scopes"]),
        ("{use: onlyFor, scopes: []}", "MissingKey", "", ["everybody"]),
        ("{use: onlyFor, when: principal.name == 'x'}", "CelUnknownName", "/when", ["principal has no 'name'"]),
        ("{use: onlyFor, when: server.name == 'x'}", "CelUnknownName", "/when", ["server"]),
        ("{use: 'm:f', with: [1]}", "WrongType", "/with", ["dictionary"]),
        ("logged", "WrongType", "", ["'logged' is not an object"]),
    ],
)
def test_what_is_wrong_is_told_with_its_place(rule: str, code: str, place: str, words: list[str], tmp_path: Path):
    (problem,) = refused(tmp_path, f"middleware:\n  - {{use: logged}}\n  - {rule}\n")
    assert (problem.code, problem.pointer, problem.line) == (code, f"/middleware/1{place}", 3)
    assert all(word in str(problem) for word in words), str(problem)


def test_all_that_is_wrong_is_told_in_one_run(tmp_path: Path):
    text = "middleware: [{use: loged}, {use: rateLimited, fields: [a]}, {use: onlyFor, scope: [a]}]"
    told = {(one.pointer, one.code) for one in refused(tmp_path, text)}
    assert told == {
        ("/middleware/0/use", "UnknownMiddleware"),
        ("/middleware/1", "MissingKey"),
        ("/middleware/1/fields", "WrongKey"),
        ("/middleware/2", "MissingKey"),
        ("/middleware/2/scope", "UnknownKey"),
    }
