"""Leaves: the calls of tools that are no compositions, and how values become their arguments."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from weft.errors import ExecutionFailed, NotFound, ToolFailed, UpstreamUnavailable, WeftError, said_by, shown
from weft.expr.shapes import properties_of
from weft.ir.document import ToolDef
from weft.ir.nodes import JSON_TYPES
from weft.patterns.contract import Call, Run, Value, type_name
from weft.plan.typeflow import sole_property
from weft.ports import Invoke, Schema, ToolRef, is_object

JSON = frozenset(JSON_TYPES)


def absent(ref: ToolRef, known: list[str]) -> Run:
    """Return the call of a tool that nobody has."""

    async def run(value: Value, call: Call) -> Value:
        raise NotFound("Tool", str(ref), known)

    return run


def leaf(
    tool: str,
    invoke: Invoke,
    shape: Callable[[Value], Value] | None,
    transform: Callable[[Value], Value] | None,
) -> Run:
    """Return the call of an upstream tool: counted, bounded, its own exceptions told as the tool's failure."""

    async def run(value: Value, call: Call) -> Value:
        root = call.root
        arguments = value if shape is None else shape(value)
        root.calls_left -= 1
        if root.calls_left < 0 or root.places_left <= 0:
            await root.wait()
        root.places_left -= 1
        try:
            result = await invoke(arguments, call)
        except WeftError:
            raise
        except asyncio.CancelledError as error:
            # Nobody cancelled this branch: the tool did so to itself, which is its own failure.
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            raise ToolFailed(tool, "it was cancelled from within") from error
        except ConnectionError as error:
            reason = said_by(error).removeprefix(f"{type(error).__name__}: ")
            raise UpstreamUnavailable(tool, reason) from error
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            # Even a tool that would end the whole program only ends its own call.
            raise ToolFailed(tool, said_by(error)) from error
        finally:
            root.leave()
        if result.__class__ not in JSON:
            raise ToolFailed(tool, f"it gave {type(result).__name__}, which is not JSON")
        return result if transform is None else transform(result)

    return run


def shape_for(tool: str, schema: Schema) -> Callable[[Value], Value] | None:
    """Return how a value becomes a tool's arguments: an object is them, another value is the sole property."""
    if schema.get("type") != "object":
        return None
    name = sole_property(schema)

    def shape(value: Value) -> Value:
        if type(value) is dict:
            return value  # pyright: ignore[reportUnknownVariableType]  (the fields are anything)
        if name is None:
            candidates = ", ".join(properties_of(schema)) or "none"
            raise ExecutionFailed(
                f"Tool '{tool}' takes an object and was given {type_name(value)}",
                hint=f"give it an object; its properties: {candidates}",
            )
        return {name: value}

    return shape


def virtual_arguments(tool: ToolDef, shape: Callable[[Value], Value] | None = None) -> Callable[[Value], Value] | None:
    """Add a virtual tool's defaults, and refuse arguments that it hides."""
    source = tool.source
    assert source is not None
    hidden, defaults = frozenset(source.hide_fields), source.defaults
    if not hidden and not defaults:
        return shape

    def prepared(value: Value) -> Value:
        arguments = value if shape is None else shape(value)
        if not is_object(arguments):
            return arguments
        if hidden and not hidden.isdisjoint(arguments):
            name = next(iter(hidden & arguments.keys()))
            raise ExecutionFailed(f"Tool '{tool.name}' takes no argument {shown(name)}")
        return {**defaults, **arguments}

    return prepared
