"""Calls of the tools that weft performs itself, and the check of arguments that others do not check."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from weft.errors import ExecutionFailed
from weft.expr.schemas import SchemaProblem
from weft.gateway.calling import Calling
from weft.gateway.results import TRACE, served
from weft.gateway.tools import Perform
from weft.ports import Caller, is_object
from weft.redaction import redact
from weft.upstreams.onward import Onward
from weft.upstreams.results import outcome_of

MISFITS: Final = 20


async def performed(calling: Calling, perform: Perform, caller: Caller) -> dict[str, Any]:
    """Return what a tool of weft's own gives; what failed in the end still has all that there is to tell of it."""
    tool, active, arguments = calling.tool, calling.active, calling.arguments
    check_arguments(() if tool.unfit is None else tool.unfit(arguments))
    done = await perform(Onward(caller, calling.along(caller)), arguments)
    if done.whole:
        return _as_it_came(done.value, calling)
    told = served(done.value, warnings=(), trace_id=active.trace_id)
    if done.failed is None:
        active.end("ok")
        return told
    active.end("error", error=redact(done.failed, calling.secrets()))
    return {**told, "content": [{"type": "text", "text": done.failed}, *told["content"]], "isError": True}


def _as_it_came(result: dict[str, Any], calling: Calling) -> dict[str, Any]:
    """End a call with a result that is one of MCP already, and return it with the trace."""
    active, meta, outcome = calling.active, result.get("_meta"), outcome_of(result)
    why = None if outcome == "ok" else redact(str(result["content"][0].get("text", "")), calling.secrets())
    active.end(outcome, error=why)
    return {**result, "_meta": {**(meta if is_object(meta) else {}), TRACE: active.trace_id}}


def check_arguments(found: Iterable[SchemaProblem]) -> None:
    """Check that there is nothing wrong with arguments.

    Raises:
        ExecutionFailed: with all that is.
    """
    wrong = [f"{one.pointer or 'the input'}: {one.message}" for one in found]
    if wrong:
        told = "; ".join(list(dict.fromkeys(wrong))[:MISFITS])
        raise ExecutionFailed(f"the arguments do not fit: {told}", code="InvalidArguments")
