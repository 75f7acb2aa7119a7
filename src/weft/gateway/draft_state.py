"""What a draft keeps is its tenant's alone: it shares no state with the registry, nor with what others send."""

from __future__ import annotations

from typing import Any, cast

from weft.expr.jcs import hash_of
from weft.ir.document import ToolDef
from weft.ir.nodes import Node
from weft.ir.walk import alter
from weft.patterns.contract import Pattern

LONGEST = 128
"""How long the name of a circuit or a throttle may be."""


def kept_apart(tool: ToolDef, tenant: str) -> ToolDef:
    """Return a draft whose circuits, throttles and caches are those of a tenant, whatever it calls them."""

    def change(node: Node) -> Node | None:
        if not isinstance(node, Pattern):
            return None
        changed: dict[str, Any] = {}
        for claim in node.claims():
            changed["name"] = own_name(claim.name, tenant)
        if getattr(node, "scope", None) == "public":
            # What it keeps without a name lies under the hash of the document, which anybody can send.
            changed["scope"] = "tenant"
        return node.model_copy(update=changed) if changed else None

    return cast(ToolDef, alter(tool, change))


def own_name(name: str, tenant: str) -> str:
    """Return what a tenant's draft really means by the name of a circuit or a throttle."""
    # A bar in the name of a tenant must not make it another tenant's.
    whose = tenant.replace("%", "%25").replace("|", "%7C")
    told = f"draft|{whose}|{name}"
    return told if len(told) <= LONGEST else f"draft|{hash_of([tenant, name])[:64]}"
