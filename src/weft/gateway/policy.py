"""Policy: rules in CEL over who calls, which tool, of which server.

The order of rules does not matter. A rule that denies wins over every one that allows; with a rule that allows, what
none allows is denied; without one, what none denies is allowed. A condition that ends in an error counts against the
caller: a denial applies, a permission does not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Literal

from weft.errors import WeftError
from weft.expr.rules import Condition, compile_rule
from weft.ports import Principal
from weft.telemetry.logs import Log

_log = Log("policy")


@dataclass(frozen=True, slots=True)
class ToolFacts:
    """What a decision about a tool goes by; a composition has no server."""

    name: str
    version: str | None = None
    server: str | None = None
    server_version: str | None = None
    deprecated: bool = False
    annotations: Mapping[str, Any] = field(default_factory=dict[str, Any], compare=False)
    own_name: str | None = None
    """What its server calls it, where it is served under another name because somebody else's has the same."""

    def __hash__(self) -> int:
        # Asked for in every call, and name and version say nearly all.
        return hash((self.name, self.version))

    @property
    def names(self) -> tuple[str, ...]:
        """Every name that a rule may mean it by."""
        return (self.name,) if self.own_name is None else (self.name, self.own_name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule; what it does not say, it does not ask for."""

    name: str
    effect: Literal["allow", "deny"] | None = None
    when: str | None = None
    tools: tuple[str, ...] = ("*",)
    servers: tuple[str, ...] = ("*",)
    caller_must_also_have: bool = False
    """Whether a composition may use these tools only for callers that may call them themselves."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the rules say, and which of them; None when none of them speaks of it."""

    allowed: bool
    rule: str | None = None


class Policy:
    """Compiled rules; `failed` counts the conditions that ended in an error, by rule: the log tells of the first."""

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        """Compile the rules.

        Raises:
            ExpressionInvalid: a condition that does not compile, or names what there is not.
        """
        self.failed = Counter[str]()
        compiled = [(rule, _always if rule.when is None else compile_rule(rule.when)) for rule in rules]
        self._denying = [one for one in compiled if one[0].effect == "deny"]
        self._allowing = [one for one in compiled if one[0].effect == "allow"]
        self._needing = [one for one in compiled if one[0].caller_must_also_have]

    @property
    def is_open(self) -> bool:
        """Whether no rule keeps anybody from anything."""
        return not self._denying and not self._allowing

    def judge(self, principal: Principal, tool: ToolFacts) -> Verdict:
        """Return whether the rules let somebody see and call a tool."""
        for rule, condition in self._denying:
            if self._applies(rule, condition, principal, tool):
                return Verdict(False, rule.name)
        for rule, condition in self._allowing:
            if self._permits(rule, condition, principal, tool):
                return Verdict(True, rule.name)
        return Verdict(not self._allowing)

    def needs_own_right(self, principal: Principal, tool: ToolFacts) -> str | None:
        """Return the rule by which a composition may use a tool only for those who may call it themselves."""
        found = (rule.name for rule, condition in self._needing if self._applies(rule, condition, principal, tool))
        return next(found, None)

    def _applies(self, rule: Rule, condition: Condition, principal: Principal, tool: ToolFacts) -> bool:
        """Tell whether a rule that takes something away is about a tool, under any of its names.

        Else a server could free a tool of another one from its rules by offering one of the same name.
        """
        return any(self._holds(rule, condition, principal, tool, name, otherwise=True) for name in tool.names)

    def _permits(self, rule: Rule, condition: Condition, principal: Principal, tool: ToolFacts) -> bool:
        return self._holds(rule, condition, principal, tool, tool.name, otherwise=False)

    def _holds(
        self, rule: Rule, condition: Condition, principal: Principal, tool: ToolFacts, name: str, *, otherwise: bool
    ) -> bool:
        if not _matches(rule.tools, name) or not _matches(rule.servers, tool.server or ""):
            return False
        try:
            return condition(_values(principal, tool, name))
        except WeftError as error:
            self.failed[rule.name] += 1
            if self.failed[rule.name] == 1:
                _log.warning(
                    f"the condition of policy rule {rule.name!r} failed, which counts against callers: {error}"
                )
            return otherwise


def _always(_: Mapping[str, Any]) -> bool:
    return True


def _matches(globs: tuple[str, ...], name: str) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)


def _values(principal: Principal, tool: ToolFacts, name: str) -> dict[str, Any]:
    return {
        "principal": principal.to_json(),
        "tool": {
            "name": name,
            "version": tool.version,
            "deprecated": tool.deprecated,
            "annotations": tool.annotations,
        },
        "server": {"name": tool.server, "version": tool.server_version},
    }
