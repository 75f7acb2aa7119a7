"""JSON as servers write it: half characters of text that JavaScript cut, and numbers that JSON does not have."""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

HALF = re.compile("[\ud800-\udfff]")
REPLACEMENT = "\ufffd"


def read_json(data: bytes | bytearray) -> Any:
    """Return what a text says; half a character reads as U+FFFD, NaN and numbers beyond all bounds as null.

    Raises:
        ValueError: it is not JSON even so.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        # Rare, and an answer lost for it would leave its call waiting until the deadline.
        if data[:1] not in (b"{", b"["):
            raise
        try:
            text = bytes(data).decode()
            return _whole(json.loads(text, parse_constant=_nothing, parse_float=_number, parse_int=_integer))
        except RecursionError:
            raise ValueError("nested too deeply") from None


def _nothing(_: str) -> None:
    return None


def _number(text: str) -> float | None:
    number = float(text)
    return None if number in (float("inf"), float("-inf")) else number


def _integer(text: str) -> int | float | None:
    # As everywhere else: what 64 bits do not hold is a float.
    fits = len(text) <= len(str(-(2**63))) and -(2**63) <= int(text) < 2**64
    return int(text) if fits else _number(text)


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return HALF.sub(REPLACEMENT, value)
    if isinstance(value, dict):
        return {_whole(key): _whole(inner) for key, inner in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list):
        return [_whole(inner) for inner in value]  # pyright: ignore[reportUnknownVariableType]
    return value
