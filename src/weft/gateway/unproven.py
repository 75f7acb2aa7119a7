"""The refusals of those who do not prove who they are."""

from __future__ import annotations

from weft.errors import InputError, Origin, WeftError


class Unauthenticated(WeftError):
    """The request does not prove who calls (HTTP 401).

    What was wrong with it is in `reason`, for the log alone: whoever tries credentials learns nothing from the answer.
    """

    code = "Unauthenticated"
    origin: Origin = "caller"

    def __init__(self, reason: str, *, given: bool = True) -> None:
        """Make one; `given` says that there was a credential at all."""
        super().__init__("the request does not prove who is calling", hint="send a valid credential in a header")
        self.reason = reason
        self.given = given


class BadIdentityHeader(InputError):
    """A header that says who calls, where it may not or not like this (HTTP 400)."""

    code = "BadIdentityHeader"
