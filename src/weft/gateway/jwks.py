"""The keys of a token issuer: from a file or a URL, kept while the issuer is away, looked for again when one is new."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, TypeAlias

import jwt
import orjson

from weft.errors import InputError, WeftError, said_by, shown
from weft.ports import is_array, is_object
from weft.upstreams.httpfetch import Fetched, fetch

ALGORITHMS = ("RS256", "ES256", "EdDSA")
"""All that tokens may be signed with: a secret that both sides know is not in a key set, and `none` is no signature."""

LIMIT = 256 * 1024
MOST_KEYS = 100
# The private half of a key that should not be here is not even looked at.
_PUBLIC = ("kty", "kid", "alg", "use", "key_ops", "crv", "n", "e", "x", "y")
_log = logging.getLogger("weft.identity")

Load: TypeAlias = Callable[[], Awaitable[bytes]]
Fetch: TypeAlias = Callable[..., Awaitable[Fetched]]
Keys: TypeAlias = Mapping[tuple[str | None, str], jwt.PyJWK]
"""Keys by their id and algorithm."""


class KeySet:
    """The keys of one issuer; `generation` grows whenever they change."""

    def __init__(
        self,
        load: Load,
        *,
        algorithms: Iterable[str] = ALGORITHMS,
        fresh: float = 300.0,
        max_stale: float = 24 * 3600.0,
        pause: float = 30.0,
        now: Callable[[], float] = monotonic,
    ) -> None:
        """Make one that looks again after `fresh`, at most each `pause`; old keys will do up to `max_stale`."""
        self.generation = 0
        self.problem: str | None = None
        self._load = load
        self._algorithms = frozenset(algorithms)
        self._fresh = fresh
        self._max_stale = max_stale
        self._pause = pause
        self._now = now
        self._keys: Keys = {}
        self._had_at = float("-inf")
        self._tried_at = float("-inf")
        self._loading: asyncio.Task[None] | None = None

    @classmethod
    def of_file(cls, path: Path, *, algorithms: Iterable[str] = ALGORITHMS) -> KeySet:
        """Return the keys of a file, which is looked at again each few seconds."""
        return cls(partial(_read, path), algorithms=algorithms, fresh=2.0, pause=1.0)

    @classmethod
    def of_url(
        cls,
        url: str,
        *,
        algorithms: Iterable[str] = ALGORITHMS,
        max_stale: float = 24 * 3600.0,
        timeout: float = 5.0,
        fetch: Fetch = fetch,
    ) -> KeySet:
        """Return the keys of a URL; `fetch` knows which addresses may be connected to."""
        return cls(partial(_get, url, timeout, fetch), algorithms=algorithms, max_stale=max_stale)

    async def start(self) -> None:
        """Get the keys, if they can be had; else the first token tries again."""
        await self._again()

    async def close(self) -> None:
        """Look no more."""
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.gather(self._loading, return_exceptions=True)
            self._loading = None

    async def find(self, kid: str | None, algorithm: str) -> jwt.PyJWK | None:
        """Return the key that a token names; None when the issuer has no such key, or its keys are too old to trust."""
        age = self._now() - self._had_at
        if age > self._max_stale:
            await self._again()
            if self._now() - self._had_at > self._max_stale:
                return None
        elif age > self._fresh:
            self._begin()
        key = self._held(kid, algorithm)
        if key is None and await self._again():
            key = self._held(kid, algorithm)
        return key

    def _held(self, kid: str | None, algorithm: str) -> jwt.PyJWK | None:
        if kid is None and len(self._keys) == 1:
            # A token that names no key can only mean the one that there is.
            (key,) = self._keys.values()
            return key if key.algorithm_name == algorithm else None
        return self._keys.get((kid, algorithm))

    async def _again(self) -> bool:
        """Look for the keys now, together with all who wait for that, and tell whether that was done."""
        task = self._begin()
        if task is None:
            return False
        # Whoever gives up waiting does not take the keys from the others.
        await asyncio.shield(task)
        return True

    def _begin(self) -> asyncio.Task[None] | None:
        if self._loading is not None:
            return self._loading
        if self._now() - self._tried_at < self._pause:
            return None
        self._tried_at = self._now()
        self._loading = asyncio.get_running_loop().create_task(self._renew())
        return self._loading

    async def _renew(self) -> None:
        try:
            keys = keys_of(await self._load(), self._algorithms)
        except (WeftError, OSError, TimeoutError) as error:
            self.problem = error.message if isinstance(error, WeftError) else said_by(error)
            _log.warning("the keys of a token issuer cannot be had: %s", self.problem)
            return
        finally:
            self._loading = None
        if _material(keys) != _material(self._keys):
            self._keys = keys
            self.generation += 1
        self._had_at = self._now()
        self.problem = None


def keys_of(data: bytes, algorithms: Iterable[str] = ALGORITHMS) -> Keys:
    """Return the usable keys of a JSON Web Key Set.

    Raises:
        InputError: it is none, or has no key that may be used.
    """
    try:
        read: object = orjson.loads(data)
    except ValueError as error:
        raise InputError(f"not a JSON Web Key Set: {error}", code="InvalidKeySet") from None
    listed: object = read.get("keys") if is_object(read) else None
    if not is_array(listed) or len(listed) > MOST_KEYS:
        told = f"expected {{'keys': [...]}} with at most {MOST_KEYS} keys"
        raise InputError(f"not a JSON Web Key Set: {told}", code="InvalidKeySet")
    allowed = frozenset(algorithms)
    found = [key for one in listed if is_object(one) and (key := _usable(one)) and key.algorithm_name in allowed]
    if not found:
        told = f"none of its {len(listed)} keys is a public key for {', '.join(sorted(allowed))}"
        raise InputError(f"the key set cannot be used: {told}", code="InvalidKeySet")
    return {(key.key_id, key.algorithm_name): key for key in found}


def _usable(one: dict[str, Any]) -> jwt.PyJWK | None:
    public = {name: one[name] for name in _PUBLIC if name in one}
    operations: object = public.get("key_ops", ["verify"])
    if public.get("kty") == "oct" or public.get("use", "sig") != "sig":
        return None
    if not is_array(operations) or "verify" not in operations or not isinstance(public.get("kid", ""), str):
        return None
    try:
        key = jwt.PyJWK(public)
        return key if key.Algorithm.check_key_length(key.key) is None else None
    except (jwt.PyJWTError, ValueError, TypeError, KeyError, AttributeError) as error:
        _log.warning("a key is left out: %s: %s", shown(public.get("kid")), type(error).__name__)
        return None


def _material(keys: Keys) -> dict[tuple[str | None, str], str]:
    return {name: key.Algorithm.to_jwk(key.key) for name, key in keys.items()}


async def _read(path: Path) -> bytes:
    def read() -> bytes:
        with path.open("rb") as file:
            return file.read(LIMIT + 1)

    data = await asyncio.to_thread(read)
    if len(data) > LIMIT:
        raise InputError(f"the key set has more than {LIMIT} bytes", code="InvalidKeySet")
    return data


async def _get(url: str, timeout: float, fetch: Fetch) -> bytes:
    deadline = asyncio.get_running_loop().time() + timeout
    reply = await fetch(url, headers={"Accept": "application/json"}, deadline=deadline, limit=LIMIT)
    if reply.status != 200:
        raise InputError(f"the key set's server answered {reply.status}", code="InvalidKeySet")
    return reply.body
