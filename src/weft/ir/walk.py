"""Walking a document's nodes, with their places."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, get_args

from weft.errors import Loc
from weft.ir.nodes import Node
from weft.ir.operations import is_operation, kind_of
from weft.ports import is_array, is_object


@cache
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
        elif is_array(value):
            pending += [((*here, index), value[index]) for index in range(len(value) - 1, -1, -1)]
        elif is_object(value):
            pending += [((*here, key), value[key]) for key in reversed(value)]


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
    elif is_array(value) or is_object(value):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _operations(item)


def rewrite(node: Node, change: Callable[[Node], Node | None]) -> Node:
    """Return the node with every operation below it replaced by what `change` makes of it, from the inside out."""
    rebuilt = _rebuilt(node, lambda inner: rewrite(inner, change))
    if is_operation(node):
        return change(node) or rebuilt
    return rebuilt


def alter(node: Node, change: Callable[[Node], Node | None]) -> Node:
    """Return the node with every operation in it, itself too, changed: the outer first, then what is in it."""
    changed = (change(node) or node) if is_operation(node) else node
    return _rebuilt(changed, lambda inner: alter(inner, change))


def _rebuilt(node: Node, each: Callable[[Node], Node]) -> Node:
    updates: dict[str, Any] = {}
    for name in node.model_fields_set:
        old = getattr(node, name)
        new = _mapped(old, each)
        if new is not old:
            updates[name] = new
    return node.model_copy(update=updates) if updates else node


def _mapped(value: Any, each: Callable[[Node], Node]) -> Any:
    if isinstance(value, Node):
        return each(value)
    if is_array(value):
        new = [_mapped(item, each) for item in value]
        return new if any(a is not b for a, b in zip(value, new, strict=True)) else value
    if is_object(value):
        changed = {key: _mapped(item, each) for key, item in value.items()}
        return changed if any(changed[key] is not value[key] for key in value) else value
    return value
