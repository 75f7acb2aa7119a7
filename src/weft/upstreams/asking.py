"""What servers ask the clients behind their calls: elicitation, sampling and roots, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from weft.errors import DeadlineExceeded, UpstreamProtocolError, UpstreamRefused, shown
from weft.ports import Caller, is_object
from weft.upstreams.asked import METHOD_NOT_FOUND

ASKABLE = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}
"""The requests that a server may make of a client, and the capability that each needs."""

PARTS = {"elicitation": ("form", "url"), "sampling": ("tools", "context"), "roots": ()}
"""The capabilities within those, as far as legacy sessions differ by them."""

ROUNDS = 8


def offered(capabilities: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a client's capabilities a server may use: what weft relays."""
    return {name: capabilities[name] for name in PARTS if name in capabilities} if capabilities else {}


def offer_set(capabilities: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same for a session that clients share: only the known parts, so that there are few such sets."""
    offers: dict[str, Any] = {}
    for name, parts in PARTS.items():
        given: object = capabilities.get(name)
        if is_object(given):
            offers[name] = {part: {} for part in parts if is_object(given.get(part))}
    return offers


async def answer(message: dict[str, Any], caller: Caller | None) -> dict[str, Any]:
    """Give a legacy server's request to the client behind its call; return the result or the error member."""
    method: str = message["method"]
    if caller is None or ASKABLE.get(method) not in caller.capabilities:
        return {"error": {"code": METHOD_NOT_FOUND, "message": f"Method not found: {method[:80]}"}}
    params: object = message.get("params")
    question = {"method": method, "params": params if is_object(params) else {}}
    try:
        return {"result": (await caller.ask({"question": question}))["question"]}
    except UpstreamRefused as refusal:
        error = {"code": refusal.rpc_code, "message": refusal.rpc_message, "data": refusal.rpc_data}
        return {"error": {key: value for key, value in error.items() if value is not None}}


async def with_answers(
    params: Mapping[str, Any], result: dict[str, Any], caller: Caller, *, server: str, deadline: float
) -> dict[str, Any]:
    """Ask the client what a modern server's result asks for; return the params of the next round.

    Raises:
        UpstreamProtocolError: it asks for what the client did not offer.
        DeadlineExceeded: the client did not answer in time.
    """
    again = {**params}
    again.pop("requestState", None)
    again["inputResponses"] = {}
    questions: object = result.get("inputRequests")
    if questions:
        _check(questions, caller, server)
        try:
            async with asyncio.timeout_at(deadline):
                again["inputResponses"] = await caller.ask(questions)  # pyright: ignore[reportArgumentType] - checked
        except TimeoutError:
            raise DeadlineExceeded(f"The client did not answer upstream '{server}' by the deadline") from None
    if "requestState" in result:
        again["requestState"] = result["requestState"]
    return again


def _check(questions: object, caller: Caller, server: str) -> None:
    if not is_object(questions):
        raise UpstreamProtocolError(server, f"input requests that are no object: {shown(questions)}")
    for question in questions.values():
        method: object = question.get("method") if is_object(question) else None
        if not isinstance(method, str) or ASKABLE.get(method) not in caller.capabilities:
            raise UpstreamProtocolError(server, f"it asks for {shown(method)}, which the client did not offer")
