"""JSON-RPC as MCP has it, read strictly: one message in a body, within the limits of a call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeGuard

import orjson

from weft.doors.mcp.faults import PARSE_ERROR, Refusal, TooMuch
from weft.ports import is_array, is_object

ID_LENGTH = 1024
NAMES = ("name", "uri", "cursor")
"""The params that name something."""
Kind = Literal["request", "notification", "response"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageLimits:
    """How large a message of a client may be; `string` is the longest name or URI, in characters."""

    body: int = 1 << 20
    depth: int = 64
    nodes: int = 100_000
    string: int = 256 << 10


USUAL = MessageLimits()


def parse(body: bytes | bytearray, limits: MessageLimits = USUAL) -> dict[str, Any]:
    """Return the one JSON object of a body.

    Of a key that is there twice the last one counts; nobody behind this door sees the other.

    Raises:
        Refusal: it is not JSON, not UTF-8, not an object, or beyond the limits.
    """
    try:
        message: object = orjson.loads(body)
    except ValueError as error:
        raise Refusal(f"the body is not JSON: {error}", rpc=PARSE_ERROR) from None
    if not is_object(message):
        raise Refusal(
            "a batch of messages is not taken, in any version of the protocol: send each message by itself"
            if is_array(message)
            else "the body must be one JSON-RPC message, a JSON object"
        )
    # Every value but the first of its container stands behind a comma, so this is never too small.
    openings = body.count(b"{") + body.count(b"[")
    if openings > limits.depth or openings + body.count(b",") >= limits.nodes:
        _measure(message, limits)
    if len(body) > limits.string:
        _check_names(message, limits.string)
    return message


def kind_of(message: dict[str, Any]) -> Kind:
    """Return what a message is.

    Raises:
        Refusal: it is none, and the sentence says why.
    """
    if message.get("jsonrpc") != "2.0":
        raise Refusal('a message must say "jsonrpc": "2.0"')
    if "method" not in message:
        return _response(message)
    method, params = message["method"], message.get("params")
    if not isinstance(method, str):
        raise Refusal("method must be a string")
    if params is not None and not is_object(params):
        raise Refusal("params must be an object")
    if "id" not in message:
        if not method.startswith("notifications/"):
            raise Refusal(f"the request {method[:80]!r} needs an id")
        return "notification"
    if not is_id(message["id"]):
        raise Refusal(f"id must be a string of at most {ID_LENGTH} characters or an integer")
    if method.startswith("notifications/"):
        raise Refusal("a notification has no id")
    return "request"


def is_id(value: object) -> TypeGuard[str | int]:
    """Tell whether a value can be the id of a request."""
    if isinstance(value, str):
        return len(value) <= ID_LENGTH
    return isinstance(value, int) and not isinstance(value, bool)


def id_of(message: dict[str, Any] | None) -> str | int | None:
    """Return the id to which an error about a message belongs, if it has one."""
    id_: object = None if message is None else message.get("id")
    return id_ if is_id(id_) else None


def notification(method: str, params: Any) -> dict[str, Any]:
    """Return a notification."""
    return {"jsonrpc": "2.0", "method": method, "params": params}


def result(id_: str | int, value: dict[str, Any]) -> dict[str, Any]:
    """Return the response to a request that could be served."""
    return {"jsonrpc": "2.0", "id": id_, "result": value}


def _response(message: dict[str, Any]) -> Kind:
    if "id" not in message or ("result" in message) == ("error" in message):
        raise Refusal("a message must be a request, a notification, or a response with either result or error")
    if not is_id(message["id"]) or not is_object(message.get("result", message.get("error"))):
        raise Refusal("a response must have the id of its request and an object as its result or error")
    return "response"


def _check_names(message: dict[str, Any], longest: int) -> None:
    """Refuse names that no tool has; arguments may be as long as the body."""
    params = message.get("params")
    ref = params.get("ref") if is_object(params) else None
    for holder in (message, params, ref):
        named: dict[str, Any] = holder if is_object(holder) else {}
        for key in ("method", *NAMES):
            if isinstance(text := named.get(key), str) and len(text) > longest:
                raise TooMuch("StringTooLong", longest, f"{key} is longer than {longest} characters")


def _measure(message: dict[str, Any], limits: MessageLimits) -> None:
    nodes, layer, depth = 1, [message], 1
    while layer:
        if depth > limits.depth:
            raise TooMuch("MaxDepth", limits.depth, f"the message is nested deeper than {limits.depth} levels")
        inner: list[Any] = []
        for container in layer:
            values = container.values() if is_object(container) else container
            nodes += len(values)
            inner += [value for value in values if isinstance(value, dict | list)]
        if nodes > limits.nodes:
            raise TooMuch("TooManyNodes", limits.nodes, f"the message has more than {limits.nodes} values")
        layer, depth = inner, depth + 1
