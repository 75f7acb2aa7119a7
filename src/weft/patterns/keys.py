"""Keys: what state is kept under, and what upstreams are told so that one logical call counts once.

No two tenants, callers, tools or places in a tool ever share a key, whatever stands in their names.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Literal, Protocol
from urllib.parse import quote

from weft.errors import ExecutionFailed
from weft.expr.jcs import canonical
from weft.ports import ANONYMOUS, Caller, Principal

Scope = Literal["caller", "tenant", "public"]
"""Who shares what is kept: one caller, all of a tenant, or everybody."""

VERSION = "v1"
LONGEST_PART = 200
"""Characters of a name in a key; five such parts, a hash and the prefix of a store are well below its limit."""
MISSING = object()


class HasContext(Protocol):
    """A root call."""

    @property
    def context(self) -> Caller | None: ...


def principal_of(root: HasContext) -> Principal:
    """Return who is behind a root call."""
    return ANONYMOUS if root.context is None else root.context.principal


def hash_of_values(values: Iterable[Any], paths: Sequence[str] = ()) -> str:
    """Return what stands for values: `1`, `"1"`, `true` and `null` differ, and so do lists that only join alike.

    `paths` is where they were found, for the error.

    Raises:
        ExecutionFailed: a value is missing (KeyPathMissing): a key without it would be everybody's.
    """
    listed = list(values)
    at = next((at for at, value in enumerate(listed) if value is MISSING), None)
    if at is not None:
        told = f"the input has nothing at {paths[at] if paths else f'path {at + 1}'}, which is part of the key"
        raise ExecutionFailed(told, code="KeyPathMissing", hint="name a path that every input has")
    return hashlib.sha256(canonical(listed)).hexdigest()


class KeySpace:
    """The keys of one pattern at one place: `v1|cache|tenant|caller|tool@version|spec|path|hash`."""

    def __init__(self, kind: str, place: str, scope: Scope = "caller") -> None:
        self._kind = kind
        self._place = place
        self._scope = scope
        self._prefixes: dict[tuple[str, str], str] = {}

    def prefix(self, principal: Principal) -> str:
        """Return what all keys for a caller begin with."""
        tenant = "" if self._scope == "public" else principal.tenant
        caller = principal.id if self._scope == "caller" else ""
        found = self._prefixes.get((tenant, caller))
        if found is None:
            parts = (VERSION, self._kind, tenant, caller, self._place)
            found = "|".join(map(key_part, parts)) + "|"
            if len(self._prefixes) < 10_000:
                self._prefixes[tenant, caller] = found
        return found

    def key(self, principal: Principal, values: Iterable[Any], paths: Sequence[str] = ()) -> str:
        """Return the key for a caller and the values at the key's paths."""
        return self.prefix(principal) + hash_of_values(values, paths)


def key_part(name: str, safe: str = "/@ -.~") -> str:
    """Return a name as a part of a key; of a long one its hash, since stores take no key of any length."""
    written = quote(name, safe=safe, errors="surrogatepass")
    if len(written) <= LONGEST_PART:
        return written
    # No name that is written as it is has a `!` in it.
    return "!" + hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()


class Keys:
    """The idempotency keys of one logical operation: the same for the same upstream call in each attempt at it.

    A call is known by its leaf in the plan and its arguments; of several equal ones, each has its number, and since
    they are equal it does not matter which comes first.
    """

    __slots__ = ("_base", "_seen", "attempt")

    def __init__(self, base: str, attempt: int = 1) -> None:
        self._base = base
        self._seen = Counter[str]()
        self.attempt = attempt

    def again(self, attempt: int) -> Keys:
        """Return the same keys, for another attempt."""
        return Keys(self._base, attempt)

    def below(self, part: str) -> Keys:
        """Return keys of a part of the operation, such as one step of a saga."""
        return Keys(hashlib.sha256(f"{self._base}|{part}".encode()).hexdigest(), self.attempt)

    def next(self, leaf: str, arguments: Any) -> str:
        """Return the key of the next upstream call at a leaf."""
        which = f"{leaf}|{hash_of_values([arguments])}"
        self._seen[which] += 1
        return hashlib.sha256(f"{self._base}|{which}|{self._seen[which]}".encode()).hexdigest()
