"""What a tool of the registry is listed as: its schemas, and the annotations that follow from what it calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from weft.expr.shapes import ANY
from weft.gateway.results import is_wrapped_input, served_schema, taken_schema
from weft.ir.document import Document, ToolDef
from weft.ir.operations import AgentCall, ToolCall
from weft.ir.walk import walk
from weft.plan.typeflow import TypeFlow, declared_input, declared_output, source_ref
from weft.ports import WRAPPED, Schema, ToolRef, ToolType, Upstream, is_array, is_object
from weft.registry.graph import references
from weft.registry.tools import Tools, key_of

HINTS = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": True}
"""What a server that says nothing of a tool says by that."""


VERSION = "weft/version"
DEPRECATED = "weft/deprecated"
"""In `_meta` of a tool: which version it is, and that it should not be used any more, with the reason if it is told."""

Find: TypeAlias = Callable[[ToolRef], Mapping[str, Any] | None]
"""Returns what a server says of its tool, if there is such a server and tool."""


class Descriptions:
    """Describes the tools of one document, over what the upstreams offer now."""

    def __init__(self, document: Document, upstream: Upstream, find: Find) -> None:
        self._tools = Tools(document)
        self._flow = TypeFlow(document, upstream)
        self._upstream = upstream
        self._find = find
        self._leaves: dict[str, frozenset[ToolRef]] = {}
        """By name and version: what two versions of a tool call is not the same."""

    def listed(self, tool: ToolDef) -> dict[str, Any]:
        """Return the tool as `tools/list` has it."""
        base = self._base(tool)
        told: dict[str, Any] = {**base, "name": tool.name}
        if tool.title is not None:
            told["title"] = tool.title
        if tool.description is not None:
            told["description"] = tool.description
        told["inputSchema"] = self._input(tool, base)
        output, wrapped = self._output(tool)
        told.update(output)
        if "annotations" not in told:
            told["annotations"] = combined(self._annotations(ref) for ref in self.leaves(tool))
        if meta := {**_object(base.get("_meta")), **wrapped, **_of_version(tool)}:
            told["_meta"] = meta
        return told

    def takes_whole(self, tool: ToolDef) -> bool:
        """Tell whether a tool is a function of one value that is no object, which comes as the property `input`."""
        kind = self._type(tool).input if tool.spec is None else None
        return kind is not None and is_wrapped_input(kind)

    def leaves(self, tool: ToolDef) -> frozenset[ToolRef]:
        """Return every upstream tool that a tool may call, however deep."""
        key = key_of(tool.name, tool.version)
        if key in self._leaves:
            return self._leaves[key]
        self._leaves[key] = frozenset()
        found = set[ToolRef]()
        if tool.spec is None:
            found.add(made_of(tool))
        else:
            owner = self._tools.meant(tool.name, tool.version)
            for name, version in {(reference.name, reference.version) for reference in references(tool)}:
                inner = self._tools.meant(name, version, by=owner)
                found |= {ToolRef(name)} if inner is None else self.leaves(self._tools.all[inner])
            found |= _direct(tool)
        self._leaves[key] = frozenset(found)
        return self._leaves[key]

    def _base(self, tool: ToolDef) -> dict[str, Any]:
        """Return what is said of a tool where it comes from, when it is one of a server, or a Python function."""
        if tool.spec is not None:
            return {}
        described = self._described(tool)
        if described is not None:
            return {key: value for key, value in described.items() if key != "name"}
        kind = self._type(tool)
        told = {"description": kind.description, "annotations": kind.annotations}
        return {key: value for key, value in told.items() if value is not None}

    def _described(self, tool: ToolDef) -> Mapping[str, Any] | None:
        return self._find(made_of(tool)) if tool.spec is None else None

    def _type(self, tool: ToolDef) -> ToolType:
        return self._upstream.describe(made_of(tool)) or ToolType()

    def _input(self, tool: ToolDef, base: Mapping[str, Any]) -> Schema:
        declared = declared_input(tool)
        if tool.spec is not None or declared:
            return taken_schema(declared)
        schema: object = base.get("inputSchema")
        known = schema if is_object(schema) else self._type(tool).input
        if tool.source is None or known is None:
            return taken_schema(known or ANY)
        return narrowed(known, hidden=tool.source.hide_fields, defaults=tool.source.defaults)

    def _output(self, tool: ToolDef) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what the results look like, and whether they are wrapped; nothing of results that are passed on."""
        if tool.spec is None and tool.output_transform is None and self._described(tool) is not None:
            declared = declared_output(tool)
            # What is no object comes wrapped from its server, too: MCP has no other way.
            return ({"outputSchema": served_schema(declared)[0]} if declared else {}), {}
        schema, wrapped = served_schema(self._flow.output_of(tool.name, tool.version))
        return {"outputSchema": schema}, {WRAPPED: wrapped} if wrapped else {}

    def _annotations(self, ref: ToolRef) -> Mapping[str, Any]:
        described = self._find(ref)
        if described is None:
            kind = self._upstream.describe(ref)
            return (kind.annotations if kind is not None else None) or {}
        hints: object = described.get("annotations")
        return hints if is_object(hints) else {}


def _of_version(tool: ToolDef) -> dict[str, Any]:
    """Return what `_meta` says of a tool's version (REG-42)."""
    told: dict[str, Any] = {} if tool.version is None else {VERSION: tool.version}
    return {**told, DEPRECATED: tool.deprecation_message or True} if tool.deprecated else told


def _object(value: object) -> dict[str, Any]:
    return value if is_object(value) else {}


def made_of(tool: ToolDef) -> ToolRef:
    """Return the tool of a server, or the function, that a tool without a spec stands for."""
    return source_ref(tool) if tool.source is not None else ToolRef(tool.name)


def _direct(tool: ToolDef) -> set[ToolRef]:
    """Return the tools of servers and the agents that a spec names outright."""
    found = set[ToolRef]()
    assert tool.spec is not None
    for _, node in walk(tool.spec, ()):
        if isinstance(node, ToolCall) and node.server is not None:
            found.add(ToolRef(node.name, node.server, node.version))
        elif isinstance(node, AgentCall):
            found.add(ToolRef(node.name, version=node.version, skill=node.skill))
    return found


def combined(hints: Iterable[Mapping[str, Any]]) -> dict[str, bool]:
    """Return the annotations of a tool that calls others: read-only if all are, destructive if any is."""
    all_hints = [{**HINTS, **one} for one in hints]
    read_only = all(one["readOnlyHint"] is True for one in all_hints)
    return {
        "readOnlyHint": read_only,
        # A tool that only reads destroys nothing, whatever else it says.
        "destructiveHint": any(one["readOnlyHint"] is not True and one["destructiveHint"] is True for one in all_hints),
        "idempotentHint": all(one["readOnlyHint"] is True or one["idempotentHint"] is True for one in all_hints),
        "openWorldHint": any(one["openWorldHint"] is True for one in all_hints),
    }


def narrowed(schema: Schema, *, hidden: Iterable[str], defaults: Mapping[str, Any]) -> Schema:
    """Return a tool's input schema without what a virtual tool hides, and with what it fills in made optional."""
    gone = frozenset(hidden)
    properties: object = schema.get("properties")
    required: object = schema.get("required")
    told = dict(schema)
    if is_object(properties):
        kept = {name: inner for name, inner in properties.items() if name not in gone}
        for name, value in defaults.items():
            if is_object(inner := kept.get(name)):
                kept[name] = {**inner, "default": value}
        told["properties"] = kept
    if is_array(required):
        needed = [name for name in required if name not in gone and name not in defaults]
        told["required"] = needed
        if not needed:
            del told["required"]
    return told
