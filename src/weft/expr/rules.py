"""Conditions of policy rules: CEL over who calls, which tool, of which server."""

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
"""What conditions may name."""

Condition: TypeAlias = Callable[[Mapping[str, Any]], bool]
_LITERAL: Final = re.compile(r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"")
_FIELD: Final = re.compile(r"(?<![\w.])(principal|tool|server)\s*\.\s*([A-Za-z_]\w*)(?!\s*\()")


def compile_rule(text: str) -> Condition:
    """Return the condition of a rule.

    Raises:
        ExpressionInvalid: it does not compile, or names a field that there is not.
    """
    condition = compile_condition(text, tuple(FIELDS))
    for found in _FIELD.finditer(_LITERAL.sub("''", text)):
        variable, name = found.groups()
        if name not in FIELDS[variable]:
            raise ExpressionInvalid(
                f"Invalid condition {shown(text)}: {variable} has no {name!r}",
                code="CelUnknownName",
                value=text,
                expected=", ".join(f"{variable}.{one}" for one in FIELDS[variable]),
                suggestion=f"{variable}.{close}" if (close := nearest(name, FIELDS[variable])) else None,
            )
    return condition
