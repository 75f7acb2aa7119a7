"""What weft.yaml says about callers, as the gateway takes it."""

from __future__ import annotations

from weft.app.identities import policy_of, quotas_of, rules_of
from weft.config import Config
from weft.gateway.access import Access, Checks
from weft.gateway.values import Checking


def access_of(config: Config, *, loopback: bool) -> Access:
    """Return who may do what; `loopback` says that only this machine reaches the gateway."""
    runtime = config.registry.validation.runtime
    return Access(
        policy=policy_of(config.policy),
        rules=rules_of(runtime, loopback=loopback),
        quotas=quotas_of(config.quotas),
        checks=Checks(input=_checking(runtime.input_validation), output=_checking(runtime.output_validation)),
    )


def is_same_access(one: Config, other: Config) -> bool:
    """Tell whether two configs let the same callers do the same; quotas then go on counting."""
    return (one.policy, one.quotas, one.registry.validation.runtime) == (
        other.policy,
        other.quotas,
        other.registry.validation.runtime,
    )


def _checking(given: str) -> Checking:
    # `ignore` is what the registry's own language calls `off`.
    return "error" if given == "error" else "warn" if given == "warn" else "off"
