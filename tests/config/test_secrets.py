"""Secrets in weft.yaml: only by reference, never shown."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from weft.config import Secret
from weft.config.secrets import looks_secret

from .written import loaded, refused

CANARY = "canary-5d41402abc"


def server(text: str) -> str:
    return f"servers: {{s: {{url: 'https://h.example/', headers: {{Authorization: \"{text}\"}}}}}}"


def proxies(secrets: str) -> str:
    return f"identity: {{proxies: {{trusted: [unix], secrets: {secrets}}}}}"


def test_a_variable_stands_inside_any_text(tmp_path: Path):
    config = loaded(
        tmp_path,
        "listen: {port: '${env:PORT}'}\nadmin: {enabled: '${env:ADMIN}'}\nnames: {onCollision: '${env:HOW}'}\n"
        "limits: {body: '${env:BODY}'}\nservers: {s: {url: 'https://${env:HOST}/mcp', timeout: '${env:LONG}'}}",
        {"PORT": "80", "ADMIN": "false", "HOW": "error", "HOST": "h.example", "LONG": "5s", "BODY": "1MiB"},
    )
    assert (config.listen.port, config.admin.enabled, config.names.on_collision) == (80, False, "error")
    assert (config.servers["s"].url, config.servers["s"].timeout) == ("https://h.example/mcp", 5)
    assert config.limits.body == 1 << 20


def test_a_variable_may_have_a_default_and_dollars_may_be_meant(tmp_path: Path):
    config = loaded(tmp_path, "servers: {s: {command: [x, '${env:NO:-a b}', '$${env:NO}', $HOME, '${env:NO:-}']}}")
    assert config.servers["s"].argv == ("x", "a b", "${env:NO}", "$HOME", "")


def test_a_missing_variable_is_told_with_its_key_and_the_nearest_name(tmp_path: Path):
    (problem,) = refused(tmp_path, server("Bearer ${env:TOKE}"), {"TOKEN": CANARY})
    assert (problem.code, problem.suggestion) == ("MissingVariable", "TOKEN")
    assert problem.pointer == "/servers/s/headers/Authorization"
    assert "TOKE" in problem.message
    assert CANARY not in str(problem)


@pytest.mark.parametrize("text", ["${enw:A}", "${env:}", "${env:A-B}"])
def test_what_is_no_reference_is_refused(tmp_path: Path, text: str):
    assert len(refused(tmp_path, server(text), {"A": "1"})) == 1


@pytest.mark.parametrize("form", ["file:{}", "file://{}", "file:${{env:DIR}}/token"])
def test_a_file_holds_a_secret_and_its_last_line_end_is_left_out(tmp_path: Path, form: str):
    (tmp_path / "token").write_text(CANARY + "\n")
    config = loaded(tmp_path, server(form.format(tmp_path / "token")), {"DIR": str(tmp_path)})
    assert config.servers["s"].headers["Authorization"] == CANARY


def test_a_file_is_relative_to_the_folder_of_the_settings(tmp_path: Path):
    (tmp_path / "token").write_text(CANARY)
    assert loaded(tmp_path, server("file:token")).servers["s"].headers["Authorization"] == CANARY


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path):
    (tmp_path / "binary").write_bytes(b"\xff")
    assert [one.code for one in refused(tmp_path, server("file:nothing"))] == ["UnreadableSecret"]
    assert "UTF-8" in refused(tmp_path, server("file:binary"))[0].message


def test_a_secret_is_shown_as_it_was_written_and_never_as_it_is(tmp_path: Path):
    config = loaded(tmp_path, server("Bearer ${env:TOKEN}"), {"TOKEN": CANARY})
    value = config.servers["s"].headers["Authorization"]
    assert value == f"Bearer {CANARY}"
    assert config.shown()["servers"]["s"]["headers"] == {"Authorization": "Bearer ${env:TOKEN}"}
    for told in (repr(config), str(config), repr(config.servers), config.model_dump_json(), json.dumps(config.shown())):
        assert CANARY not in told
    again = pickle.loads(pickle.dumps(value))
    assert isinstance(again, Secret)
    assert (again, repr(again)) == (value, "Secret('Bearer ${env:TOKEN}')")


def test_what_is_shown_is_read_again_as_the_same(tmp_path: Path):
    config = loaded(tmp_path, server("Bearer ${env:TOKEN}") + "\nlimits: {timeout: 500ms}", {"TOKEN": CANARY})
    again = loaded(tmp_path, json.dumps(config.shown()), {"TOKEN": CANARY}, name="again.json")
    assert again.shown() == config.shown()
    assert again.servers == config.servers


@pytest.mark.parametrize(
    "text",
    [
        "listen: {port: '${env:TOKEN}'}",
        "names: {onCollision: '${env:TOKEN}'}",
        "servers: {s: {url: '${env:TOKEN}'}}",
        "servers: {s: {command: '${env:TOKEN}'}}",
        "servers: {s: {url: 'https://h/', headers: {A: \"${env:TOKEN}\\n\"}}}",
        "listen: {tls: {cert: '${env:TOKEN}', key: '${env:TOKEN}'}}",
        "listen: '${env:TOKEN}'",
        "views: {v: {include: '${env:TOKEN}'}}",
        "egress: {allow: ['a/${env:TOKEN}/']}",
    ],
)
def test_no_problem_shows_what_a_reference_stands_for(tmp_path: Path, text: str):
    problems = refused(tmp_path, text, {"TOKEN": CANARY})
    assert problems
    assert CANARY not in "".join(f"{one} {one.to_json()}" for one in problems)


@pytest.mark.parametrize(
    "text",
    [
        f"servers: {{s: {{url: 'https://h/', auth: {{clientSecret: {CANARY}}}}}}}",
        f"servers: {{s: {{url: 'https://h/', headers: {CANARY}}}}}",
        f"servers: {{s: {{command: [x], env: [{CANARY}]}}}}",
        "servers: {s: {command: npx x --token ghp_canary5d41402abc5d41402abc}}",
        f"servers: [{{headers: {{Authorization: {CANARY}}}}}]",
        proxies(f"[{CANARY}]"),
        proxies(CANARY),
        proxies(f"{{a: {CANARY}}}"),
        proxies(f"[[{CANARY}]]"),
        proxies(f"[{{a: {CANARY}}}]"),
        f"identity: {{proxies: {{secrets: [{CANARY}]}}}}",
        f"identity: {{proxies: [{{trusted: [unix], secrets: [{CANARY}]}}]}}",
        f"identity: [{{proxies: {{trusted: [unix], secrets: [{CANARY}]}}}}]",
    ],
)
def test_no_problem_shows_a_secret_that_stands_there_as_text(tmp_path: Path, text: str):
    told = "".join(f"{one} {one.to_json()}" for one in refused(tmp_path, text))
    assert "5d41402abc" not in told


def test_a_secret_as_text_is_a_warning_and_is_not_shown(tmp_path: Path):
    config = loaded(
        tmp_path,
        "servers:\n"
        f"  a: {{url: 'https://h/', headers: {{authorization: Bearer {CANARY}, X-Trace: a}}}}\n"
        f"  b: {{command: [x], env: {{API_KEY: {CANARY}, LEVEL: debug}}}}\n"
        "  c: {url: 'https://h/', auth: {tokenUrl: 'https://h/t', clientId: me, clientSecret: " + CANARY + "}}\n"
        "  d: {command: [x, sk-proj-abcdefghijklmnopqrstuv]}\n"
        "stores: {r: {type: redis, url: 'redis://:hunter2@h'}}\n",
    )
    assert [(one.code, one.severity, one.pointer) for one in config.problems] == [
        ("LiteralSecret", "warning", pointer)
        for pointer in (
            "/servers/a/headers/authorization", "/servers/b/env/API_KEY", "/servers/c/auth/clientSecret",
            "/servers/d/command/1", "/stores/r/url",
        )
    ]  # fmt: skip
    told = json.dumps(config.shown()) + "".join(map(str, config.problems))
    assert not {CANARY, "hunter2", "sk-proj"} & {part for part in (CANARY, "hunter2", "sk-proj") if part in told}


@pytest.mark.parametrize("reference", ["${env:SIGNING}", "file:signing"])
def test_a_proxy_s_secret_comes_by_reference_and_is_shown_as_that(tmp_path: Path, reference: str):
    (tmp_path / "signing").write_text(CANARY * 3 + "\n")
    config = loaded(tmp_path, proxies(f"['{reference}']"), {"SIGNING": CANARY * 3})
    assert config.identity.proxies is not None
    assert (config.identity.proxies.secrets, config.problems) == ((CANARY * 3,), ())
    assert config.shown()["identity"]["proxies"]["secrets"] == [reference]
    assert CANARY not in f"{config!r} {config.model_dump_json()}"


def test_a_proxy_s_secret_that_is_too_short_is_told_by_its_reference(tmp_path: Path):
    (problem,) = refused(tmp_path, proxies("['${env:SIGNING}']"), {"SIGNING": CANARY})
    assert (problem.code, problem.pointer) == ("WeakSecret", "/identity/proxies/secrets/0")
    assert CANARY not in f"{problem} {problem.to_json()}"


def test_a_proxy_s_secret_as_text_is_a_warning_and_is_not_shown(tmp_path: Path):
    words = "correct horse battery staple and more"
    config = loaded(tmp_path, proxies(f"[{words}]"))
    assert [(one.code, one.severity, one.pointer) for one in config.problems] == [
        ("LiteralSecret", "warning", "/identity/proxies/secrets/0")
    ]
    assert "file:/path" in str(config.problems[0].expected)
    assert "horse" not in json.dumps(config.shown()) + "".join(map(str, config.problems))


def test_what_is_public_is_shown_though_it_looks_like_a_secret(tmp_path: Path):
    fingerprint, audience = "0123456789abcdef" * 4, "Ab3dEf6hIj9kLm2nOp5qRs8tUv"
    config = loaded(
        tmp_path,
        "identity:\n"
        f"  proxies: {{trusted: [unix], certificates: ['{fingerprint}']}}\n"
        f"  jwt: [{{issuer: a, audience: {audience}, jwks: 'https://i.example/k'}}]\n",
    )
    assert looks_secret(fingerprint)
    assert looks_secret(audience)
    assert config.problems == ()
    shown = config.shown()["identity"]
    assert (shown["proxies"]["certificates"], shown["jwt"][0]["audience"]) == ([fingerprint], [audience])


def test_a_secret_that_would_go_unprotected_is_a_warning(tmp_path: Path):
    text = "servers: {s: {url: 'http://h.example/', headers: {A: '${env:T}'}}}"
    assert [one.code for one in loaded(tmp_path, text, {"T": "1"}).problems] == ["InsecureUrl"]


def test_a_password_in_a_server_s_url_is_refused(tmp_path: Path):
    problems = refused(tmp_path, "servers: {s: {url: 'https://me:hunter2@h/'}}")
    assert "CredentialsInUrl" in {one.code for one in problems}
    assert "hunter2" not in "".join(map(str, problems))


@pytest.mark.parametrize(
    "text",
    ["@modelcontextprotocol/server-everything", "/usr/local/lib/Python3/site-packages/server2", "https://Host1.example/Path2",
     "bees in the city", "search_documents_by_title_and_author", "postgres://localhost:5432/db",
     "2025-06-18T00:00:00Z"],
)  # fmt: skip
def test_ordinary_texts_do_not_look_like_secrets(text: str):
    assert not looks_secret(text)
