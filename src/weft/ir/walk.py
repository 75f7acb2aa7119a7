"""Walking a document's nodes, with their places."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, cast

from weft.ir.nodes import Node
from weft.ir.operations import is_operation, kind_of

Loc: TypeAlias = "tuple[str | int, ...]"


def walk(node: Node, loc: Loc = ()) -> Iterator[tuple[Loc, Node]]:
    """Yield a node and all below it; the place of an operation includes its key."""
    here = (*loc, kind_of(node)) if is_operation(node) else loc
    yield here, node
    for name, field in type(node).model_fields.items():
        if name in node.model_fields_set:
            yield from _walk(getattr(node, name), (*here, field.alias or name))


def _walk(value: Any, loc: Loc) -> Iterator[tuple[Loc, Node]]:
    if isinstance(value, Node):
        yield from walk(value, loc)
    elif isinstance(value, list):
        for index, item in enumerate(cast("list[Any]", value)):
            yield from _walk(item, (*loc, index))
    elif isinstance(value, dict):
        for key, item in cast("dict[str, Any]", value).items():
            yield from _walk(item, (*loc, key))


def operations_below(node: Node) -> Iterator[Node]:
    """Yield the operations right below a node, not those below them."""
    for name in type(node).model_fields:
        if name in node.model_fields_set:
            yield from _operations(getattr(node, name))


def _operations(value: Any) -> Iterator[Node]:
    if isinstance(value, Node):
        if is_operation(value):
            yield value
        else:
            yield from operations_below(value)
    elif isinstance(value, list | dict):
        items = cast("dict[str, Any]", value).values() if isinstance(value, dict) else cast("list[Any]", value)
        for item in items:
            yield from _operations(item)


def rewrite(node: Node, change: Callable[[Node], Node | None]) -> Node:
    """Return the node with every operation below it replaced by what `change` makes of it, from the inside out."""
    updates: dict[str, Any] = {}
    for name in node.model_fields_set:
        old = getattr(node, name)
        new = _rewrite(old, change)
        if new is not old:
            updates[name] = new
    rebuilt = node.model_copy(update=updates) if updates else node
    if is_operation(node):
        return change(node) or rebuilt
    return rebuilt


def _rewrite(value: Any, change: Callable[[Node], Node | None]) -> Any:
    if isinstance(value, Node):
        return rewrite(value, change)
    if isinstance(value, list):
        old = cast("list[Any]", value)
        new = [_rewrite(item, change) for item in old]
        return new if any(a is not b for a, b in zip(old, new, strict=True)) else old
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        changed = {key: _rewrite(item, change) for key, item in table.items()}
        return changed if any(changed[key] is not table[key] for key in table) else table
    return value
