"""Conditions about calls: CEL over who calls, which tool, of which server, or with which arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from weft.errors import ExpressionInvalid, nearest, shown
from weft.expr.cel import compile_condition

FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "principal": ("tenant", "subject", "issuer", "agentName", "agentVersion", "scopes", "method", "strength"),
    "tool": ("name", "version", "deprecated", "annotations"),
    "server": ("name", "version"),
}
"""What conditions of policy rules may name."""

CALL_FIELDS: Final[Mapping[str, tuple[str, ...] | None]] = {
    "principal": FIELDS["principal"],
    "tool": ("name", "action"),
    "arguments": None,
}
"""What conditions of middleware may name; arguments have the fields that the tool says."""

Condition: TypeAlias = Callable[[Mapping[str, Any]], bool]
_LITERAL: Final = re.compile(r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"")
_FIELD: Final = re.compile(r"(?<![\w.])([a-z]+)\s*\.\s*([A-Za-z_]\w*)(?!\s*\()")


def compile_rule(text: str) -> Condition:
    """Return the condition of a policy rule.

    Raises:
        ExpressionInvalid: it does not compile, or names a field that there is not.
    """
    return _compiled(text, FIELDS)


def compile_call_rule(text: str) -> Condition:
    """Return a condition of middleware, which knows the arguments of a call and not the server.

    Raises:
        ExpressionInvalid: it does not compile, or names a field that there is not.
    """
    return _compiled(text, CALL_FIELDS)


def _compiled(text: str, fields: Mapping[str, tuple[str, ...] | None]) -> Condition:
    condition = compile_condition(text, tuple(fields))
    for found in _FIELD.finditer(_LITERAL.sub("''", text)):
        variable, name = found.groups()
        known = fields.get(variable)
        if known is not None and name not in known:
            raise ExpressionInvalid(
                f"Invalid condition {shown(text)}: {variable} has no {name!r}",
                code="CelUnknownName",
                value=text,
                expected=", ".join(f"{variable}.{one}" for one in known),
                suggestion=f"{variable}.{close}" if (close := nearest(name, known)) else None,
            )
    return condition
