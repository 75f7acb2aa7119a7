"""API keys: made here, shown once, kept only as salted hashes in a file that nobody else may write."""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import re
import secrets
import stat
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import BaseModel, ConfigDict, Strict, ValidationError

from weft.errors import InputError, NotFound, json_pointer
from weft.gateway.unproven import Unauthenticated
from weft.ports import DEFAULT_TENANT, Principal

try:
    import fcntl
except ImportError:  # Windows has none; there two commands at once may cost one of two new keys.
    fcntl = None

PREFIX = "weft_"
SECRET_BYTES = 32
MOST_BYTES = 8 << 20
LOOK = 0.5
"""How long a file is taken for unchanged, in seconds: a key that is revoked works no longer than that."""

_KEY = re.compile(r"weft_([a-z0-9]{10})_([A-Za-z0-9_-]{43})")
_ID_LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"
Texts: TypeAlias = Annotated[tuple[str, ...], Strict(False)]
_log = logging.getLogger("weft.identity")


class ApiKey(BaseModel):
    """What is kept of a key: all but the key itself."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    id: str
    salt: str
    hash: str
    subject: str
    agent: str | None = None
    versions: Texts = ()
    """The versions of the agent that may use it; who does not say which is the last of them."""

    tenant: str = DEFAULT_TENANT
    scopes: Texts = ()
    created: float = 0.0
    expires: float | None = None
    revoked: float | None = None

    def is_live(self, now: float) -> bool:
        """Tell whether the key opens anything."""
        return self.revoked is None and (self.expires is None or now < self.expires)


class _Stored(BaseModel):
    model_config = ConfigDict(extra="forbid")

    keys: list[ApiKey]


def make_key(
    *,
    agent: str | None = None,
    versions: Iterable[str] = (),
    subject: str | None = None,
    tenant: str = DEFAULT_TENANT,
    scopes: Iterable[str] = (),
    lifetime: float | None = None,
    now: float | None = None,
) -> tuple[ApiKey, str]:
    """Return a new key as it is kept, and the text to give to its holder, which cannot be had again."""
    made = time.time() if now is None else now
    id_ = "".join(secrets.choice(_ID_LETTERS) for _ in range(10))
    secret, salt = secrets.token_urlsafe(SECRET_BYTES), secrets.token_hex(16)
    key = ApiKey(
        id=id_,
        salt=salt,
        hash=_hash(salt, secret),
        subject=subject or agent or id_,
        agent=agent,
        versions=tuple(versions),
        tenant=tenant,
        scopes=tuple(scopes),
        created=made,
        expires=None if lifetime is None else made + lifetime,
    )
    return key, f"{PREFIX}{id_}_{secret}"


class KeyFile:
    """The file of keys; every change replaces it whole, readable and writable by its owner only."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # A link stays one: what it points to is replaced.
        self._real = path.resolve()

    def read(self) -> dict[str, ApiKey]:
        """Return the keys by id; none when there is no file.

        Raises:
            InputError: it is no file of keys, or others may write to it.
        """
        try:
            with self.path.open("rb") as file:
                mode, data = os.fstat(file.fileno()).st_mode, file.read(MOST_BYTES + 1)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise self._wrong((error.strerror or str(error)).lower()) from None
        if os.name == "posix" and mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise self._wrong("others may write to it", hint=f"run: chmod 600 {self.path}")
        return self._parsed(data)

    def add(self, key: ApiKey) -> None:
        """Keep one more key."""
        with self._alone():
            self._write({**self.read(), key.id: key})

    def revoke(self, id_: str, *, now: float | None = None) -> ApiKey:
        """Make a key open nothing any more.

        Raises:
            NotFound: there is no such key.
        """
        with self._alone():
            keys = self.read()
            if (key := keys.get(id_)) is None:
                raise NotFound("Key", id_, keys)
            gone = key.model_copy(update={"revoked": key.revoked or (time.time() if now is None else now)})
            self._write({**keys, id_: gone})
            return gone

    @contextmanager
    def _alone(self) -> Generator[None]:
        """Wait until nobody else changes the file: a key that is revoked must not come back with another's change."""
        try:
            folder = os.open(self._real.parent, os.O_RDONLY)
        except OSError as error:
            raise self._wrong((error.strerror or str(error)).lower()) from None
        try:
            if fcntl is not None:
                fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)

    def _write(self, keys: Mapping[str, ApiKey]) -> None:
        data = _Stored(keys=list(keys.values())).model_dump_json(indent=2).encode()
        try:
            handle, temporary = tempfile.mkstemp(dir=self._real.parent, prefix=f".{self._real.name}.")
        except OSError as error:
            raise self._wrong((error.strerror or str(error)).lower()) from None
        try:
            # A file of mkstemp is 0600 from its first moment.
            with os.fdopen(handle, "wb") as file:
                file.write(data + b"\n")
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(self._real)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    def _parsed(self, data: bytes) -> dict[str, ApiKey]:
        if len(data) > MOST_BYTES:
            raise self._wrong(f"it has more than {MOST_BYTES} bytes")
        try:
            return {key.id: key for key in _Stored.model_validate_json(data).keys}
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            raise self._wrong(f"{json_pointer(first['loc']) or '/'}: {first['msg']}") from None

    def _wrong(self, why: str, *, hint: str | None = None) -> InputError:
        return InputError(f"cannot use the keys in {self.path}: {why}", code="InvalidKeyFile", hint=hint)


class ApiKeys:
    """Tells who holds a key; a file that changed counts within a moment, one that is broken not at all."""

    def __init__(
        self, file: KeyFile, *, now: Callable[[], float] = time.time, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Read the keys.

        Raises:
            InputError: the file cannot be used.
        """
        self.problem: str | None = None
        self._file = file
        self._now = now
        self._clock = clock
        self._looked_at = clock()
        self._seen = self._stamp()
        self._keys = file.read()
        self._holders: dict[tuple[str, str | None], Principal] = {}
        """Who holds a key in which version, until the file changes."""

    def identify(self, text: str, *, version: str | None = None) -> Principal:
        """Return who holds a key; `version` is the agent's own, when its word is taken for that.

        Raises:
            Unauthenticated: it is no key that opens anything.
        """
        self._look()
        form = _KEY.fullmatch(text)
        key = None if form is None else self._keys.get(form[1])
        # Something is hashed and compared also when there is no such key: that takes as long.
        salt, wanted = ("", "") if key is None else (key.salt, key.hash)
        right = hmac.compare_digest(_hash(salt, form[2] if form is not None else ""), wanted)
        if key is None or not right or not key.is_live(self._now()):
            raise Unauthenticated("not a key that is live" if key is None else f"key {key.id} is wrong or over")
        if version is not None and key.versions and version not in key.versions:
            raise Unauthenticated(f"key {key.id} is not for that version")
        last = key.versions[-1] if key.versions else None
        used = version if version in key.versions else last
        holder = self._holders.get((key.id, used))
        if holder is None:
            holder = self._holders[key.id, used] = _holder(key, used)
        return holder

    def _look(self) -> None:
        if self._clock() - self._looked_at < LOOK:
            return
        self._looked_at = self._clock()
        stamp = self._stamp()
        if stamp == self._seen:
            return
        self._seen = stamp
        try:
            self._keys = self._file.read()
            self._holders.clear()
            self.problem = None
        except InputError as error:
            # The last good keys stay: a slip of the pen must not lock everybody out.
            self.problem = error.message
            _log.error("%s; the keys read before stay in use", error.message)

    def _stamp(self) -> tuple[int, ...]:
        try:
            found = self._file.path.stat()
        except OSError:
            return ()
        return (found.st_mtime_ns, found.st_size, found.st_ino, found.st_mode)


def _holder(key: ApiKey, version: str | None) -> Principal:
    return Principal(
        subject=key.subject,
        tenant=key.tenant,
        agent_name=key.agent,
        agent_version=version,
        scopes=frozenset(key.scopes),
        method="key",
        strength="proven",
    )


def _hash(salt: str, secret: str) -> str:
    # A key has 256 bits of chance in it: nothing slower than this makes it harder to guess.
    return hmac.new(salt.encode(), secret.encode(), hashlib.sha256).hexdigest()
