"""What weft.yaml says about callers, as the gateway takes it."""

from __future__ import annotations

from collections.abc import Iterable

from weft.config import Config
from weft.config.identity import PolicyRule, QuotaRule
from weft.config.sections import RuntimeChecks
from weft.gateway.access import Access, Checks
from weft.gateway.policy import Policy, Rule
from weft.gateway.quotas import Quota, Quotas
from weft.gateway.scope import Rules
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


def policy_of(rules: Iterable[PolicyRule]) -> Policy:
    """Return the policy."""
    made = (
        Rule(
            name=one.name,
            effect=one.effect,
            when=one.when,
            tools=one.tools,
            servers=one.servers,
            caller_must_also_have=one.caller_must_also_have,
        )
        for one in rules
    )
    return Policy(made)


def rules_of(given: RuntimeChecks, *, loopback: bool) -> Rules:
    """Return what is done about callers that are not known; where others reach it, they are denied unless written."""
    written = "unknown_caller" in given.model_fields_set
    return Rules(
        unknown_caller=given.unknown_caller if loopback or written else "deny",
        undeclared_dependency=given.undeclared_dependency,
        written=written,
        loopback=loopback,
    )


def quotas_of(quotas: Iterable[QuotaRule]) -> Quotas:
    """Return the quotas."""
    made = (
        Quota(
            name=one.name, calls=one.calls, per=one.per, burst=one.burst, tools=one.tools, agents=one.agents, by=one.by
        )
        for one in quotas
    )
    return Quotas(made)


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
