"""weft composes MCP tools into new MCP tools: `import weft as w`.

Names are loaded when they are first used, so that `weft --help` does not wait for what it does not need.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.doors.attach import attach
    from weft.dsl.compositions import Composition, compile, composition, named
    from weft.dsl.local import python_tool
    from weft.dsl.references import agent, constant, construct, from_input, from_previous, from_step, tool
    from weft.dsl.registry import RegistryBuilder
    from weft.expr.comparisons import (
        contains,
        eq,
        gt,
        gte,
        is_error,
        is_not_null,
        is_null,
        lt,
        lte,
        ne,
        one_of,
    )
    from weft.expr.durations import hours, millis, minutes, seconds
    from weft.expr.fields import coalesce, concat, each, literal, path, some, template
    from weft.groups import middleware
    from weft.groups.authoring.builder import GroupedTool, group
    from weft.groups.calling import ToolCall
    from weft.groups.execution.progress import progress
    from weft.groups.execution.results import failure, success
    from weft.groups.rule import ResponseRule
    from weft.groups.toolset import ToolSet
    from weft.patterns.aggregation import dedupe, flatten, keep_lists, limit, merge, sort
    from weft.patterns.backoff import exponential, fixed, linear
    from weft.patterns.cache import cache
    from weft.patterns.circuit_breaker import circuit_breaker
    from weft.patterns.claim_check import claim_check
    from weft.patterns.contract import Op
    from weft.patterns.dead_letter import dead_letter
    from weft.patterns.enricher import enricher
    from weft.patterns.filter import filter
    from weft.patterns.idempotent import idempotent
    from weft.patterns.map_each import map_each
    from weft.patterns.pipeline import pipeline, step
    from weft.patterns.recipient_list import recipient_list
    from weft.patterns.retry import retry
    from weft.patterns.router import holds, router, when
    from weft.patterns.saga import saga, saga_step
    from weft.patterns.scatter_gather import scatter_gather
    from weft.patterns.schema_map import schema_map
    from weft.patterns.throttle import throttle
    from weft.patterns.timeout import timeout
    from weft.patterns.wire_tap import wire_tap
    from weft.patterns.workflow import workflow, workflow_step
    from weft.ports import Json

__all__ = [
    "Composition",
    "GroupedTool",
    "Json",
    "Op",
    "RegistryBuilder",
    "ResponseRule",
    "ToolCall",
    "ToolSet",
    "agent",
    "attach",
    "cache",
    "circuit_breaker",
    "claim_check",
    "coalesce",
    "compile",
    "composition",
    "concat",
    "constant",
    "construct",
    "contains",
    "dead_letter",
    "dedupe",
    "each",
    "enricher",
    "eq",
    "exponential",
    "failure",
    "filter",
    "fixed",
    "flatten",
    "from_input",
    "from_previous",
    "from_step",
    "group",
    "gt",
    "gte",
    "holds",
    "hours",
    "idempotent",
    "is_error",
    "is_not_null",
    "is_null",
    "keep_lists",
    "limit",
    "linear",
    "literal",
    "lt",
    "lte",
    "map_each",
    "merge",
    "middleware",
    "millis",
    "minutes",
    "named",
    "ne",
    "one_of",
    "path",
    "pipeline",
    "progress",
    "python_tool",
    "recipient_list",
    "retry",
    "router",
    "saga",
    "saga_step",
    "scatter_gather",
    "schema_map",
    "seconds",
    "some",
    "sort",
    "step",
    "success",
    "template",
    "throttle",
    "timeout",
    "tool",
    "when",
    "wire_tap",
    "workflow",
    "workflow_step",
]

_HOMES = {
    "weft.doors.attach": ("attach",),
    "weft.dsl.compositions": ("Composition", "compile", "composition", "named"),
    "weft.dsl.local": ("python_tool",),
    "weft.dsl.references": (
        "agent", "constant", "construct", "from_input", "from_previous", "from_step", "tool",
    ),
    "weft.dsl.registry": ("RegistryBuilder",),
    "weft.expr.comparisons": (
        "contains", "eq", "gt", "gte", "is_error", "is_not_null", "is_null", "lt", "lte", "ne", "one_of",
    ),
    "weft.expr.durations": ("hours", "millis", "minutes", "seconds"),
    "weft.expr.fields": ("coalesce", "concat", "each", "literal", "path", "some", "template"),
    "weft.groups": ("middleware",),
    "weft.groups.authoring.builder": ("GroupedTool", "group"),
    "weft.groups.calling": ("ToolCall",),
    "weft.groups.execution.progress": ("progress",),
    "weft.groups.execution.results": ("failure", "success"),
    "weft.groups.rule": ("ResponseRule",),
    "weft.groups.toolset": ("ToolSet",),
    "weft.patterns.aggregation": ("dedupe", "flatten", "keep_lists", "limit", "merge", "sort"),
    "weft.patterns.backoff": ("exponential", "fixed", "linear"),
    "weft.patterns.cache": ("cache",),
    "weft.patterns.circuit_breaker": ("circuit_breaker",),
    "weft.patterns.claim_check": ("claim_check",),
    "weft.patterns.contract": ("Op",),
    "weft.patterns.dead_letter": ("dead_letter",),
    "weft.patterns.enricher": ("enricher",),
    "weft.patterns.filter": ("filter",),
    "weft.patterns.idempotent": ("idempotent",),
    "weft.patterns.map_each": ("map_each",),
    "weft.patterns.pipeline": ("pipeline", "step"),
    "weft.patterns.recipient_list": ("recipient_list",),
    "weft.patterns.retry": ("retry",),
    "weft.patterns.router": ("holds", "router", "when"),
    "weft.patterns.saga": ("saga", "saga_step"),
    "weft.patterns.scatter_gather": ("scatter_gather",),
    "weft.patterns.schema_map": ("schema_map",),
    "weft.patterns.throttle": ("throttle",),
    "weft.patterns.timeout": ("timeout",),
    "weft.patterns.wire_tap": ("wire_tap",),
    "weft.patterns.workflow": ("workflow", "workflow_step"),
    "weft.ports": ("Json",),
}  # fmt: skip
_HOME = {name: module for module, names in _HOMES.items() for name in names}


if not TYPE_CHECKING:  # a type checker would take any name for known

    def __getattr__(name: str) -> Any:
        if name not in _HOME:
            raise AttributeError(f"module 'weft' has no attribute {name!r}")
        home = _HOME[name]
        # Middleware is a room as a whole, which its own room does not import.
        found = globals()[name] = getattr(import_module(home), name, None) or import_module(f"{home}.{name}")
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
