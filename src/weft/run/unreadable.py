"""Records that cannot be read: damaged, or written by a newer weft. They are told of, beside those that can."""

from __future__ import annotations

from json import JSONDecodeError
from typing import Final

from weft.errors import said_by

UNREADABLE: Final = (KeyError, TypeError, ValueError, AttributeError)
"""What reading a record raises that is none."""


def why_unreadable(error: Exception) -> str:
    """Return why a record cannot be read."""
    if isinstance(error, KeyError):
        return f"{error} is missing"
    if isinstance(error, JSONDecodeError | UnicodeDecodeError):
        return f"it is not JSON: {error}"
    return str(error) if isinstance(error, ValueError) else said_by(error)
