"""Trace context: the ids of a call, taken from its caller (W3C Trace Context) or made."""

from __future__ import annotations

import re
from collections.abc import Mapping
from random import getrandbits
from typing import Any, Final, NamedTuple

_PARENT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.DOTALL)
_PRINTABLE: Final = re.compile(r"[\x20-\x7e]+")
_ALONG: Final = {"tracestate": 512, "baggage": 8192}
_FIRST_VERSION: Final = "00"
_SAMPLED: Final = 1
_NO_TRACE: Final = "0" * 32
_NO_SPAN: Final = "0" * 16


class Parent(NamedTuple):
    """What a caller says of the trace that a call belongs to."""

    trace_id: str
    span_id: str
    sampled: bool


def parent_of(header: object) -> Parent | None:
    """Return the parent that a `traceparent` names, or None when it is not exactly one."""
    if not isinstance(header, str) or len(header) > 256 or (found := _PARENT.fullmatch(header)) is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if version == "ff" or (version == _FIRST_VERSION and more is not None):
        return None
    if trace_id == _NO_TRACE or span_id == _NO_SPAN:
        return None
    return Parent(trace_id, span_id, bool(int(flags, 16) & _SAMPLED))


def new_ids() -> str:
    """Return a trace id and a span id, one after the other: 32 and 16 hexadecimal digits."""
    # One number for both, by way of bytes: a third of the time of formatting two. The generator is seeded anew in a
    # forked child, and nothing is protected by these ids.
    return getrandbits(192).to_bytes(24, "big").hex()


def new_span_id() -> str:
    """Return a span id: 16 hexadecimal digits."""
    return getrandbits(64).to_bytes(8, "big").hex()


def carried(meta: Mapping[str, Any]) -> dict[str, str]:
    """Return what travels along with a `traceparent`, where it is well-formed and of a reasonable length."""
    return {
        name: value
        for name, most in _ALONG.items()
        if isinstance(value := meta.get(name), str) and len(value) <= most and _PRINTABLE.fullmatch(value)
    }
