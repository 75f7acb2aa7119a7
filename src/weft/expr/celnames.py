"""What a CEL condition names: its variables, and the steps that it reads by `steps["id"]`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple, cast

from cel_expr_python import cel

from weft.errors import ExpressionInvalid, shown
from weft.expr.cel import compile_conditions
from weft.expr.celcost import Node, tree_of

_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*+(?!\s*\()")
_RESERVED: Final = re.compile(
    "true|false|null|in|as|break|const|continue|else|for|function|if|import|let|loop|package|namespace|return|var|void|while"
)
# The library holds these to be declared already, and compiles nothing where they are declared again.
_TYPES: Final = re.compile("bool|bytes|double|dyn|int|list|map|null_type|string|type|uint")
_CONST, _IDENT, _SELECT, _CALL, _LOOP = 3, 4, 5, 6, 9
_STEPS: Final = "steps"


class ConditionNames(NamedTuple):
    """The variables of a condition, `steps` among them where it is used, and the ids that stand after `steps`."""

    variables: frozenset[str]
    steps: frozenset[str]


def may_be_variable(name: str) -> bool:
    """Tell whether a condition can use a name as a variable: a CEL identifier, neither reserved nor a type's name."""
    return bool(_WORD.fullmatch(name)) and not _RESERVED.fullmatch(name) and not _TYPES.fullmatch(name)


# A condition is asked when it is checked, when it is planned, and when it is drawn.
@lru_cache(maxsize=4096)
def names_in_condition(text: str) -> ConditionNames:
    """Return what a condition names; fields, functions, types and the variables of its own macros are not among it.

    Raises:
        ExpressionInvalid: it does not compile, or asks for a step by anything but a literal id.
    """
    words = sorted({word for word in _WORD.findall(text) if may_be_variable(word)})
    # Every word may be a variable, so that only what is wrong in itself is found wrong here.
    compile_conditions([text], words)
    expression = cel.NewEnv(variables=dict.fromkeys(words, cel.Type.DYN)).compile(text)
    variables: set[str] = set()
    steps: set[str] = set()
    for name, step in _variables(tree_of(cast("Any", expression).serialize())):
        if name == _STEPS and step is None:
            raise ExpressionInvalid(
                f"Invalid condition {shown(text)}: which step it means must be known before it runs",
                code="StepNotLiteral",
                value=text,
                expected='steps["id"] or steps.id',
            )
        variables.add(name)
        steps.update(() if step is None else (step,))
    return ConditionNames(frozenset(variables) & {*words}, frozenset(steps))


def _variables(tree: Node) -> Iterator[tuple[str, str | None]]:
    """Yield each variable; for `steps`, with the literal id after it."""
    waiting: list[tuple[Node, frozenset[str]]] = [(tree, frozenset())]
    while waiting:
        node, bound = waiting.pop()
        kind, names, parts = node
        if kind == _IDENT:
            # A leading dot names a variable even where a macro has the same name.
            if names[0] not in bound:
                yield names[0].removeprefix("."), None
        elif (step := _step(node, bound)) is not None:
            yield _STEPS, step
        elif kind == _LOOP:
            over, start, condition, again, result = parts
            inner, after = bound | {*names}, bound | {names[1]}
            waiting += [(over, bound), (start, bound), (condition, inner), (again, inner), (result, after)]
        else:
            waiting += [(part, bound) for part in parts]


def _step(node: Node, bound: frozenset[str]) -> str | None:
    """Return the id in `steps.id`, `steps["id"]` or `"id" in steps`."""
    kind, names, parts = node
    if kind == _SELECT:
        variable, name = parts[0], names
    elif kind == _CALL and names[0] in ("_[_]", "@in"):
        variable, key = parts if names[0] == "_[_]" else reversed(parts)
        name = key[1] if key[0] == _CONST else ()
    else:
        return None
    if not name or variable[0] != _IDENT or variable[1][0] in bound:
        return None
    return name[0] if variable[1][0].removeprefix(".") == _STEPS else None
