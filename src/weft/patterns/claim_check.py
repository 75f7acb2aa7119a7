"""Claim check: leave a large value with a tool that stores it, and pass on the reference instead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import Field, model_validator

from weft.errors import ExecutionFailed, LimitExceeded, Loc, ToolFailed, UpstreamRefused, shown
from weft.expr.fields import path_text
from weft.expr.jcs import hash_of
from weft.expr.paths import compile_path
from weft.expr.shapes import object_of
from weft.ir.nodes import PathText, refuse
from weft.ir.normalise import made
from weft.ir.operations import Name, Operation
from weft.patterns.contract import (
    Call,
    Compiler,
    Flow,
    Op,
    Pattern,
    Pure,
    Run,
    Step,
    Value,
    operand,
    perform,
    type_name,
)
from weft.patterns.copies import Copies
from weft.patterns.flows import at_path
from weft.patterns.tool_names import tool_name
from weft.ports import Schema, is_array, is_object

A = TypeVar("A")
B = TypeVar("B")
ReleaseOn = Literal["failure", "always"]

MAX_BYTES = 3 << 20
"""Servers often answer with a value twice, as text and as structured content: both are below `limits.response`."""
MAX_REFERENCE = 8 << 10


class ClaimCheck(Pattern):
    """The inner operation is given the reference and never the value.

    A reference is good for the call that stored it and for no other: weft takes none from callers or results, and what
    is retrieved must be what this call stored.
    """

    aliases: ClassVar[Mapping[str, str]] = {"retrieve": "retrieveTool", "release": "releaseTool"}

    store_tool: Name
    retrieve_tool: Name
    inner: Operation
    retrieve_at_end: bool = False
    release_tool: Name | None = None
    release_on: ReleaseOn = "failure"
    ref_path: PathText = "$"
    max_bytes: Annotated[int, Field(ge=1, le=1 << 30)] = MAX_BYTES

    @model_validator(mode="after")
    def _different(self) -> ClaimCheck:
        tools = {"retrieveTool": self.retrieve_tool, "releaseTool": self.release_tool}
        for key, name in tools.items():
            others = {"storeTool": self.store_tool, **tools}
            same = next((other for other, one in others.items() if other != key and one == name), None)
            if same is not None:
                told = f"{shown(name)} is both {same} and {key}"
                raise refuse("Impossible", told, value=shown(name), expected="different tools", at=(key,))
        return self

    def compile(self, c: Compiler) -> Run | Pure:
        store, retrieve, inner = c.named(self.store_tool), c.named(self.retrieve_tool), c.branch(self.inner, "inner")
        release = None if self.release_tool is None else c.named(self.release_tool)
        find, most = compile_path(self.ref_path).get, self.max_bytes
        at_end, always = self.retrieve_at_end, self.release_on == "always"

        async def run(value: Value, call: Call) -> Value:
            if weight(value, most) > most:
                raise LimitExceeded("ClaimSize", most, "the value is too large to be stored")
            digest = hash_of(value) if at_end else ""
            reference = _checked(find(await perform(store, value, call)), store)
            del value  # It may be large, and is not needed any more.
            call.note(claim=_shown(reference))
            try:
                output = await perform(inner, reference, call)
            except BaseException:
                _let_go(release, reference, call)
                raise
            if not at_end:
                if always:
                    _let_go(release, reference, call)
                return output
            payload = await _retrieved(retrieve, reference, digest, call)
            if always:
                _let_go(release, reference, call)
            return {"output": output, "payload": payload}

        return run

    def copies(self, c: Compiler) -> Copies:
        return Copies(0, c.copies(self.inner).shared)

    def flow(self, given: Schema, f: Flow) -> Schema:
        reference = f.named(self.store_tool, given, "storeTool")
        if self.ref_path != "$":
            reference = at_path(reference, self.ref_path, f, "refPath")
        output = f.operation(self.inner, reference, "inner")
        if self.release_tool is not None:
            f.named(self.release_tool, reference, "releaseTool")
        if not self.retrieve_at_end:
            return output
        f.named(self.retrieve_tool, reference, "retrieveTool")
        return object_of({"output": output, "payload": given})

    def names(self) -> Iterable[tuple[str, Loc]]:
        named = {"storeTool": self.store_tool, "retrieveTool": self.retrieve_tool, "releaseTool": self.release_tool}
        return [(name, (key,)) for key, name in named.items() if name is not None]


def weight(value: Value, most: int) -> int:
    """Return about how many bytes a value has as JSON, or more than `most`, without making any of them."""
    total, waiting = 0, [value]
    while waiting and total <= most:
        one = waiting.pop()
        if isinstance(one, str):
            # A character is at least a byte: what is too long by that need not be looked at.
            total += 2 + (len(one) if one.isascii() or len(one) > most else len(one.encode(errors="surrogatepass")))
        elif is_array(one):
            total += 2 + len(one)
            waiting += one
        elif is_object(one):
            total += 2 + len(one) * 2
            waiting += one
            waiting += one.values()
        else:
            total += 4
    return total


def _checked(reference: Value, store: Step) -> Value:
    """Return a reference, or say why it is none."""
    if reference is None or isinstance(reference, bool) or reference in ("", [], {}):
        told = f"Tool '{store.name}' gave no reference, but {type_name(reference)}: {shown(reference)}"
        raise ExecutionFailed(told, code="ClaimRefInvalid", hint="refPath says where in its result the reference is")
    if weight(reference, MAX_REFERENCE) > MAX_REFERENCE:
        told = f"Tool '{store.name}' gave a reference of more than {MAX_REFERENCE} bytes"
        raise ExecutionFailed(told, code="ClaimRefInvalid", hint="a reference stands for a value, and is small")
    return reference


def _shown(reference: Value) -> str:
    return hash_of(reference)[:16]


async def _retrieved(retrieve: Step, reference: Value, digest: str, call: Call) -> Value:
    try:
        payload = await perform(retrieve, reference, call)
    except (ToolFailed, UpstreamRefused, ExecutionFailed) as error:
        raise _expired(retrieve, reference, error.message) from error
    if payload is None:
        raise _expired(retrieve, reference, "it gave null")
    if hash_of(payload) != digest:
        call.root.signals.count("claim_corrupt")
        told = f"Tool '{retrieve.name}' gave something else than what was stored (claim: {_shown(reference)})"
        raise ExecutionFailed(told, code="ClaimCorrupt")
    return payload


def _expired(retrieve: Step, reference: Value, reason: str) -> ExecutionFailed:
    told = f"What was stored is not there any more (claim: {_shown(reference)}): {reason}"
    return ExecutionFailed(
        told, code="ClaimExpired", hint=f"'{retrieve.name}' should keep it for as long as calls take"
    )


def _let_go(release: Step | None, reference: Value, call: Call) -> None:
    """Have what was stored deleted, whatever becomes of the call; what nobody deletes is told of."""
    if release is None:
        _orphaned(reference, "no releaseTool", call)
    else:
        call.root.detach(_release(release, reference, call.apart()))


async def _release(release: Step, reference: Value, call: Call) -> None:
    try:
        async with call.root.clock.timeout_at(call.deadline):
            await perform(release, reference, call)
    except TimeoutError:
        _orphaned(reference, f"'{release.name}' took too long", call)
    except Exception as error:
        _orphaned(reference, str(error), call)


def _orphaned(reference: Value, reason: str, call: Call) -> None:
    call.root.signals.count("claim_orphaned")
    call.root.signals.event("claim_orphaned", claim=_shown(reference), reason=reason)


def claim_check(
    inner: Op[A, B],
    *,
    store: str | Op[Any, Any],
    retrieve: str | Op[Any, Any],
    retrieve_at_end: bool = False,
    release: str | Op[Any, Any] | None = None,
    release_on: ReleaseOn | None = None,
    ref_path: object = None,
    max_bytes: int | None = None,
) -> Op[Any, Any]:
    """Pass a reference on instead of a large value: `w.claim_check(route, store="blob_put", retrieve="blob_get")`.

    With `retrieve_at_end` the result is `{output, payload}`: what the inner operation gave, and the value itself.
    """
    operation = operand(inner, "w.claim_check")
    tools = {"storeTool": store, "retrieveTool": retrieve, "releaseTool": release}
    given: dict[str, Any] = {
        **{key: tool_name(one, "w.claim_check") for key, one in tools.items() if one is not None},
        "inner": operation.node,
        "retrieveAtEnd": retrieve_at_end,
        "releaseOn": release_on,
        "refPath": None if ref_path is None else path_text(ref_path),
        "maxBytes": max_bytes,
    }
    parts = [operation, *(one for one in tools.values() if isinstance(one, Op))]
    return Op(made(ClaimCheck, {name: one for name, one in given.items() if one is not None}), parts)
