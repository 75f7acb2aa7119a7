"""The sections about the lock and the audit log: defaults beside the file, and mistakes with their place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from weft.config import Config, load_config

from .written import loaded, refused


def test_without_a_word_nothing_is_compared_and_nothing_recorded(tmp_path: Path):
    config = loaded(tmp_path, "drain: 1s")
    assert (config.lock.mode, config.lock.every, config.audit) == ("off", 300, None)


@pytest.mark.parametrize("text", ["drain: 1s", "lock: {mode: tofu}", "lock: {file: ./weft.lock}"])
def test_the_lock_is_beside_the_file_unless_told(tmp_path: Path, text: str):
    lock = loaded(tmp_path, text).lock
    assert (lock.path, lock.file) == (tmp_path / "weft.lock", tmp_path / "weft.lock")


def test_the_lock_s_path_is_absolute_also_when_the_file_s_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert load_config(None, {}).lock.path == tmp_path / "weft.lock"
    assert Config().lock.path == tmp_path / "weft.lock"
    (tmp_path / "sub").mkdir()
    loaded(tmp_path / "sub", "audit: {file: logs/audit.log}")
    config = load_config(Path("sub/weft.yaml"), {})
    assert config.lock.path == tmp_path / "sub" / "weft.lock"
    assert config.audit is not None
    assert config.audit.key_path == tmp_path / "sub" / "logs" / "audit.log.key"


@pytest.mark.parametrize("mode", ["off", "tofu", "warn", "enforce"])
def test_a_lock_has_four_modes(tmp_path: Path, mode: str):
    lock = loaded(tmp_path, f"lock: {{mode: {mode}, file: /var/lib/weft/lock.json, every: 1m}}").lock
    assert (lock.mode, lock.path, lock.every) == (mode, Path("/var/lib/weft/lock.json"), 60)


def test_an_audit_log_needs_a_file_and_the_rest_has_defaults(tmp_path: Path):
    audit = loaded(tmp_path, "audit: {file: audit.log}").audit
    assert audit is not None
    assert (audit.file, audit.key_path) == (tmp_path / "audit.log", tmp_path / "audit.log.key")
    assert (audit.when_full, audit.rotate, audit.checkpoints, audit.checkpoint_every) == ("block", 64 << 20, None, 300)


def test_everything_of_the_audit_log_can_be_written(tmp_path: Path):
    audit = loaded(
        tmp_path,
        "audit: {file: a.log, keyFile: keys/a, whenFull: drop, rotate: 1MiB, checkpoints: c, checkpointEvery: 10s}",
    ).audit
    assert audit is not None
    assert (audit.key_path, audit.checkpoints) == (tmp_path / "keys" / "a", tmp_path / "c")
    assert (audit.when_full, audit.rotate, audit.checkpoint_every) == ("drop", 1 << 20, 10)


MODES = "'off', 'tofu', 'warn' or 'enforce'"
A_PATH = "the path of a file or folder"
A_TIME = 'a duration such as "250ms", "30s", "5m", "1h", "2d" or {"seconds": 5}'
A_SIZE = 'a size such as "512KiB", "8MiB" or 1048576'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("lock: {mode: enforced}", ("WrongValue", "/lock/mode", "'enforced'", MODES)),
        ("lock: {mode: true}", ("WrongValue", "/lock/mode", "True", MODES)),
        ("lock: {file: ''}", ("WrongType", "/lock/file", "''", A_PATH)),
        ("lock: {file: 5}", ("WrongType", "/lock/file", "5", A_PATH)),
        ("lock: {every: 0s}", ("DurationZero", "/lock/every", "'0s'", "more than 0")),
        ("lock: {every: 300}", ("DurationInvalid", "/lock/every", "300", A_TIME)),
        ("lock: enforce", ("WrongType", "/lock", "'enforce'", "an object (LockRule)")),
        ("lock: {modus: tofu}", ("UnknownKey", "/lock/modus", "'modus'", "one of every, file, mode")),
        ("audit: {}", ("MissingKey", "/audit", None, "an object with 'file'")),
        ("audit: {file: [a]}", ("WrongType", "/audit/file", "['a']", A_PATH)),
        ("audit: {file: a, keyFile: 1}", ("WrongType", "/audit/keyFile", "1", A_PATH)),
        ("audit: {file: a, whenFull: wait}", ("WrongValue", "/audit/whenFull", "'wait'", "'block' or 'drop'")),
        ("audit: {file: a, rotate: 64M}", ("SizeInvalid", "/audit/rotate", "'64M'", A_SIZE)),
        ("audit: {file: a, rotate: 0}", ("WrongValue", "/audit/rotate", "0", "greater than or equal to 1")),
        ("audit: {file: a, checkpoints: true}", ("WrongType", "/audit/checkpoints", "True", A_PATH)),
        ("audit: {file: a, checkpointEvery: 5}", ("DurationInvalid", "/audit/checkpointEvery", "5", A_TIME)),
    ],
)
def test_a_mistake_is_told_with_its_place_its_value_and_what_was_expected(
    tmp_path: Path, text: str, told: tuple[str | None, ...]
):
    (problem,) = refused(tmp_path, text)
    assert (problem.code, problem.pointer, problem.value, problem.expected) == told


@pytest.mark.parametrize(
    ("text", "meant"),
    [("lock: {mode: enforced}", "enforce"), ("lock: {fiel: a}", "file"), ("audit: {file: a, keyfile: b}", "keyFile")],
)
def test_the_nearest_name_is_told(tmp_path: Path, text: str, meant: str):
    assert [one.suggestion for one in refused(tmp_path, text)] == [meant]


def test_all_sections_are_shown_and_read_again_as_the_same(tmp_path: Path):
    (tmp_path / "ca.pem").touch()
    config = loaded(
        tmp_path,
        """
        listen: {tls: {cert: ca.pem, key: ca.pem, clientCa: ca.pem}}
        identity:
          jwt: [{issuer: https://i.example, audience: weft, jwks: ca.pem, subjects: {alice: writer}}]
          keyFile: keys.json
          proxies: {trusted: [unix], secrets: ["${env:SIGNING}"]}
          certificates: {reports.example: report-agent@1.2.0}
          anonymous: deny
        policy: [{name: a, effect: allow}, {name: b, tools: [charge], callerMustAlsoHave: true}]
        quotas: [{name: q, calls: 5, per: 1m, agents: [writer]}]
        lock: {mode: warn, every: 500ms}
        audit: {file: audit.log}
        """,
        {"SIGNING": "s" * 32},
    )
    again = loaded(tmp_path, json.dumps(config.shown()), {"SIGNING": "s" * 32}, name="again.json")
    assert again.shown() == config.shown()
    assert (again.identity, again.policy, again.quotas) == (config.identity, config.policy, config.quotas)
    assert (again.lock, again.audit) == (config.lock, config.audit)
    assert config.shown()["lock"] == {"mode": "warn", "file": str(tmp_path / "weft.lock"), "every": "500ms"}
