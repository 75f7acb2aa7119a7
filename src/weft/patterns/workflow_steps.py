"""The steps of a workflow, as a document has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from weft.errors import shown
from weft.ir.fields import JsonSchema
from weft.ir.nodes import LiteralJson, Milliseconds, Node, refuse
from weft.ir.operations import Operation, ToolCall, Undo
from weft.ports import is_array

Name = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z_][A-Za-z0-9_-]*$")]
"""What a step and its result are called: a name that can stand in `{{..}}`."""
Strategy = Literal["fail_fast", "partial_success", "rollback", "retry"]
Join = Literal["all", "any"]
MAX_RETRIES = 19
MOST_AT_ONCE = 64

Together = Annotated[int, Field(ge=1, le=MOST_AT_ONCE)]
Retries = Annotated[int, Field(ge=0, le=MAX_RETRIES)]


class ForEach(Node):
    """Do a step once for each item of a list; the results stay in order."""

    items: LiteralJson
    name: Name = Field("item", alias="as")
    max_concurrency: Together = 8

    @classmethod
    def spell(cls, value: Any) -> Any:
        return {"items": value} if isinstance(value, str) or is_array(value) else value


class Elicit(Node):
    """Ask the person behind the call; the answer is what the step gives."""

    aliases: ClassVar[Mapping[str, str]] = {"requestedSchema": "schema"}

    message: Annotated[str, Field(min_length=1, max_length=10_000)]
    requested: JsonSchema = Field(alias="schema")
    on_decline: Literal["fail", "skip"] = "fail"


class WorkflowStep(Node):
    """One step: what to do, with what, after what."""

    aliases: ClassVar[Mapping[str, str]] = {"arguments": "parameters", "condition": "when", "timeout": "timeoutMs"}

    id: Name
    tool: ToolCall | None = None
    operation: Operation | None = None
    elicit: Elicit | None = None
    parameters: LiteralJson = {}
    depends_on: list[str] = []
    join: Join = "all"
    output_key: Name | None = None
    timeout_ms: Milliseconds | None = None
    retry_count: Retries | None = None
    when: Annotated[str, Field(min_length=1)] | None = None
    for_each: ForEach | None = None
    undo: Undo | None = None
    at_most_once: bool = False
    on_error: Literal["fail", "continue"] = "fail"

    @model_validator(mode="after")
    def _one_thing(self) -> WorkflowStep:
        given = [key for key in ("tool", "operation", "elicit") if getattr(self, key) is not None]
        if len(given) != 1:
            found = ", ".join(given) or "none"
            told = f"step {shown(self.id)} does exactly one thing, found {found}"
            raise refuse("ExactlyOne", told, value=found, expected="one of tool, operation, elicit")
        if self.elicit is not None:
            for key, written in (("parameters", bool(self.parameters)), ("undo", self.undo is not None)):
                if written:
                    told = f"step {shown(self.id)} asks a person, and has {key}"
                    raise refuse("NotHere", told, value=key, expected="elicit alone", at=(key,))
        return self

    @property
    def does(self) -> Node | None:
        """The operation of the step; None where it asks a person."""
        return self.tool if self.tool is not None else self.operation

    @property
    def key(self) -> str:
        """Under which name its result stands among the results."""
        return self.output_key or self.id


class ErrorHandling(Node):
    """What happens when a step fails."""

    max_retries: Retries | None = None
    rollback_on_failure: bool = False
    failure_strategy: Strategy = "fail_fast"

    @property
    def retries(self) -> int:
        """How often a step that failed is done again, unless it says so itself."""
        if self.max_retries is not None:
            return self.max_retries
        return 3 if self.failure_strategy == "retry" else 0

    @property
    def rolls_back(self) -> bool:
        """Whether what was done is undone when the workflow fails."""
        return self.failure_strategy == "rollback" or (
            self.rollback_on_failure and self.failure_strategy != "partial_success"
        )

    @property
    def keeps_going(self) -> bool:
        """Whether the other steps are done all the same."""
        return self.failure_strategy == "partial_success"
