"""Who may do what here: the policy, how strictly the registry is taken, quotas, and what is checked of values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from weft.gateway.policy import Policy
from weft.gateway.quotas import Quotas
from weft.gateway.scope import Rules
from weft.gateway.values import Checking, Values


@dataclass(frozen=True, slots=True, kw_only=True)
class Checks:
    """What is done about arguments and results that are not what a tool of a server advertises (REG-29)."""

    input: Checking = "off"
    output: Checking = "off"

    def of(self, listed: Mapping[str, Any]) -> Values | None:
        """Return what is checked of a tool as it is listed, or None when that is nothing."""
        return Values.of(listed.get("inputSchema"), listed.get("outputSchema"), self.input, self.output)


UNCHECKED = Checks()


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What weft.yaml says about callers; by default everybody may do everything."""

    policy: Policy = field(default_factory=Policy)
    rules: Rules = field(default_factory=Rules)
    quotas: Quotas = field(default_factory=Quotas)
    checks: Checks = UNCHECKED
