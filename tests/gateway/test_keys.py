"""API keys: shown once, kept as hashes, over when they are revoked or expired."""

from __future__ import annotations

import os
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from weft.errors import InputError, NotFound
from weft.gateway.keys import ApiKeys, KeyFile, make_key
from weft.gateway.unproven import Unauthenticated


class Time:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def file(tmp_path: Path) -> KeyFile:
    return KeyFile(tmp_path / "keys.json")


@pytest.mark.req("REG-36")
def test_a_key_says_who_its_holder_is(file: KeyFile):
    key, text = make_key(agent="research-agent", versions=["2.1.0"], tenant="blue", scopes=["read"])
    file.add(key)
    principal = ApiKeys(file).identify(text)
    assert (principal.agent, principal.tenant, principal.scopes) == ("research-agent@2.1.0", "blue", {"read"})
    assert (principal.method, principal.strength) == ("key", "proven")


def test_a_key_has_256_bits_of_chance_and_shows_its_id(file: KeyFile):
    texts = {make_key(agent="a")[1] for _ in range(100)}
    assert len({text.split("_")[1] for text in texts}) == 100
    assert all(len(text.split("_", 2)[2]) == 43 for text in texts)


def test_the_file_holds_no_key_and_is_its_owners_alone(file: KeyFile):
    key, text = make_key(agent="a")
    file.add(key)
    kept = file.path.read_text()
    assert text not in kept
    assert text.split("_", 2)[2] not in kept
    assert key.id in kept
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    file.revoke(key.id)
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600


def test_the_same_key_twice_has_two_salts():
    assert make_key(agent="a")[0].salt != make_key(agent="a")[0].salt


def test_two_keys_of_one_agent_live_at_once_and_each_ends_alone(file: KeyFile):
    (old, old_text), (new, new_text) = make_key(agent="a"), make_key(agent="a")
    file.add(old)
    file.add(new)
    keys = ApiKeys(file)
    assert keys.identify(old_text).subject == keys.identify(new_text).subject == "a"
    file.revoke(old.id)
    keys = ApiKeys(file)
    assert keys.identify(new_text).subject == "a"
    with pytest.raises(Unauthenticated):
        keys.identify(old_text)


def test_a_key_ends_when_it_expires(file: KeyFile):
    key, text = make_key(agent="a", lifetime=60)
    file.add(key)
    late = [time.time()]
    keys = ApiKeys(file, now=lambda: late[0])
    assert keys.identify(text).subject == "a"
    late[0] += 61
    with pytest.raises(Unauthenticated):
        keys.identify(text)


def test_a_key_that_is_made_or_revoked_counts_within_a_second(file: KeyFile):
    clock = Time()
    keys = ApiKeys(file, clock=clock)
    key, text = make_key(agent="a")
    file.add(key)
    clock.at += 1
    assert keys.identify(text).subject == "a"
    file.revoke(key.id)
    clock.at += 1
    with pytest.raises(Unauthenticated):
        keys.identify(text)


def test_a_key_that_is_given_other_rights_counts_with_those(file: KeyFile):
    clock = Time()
    key, text = make_key(agent="a", scopes=["read"])
    file.add(key)
    keys = ApiKeys(file, clock=clock)
    before = keys.identify(text)
    assert keys.identify(text) is before
    file.add(key.model_copy(update={"scopes": ("admin",)}))
    clock.at += 1
    assert keys.identify(text).scopes == {"admin"}


def test_a_file_that_goes_takes_its_keys_along(file: KeyFile):
    clock = Time()
    key, text = make_key(agent="a")
    file.add(key)
    keys = ApiKeys(file, clock=clock)
    file.path.unlink()
    clock.at += 1
    with pytest.raises(Unauthenticated):
        keys.identify(text)


def test_a_file_that_breaks_is_told_and_the_keys_stay(file: KeyFile):
    clock = Time()
    key, text = make_key(agent="a")
    file.add(key)
    keys = ApiKeys(file, clock=clock)
    file.path.write_text("{")
    clock.at += 1
    assert keys.identify(text).subject == "a"
    assert "keys.json" in (keys.problem or "")


@pytest.mark.parametrize("change", ["id", "secret", "longer", "empty", "prefix", "case"])
def test_what_is_not_exactly_a_key_opens_nothing(file: KeyFile, change: str):
    key, text = make_key(agent="a")
    file.add(key)
    _, id_, secret = text.split("_", 2)
    wrong = {
        "id": f"weft_{'a' * 10}_{secret}",
        "secret": f"weft_{id_}_{'A' * 43}",
        "longer": text + "A",
        "empty": "weft_",
        "prefix": text[5:],
        "case": f"weft_{id_}_{secret.swapcase()}",
    }
    with pytest.raises(Unauthenticated):
        ApiKeys(file).identify(wrong[change])


def test_a_key_for_several_versions_is_used_by_one_of_them(file: KeyFile):
    key, text = make_key(agent="a", versions=["1.0.0", "2.0.0"])
    file.add(key)
    keys = ApiKeys(file)
    assert keys.identify(text).agent == "a@2.0.0"
    assert keys.identify(text, version="1.0.0").agent == "a@1.0.0"
    with pytest.raises(Unauthenticated):
        keys.identify(text, version="3.0.0")


@pytest.mark.skipif(os.name != "posix", reason="modes are of POSIX")
def test_a_file_that_others_may_write_is_refused(file: KeyFile):
    file.add(make_key(agent="a")[0])
    file.path.chmod(0o666)
    with pytest.raises(InputError, match="others may write") as caught:
        ApiKeys(file)
    assert "chmod 600" in (caught.value.hint or "")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"keys": [{}]}', '{"keys": [{"id": 7}]}', '{"keys": 7, "x": 1}'])
def test_a_file_that_holds_no_keys_is_told_with_the_place(file: KeyFile, text: str):
    file.path.write_text(text)
    file.path.chmod(0o600)
    with pytest.raises(InputError, match=r"keys\.json") as caught:
        file.read()
    assert caught.value.code == "InvalidKeyFile"


def test_a_key_that_is_not_there_cannot_be_revoked(file: KeyFile):
    key, _ = make_key(agent="a")
    file.add(key)
    with pytest.raises(NotFound) as caught:
        file.revoke(key.id[:-1] + "#")
    assert key.id in (caught.value.hint or "")


def test_keys_that_are_made_at_once_are_all_kept(file: KeyFile):
    def make(_: int) -> str:
        key, text = make_key(agent="a")
        KeyFile(file.path).add(key)
        return text

    with ThreadPoolExecutor(8) as threads:
        texts = list(threads.map(make, range(24)))
    keys = ApiKeys(file)
    assert {keys.identify(text).subject for text in texts} == {"a"}


def test_a_link_to_the_file_stays_a_link(file: KeyFile, tmp_path: Path):
    (tmp_path / "link.json").symlink_to(file.path)
    KeyFile(tmp_path / "link.json").add(make_key(agent="a")[0])
    assert (tmp_path / "link.json").is_symlink()
    assert len(file.read()) == 1


def test_a_failed_write_leaves_the_old_file(file: KeyFile, monkeypatch: pytest.MonkeyPatch):
    key, text = make_key(agent="a")
    file.add(key)

    def full(_: int) -> None:
        raise OSError("no space")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        file.add(make_key(agent="b")[0])
    assert ApiKeys(file).identify(text).subject == "a"
    assert [one.name for one in file.path.parent.iterdir()] == ["keys.json"]
