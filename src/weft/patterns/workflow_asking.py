"""A step that asks the person behind the call, by the elicitation of MCP."""

from __future__ import annotations

from itertools import islice
from typing import Any

from weft.errors import ExecutionFailed
from weft.expr.schemas import compile_schema
from weft.patterns.contract import Call, Step, Value
from weft.patterns.workflow_doing import Declined
from weft.patterns.workflow_steps import Elicit

METHOD = "elicitation/create"


def asking(elicit: Elicit, id: str) -> Step:
    """Return the step that asks; it is given the message and gives what the person answered."""
    schema: dict[str, Any] = dict(elicit.requested)
    answers = compile_schema(schema)
    may_decline = elicit.on_decline == "skip"

    async def ask(value: Value, call: Call) -> Value:
        caller = call.root.context
        if caller is None or "elicitation" not in caller.capabilities:
            told = f"step '{id}' asks a person, and the caller cannot be asked"
            hint = "call it from a client that has the elicitation capability, or give the answer as input"
            raise ExecutionFailed(told, code="CannotAsk", hint=hint)
        params = {"mode": "form", "message": value, "requestedSchema": schema}
        answer: Any = (await caller.ask({id: {"method": METHOD, "params": params}}))[id]
        action: object = answer.get("action")
        if action != "accept":
            told = f"the person who was asked said {action!r}"
            if may_decline:
                raise Declined(told)
            raise ExecutionFailed(told, code="Declined")
        content: Any = answer.get("content") or {}
        if wrong := [f"{one.pointer or 'the answer'}: {one.message}" for one in islice(answers.problems(content), 3)]:
            raise ExecutionFailed(f"the answer does not fit: {'; '.join(wrong)}", code="InvalidAnswer")
        return content

    return Step(id, "elicit", ask)
