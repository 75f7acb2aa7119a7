"""weft.yaml: defaults, all problems in one run, and paths."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.config import Config, load_config
from weft.errors import DocumentInvalid

from .written import loaded, refused

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"


def test_an_empty_folder_has_all_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    config = load_config(None, {})
    assert (config.listen.host, config.listen.port, config.admin.port) == ("127.0.0.1", 15000, 15001)
    assert config.registry.optional
    assert config.registry.path == tmp_path / "registry.json"
    assert config.registry.refresh_interval == 300
    assert (config.file, config.servers, config.problems) == (None, {}, ())


def test_the_file_of_the_folder_is_taken_unless_another_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "weft.yaml").write_text("drain: 1s\n")
    (tmp_path / "other.yaml").write_text("drain: 2s\n")
    assert load_config(None, {}).drain == 1
    assert load_config(Path("other.yaml"), {}).drain == 2


def test_a_file_of_comments_is_all_defaults(tmp_path: Path):
    assert loaded(tmp_path, "# drain: 1s\n").drain == Config().drain


def test_a_missing_file_is_told(tmp_path: Path):
    with pytest.raises(DocumentInvalid, match="no such file"):
        load_config(tmp_path / "nothing.yaml", {})


@pytest.mark.req("ALG-53")
def test_the_config_of_the_algebra_seed_loads():
    config = load_config(FIXTURES / "algebra-config.yaml", {})
    assert config.registry.path == Path("/etc/agentgateway/registry.json")
    assert config.registry.refresh_interval == 300


@pytest.mark.req("REG-28", "REG-29")
def test_the_config_of_the_registry_seed_loads_with_its_defaults():
    config = load_config(FIXTURES / "registry-validation-config.yaml", {})
    assert config.registry.path == FIXTURES / "registry.json"
    assert config.registry.validation == Config().registry.validation
    assert config.unused() == []


@pytest.mark.req("STA-1")
def test_the_config_of_the_stateful_seed_loads():
    config = load_config(FIXTURES / "stateful-stores-config.yaml", {})
    assert {name: store.type for name, store in config.stores.items()} == {
        "result_cache": "redis", "circuit_state": "memory", "idempotency_store": "redis",
    }  # fmt: skip
    assert config.unused() == []


def test_what_is_read_and_not_heeded_yet_is_said(tmp_path: Path):
    config = loaded(tmp_path, "telemetry: {otel: {endpoint: 'http://127.0.0.1:4318'}}")
    assert [told.partition(":")[0] for told in config.unused()] == ["telemetry.otel.endpoint"]


@pytest.mark.parametrize("text", ["listen: {publicUrl: 'https://tools.example'}", "limits: {perPrincipal: 8}"])
def test_of_what_is_heeded_nothing_is_said(tmp_path: Path, text: str):
    assert loaded(tmp_path, text).unused() == []


def test_json_is_read_as_well(tmp_path: Path):
    config = loaded(tmp_path, '{"listen": {"port": 1}, "$schema": "weft.schema.json"}', name="weft.json")
    assert config.listen.port == 1


def test_every_problem_is_told_in_one_run_with_its_place(tmp_path: Path):
    problems = refused(
        tmp_path,
        "listen: {prot: 1, port: 70000}\n"
        "names: {onCollision: prefx}\n"
        "limits: {body: 1GB3, timeout: 5, depth: 0}\n"
        "servers:\n"
        "  a b: {command: npx -y foo}\n"
        "  y: {timeout: 0s, env: {A: 1}}\n"
        "  z: {url: 'ftp://h', args: [x], headers: {Host: x}}\n"
        "views: {tools: {include: ['']}}\n",
    )
    told = {(one.line, one.pointer, one.code) for one in problems}
    assert told == {
        (1, "/listen/prot", "UnknownKey"),
        (1, "/listen/port", "WrongValue"),
        (2, "/names/onCollision", "WrongValue"),
        (3, "/limits/body", "SizeInvalid"),
        (3, "/limits/timeout", "DurationInvalid"),
        (3, "/limits/depth", "WrongValue"),
        (5, "/servers/a b", "InvalidName"),
        (5, "/servers/a b/command", "WrongType"),
        (6, "/servers/y", "ExactlyOne"),
        (6, "/servers/y/timeout", "DurationZero"),
        (6, "/servers/y/env/A", "WrongType"),
        (7, "/servers/z/args", "WrongKey"),
        (7, "/servers/z/headers/Host", "InvalidHeader"),
        (7, "/servers/z/url", "InvalidUrl"),
        (8, "/views/tools", "ReservedName"),
        (8, "/views/tools/include/0", "InvalidGlob"),
    }
    assert {one.file for one in problems} == {str(tmp_path / "weft.yaml")}
    assert {one.suggestion for one in problems} == {"port", "prefix", None}


def test_keys_are_spelled_in_one_way(tmp_path: Path):
    (problem,) = refused(tmp_path, "names: {on_collision: error}")
    assert (problem.code, problem.suggestion) == ("UnknownKey", "onCollision")


def test_a_key_that_is_there_twice_is_refused(tmp_path: Path):
    (problem,) = refused(tmp_path, "servers:\n  a: {command: [x]}\n  a: {command: [y]}\n")
    assert (problem.code, problem.line) == ("DuplicateKey", 3)


def test_a_command_in_one_text_is_shown_as_a_list(tmp_path: Path):
    (problem,) = refused(tmp_path, "servers: {a: {command: npx -y some-server}}")
    assert problem.expected == "a list such as [npx, -y, some-server]"


@pytest.mark.req("REG-29")
def test_callers_and_undeclared_tools_may_be_denied(tmp_path: Path):
    text = "registry: {validation: {runtime: {unknownCaller: deny, undeclaredDependency: deny}}}"
    runtime = loaded(tmp_path, text).registry.validation.runtime
    assert (runtime.unknown_caller, runtime.undeclared_dependency) == ("deny", "deny")


@pytest.mark.parametrize(
    ("source", "path"),
    [
        ("file://./r.json", "r.json"),
        ("r.yaml", "r.yaml"),
        ("file:r.json", "r.json"),
        ("file:///etc/r%20.json", "/etc/r .json"),
    ],
)
def test_a_source_that_is_a_file_is_relative_to_the_file_that_names_it(tmp_path: Path, source: str, path: str):
    registry = loaded(tmp_path, f"registry: {{source: '{source}'}}").registry
    assert (registry.path, registry.url, registry.optional) == (tmp_path / path, None, False)


def test_a_source_may_be_a_url_that_is_protected_local_or_allowed(tmp_path: Path):
    assert loaded(tmp_path, "registry: {source: 'https://r.example/r.json'}").registry.url == "https://r.example/r.json"
    assert loaded(tmp_path, "registry: {source: 'http://127.0.0.1:1/r'}").registry.path is None
    (problem,) = refused(tmp_path, "registry: {source: 'http://r.example/r.json'}")
    assert problem.code == "InsecureUrl"
    allowed = "egress: {allow: ['*.example', 10.0.0.0/8]}\nregistry: {source: 'http://r.example/r.json'}"
    assert loaded(tmp_path, allowed).registry.url is not None


def test_paths_are_relative_to_the_folder_of_the_file(tmp_path: Path):
    (tmp_path / "cert.pem").touch()
    config = loaded(
        tmp_path,
        "listen: {tls: {cert: cert.pem, key: ./cert.pem}}\n"
        "servers: {a: {command: [x], cwd: sub}, b: {command: [x]}}\n"
        "stores: {s: {type: sqlite, path: weft.db}}\n",
    )
    assert config.listen.tls is not None
    assert config.listen.tls.cert == tmp_path / "cert.pem"
    assert [server.cwd for server in config.servers.values()] == [tmp_path / "sub", tmp_path]
    assert config.stores["s"].path == tmp_path / "weft.db"


def test_a_certificate_that_is_missing_is_told_where_it_is_named(tmp_path: Path):
    problems = refused(tmp_path, "listen:\n  tls:\n    cert: no.pem\n    key: no.key\n")
    assert [(one.code, one.line) for one in problems] == [("UnreadableFile", 3), ("UnreadableFile", 4)]


def test_two_versions_of_a_server_stand_side_by_side(tmp_path: Path):
    servers = loaded(
        tmp_path, "servers: {s@1.0.0: {command: [a], args: [b]}, s@2.0.0-rc.1: {url: 'http://localhost/'}}"
    ).servers
    old, new = servers.values()
    assert (old.key, old.name, old.version, old.argv) == ("s@1.0.0", "s", "1.0.0", ("a", "b"))
    assert (new.name, new.version, new.argv) == ("s", "2.0.0-rc.1", ())


@pytest.mark.parametrize("key", ["s@1", "s@v1.0.0", "s@^1.0.0", "s@latest", "s@01.0.0", "a/b", "", "s@"])
def test_a_server_s_key_is_a_name_or_a_name_with_an_exact_version(tmp_path: Path, key: str):
    (problem,) = refused(tmp_path, f'servers: {{"{key}": {{command: [x]}}}}')
    assert problem.code in ("InvalidName", "InvalidVersion")


def test_the_admin_listener_stays_on_this_machine(tmp_path: Path):
    assert [one.code for one in refused(tmp_path, "admin: {host: 0.0.0.0}")] == ["AdminExposed"]


@pytest.mark.parametrize(("text", "size"), [("512KiB", 524288), ("8 MB", 8_000_000), ("1024", 1024)])
def test_sizes_have_units_or_are_numbers(tmp_path: Path, text: str, size: int):
    assert loaded(tmp_path, f"limits: {{body: {text}}}").limits.body == size


@pytest.mark.parametrize(
    "url",
    [
        "redis://127.0.0.1:99999", "redis://127.0.0.1:0", "redis://h:", "rediss://[::1", "redis://h/abc",
        "redis://h?db=x", "postgresql://u:hunter2@h:x/db", "postgresql://h1:5432,h2:port/db",
        "redis://u:hunter2/x@h:6379", "redis://h 1:6379",
    ],
)  # fmt: skip
def test_a_url_that_no_store_is_at_is_refused_without_its_password(tmp_path: Path, url: str):
    kind = "postgres" if url.startswith("postgres") else "redis"
    problems = refused(tmp_path, f"stores: {{s: {{type: {kind}, url: '{url}'}}}}")
    (problem,) = [one for one in problems if one.severity == "error"]
    assert (problem.code, problem.pointer, problem.line) == ("InvalidUrl", "/stores/s/url", 1)
    assert problem.expected
    assert "hunter2" not in str(problem)


@pytest.mark.parametrize(
    "url",
    [
        "redis://localhost", "redis://u:p%2Fq@10.1.0.5:6379/0", "rediss://[::1]:6379/15", "unix:///run/redis.sock?db=1",
        "postgresql://u:p@h1:5432,h2:5433/db?target_session_attrs=read-write", "postgresql:///db?host=/run/postgresql",
        "postgres://u@[fe80::1]:5432/db",
    ],
)  # fmt: skip
def test_a_url_that_a_store_may_be_at_is_taken(tmp_path: Path, url: str):
    kind = "postgres" if url.startswith("postgres") else "redis"
    assert loaded(tmp_path, f"stores: {{s: {{type: {kind}, url: '{url}'}}}}").stores["s"].url == url


@pytest.mark.parametrize(
    ("store", "code", "place"),
    [
        ("{type: memory, durable: true}", "Impossible", "/stores/s/durable"),
        (f"{{type: sqlite, path: a.db, prefix: {'x' * 201}}}", "TooLong", "/stores/s/prefix"),
        ("{type: sqlit, path: a.db}", "WrongValue", "/stores/s/type"),
        ("{type: sqlit, url: 'redis://h'}", "WrongValue", "/stores/s/type"),
    ],
)
def test_what_no_store_can_be_is_one_problem(tmp_path: Path, store: str, code: str, place: str):
    (problem,) = refused(tmp_path, f"stores: {{s: {store}}}")
    assert (problem.code, problem.pointer) == (code, place)
    assert problem.expected


def test_a_store_has_the_keys_of_its_type(tmp_path: Path):
    problems = refused(tmp_path, "stores: {a: {type: sqlite}, b: {type: redis, url: 'http://x', path: p}}")
    assert {(one.code, one.pointer) for one in problems} == {
        ("MissingKey", "/stores/a"), ("InvalidUrl", "/stores/b/url"), ("WrongKey", "/stores/b/path"),
    }  # fmt: skip
