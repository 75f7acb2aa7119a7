"""The closed catalogue of patterns, by the key that documents use."""

from __future__ import annotations

from collections.abc import Mapping

from weft.ir.operations import add_kinds
from weft.patterns.cache import Cache
from weft.patterns.circuit_breaker import CircuitBreaker
from weft.patterns.claim_check import ClaimCheck
from weft.patterns.contract import Pattern
from weft.patterns.dead_letter import DeadLetter
from weft.patterns.enricher import Enricher
from weft.patterns.filter import Filter
from weft.patterns.idempotent import Idempotent
from weft.patterns.map_each import MapEach
from weft.patterns.pipeline import Pipeline
from weft.patterns.recipient_list import RecipientList
from weft.patterns.retry import Retry
from weft.patterns.router import Router
from weft.patterns.saga import Saga
from weft.patterns.scatter_gather import ScatterGather
from weft.patterns.schema_map import SchemaMap
from weft.patterns.throttle import Throttle
from weft.patterns.timeout import Timeout
from weft.patterns.wire_tap import WireTap
from weft.patterns.workflow import Workflow

__all__ = ["CATALOGUE", "Pattern"]

CATALOGUE: Mapping[str, type[Pattern]] = {
    "pipeline": Pipeline,
    "router": Router,
    "scatterGather": ScatterGather,
    "filter": Filter,
    "schemaMap": SchemaMap,
    "mapEach": MapEach,
    "enricher": Enricher,
    "wireTap": WireTap,
    "recipientList": RecipientList,
    "timeout": Timeout,
    "retry": Retry,
    "throttle": Throttle,
    "idempotent": Idempotent,
    "cache": Cache,
    "circuitBreaker": CircuitBreaker,
    "saga": Saga,
    "deadLetter": DeadLetter,
    "claimCheck": ClaimCheck,
    "workflow": Workflow,
}

add_kinds(CATALOGUE)
