"""What every store holds to: which keys, values, numbers and lifetimes it takes, and how it says no.

Codes of StoreError, the same in all stores:

    StoreUnavailable  away, too slow, or closed
    StoreBusy         another writer did not make way in time; nothing was done
    StoreFull         no room; nothing was done
    StoreReadOnly     it, or its file, may only be read
    StoreCorrupt      what is stored there is damaged, or is not a store
    StoreNewer        a newer weft has written it
    StoreAuth         it does not accept the credentials, or they lack rights
    StoreVolatile     it is said to be durable, and is not
    ValueTooLarge, NotANumber, NumberTooLarge, InvalidTtl, InvalidKey
                      the store works and does not take this: asking again would not help
"""

from __future__ import annotations

import math
import re
from typing import Final

from weft.errors import StoreError
from weft.ports import ANYHOW

MAX_VALUE: Final = 1 << 20
MAX_KEY: Final = 2048
"""Bytes of UTF-8; the index of Postgres takes no more than 2.7 KB."""
SHORTEST: Final = 0.001
LARGEST: Final = (1 << 63) - 1
_NUMBER: Final = re.compile(rb"(?:0|-?[1-9][0-9]{0,18})")

DEFINITE: Final = frozenset({"ValueTooLarge", "NotANumber", "NumberTooLarge", "InvalidTtl", "InvalidKey"})
"""Codes of refusals: the store is well, and did nothing."""


def refused(store: str, code: str, reason: str) -> StoreError:
    """Return the error of a store that is well and does not take what it was given."""
    error = StoreError(store, reason, code=code)
    error.retryable = "no"
    return error


def key_bytes(store: str, key: str) -> bytes:
    """Return a key as bytes; any text has its own, also one with NUL or half a surrogate pair.

    Raises:
        StoreError: InvalidKey, when it is too long.
    """
    encoded = key.encode("utf-8", "surrogatepass")
    if len(encoded) > MAX_KEY:
        raise refused(store, "InvalidKey", f"a key of {len(encoded)} bytes is over the limit of {MAX_KEY}")
    return encoded


def check_key(store: str, key: str) -> None:
    """Refuse a key that is too long.

    Raises:
        StoreError: InvalidKey.
    """
    if len(key) > MAX_KEY >> 2:  # shorter ones have four bytes for each character
        key_bytes(store, key)


def key_text(encoded: bytes) -> str:
    """Return the key that `key_bytes` encoded."""
    return encoded.decode("utf-8", "surrogatepass")


def check_value(store: str, value: bytes, limit: int) -> None:
    """Refuse a value that is too large.

    Raises:
        StoreError: ValueTooLarge.
    """
    if len(value) > limit:
        raise refused(store, "ValueTooLarge", f"a value of {len(value)} bytes is over the limit of {limit}")


def lifetime(store: str, ttl: float | None) -> float | None:
    """Return the seconds that something is kept, at least a millisecond; None is for ever.

    Raises:
        StoreError: InvalidTtl, when that is no time.
    """
    if ttl is None:
        return None
    if not (ttl > 0 and math.isfinite(ttl)):
        raise refused(store, "InvalidTtl", f"a lifetime of {ttl} seconds is none")
    return max(ttl, SHORTEST)


def added(store: str, value: bytes | None, by: int) -> int:
    """Return the number that a value is, or 0 for none, with something added to it.

    Raises:
        StoreError: NotANumber, or NumberTooLarge for what 64 bits do not hold.
    """
    if value is None:
        number = 0
    elif _NUMBER.fullmatch(value):
        number = int(value)
    else:
        raise refused(store, "NotANumber", "what is stored there is not a whole number")
    total = number + by
    if not -LARGEST <= total <= LARGEST:
        raise refused(store, "NumberTooLarge", "the number is over 63 bits")
    return total


def holds(when: int, version: int) -> bool:
    """Tell whether a condition holds of what is stored in a version, which is 0 where nothing is."""
    return when in (ANYHOW, version)
