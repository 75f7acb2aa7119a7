"""Walking a document's nodes, with their places."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, TypeAlias, cast, get_args

from weft.ir.nodes import Node
from weft.ir.operations import is_operation, kind_of

Loc: TypeAlias = "tuple[str | int, ...]"


@lru_cache(maxsize=None)
def _inner_fields(model: type[Node]) -> tuple[tuple[str, str], ...]:
    """Return the fields of a model that can hold nodes, last first, each with its key."""
    fields = [(name, field.alias or name) for name, field in model.model_fields.items() if _holds(field.annotation)]
    return tuple(reversed(fields))


def _holds(annotation: Any) -> bool:
    if isinstance(annotation, type) and issubclass(annotation, Node):
        return True
    return any(_holds(one) for one in get_args(annotation))


def walk(node: Node, loc: Loc = ()) -> Iterator[tuple[Loc, Node]]:
    """Yield a node and all below it, in the order of the text; the place of an operation includes its key."""
    pending: list[tuple[Loc, Any]] = [(loc, node)]
    while pending:
        here, value = pending.pop()
        if isinstance(value, Node):
            if is_operation(value):
                here = (*here, kind_of(value))
            yield here, value
            for name, key in _inner_fields(type(value)):
                inner = getattr(value, name)
                if inner is not None:
                    pending.append(((*here, key), inner))
        elif isinstance(value, list):
            items = cast("list[Any]", value)
            pending += [((*here, index), items[index]) for index in range(len(items) - 1, -1, -1)]
        elif isinstance(value, dict):
            table = cast("dict[str, Any]", value)
            pending += [((*here, key), table[key]) for key in reversed(table)]


def operations_below(node: Node) -> Iterator[Node]:
    """Yield the operations right below a node, not those below them."""
    for name, _ in reversed(_inner_fields(type(node))):
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
