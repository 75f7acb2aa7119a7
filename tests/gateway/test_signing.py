"""State that clients bring back."""

from __future__ import annotations

import base64

import pytest

from weft.errors import InputError
from weft.gateway.signing import Signer, digest


def test_signed_state_comes_back_as_it_was() -> None:
    signer = Signer()
    data = {"upstream": "x" * 100, "worker": 3}
    assert signer.open(signer.sign(data, bound="me"), bound="me") == data


def test_another_worker_with_the_same_key_opens_it() -> None:
    key = b"k" * 32
    assert Signer(key).open(Signer(key).sign(1, bound="b"), bound="b") == 1


@pytest.mark.parametrize("text", ["", "x", "é", "AAAA", "A" * 100, "=" * 10, "\ud800"])
def test_what_was_never_signed_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="requestState is not valid"):
        Signer().open(text, bound="me")


def test_state_of_another_request_or_caller_or_gateway_is_refused() -> None:
    signer = Signer()
    state = signer.sign({"parked": "x"}, bound="alice|call|a")
    for other, bound in ((signer, "bob|call|a"), (signer, "alice|call|b"), (Signer(), "alice|call|a")):
        with pytest.raises(InputError):
            other.open(state, bound=bound)


def test_one_changed_bit_is_noticed() -> None:
    signer = Signer()
    raw = bytearray(base64.urlsafe_b64decode(signer.sign("data", bound="b") + "=="))
    for at in range(len(raw)):
        raw[at] ^= 1
        with pytest.raises(InputError):
            signer.open(base64.urlsafe_b64encode(bytes(raw)).decode().rstrip("="), bound="b")
        raw[at] ^= 1


def test_state_ends_after_its_time() -> None:
    now = [1000.0]
    signer = Signer(lifetime=60, now=lambda: now[0])
    state = signer.sign(1, bound="b")
    now[0] += 59
    assert signer.open(state, bound="b") == 1
    now[0] += 2
    with pytest.raises(InputError, match="older than 60 s"):
        signer.open(state, bound="b")


def test_a_digest_does_not_depend_on_the_order_of_keys() -> None:
    assert digest({"a": 1, "b": {"c": 1, "d": 2}}) == digest({"b": {"d": 2, "c": 1}, "a": 1})
    assert digest({"a": 1}) != digest({"a": 2})
