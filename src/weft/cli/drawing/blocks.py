"""A composition as blocks: boxes, columns of them, fans that part and meet again, frames around a part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from weft.errors import NotFound
from weft.gateway.outlook import outlook
from weft.ir.bindings import Binding
from weft.ir.document import INTERNAL, Document, ToolDef
from weft.ir.nodes import Node
from weft.ir.operations import AgentCall, CompositionCall, ToolCall, kind_of
from weft.ir.predicates import FieldPredicate
from weft.ir.walk import operations_below
from weft.patterns.aggregation import Aggregation, AggregationOp
from weft.patterns.enricher import Enricher
from weft.patterns.filter import Filter
from weft.patterns.map_each import MapEach
from weft.patterns.pipeline import Pipeline
from weft.patterns.recipient_list import RecipientList
from weft.patterns.router import Router
from weft.patterns.scatter_gather import ScatterGather
from weft.patterns.schema_map import SchemaMap
from weft.patterns.wire_tap import WireTap
from weft.patterns.workflow import Workflow
from weft.registry.tools import newest_tools

Kind = Literal["end", "tool", "composition", "agent", "data", "control"]
SIGNS = {"eq": "=", "ne": "≠", "gt": ">", "gte": "≥", "lt": "<", "lte": "≤"}


@dataclass(frozen=True, slots=True)
class Box:
    """One thing that happens."""

    title: str
    detail: str = ""
    kind: Kind = "control"


@dataclass(frozen=True, slots=True)
class Column:
    """Blocks one after the other, each with what is said on the way to it."""

    items: tuple[tuple[str, Block], ...]


@dataclass(frozen=True, slots=True)
class Branch:
    """One way out of a fan; `aside` is one that never comes back."""

    label: str
    block: Block
    aside: bool = False


@dataclass(frozen=True, slots=True)
class Fan:
    """Blocks side by side, below a head; where they meet again is the tail, if anything happens there."""

    head: Box
    branches: tuple[Branch, ...]
    tail: Box | None = None


@dataclass(frozen=True, slots=True)
class Frame:
    """A block with a line around it and a title."""

    title: str
    block: Block


Block: TypeAlias = "Box | Column | Fan | Frame"


def entry_label(label: str, block: Block) -> str:
    """Return what is said on the way into a block: the label given to it, then that of its first step."""
    match block:
        case Column():
            inner = entry_label(*block.items[0])
        case Frame():
            inner = entry_label("", block.block)
        case _:
            inner = ""
    return "; ".join(part for part in (label, inner) if part)


def blocks_of(document: Document, name: str) -> Block:
    """Return a tool of a document as blocks, with its input above and its result below.

    Raises:
        NotFound: there is no such tool.
    """
    drawing = _Drawing(document)
    tool = drawing.tools.get(name)
    if tool is None:
        known = [one for one in drawing.tools if not one.startswith(INTERNAL)]
        raise NotFound("Composition", name, known)
    body = drawing.block(tool.spec) if tool.spec is not None else drawing.call(tool.name)
    before, after = Box("input", tool.input_type or "", "end"), Box("result", tool.output_type or "", "end")
    return Column((("", before), ("", body), ("", after)))


class _Drawing:
    """Draws parts where they are used, and other compositions as one box."""

    def __init__(self, document: Document) -> None:
        self.tools: dict[str, ToolDef] = {tool.name: tool for tool in newest_tools(document)}
        self._within: list[str] = []

    def block(self, node: Node) -> Block:
        """Return an operation as a block; a pattern that is not known here is a fan of what it holds."""
        if isinstance(node, ToolCall) and node.server is not None:
            return Box(node.name, f"on {node.server}", "tool")
        if isinstance(node, ToolCall | CompositionCall):
            return self.call(node.name)
        if isinstance(node, AgentCall):
            return Box(node.name, node.skill, "agent")
        draw = _PATTERNS.get(type(node))
        if draw is not None:
            return draw(self, node)
        return Fan(Box(kind_of(node)), tuple(Branch("", self.block(inner)) for inner in operations_below(node)))

    def call(self, name: str) -> Block:
        """Return the call of a tool or composition by name."""
        tool = self.tools.get(name)
        if tool is None or tool.spec is None:
            source = tool.source if tool is not None else None
            return Box(name, f"{source.tool} on {source.server}" if source is not None else "", "tool")
        if not tool.internal or name in self._within:
            return Box(name, "composition", "composition")
        self._within.append(name)
        inner = self.block(tool.spec)
        self._within.pop()
        return Frame(name.removeprefix(INTERNAL), inner)

    def pipeline(self, node: Pipeline) -> Block:
        """Return steps as a column; on the way to a step stand its condition and where else its input comes from."""
        items: list[tuple[str, Block]] = []
        for index, step in enumerate(node.steps):
            earlier = node.steps[index - 1].id if index else None
            said = [f"if {step.condition}" if step.condition else "", _binding(step.input, earlier)]
            items.append(("; ".join(part for part in said if part), self.block(step.operation)))
        if node.output is not None:
            items.append(("", Box("output", _binding(node.output, node.steps[-1].id) or "$", "data")))
        return Column(tuple(items))

    def router(self, node: Router) -> Block:
        """Return routes side by side, each with its condition."""
        routes = [
            Branch(route.condition or _predicate(route.predicate), self.block(route.target)) for route in node.routes
        ]
        if node.default is not None:
            routes.append(Branch("otherwise", self.block(node.default)))
        return Fan(Box("router", "the first that holds"), tuple(routes))

    def scatter_gather(self, node: ScatterGather) -> Block:
        """Return targets side by side, and the aggregation below them."""
        said = ["all at once"]
        said += [f"within {node.timeout_ms / 1000:g} s"] if node.timeout_ms is not None else []
        said += ["fail fast"] if node.fail_fast else []
        targets = tuple(Branch("", self.block(target)) for target in node.targets)
        return Fan(Box("scatter", ", ".join(said)), targets, Box("gather", _aggregation(node.aggregation)))

    def map_each(self, node: MapEach) -> Block:
        """Return a frame around what is done to each item."""
        options = [f"on error {node.on_error}"] if node.on_error != "fail" else []
        options += [f"{node.max_concurrency} at once"] if "max_concurrency" in node.model_fields_set else []
        return Frame(", ".join(["for each item", *options]), self.block(node.inner))

    def enricher(self, node: Enricher) -> Block:
        """Return the fields that are added, side by side."""
        fields = [
            Branch(f"{one.field}{f' from {one.input.path}' if one.input else ''}", self.block(one.operation))
            for one in node.enrichments
        ]
        return Fan(Box("enricher"), tuple(fields), Box("merge", node.merge_strategy))

    def wire_tap(self, node: WireTap) -> Block:
        """Return the taps beside what they listen to."""
        taps = tuple(Branch(f"tap {node.tap_point}", self.block(tap), aside=True) for tap in node.taps)
        return Fan(Box("wireTap"), (Branch("", self.block(node.inner)), *taps))

    def recipient_list(self, node: RecipientList) -> Block:
        """Return the tools that may be chosen, side by side."""
        chosen = node.recipients.path or "asked for"
        allowed = tuple(Branch("if named", self.call(name)) for name in node.allowed)
        return Fan(Box("recipientList", chosen), allowed, Box("gather", _aggregation(node.aggregation)))

    def workflow(self, node: Workflow) -> Block:
        """Return steps level by level: those of a level wait for nothing of each other."""
        plan = outlook(node, {}, {})
        told = {one["id"]: one for one in plan["steps"]}
        items: list[tuple[str, Block]] = []
        for number, level in enumerate(plan["levels"]):
            before: list[str] = plan["levels"][number - 1] if number else []
            ways = [(_way(told[id], before), self._step(node, id)) for id in level]
            branches = tuple(Branch(way, block) for way, block in ways)
            items.append(ways[0] if len(ways) == 1 else ("", Fan(Box("at once"), branches)))
        if node.output is not None:
            items.append(("", Box("output", "", "data")))
        return Column(tuple(items))

    def _step(self, workflow: Workflow, id: str) -> Block:
        step = next(one for one in workflow.steps if one.id == id)
        undone = f"undone by {step.undo.tool.name}" if step.undo is not None else ""
        if step.elicit is not None:
            return Box(id, "asks a person")
        if step.tool is not None:
            block: Block = Box(id, "; ".join(filter(None, (step.tool.name, undone))), "tool")
        else:
            assert step.operation is not None, "a step does one thing"
            block = Frame(id, self.block(step.operation))
        return block if step.for_each is None else Frame("for each item", block)


def _way(told: dict[str, Any], before: list[str]) -> str:
    """Return what is said on the way to a step: its condition, and what it waits for, unless that stands above it."""
    waits: list[str] = told["waits_for"]
    after = f"after {', '.join(waits)}" if waits and sorted(waits) != sorted(before) else ""
    return "; ".join(filter(None, (f"if {told['when']}" if "when" in told else "", after)))


def _filter(_: _Drawing, node: Filter) -> Block:
    return Box("filter", _predicate(node.predicate), "data")


def _schema_map(_: _Drawing, node: SchemaMap) -> Block:
    return Box("schemaMap", ", ".join(node.mappings), "data")


_PATTERNS: dict[type[Node], Callable[[_Drawing, Any], Block]] = {
    Pipeline: _Drawing.pipeline,
    Router: _Drawing.router,
    ScatterGather: _Drawing.scatter_gather,
    Filter: _filter,
    SchemaMap: _schema_map,
    MapEach: _Drawing.map_each,
    Enricher: _Drawing.enricher,
    WireTap: _Drawing.wire_tap,
    RecipientList: _Drawing.recipient_list,
    Workflow: _Drawing.workflow,
}


def _predicate(predicate: FieldPredicate | None) -> str:
    if predicate is None:
        return ""
    told = predicate.to_ir()
    value = f" {told['value']!r}" if "value" in told else ""
    return f"{predicate.field} {SIGNS.get(predicate.op, predicate.op.replace('_', ' '))}{value}"


def _aggregation(aggregation: Aggregation) -> str:
    """Return the operations in words: `flatten, sort $.relevance desc`."""
    return ", ".join(_op(op) for op in aggregation.ops) or "as a list"


def _op(op: AggregationOp) -> str:
    body = op.chosen.to_ir() if isinstance(op.chosen, Node) else {}
    return " ".join([op.kind, *(str(value) for value in body.values())])


def _binding(binding: Binding | None, earlier: str | None) -> str:
    """Return where a step's input comes from, unless it is simply what came before."""
    if binding is None:
        return ""
    if binding.step is not None:
        path = "" if binding.step.path == "$" else f" {binding.step.path}"
        return path.strip() if binding.step.step_id == earlier else f"from {binding.step.step_id}{path}"
    if binding.input is not None:
        path = "" if binding.input.path == "$" else f" {binding.input.path}"
        return path.strip() if earlier is None else f"from input{path}"
    if binding.previous is not None:
        return "" if binding.previous.path == "$" else binding.previous.path
    if binding.constant is not None:
        return f"constant {binding.constant.value!r}"
    fields = binding.assembled.fields if binding.assembled is not None else {}
    return f"{{{', '.join(fields)}}}"
