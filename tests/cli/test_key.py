"""`weft key`: keys are shown once, listed without themselves, and revoked."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from weft.cli.key import command
from weft.errors import InputError, NotFound
from weft.gateway.keys import ApiKeys, KeyFile
from weft.gateway.unproven import Unauthenticated

Key = Callable[..., Result]


@pytest.fixture
def key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Key:
    """Run `weft key` in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(command, list(arguments))

    return invoke


def created(key: Key, *arguments: str) -> str:
    done = key("create", *arguments)
    assert done.exit_code == 0, done.output
    return done.stdout.strip()


def test_a_key_is_printed_alone_and_opens_the_gateway(key: Key, tmp_path: Path):
    done = key("create", "--agent", "research-agent@2.1.0", "--scope", "read", "--tenant", "blue")
    text = done.stdout.strip()
    assert done.stdout == text + "\n"
    assert "not shown again" in done.stderr
    assert text not in done.stderr
    principal = ApiKeys(KeyFile(tmp_path / "keys.json")).identify(text)
    assert (principal.agent, principal.scopes, principal.tenant) == ("research-agent@2.1.0", {"read"}, "blue")
    assert stat.S_IMODE((tmp_path / "keys.json").stat().st_mode) == 0o600


def test_keys_are_listed_without_themselves(key: Key, tmp_path: Path):
    texts = [
        created(key, "--agent", "a@1.0.0", "--agent", "a@2.0.0"),
        created(key, "--subject", "ci", "--expires", "1d"),
    ]
    shown = key("list").stdout
    assert "a@1.0.0,2.0.0" in shown
    assert "live" in shown
    told = json.loads(key("list", "--json").stdout)["keys"]
    assert [one["id"] for one in told] == [text.split("_")[1] for text in texts]
    stored = json.loads((tmp_path / "keys.json").read_text())["keys"]
    for text, kept in zip(texts, stored, strict=True):
        for secret in (text.split("_", 2)[2], kept["hash"], kept["salt"]):
            assert secret not in shown + json.dumps(told)


def test_a_revoked_key_opens_nothing_and_stays_listed(key: Key, tmp_path: Path):
    old, new = created(key, "--agent", "a"), created(key, "--agent", "a")
    assert key("revoke", old.split("_")[1]).exit_code == 0
    keys = ApiKeys(KeyFile(tmp_path / "keys.json"))
    assert keys.identify(new).agent_name == "a"
    with pytest.raises(Unauthenticated):
        keys.identify(old)
    assert [one["state"] for one in json.loads(key("list", "--json").stdout)["keys"]] == ["revoked", "live"]
    assert json.loads(key("revoke", new, "--json").stdout)["state"] == "revoked"


def test_a_key_may_be_had_as_json_in_another_file(key: Key, tmp_path: Path):
    made = json.loads(created(key, "--agent", "a", "--expires", "90d", "--file", "mine.json", "--json"))
    assert made["key"].startswith(f"weft_{made['id']}_")
    assert made["expires"].endswith("Z")
    assert (tmp_path / "mine.json").exists()
    assert not (tmp_path / "keys.json").exists()


def test_without_keys_the_list_says_so(key: Key):
    done = key("list")
    assert (done.stdout, done.exit_code) == ("", 0)
    assert "no keys" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["create"], "MissingOption"),
        (["create", "--agent", "a@1.0.0", "--agent", "b@1.0.0"], "InvalidAgent"),
        (["create", "--agent", "a@latest"], "InvalidAgent"),
        (["create", "--agent", "@1.0.0"], "InvalidAgent"),
        (["create", "--agent", "a", "--expires", "90"], "DurationInvalid"),
        (["create", "--agent", "a", "--expires", "0s"], "DurationZero"),
        (["create", "--agent", "a", "--file", "no/such/folder.json"], "InvalidKeyFile"),
    ],
)
def test_what_makes_no_key_is_told(key: Key, tmp_path: Path, arguments: list[str], code: str):
    error = key(*arguments).exception
    assert isinstance(error, InputError)
    assert error.code == code
    assert not (tmp_path / "keys.json").exists()


def test_a_key_that_is_not_there_is_told_with_the_nearest(key: Key):
    id_ = created(key, "--agent", "a").split("_")[1]
    error = key("revoke", id_[:-1]).exception
    assert isinstance(error, NotFound)
    assert id_ in (error.hint or "")
