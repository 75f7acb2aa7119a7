"""Where a durable run came from: as much of its caller as another process needs to go on in its name."""

from __future__ import annotations

from typing import Any

from weft.gateway.callers import Inside, Nobody
from weft.gateway.policy import ToolFacts
from weft.patterns.contract import Call
from weft.ports import Caller, Json, Principal, is_object


def origin_of(call: Call) -> Json:
    """Return what is written of a caller: of its own workflow, the compositions through which that goes.

    And what it promises to give: the journal has the workflow without that.
    """
    inside = call.root.context
    if not isinstance(inside, Inside) or inside.through is None:
        return None
    gives = getattr(inside.run, "gives", None)
    return {"through": [_written(facts) for facts in inside.through], **({} if gives is None else {"gives": gives})}


def caller_of_run(principal: Principal, tool: str, origin: Json) -> Caller:
    """Return who a run of another day is finished for: its steps are judged as they were then."""
    name, _, version = tool.rpartition("@")
    facts = ToolFacts(name or tool, version if name else None)
    through: Any = origin.get("through") if is_object(origin) else None
    known = None if through is None else tuple(ToolFacts(**one) for one in through)
    gives: Any = origin.get("gives") if is_object(origin) else None
    return Inside(Nobody(principal=principal), {}, facts=facts, through=known, gives=gives)


def _written(facts: ToolFacts) -> dict[str, Json]:
    return {
        "name": facts.name,
        "version": facts.version,
        "server": facts.server,
        "server_version": facts.server_version,
        "deprecated": facts.deprecated,
        "annotations": dict(facts.annotations),
        "own_name": facts.own_name,
    }
