"""Letters: what is told of a call that failed for good, without its secrets and not too large."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from weft.errors import WeftError
from weft.expr.jcs import hash_of
from weft.expr.marks import marked_names
from weft.patterns.contract import Call, Value
from weft.patterns.keys import principal_of
from weft.ports import Principal, is_array, is_object
from weft.redaction import HIDDEN, WHOLE, is_secret_name, redact, secrets_in

HEAD: Final = 1024
MOST_ERRORS: Final = 5


@dataclass(frozen=True, slots=True)
class Letter:
    """A letter on its way: the payload, the tool that takes it, and for whom the call was made."""

    id: str
    tool: str
    owner: str
    """The composition that names the tool, as `name@version`."""
    principal: Principal
    payload: dict[str, Any]
    tries: int = 0
    error: str = ""
    """What the tool said the last time that it did not take the letter."""
    version: int = field(default=0, compare=False)
    """Of what a spool has of it; 0 for none."""

    def to_json(self) -> dict[str, Any]:
        """Return the letter as it is kept, and shown to operators."""
        return {
            "id": self.id,
            "tool": self.tool,
            "owner": self.owner,
            "tries": self.tries,
            "error": self.error,
            "principal": self.principal.to_json(),
            "payload": self.payload,
        }

    @classmethod
    def of_json(cls, told: Mapping[str, Any], version: int = 0) -> Letter:
        """Return the letter that `to_json` wrote."""
        named = {name: told[name] for name in ("id", "tool", "owner", "payload", "tries", "error")}
        return cls(principal=Principal.of_json(told["principal"]), version=version, **named)

    def refused(self, error: str) -> Letter:
        """Return the letter after the tool did not take it."""
        return replace(self, tries=self.tries + 1, error=error)


@dataclass(frozen=True, slots=True)
class Sender:
    """What letters of one pattern have in common."""

    tool: str
    place: str
    marked: frozenset[str]
    most: int

    def letter(self, id: str, value: Value, failures: Sequence[WeftError], call: Call) -> Letter:
        """Return the letter of a call whose attempts failed."""
        principal, last = principal_of(call.root), failures[-1]
        owner, _, path = self.place.split("|", 2)
        secrets = secrets_in(value, self.marked)
        payload: dict[str, Any] = {
            "id": id,
            "originalInput": shortened(without_secrets(value, self.marked, secrets), self.most),
            "error": redact(last.message, secrets),
            "errorType": type(last).__name__,
            "errorCode": last.code,
            "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "attempts": len(failures),
            "attemptErrors": [
                {"code": one.code, "error": redact(one.message, secrets)} for one in failures[-MOST_ERRORS:]
            ],
            "tool": owner,
            "stepPath": [*path.split("/"), *last.path],
            "tenant": principal.tenant,
            "principal": principal.id,
            "traceId": _trace_id(call),
        }
        return Letter(id, self.tool, owner, principal, payload)


def marks_of(document: Mapping[str, Any]) -> frozenset[str]:
    """Return the properties that any schema of a document marks as secret."""
    tools: list[Mapping[str, Any]] = document.get("tools", [])
    schemas = [tool[key] for tool in tools for key in ("inputSchema", "outputSchema") if key in tool]
    return frozenset(name for schema in schemas for name in marked_names(schema))


def without_secrets(value: Value, marked: frozenset[str], secrets: tuple[str, ...]) -> Value:
    """Return a JSON value with all that is secret, by name, by mark or by form, left out."""
    if isinstance(value, str):
        return HIDDEN if WHOLE in marked else redact(value, secrets)
    if is_array(value):
        return [without_secrets(item, marked, secrets) for item in value]
    if is_object(value):
        return {
            name: HIDDEN if _is_secret(name, item, marked) else without_secrets(item, marked, secrets)
            for name, item in value.items()
        }
    return value


def _is_secret(name: str, value: Value, marked: frozenset[str]) -> bool:
    return name in marked or (not isinstance(value, int | float) and value is not None and is_secret_name(name))


def shortened(value: Value, most: int) -> Value:
    """Return the value, or what is told of one that is too large: its size, its hash and its beginning."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        return {"$truncated": True, "bytes": None, "sha256": None, "head": repr(value)[:HEAD]}
    size = len(text.encode(errors="surrogatepass"))
    if size <= most:
        return value
    return {"$truncated": True, "bytes": size, "sha256": hash_of(value), "head": text[:HEAD]}


def _trace_id(call: Call) -> str | None:
    parent = None if call.root.context is None else call.root.context.meta.get("traceparent")
    parts = parent.split("-") if isinstance(parent, str) else []
    return parts[1] if len(parts) == 4 else None
