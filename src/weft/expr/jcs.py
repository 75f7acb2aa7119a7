"""JSON in its one canonical form (RFC 8785), and hashes over it: equal values, equal bytes."""

from __future__ import annotations

import hashlib
import json
import math
import re
from typing import Any

from weft.errors import InputError, shown
from weft.ports import is_array, is_object

# The library is fast, and writes all but two things in canonical form: numbers with a point or an exponent, and the
# order of keys with characters of which UTF-16 makes two.
_compact = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_UNSURE = re.compile(r"(?:^|[:,\[])-?\d+[.e]|[\ud800-\U0010ffff]")


def canonical(value: Any) -> bytes:
    """Return a JSON value in canonical form.

    Raises:
        InputError: it has something that JSON has not, such as NaN.
    """
    try:
        text = _compact(value)
    except (TypeError, ValueError):
        text = ""  # What is not JSON is found, and told, the long way.
    if not text or _UNSURE.search(text) is not None:
        parts: list[str] = []
        _write(value, parts)
        text = "".join(parts)
    return text.encode("utf-8", "surrogatepass")


def hash_of(value: Any) -> str:
    """Return the sha256 of a JSON value's canonical form, in hex."""
    return hashlib.sha256(canonical(value)).hexdigest()


def _write(value: Any, parts: list[str]) -> None:
    if isinstance(value, str):
        parts.append(json.dumps(value, ensure_ascii=False))
    elif value is None or isinstance(value, bool):
        parts.append({None: "null", True: "true", False: "false"}[value])
    elif isinstance(value, int | float):
        parts.append(_number(value))
    elif is_object(value):
        _write_object(value, parts)
    elif is_array(value):
        _write_array(value, parts)
    else:
        raise InputError(f"{shown(value)} is not JSON", code="NotJson")


def _write_object(value: dict[str, Any], parts: list[str]) -> None:
    if odd := [key for key in value if not isinstance(key, str)]:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(f"the key {shown(odd[0])} is not a text", code="NotJson")
    parts.append("{")
    for index, key in enumerate(sorted(value, key=_utf16)):
        parts.append(("," if index else "") + json.dumps(key, ensure_ascii=False) + ":")
        _write(value[key], parts)
    parts.append("}")


def _write_array(value: list[Any], parts: list[str]) -> None:
    parts.append("[")
    for index, item in enumerate(value):
        if index:
            parts.append(",")
        _write(item, parts)
    parts.append("]")


def _utf16(key: str) -> bytes:
    return key.encode("utf-16-be", "surrogatepass")


def _number(value: int | float) -> str:
    """Return a number as ECMAScript writes it; integers keep all digits, lest two share a hash."""
    if isinstance(value, int):
        return str(value)
    if not math.isfinite(value):
        raise InputError(f"{value} is not JSON", code="NotJson")
    if value == 0.0:
        return "0"
    sign = "-" if value < 0 else ""
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    written = whole + fraction
    digits = written.lstrip("0")
    # Where the point stands, counted from the first digit that is not 0.
    point = len(whole) + int(exponent or 0) - (len(written) - len(digits))
    digits = digits.rstrip("0")
    return sign + _placed(digits, point)


def _placed(digits: str, point: int) -> str:
    count = len(digits)
    if count <= point <= 21:
        return digits + "0" * (point - count)
    if 0 < point <= 21:
        return f"{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"0.{'0' * -point}{digits}"
    tail = f".{digits[1:]}" if count > 1 else ""
    return f"{digits[0]}{tail}e{'+' if point > 0 else '-'}{abs(point - 1)}"
