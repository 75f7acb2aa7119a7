"""Types flow: what each step gives against what the next one takes, before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.errors import ExpressionInvalid, Loc, Problem, Severity
from weft.expr.schemas import compile_schema
from weft.expr.shapes import ANY, below, deref, fits, named_type, properties_of, required_of, types_of
from weft.ir.document import Document, ToolDef
from weft.ir.nodes import Node
from weft.ir.operations import AgentCall, CompositionCall, ToolCall, kind_of
from weft.patterns.contract import Pattern
from weft.patterns.flows import said
from weft.ports import Schema, ToolRef, Upstream
from weft.registry.tools import Tools


def declared_input(tool: ToolDef) -> Schema:
    """Return what a tool says that it takes."""
    if tool.input_schema is not None:
        return tool.input_schema
    if tool.input_type:
        return named_type(tool.input_type)
    return tool.spec.takes() if isinstance(tool.spec, Pattern) else ANY


def declared_output(tool: ToolDef) -> Schema:
    """Return what a tool says that it gives."""
    if tool.output_schema is not None:
        return tool.output_schema
    return named_type(tool.output_type) if tool.output_type else ANY


def source_ref(tool: ToolDef) -> ToolRef:
    """Return what a virtual tool asks its upstream for."""
    assert tool.source is not None
    return ToolRef(tool.source.tool, tool.source.server, tool.source.server_version)


def sole_property(schema: Schema) -> str | None:
    """Return the property that takes a value which is not an object: the only required one, or the only one."""
    properties = list(properties_of(schema))
    required = [name for name in required_of(schema) if name in properties]
    if len(required) == 1:
        return required[0]
    return properties[0] if len(properties) == 1 else None


def _sound(schema: Schema | None) -> Schema:
    """Return what an upstream says of a value; a schema that is none says nothing."""
    try:
        compile_schema(schema or ANY)
    except ExpressionInvalid:
        return ANY
    return schema or ANY


class TypeFlow:
    """Follows schemas through every composition of a document and collects the problems."""

    def __init__(self, document: Document, upstream: Upstream | None) -> None:
        self.problems: list[Problem] = []
        self._reported: set[Problem] = set()
        self._known: dict[ToolRef, tuple[Schema, Schema]] = {}
        self._tools = Tools(document)
        self._upstream = upstream
        self._outputs: dict[int, Schema] = {}
        self._at: Loc = ()
        self._owner: int | None = None

    def check(self) -> list[Problem]:
        """Return the problems of all compositions."""
        for index in range(len(self._tools.all)):
            self._output(index)
        return self.problems

    def output_of(self, name: str, version: str | None = None) -> Schema:
        """Return what a tool of the document gives: as declared, else as its spec has it."""
        index = self._tools.meant(name, version)
        assert index is not None, "a tool of the document"
        return self._output(index)

    def _output(self, index: int) -> Schema:
        if index in self._outputs:
            return self._outputs[index]
        tool = self._tools.all[index]
        declared = declared_output(tool)
        self._outputs[index] = declared
        if tool.spec is None:
            return self._result(index, tool, "outputTransform", self._upstream_output(tool))
        return self._result(index, tool, "spec", declared_input(tool))

    def _upstream_output(self, tool: ToolDef) -> Schema:
        return self._described(source_ref(tool) if tool.source else ToolRef(tool.name))[1]

    def _result(self, index: int, tool: ToolDef, key: str, given: Schema) -> Schema:
        """Return what a tool gives: as declared, else what its spec or its transform makes of such a value."""
        operation = tool.spec if key == "spec" else tool.output_transform
        before, self._at = self._at, ("tools", index)
        owner, self._owner = self._owner, index
        inferred = given if operation is None else self.operation(operation, given, key)
        declared = self._outputs[index]
        if not declared:
            self._outputs[index] = inferred
        elif operation is not None:
            self._compare(inferred, declared, "the result", "outputSchema" if tool.output_schema else "outputType")
        self._at, self._owner = before, owner
        return self._outputs[index]

    def operation(self, operation: Node, given: Schema, *at: str | int) -> Schema:
        """Return what an operation gives for such a value."""
        before, self._at = self._at, (*self._at, *at, kind_of(operation))
        try:
            if isinstance(operation, Pattern):
                return operation.flow(given, self)
            if isinstance(operation, ToolCall) and operation.server is not None:
                ref = ToolRef(operation.name, operation.server, operation.version)
                return self._called(given, *self._described(ref), operation.name)
            if isinstance(operation, ToolCall | CompositionCall):
                return self._meant(operation.name, operation.version, given)
            if isinstance(operation, AgentCall):
                ref = ToolRef(operation.name, version=operation.version, skill=operation.skill)
                return self._called(given, *self._described(ref), operation.name)
            return ANY
        finally:
            self._at = before

    def named(self, tool: str, given: Schema, *at: str | int) -> Schema:
        """Return what the tool of that name gives for such a value."""
        before, self._at = self._at, (*self._at, *at)
        try:
            return self._meant(tool, None, given)
        finally:
            self._at = before

    def _meant(self, tool: str, version: str | None, given: Schema) -> Schema:
        index = self._tools.meant(tool, version, by=self._owner)
        if index is None:
            return self._called(given, *self._described(ToolRef(tool)), tool)
        definition = self._tools.all[index]
        wanted = declared_input(definition)
        if definition.spec is not None:
            self._compare(given, wanted, f"what {tool!r} is given")
            return self._output(index)
        if not wanted and definition.source is not None:
            wanted = self._described(source_ref(definition))[0]
        return self._called(given, wanted, self._output(index), tool)

    def _described(self, ref: ToolRef) -> tuple[Schema, Schema]:
        if ref not in self._known:
            told = self._upstream.describe(ref) if self._upstream is not None else None
            self._known[ref] = (ANY, ANY) if told is None else (_sound(told.input), _sound(told.output))
        return self._known[ref]

    def _called(self, given: Schema, wanted: Schema, output: Schema, tool: str) -> Schema:
        """Compare what a tool that is not a composition is given, by the rule for values that are not objects."""
        types, wanted = types_of(given), deref(wanted)
        if types is not None and "object" not in types and types_of(wanted) == frozenset({"object"}):
            name = sole_property(wanted)
            if name is None:
                candidates = ", ".join(properties_of(wanted)) or "none"
                self.error(
                    "NoSoleProperty",
                    f"{tool!r} takes an object and is given {said(given)}; no single property could take it",
                    value=said(given),
                    expected=f"an object; properties: {candidates}",
                )
                return output
            wanted = below(wanted, properties_of(wanted)[name])
        self._compare(given, wanted, f"what {tool!r} is given")
        return output

    def _compare(self, given: Schema, wanted: Schema, what: str, *at: str | int) -> None:
        verdict, why = fits(given, wanted)
        if verdict != "fine":
            report = self.error if verdict == "impossible" else self.warning
            report("TypeMismatch", f"{what} does not fit: {why}", *at, value=said(given), expected=said(wanted))

    def error(self, code: str, message: str, *at: str | int, **details: str | None) -> None:
        """Report what certainly fails."""
        self._report("error", code, message, at, details)

    def warning(self, code: str, message: str, *at: str | int, **details: str | None) -> None:
        """Report what may fail."""
        self._report("warning", code, message, at, details)

    def _report(self, severity: Severity, code: str, message: str, at: Loc, details: Mapping[str, Any]) -> None:
        problem = Problem(code=code, message=message, loc=(*self._at, *at), severity=severity, **details)
        if problem not in self._reported:
            self._reported.add(problem)
            self.problems.append(problem)
