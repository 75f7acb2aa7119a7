"""The six tools by which models run workflows of their own, and keep them as templates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, get_args

from weft.expr.schemas import compile_schema
from weft.gateway.asked import STRATEGIES
from weft.gateway.compositions import Compositions
from weft.gateway.policy import ToolFacts
from weft.gateway.progress import events_told
from weft.gateway.tools import Perform, Performed, Tool
from weft.patterns.workflow_steps import MOST_AT_ONCE
from weft.ports import Caller, Schema
from weft.workflows.template import Category

DOCUMENT: Final = """\
A composition is an object with `name` and `steps`. Each step has `id`, `tool` (the name of a tool that you can call)
and `parameters`; `depends_on` lists the ids of steps that must succeed first. Texts in parameters may refer to values:
`{{input.topic}}`, `{{step_id.field}}`, `{{step_id.list[0].name}}`, with a default as in `{{input.limit ?? 10}}`; a text
that is nothing but one reference keeps the type of the value. A reference to a step also waits for it; steps that do
not wait for each other run at the same time. Optional in a step: `when` (a condition in CEL), `for_each` ("{{list}}";
parameters then know `{{item}}`), `timeout_ms`, `retry_count`, `output_key`, `on_error` ("continue"), `undo` ({tool,
parameters}). Optional beside the steps: `output` (what the whole gives, with references), `inputSchema`,
`error_handling` ({failure_strategy: fail_fast, partial_success, rollback or retry})."""

TEXT: Final[Schema] = {"type": "string"}
OBJECT: Final[Schema] = {"type": "object"}
OBJECTS: Final[Schema] = {"type": "array", "items": OBJECT}
ID: Final[Schema] = {"type": "string", "description": "The id of a template, such as gather-context-v1."}
COMPOSITION: Final[Schema] = {
    "type": "object",
    "description": DOCUMENT,
    "properties": {"name": TEXT, "description": TEXT, "steps": {"type": "array", "items": OBJECT, "minItems": 1}},
    "required": ["steps"],
}
OPTIONS: Final[Schema] = {
    "type": "object",
    "properties": {
        "timeout": {"type": "string", "description": "The longest that it may take, such as 30s or 2m."},
        "max_concurrency": {"type": "integer", "minimum": 1, "maximum": MOST_AT_ONCE},
        "error_strategy": {"enum": list(STRATEGIES), "description": "What happens when a step fails."},
        "dry_run": {"type": "boolean", "description": "Run nothing, and tell what would be done."},
    },
    "additionalProperties": False,
}
CATEGORY: Final[Schema] = {"enum": list(get_args(Category))}
TEMPLATE: Final[Mapping[str, Schema]] = {
    "id": {"type": "string", "pattern": "^[a-z0-9][a-z0-9-]{0,63}$", "description": "Small letters, digits, hyphens."},
    "name": {"type": "string", "description": "What people call it."},
    "description": TEXT,
    "composition": COMPOSITION,
    "metadata": {
        "type": "object",
        "properties": {"category": CATEGORY, "tags": {"type": "array", "items": TEXT}},
        "required": ["category"],
    },
    "validation": {
        "type": "object",
        "properties": {"required_tools": {"type": "array", "items": TEXT}, "min_version": TEXT},
    },
    "example_input": OBJECT,
}
OUTCOME: Final[Schema] = {
    "type": "object",
    "properties": {
        "success": {"type": "boolean"},
        "status": TEXT,
        "output": {"description": "What the composition gives."},
        "results": {"type": "object", "description": "What each step gave."},
        "errors": {**OBJECTS, "description": "What failed: step, code, message."},
        "warnings": {"type": "array", "items": TEXT},
        "steps": {**OBJECTS, "description": "Each step: id, status, duration_ms, attempts."},
        "steps_executed": {"type": "integer"},
        "duration": TEXT,
        "duration_ms": {"type": "number"},
        "run_id": TEXT,
        "trace_id": TEXT,
        "dry_run": {"type": "boolean"},
        "plan": {"type": "object", "description": "Of a dry run: order and levels of the steps, and their parameters."},
    },
}
VALIDITY: Final[Schema] = {
    "type": "object",
    "properties": {
        "valid": {"type": "boolean"},
        "errors": {**OBJECTS, "description": "Each with pointer, message, and often expected and suggestion."},
        "warnings": OBJECTS,
    },
    "required": ["valid", "errors", "warnings"],
}
WHAT: Final[Mapping[str, Schema]] = {"template_id": ID, "composition": COMPOSITION}

READS: Final = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
KEEPS: Final = {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": False, "openWorldHint": False}
FORGETS: Final = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": False}
RUNS: Final = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": True}
WELL: Final = frozenset({"succeeded", "partial"})
UNDONE: Final = {
    "rolled_back": " What was done is undone.",
    "rollback_failed": " Not all of what was done could be undone.",
}


def composition_tools(compositions: Compositions) -> tuple[Tool, ...]:
    """Return the tools over a service, as a catalogue takes them."""
    does = _Doing(compositions)
    return (
        _tool(
            "composition_execute",
            "Run a composition",
            "Run several tools as one workflow, in one call: a composition that you write, or a template by its id. "
            "Give exactly one of composition and template_id. A composition may call what you may call.\n\n" + DOCUMENT,
            takes=_closed(
                **WHAT,
                input={"type": "object", "description": "What {{input...}} in it stands for."},
                options=OPTIONS,
            ),
            gives=OUTCOME,
            hints=RUNS,
            perform=does.execute,
        ),
        _tool(
            "composition_validate",
            "Check a composition",
            "Tell whether a composition, or a template, could run for you: every error with a JSON Pointer to its "
            "place, what was expected there and what was probably meant. Nothing is run. Give exactly one of the two.",
            takes=_closed(**WHAT),
            gives=VALIDITY,
            hints=READS,
            perform=does.validate,
        ),
        _tool(
            "composition_list_templates",
            "List templates",
            "List the templates that there are, with what each is for and which tools it needs; without their "
            "documents, which composition_get_template has.",
            takes=_closed(
                category={**CATEGORY, "description": "Only those of a category."},
                tag={"type": "string", "description": "Only those with this tag."},
                search={"type": "string", "description": "Only those with all of these words."},
            ),
            gives={"type": "object", "properties": {"templates": OBJECTS}, "required": ["templates"]},
            hints=READS,
            perform=does.list_templates,
            checked=True,
        ),
        _tool(
            "composition_get_template",
            "Look at a template",
            "Return a template with its composition, an example input, and which of its tools are missing here.",
            takes=_closed("template_id", template_id=ID),
            gives=OBJECT,
            hints=READS,
            perform=does.get_template,
            checked=True,
        ),
        _tool(
            "composition_create_template",
            "Keep a template",
            "Keep a composition as a template, to run it again by its id. Try it with composition_validate first.",
            takes=_closed("id", "name", "composition", "metadata", **TEMPLATE),
            gives=OBJECT,
            hints=KEEPS,
            perform=does.create_template,
        ),
        _tool(
            "composition_delete_template",
            "Delete a template",
            "Forget a template and its statistics, for good. Those that come with weft cannot be deleted.",
            takes=_closed("template_id", template_id=ID),
            gives={"type": "object", "properties": {"deleted": TEXT}, "required": ["deleted"]},
            hints=FORGETS,
            perform=does.delete_template,
            checked=True,
        ),
    )


def is_well(done: Mapping[str, Any]) -> bool:
    """Tell whether what was run, or begun, or only planned, is no failure."""
    return bool(done.get("success", True)) or done["status"] in WELL


class _Doing:
    """Does what the tools do, each for its caller."""

    def __init__(self, compositions: Compositions) -> None:
        self._compositions = compositions

    async def execute(self, caller: Caller, arguments: dict[str, Any]) -> Performed:
        hear = events_told(caller) if caller.wants_progress else None
        done = await self._compositions.execute(caller, arguments, hear=hear)
        if is_well(done):
            return Performed(done)
        return Performed(done, _why(done))

    async def validate(self, caller: Caller, arguments: dict[str, Any]) -> Performed:
        return Performed(await self._compositions.validate(caller.principal, arguments))

    async def list_templates(self, caller: Caller, arguments: dict[str, Any]) -> Performed:
        return Performed({"templates": await self._compositions.templates(caller.principal, **arguments)})

    async def get_template(self, caller: Caller, arguments: dict[str, Any]) -> Performed:
        return Performed(await self._compositions.template(caller.principal, arguments["template_id"]))

    async def create_template(self, caller: Caller, arguments: dict[str, Any]) -> Performed:
        return Performed(await self._compositions.create(caller.principal, arguments))

    async def delete_template(self, caller: Caller, arguments: dict[str, Any]) -> Performed:
        id: str = arguments["template_id"]
        await self._compositions.delete(caller.principal, id)
        return Performed({"deleted": id})


def _tool(
    name: str,
    title: str,
    description: str,
    *,
    takes: Schema,
    gives: Schema,
    hints: Mapping[str, bool],
    perform: Perform,
    checked: bool = False,
) -> Tool:
    """Return a tool; `checked` says that its arguments are looked at before the service, which tells more, does."""
    listed: dict[str, Any] = {
        "name": name,
        "title": title,
        "description": description,
        "inputSchema": takes,
        "outputSchema": gives,
        "annotations": {"title": title, **hints},
    }
    unfit = compile_schema(takes).problems if checked else None
    return Tool(name, listed, ToolFacts(name, annotations=listed["annotations"]), unfit=unfit, perform=perform)


def _closed(*required: str, **properties: Schema) -> Schema:
    needed = {"required": list(required)} if required else {}
    return {"type": "object", "properties": properties, **needed, "additionalProperties": False}


def _why(done: Mapping[str, Any]) -> str:
    """Return why a run failed, in sentences for a model."""
    told = [f"step '{one['step']}': {one['message']}" if one.get("step") else one["message"] for one in done["errors"]]
    how = "was cancelled" if done["status"] == "cancelled" else "failed"
    return f"The composition {how}: {'; '.join(told)}.{UNDONE.get(done['status'], '')}"
