"""How many runs may be under way at once: in all, of one tenant, and of one caller."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from weft.errors import ExecutionFailed, LimitExceeded
from weft.gateway.quotas import QuotaExceeded
from weft.ports import ANONYMOUS, Principal
from weft.workflows.recorded import Run

SOON = 1.0


class TooManyRuns(QuotaExceeded):
    """A caller, or its tenant, has as many runs as it may have (HTTP 429)."""

    def __init__(self, limit: int, whose: str) -> None:
        LimitExceeded.__init__(self, "TooManyRuns", limit, f"too many runs of {whose} are under way")
        self.retry_after = SOON
        self.retryable = "yes"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """What may be under way in one process; who is anonymous is everybody, and has the share of a tenant."""

    all: int = 1000
    tenant: int = 500
    principal: int | None = 64

    def admit(self, principal: Principal, under_way: Collection[Run]) -> None:
        """Let one more run begin.

        Raises:
            TooManyRuns: the caller or its tenant has too many.
            ExecutionFailed: there are too many in all.
        """
        most = None if principal.id == ANONYMOUS.id else self.principal
        of_tenant = [run for run in under_way if run.tenant == principal.tenant]
        if most is not None and sum(run.principal == principal.id for run in of_tenant) >= most:
            raise TooManyRuns(most, "this caller")
        if len(of_tenant) >= self.tenant:
            raise TooManyRuns(self.tenant, "this tenant")
        if len(under_way) >= self.all:
            raise ExecutionFailed(f"{self.all} workflows are running already", code="TooManyRuns")
