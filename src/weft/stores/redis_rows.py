"""What a key of Redis holds: a byte for the form, the version, the end by the server's clock, and the value."""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from weft.ports import ABSENT, ANYHOW, Change, Put
from weft.stores.links import Fault, Refused
from weft.stores.redis_link import Script

FORM: Final = 1
HEAD: Final = struct.Struct(">Bqd")
_MARK: Final = struct.Struct(">Bq")
_SPECIAL: Final = re.compile(rb"([*?\[\]\\^-])")
LONGEST: Final = 100 * 366 * 86400
"""Seconds: Redis refuses lifetimes that its clock cannot hold, and a hundred years are for ever."""

_BEGIN: Final = """
local t = redis.call('TIME')
local now = tonumber(t[1]) + tonumber(t[2]) / 1000000
local epoch = redis.call('GET', KEYS[1])
if not epoch then
  epoch = ARGV[1]
  redis.call('SET', KEYS[1], epoch)
end
local function write(key, version, ttl, value)
  if ttl == '' then
    redis.call('SET', key, '\\1' .. version .. struct.pack('>d', 0) .. value)
  else
    redis.call('SET', key, '\\1' .. version .. struct.pack('>d', now + ttl / 1000) .. value, 'PX', ttl)
  end
end
"""


def _script(text: str) -> Script:
    whole = _BEGIN + text
    return Script(whole, hashlib.sha1(whole.encode(), usedforsecurity=False).hexdigest())


CHANGE: Final = _script("""
for i = 2, #KEYS do
  local when = ARGV[4 * i - 6]
  if when ~= '*' and when ~= '=' .. redis.call('GETRANGE', KEYS[i], 0, 8) then
    return {0, t[1], t[2], epoch}
  end
end
for i = 2, #KEYS do
  local version = ARGV[4 * i - 5]
  if version == '' then
    redis.call('DEL', KEYS[i])
  else
    write(KEYS[i], version, ARGV[4 * i - 4], ARGV[4 * i - 3])
  end
end
return {1, t[1], t[2], epoch}
""")
"""Keys: the epoch, then what changes. Arguments: an epoch, then condition, version, milliseconds and value of each."""

INCR: Final = _script("""
local key, by, version, ttl = KEYS[2], ARGV[2], ARGV[3], ARGV[4]
local old = redis.call('GET', key)
if not old then
  write(key, version, ttl, by)
  return {1, t[1], t[2], epoch, by}
end
-- Numbers of Lua are exact to 53 bits only, those of INCRBY to 64.
redis.call('SET', key, string.sub(old, 18), 'KEEPTTL')
local added = redis.pcall('INCRBY', key, by)
local total = redis.call('GET', key)
if type(added) == 'table' or total == '-9223372036854775808' then
  redis.call('SET', key, old, 'KEEPTTL')
  return {0, t[1], t[2], epoch}
end
redis.call('SET', key, '\\1' .. version .. string.sub(old, 10, 17) .. total, 'KEEPTTL')
return {1, t[1], t[2], epoch, total}
""")
"""Keys: the epoch, the number. Arguments: an epoch, what to add, version, milliseconds. 0: that cannot be added to."""


class Row(NamedTuple):
    """What is stored; `ends` is 0 for ever."""

    version: int
    ends: float
    value: bytes


def row_of(raw: bytes | None) -> Row | None:
    """Return what the bytes under a key are.

    Raises:
        Refused: weft has not written them, or a newer one has.
    """
    if raw is None:
        return None
    if len(raw) < HEAD.size or raw[0] != FORM:
        if raw and FORM < raw[0] < 32:
            raise Refused(Fault("a newer weft has written there", "StoreNewer", hopeless=True))
        told = "another program has written there, or it is damaged"
        raise Refused(Fault(told, "StoreCorrupt", "give the store a prefix", hopeless=True))
    _, version, ends = HEAD.unpack_from(raw)
    return Row(version, ends, raw[HEAD.size :])


def millis(ttl: float | None) -> bytes:
    """Return a lifetime as Redis takes it, never shorter; empty is for ever."""
    if ttl is None or ttl > LONGEST:
        return b""
    return b"%d" % -(-ttl * 1000 // 1)


def version_bytes(version: int) -> bytes:
    """Return a version as it is stored."""
    return version.to_bytes(8)


def arguments(changes: Sequence[Change], versions: Sequence[int]) -> list[bytes]:
    """Return what the script of changes takes for each of them."""
    told: list[bytes] = []
    for change, version in zip(changes, versions, strict=True):
        if change.when == ANYHOW:
            told.append(b"*")
        elif change.when == ABSENT:
            told.append(b"=")
        else:
            told.append(b"=" + _MARK.pack(FORM, change.when))
        if isinstance(change, Put):
            told += (version_bytes(version), millis(change.ttl), change.value)
        else:
            told += (b"", b"", b"")
    return told


def pattern(prefix: bytes) -> bytes:
    """Return the glob of all keys with a prefix, whatever characters it has."""
    return _SPECIAL.sub(rb"\\\1", prefix) + b"*"
