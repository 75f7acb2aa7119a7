"""Signed state: what weft gives a client to bring back, so that nobody can make it up or use it for something else."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from typing import Any

import orjson

from weft.errors import InputError
from weft.ports import is_array, is_object

SIGNATURE = 32
LIFETIME = 600.0


class Signer:
    """Signs state with a key that the workers of one gateway share; `now` is wall time, which they share too."""

    def __init__(
        self, key: bytes | None = None, *, lifetime: float = LIFETIME, now: Callable[[], float] = time.time
    ) -> None:
        self._key = key or secrets.token_bytes(32)
        self._lifetime = lifetime
        self._now = now

    def sign(self, data: Any, *, bound: str) -> str:
        """Return data as a text that only `open` with the same `bound` takes, and not for long."""
        payload = orjson.dumps([round(self._now() + self._lifetime), data])
        return base64.urlsafe_b64encode(self._mac(payload, bound) + payload).decode().rstrip("=")

    def open(self, text: str, *, bound: str) -> Any:
        """Return the data of a signed text.

        Raises:
            InputError: it was not signed here, or not for this, or too long ago.
        """
        try:
            raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        except ValueError:
            raw = b""
        payload = raw[SIGNATURE:]
        if not hmac.compare_digest(raw[:SIGNATURE], self._mac(payload, bound)):
            raise _refused("it is not the one that was given for this request")
        read: object = orjson.loads(payload)
        assert is_array(read), "signed here"
        expires, data = read
        if expires < self._now():
            raise _refused(f"it is older than {self._lifetime:g} s; call again without it")
        return data

    def _mac(self, payload: bytes, bound: str) -> bytes:
        purpose = hashlib.sha256(bound.encode("utf-8", "surrogatepass")).digest()
        return hmac.digest(self._key, purpose + payload, "sha256")


def digest(value: Any) -> str:
    """Return a short fingerprint of a JSON value, the same whatever the order of its keys."""
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _refused(why: str) -> InputError:
    return InputError(f"requestState is not valid: {why}", code="InvalidRequestState")


def state_of(data: Any) -> dict[str, Any]:
    """Return signed data as the object that it is."""
    return data if is_object(data) else {}
