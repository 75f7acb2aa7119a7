"""The compiler: names resolved, patterns compiled, tools bound to their upstreams; once, at load."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from weft.errors import (
    DocumentInvalid,
    ExecutionFailed,
    NotFound,
    Problem,
    ToolFailed,
    UpstreamUnavailable,
    WeftError,
    shown,
)
from weft.ir.document import Document, ToolDef
from weft.ir.nodes import Node
from weft.ir.operations import AgentCall, CompositionCall, ToolCall, kind_of
from weft.patterns.contract import Call, Pattern, Pure, Run, Step, Value, type_name
from weft.plan.snapshot import Snapshot
from weft.plan.typeflow import TypeFlow, declared_input, sole_property, source_ref
from weft.ports import Invoke, Schema, ToolRef, ToolType, Upstream
from weft.registry.graph import check_cycles, check_names


def check(
    document: Document, upstream: Upstream | None = None, *, known: frozenset[str] = frozenset()
) -> list[Problem]:
    """Return every problem that can be found before running: names, circles, types.

    `known` are names that exist although the document does not have them.
    """
    elsewhere = frozenset(upstream.names()) if upstream is not None else None
    problems = [*check_names(document, known, elsewhere), *check_cycles(document)]
    if not any(problem.code in ("Cycle", "RecursionLimit") for problem in problems):
        problems += TypeFlow(document, upstream).check()
    return problems


def compile_document(document: Document, upstream: Upstream, *, problems: Iterable[Problem] = ()) -> Snapshot:
    """Return the document as a snapshot that runs against the upstream.

    Raises:
        DocumentInvalid: with every problem, when there is an error among them.
    """
    found = [*problems, *check(document)]
    if any(problem.severity == "error" for problem in found):
        raise DocumentInvalid(found)
    compiler = _Compiler(document, upstream)
    flow = TypeFlow(document, upstream)
    tools = {tool.name: compiler.named(tool.name) for tool in document.tools}
    types = {tool.name: ToolType(declared_input(tool), flow.output_of(tool.name)) for tool in document.tools}
    return Snapshot(document, tools, types, tuple(found))


class _Compiler:
    """Compiles each composition once, however many places name it."""

    def __init__(self, document: Document, upstream: Upstream) -> None:
        self._tools = {tool.name: tool for tool in document.tools}
        self._upstream = upstream
        self._named: dict[str, Step] = {}

    def operation(self, operation: Node, name: str) -> Step:
        """Return a nested operation, compiled, under the name of its place."""
        if isinstance(operation, Pattern):
            return _step(name, kind_of(operation), operation.compile(self))
        if isinstance(operation, ToolCall) and operation.server is not None:
            ref = ToolRef(operation.name, operation.server, operation.version)
            return self._upstream_tool(operation.name, ref, name, None)
        if isinstance(operation, AgentCall):
            ref = ToolRef(operation.name, version=operation.version, skill=operation.skill)
            return self._upstream_tool(operation.name, ref, name, None)
        assert isinstance(operation, ToolCall | CompositionCall)
        found = self.named(operation.name)
        return Step(name, found.kind, found.run, found.pure, operation.name)

    def branch(self, operation: Node, fallback: str) -> Step:
        """Return a nested operation under the name of the tool that it calls, when it does nothing else."""
        return self.operation(operation, getattr(operation, "name", fallback) if _is_call(operation) else fallback)

    def named(self, tool: str) -> Step:
        """Return the tool or composition of that name, compiled."""
        if tool not in self._named:
            definition = self._tools.get(tool)
            self._named[tool] = (
                self._upstream_tool(tool, ToolRef(tool), tool, None)
                if definition is None
                else self._defined(definition)
            )
        return self._named[tool]

    def _defined(self, tool: ToolDef) -> Step:
        if tool.spec is not None:
            inner = self.operation(tool.spec, tool.name)
            return Step(tool.name, "composition", inner.run, inner.pure, tool.name)
        if tool.source is None:
            return self._upstream_tool(tool.name, ToolRef(tool.name), tool.name, tool)
        return self._upstream_tool(tool.name, source_ref(tool), tool.name, tool)

    def _upstream_tool(self, tool: str, ref: ToolRef, place: str, definition: ToolDef | None) -> Step:
        invoke = self._upstream.bind(ref)
        if invoke is None:
            return Step(place, "tool", _absent(ref, self._upstream.names()), None, tool)
        described = self._upstream.describe(ref)
        schema = described.input if described is not None else None
        shape = _shape(tool, schema) if schema else None
        if definition is not None and definition.source is not None:
            shape = _virtual(definition, shape)
        transform = self._transform(definition)
        return Step(place, "tool", _leaf(tool, invoke, shape, transform), None, tool)

    def _transform(self, definition: ToolDef | None) -> Callable[[Value], Value] | None:
        if definition is None or definition.output_transform is None:
            return None
        step = self.operation(definition.output_transform, "outputTransform")
        if step.pure is None:
            raise DocumentInvalid(
                [
                    Problem(
                        code="TransformCalls", message=f"the outputTransform of {definition.name!r} may only move data"
                    )
                ]
            )
        return step.pure.fn


def _is_call(operation: Node) -> bool:
    return isinstance(operation, ToolCall | CompositionCall | AgentCall)


def _step(name: str, kind: str, compiled: Run | Pure) -> Step:
    if not isinstance(compiled, Pure):
        return Step(name, kind, compiled)
    fn = compiled.fn

    async def run(value: Value, call: Call) -> Value:
        return fn(value)

    return Step(name, kind, run, compiled)


def _absent(ref: ToolRef, known: list[str]) -> Run:
    async def run(value: Value, call: Call) -> Value:
        raise NotFound("Tool", str(ref), known)

    return run


def _leaf(
    tool: str,
    invoke: Invoke,
    shape: Callable[[Value], Value] | None,
    transform: Callable[[Value], Value] | None,
) -> Run:
    """Return the call of an upstream tool: counted, bounded, its own exceptions told as the tool's failure."""

    async def run(value: Value, call: Any) -> Value:
        root = call.root
        arguments = value if shape is None else shape(value)
        # The first places are free for all, so that the common case needs no coroutine of its own.
        if not root.enter_at_once():
            await root.enter()
        try:
            result = await invoke(arguments, call)
        except WeftError:
            raise
        except ConnectionError as error:
            raise UpstreamUnavailable(tool, str(error) or type(error).__name__) from error
        except Exception as error:
            raise ToolFailed(tool, f"{type(error).__name__}: {error}") from error
        finally:
            root.leave()
        return result if transform is None else transform(result)

    return run


def _shape(tool: str, schema: Schema) -> Callable[[Value], Value] | None:
    """Return how a value becomes a tool's arguments: an object is them, another value is the sole property."""
    if schema.get("type") != "object":
        return None
    name = sole_property(schema)

    def shape(value: Value) -> Value:
        if type(value) is dict:
            return value
        if name is None:
            candidates = ", ".join(cast("Mapping[str, Any]", schema.get("properties", {}))) or "none"
            raise ExecutionFailed(
                f"Tool '{tool}' takes an object and was given {type_name(value)}",
                hint=f"give it an object; its properties: {candidates}",
            )
        return {name: value}

    return shape


def _virtual(tool: ToolDef, shape: Callable[[Value], Value] | None) -> Callable[[Value], Value] | None:
    """Add a virtual tool's defaults, and refuse arguments that it hides."""
    source = tool.source
    assert source is not None
    hidden, defaults = frozenset(source.hide_fields), source.defaults
    if not hidden and not defaults:
        return shape

    def prepared(value: Value) -> Value:
        arguments = value if shape is None else shape(value)
        if type(arguments) is not dict:
            return arguments
        given = cast("dict[str, Value]", arguments)
        if hidden and not hidden.isdisjoint(given):
            name = next(iter(hidden & given.keys()))
            raise ExecutionFailed(f"Tool '{tool.name}' takes no argument {shown(name)}")
        return {**defaults, **given}

    return prepared
