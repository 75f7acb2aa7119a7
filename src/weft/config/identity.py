"""The sections of weft.yaml about callers: who they are, what they may do, how often."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    PrivateAttr,
    Strict,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from weft.config.checks import SEMVER, check_url, is_loopback
from weft.config.server import Globs
from weft.config.settings import AnyPath, Count, Flag, Seconds, Setting, Text, described, folder_of
from weft.errors import shown
from weft.expr.rules import compile_rule
from weft.ir.nodes import expression, refuse

LEEWAY = 60.0
SECRET = 32
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")


def _several(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


def _some(values: tuple[str, ...]) -> tuple[str, ...]:
    if not values:
        raise refuse("EmptyList", "this is empty", expected="at least one")
    return values


def _not_empty(text: str) -> str:
    if not text.strip():
        raise refuse("EmptyText", "this is empty", expected="a text")
    return text


def _agent(text: str) -> str:
    name, at, version = text.partition("@")
    if not name or (at and not SEMVER.fullmatch(version)):
        raise refuse("InvalidAgent", "not an agent", value=shown(text), expected="name or name@1.2.0")
    return text


def _network(text: str) -> str:
    if text == "unix":
        return text
    try:
        found = ipaddress.ip_network(text)
    except ValueError as error:
        told = f"{shown(text)} is not a network: {error}"
        raise refuse("InvalidNetwork", told, value=shown(text), expected='10.1.0.0/16, an address, or "unix"') from None
    if found.prefixlen == 0:
        told = f"{shown(text)} is everybody: whoever reaches weft would be a proxy"
        raise refuse("InvalidNetwork", told, value=shown(text), expected="the addresses of the proxies")
    return text


def _secret(text: str) -> str:
    if len(text.encode()) < SECRET:
        raise refuse("WeakSecret", "the secret is too short", expected=f"at least {SECRET} bytes, of chance")
    return text


def _fingerprint(text: str) -> str:
    bare = text.replace(":", "").lower()
    if not _FINGERPRINT.fullmatch(bare):
        told = "not the SHA-256 of a certificate"
        raise refuse("InvalidFingerprint", told, value=shown(text), expected="64 digits of hex, with or without colons")
    return bare


def _holders(agents: dict[str, str]) -> dict[str, str]:
    """Return the agents by common name or SHA-256, the latter as weft writes it."""
    made = dict[str, str]()
    for name, agent in agents.items():
        bare = name.replace(":", "").lower()
        holder = bare if _FINGERPRINT.fullmatch(bare) else name
        if holder in made:
            told = f"the certificate {shown(name)} is there twice"
            raise refuse("DuplicateName", told, value=shown(name), expected="each certificate once", at=(name,))
        made[holder] = agent
    return made


Name = Annotated[Text, AfterValidator(_not_empty)]
Holder = Annotated[str, AfterValidator(_not_empty)]
"""What names a certificate. References are not looked for in keys, so it is not a Text."""
Agent = Annotated[Text, AfterValidator(_agent)]
Audience = Annotated[
    tuple[Name, ...],
    Strict(False),
    BeforeValidator(_several),
    AfterValidator(_some),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}),
]
Condition = Annotated[Text, AfterValidator(expression(compile_rule))]


class Claims(Setting):
    """Which claims of a token say what of the caller."""

    subject: Name = described("sub", "Who it is; `client_id` if there is none.")
    agent_name: Name = described("agent_name", "The agent's name.")
    agent_version: Name = described("agent_version", "The agent's version.")
    tenant: Name = described("tenant", "The tenant.")
    scopes: Name = described("scope", "The scopes: a text with spaces between, or a list.")


class Jwt(Setting):
    """An issuer whose tokens (JWT) are taken."""

    issuer: Name = described(..., "The `iss` of its tokens, exactly.")
    audience: Audience = described(..., "What this gateway is called in their `aud`; one or several.")
    jwks: Name = described(..., "Its public keys: a file, or an `https://` URL.")
    algorithms: Annotated[tuple[Literal["RS256", "ES256", "EdDSA"], ...], Strict(False), AfterValidator(_some)] = (
        described(("RS256", "ES256", "EdDSA"), "What its tokens may be signed with.")
    )
    leeway: Seconds = described(LEEWAY, "How far its clock may be off.")
    max_stale: Seconds = described(86_400.0, "How long its keys are used when it cannot be reached.")
    claims: Claims = described(Claims(), "Which claims say what.")
    subjects: dict[str, Agent] = described({}, "The agent, as `name@1.2.0`, of a subject whose tokens name none.")
    tenant: Name = described("default", "The tenant of tokens that name none.")

    _path: Path | None = PrivateAttr(default=None)

    @field_validator("leeway")
    @classmethod
    def _small(cls, leeway: float) -> float:
        if leeway > LEEWAY:
            raise refuse("LeewayTooLong", "clocks are not off by that much", expected=f"at most {LEEWAY:g}s")
        return leeway

    @model_validator(mode="after")
    def _located(self, info: ValidationInfo) -> Jwt:
        parts = urlsplit(self.jwks)
        if parts.scheme not in ("http", "https"):
            path = folder_of(info) / Path(self.jwks.removeprefix("file://")).expanduser()
            if info.context is not None and not path.is_file():
                told = "there is no such file"
                raise refuse("UnreadableFile", told, value=shown(str(path)), expected="a key set", at=("jwks",))
            self._path = path
            return self
        check_url(self.jwks)
        if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
            told = "the keys would come unprotected"
            raise refuse("InsecureUrl", told, value=shown(self.jwks), expected="https://", at=("jwks",))
        return self

    @property
    def path(self) -> Path | None:
        """The file of its keys, or None when they are at a URL."""
        return self._path


class TrustedProxies(Setting):
    """Proxies that say who calls in X-Agent-Name and X-Agent-Version, and prove that it is they."""

    trusted: Annotated[tuple[Annotated[Text, AfterValidator(_network)], ...], Strict(False), AfterValidator(_some)] = (
        described(..., 'Where they are: addresses, networks (CIDR), or "unix" for a unix socket.')
    )
    secrets: Annotated[tuple[Annotated[Text, AfterValidator(_secret)], ...], Strict(False)] = described(
        (), "What they sign X-Agent-Signature with; two while one is replaced."
    )
    certificates: Annotated[tuple[Annotated[Text, AfterValidator(_fingerprint)], ...], Strict(False)] = described(
        (), "The SHA-256 of their client certificates, which the listener's clientCa has to have signed."
    )
    window: Seconds = described(60.0, "How old a signature may be.")
    tenant: Name = described("default", "The tenant of those that they vouch for.")

    @classmethod
    def faults(cls, given: Mapping[str, Any]) -> Iterator[PydanticCustomError]:
        """Yield that an address alone proves nothing."""
        if not given.get("secrets") and not given.get("certificates"):
            told = "an address alone proves nothing"
            yield refuse("MissingKey", told, expected="'secrets' or 'certificates' beside 'trusted'")


class Identity(Setting):
    """How weft knows who calls."""

    jwt: Annotated[tuple[Jwt, ...], Strict(False)] = described((), "Issuers whose tokens are taken.")
    key_file: AnyPath | None = described(None, "The file of API keys, which `weft key` writes.")
    proxies: TrustedProxies | None = described(None, "Proxies that say who calls.")
    certificates: Annotated[dict[Holder, Agent], AfterValidator(_holders)] = described(
        {},
        "The agent, as `name@1.2.0`, of a client certificate, by the common name of its subject or by its SHA-256; "
        "needs listen.tls.clientCa.",
    )
    allow_self_asserted: Flag | None = described(
        None, "Whether X-Agent-* headers of anybody are believed.  [default: on a loopback bind, without proxies]"
    )
    anonymous: Literal["allow", "deny"] | None = described(
        None,
        "Whether callers without a credential are let in.  "
        "[default: allow on a loopback bind or when nothing above proves who calls, else deny]",
    )
    on_untrusted_identity_header: Literal["reject", "ignore"] = described(
        "reject", "What is done with X-Agent-* headers of those who may not send them."
    )

    @field_validator("jwt")
    @classmethod
    def _once_each(cls, issuers: tuple[Jwt, ...]) -> tuple[Jwt, ...]:
        names = [one.issuer for one in issuers]
        for index, name in enumerate(names):
            if name in names[:index]:
                told = f"the issuer {shown(name)} is there twice"
                raise refuse(
                    "DuplicateName", told, value=shown(name), expected="each issuer once", at=(index, "issuer")
                )
        return issuers

    @property
    def authenticates(self) -> bool:
        """Whether there is anything that callers can prove themselves with."""
        return bool(self.jwt or self.key_file or self.proxies or self.certificates)

    def believes_headers(self, *, loopback: bool) -> bool:
        """Tell whether X-Agent-* headers of anybody count."""
        given = self.allow_self_asserted
        return given if given is not None else loopback and self.proxies is None

    def admits_anonymous(self, *, loopback: bool) -> bool:
        """Tell whether callers without a credential are let in."""
        return self.anonymous == "allow" if self.anonymous is not None else loopback or not self.authenticates


class PolicyRule(Setting):
    """One rule: what it denies nobody can allow; with a rule that allows, what none allows is denied."""

    name: Name = described(..., "What the rule is called, in the audit log.")
    effect: Literal["allow", "deny"] | None = described(None, "What it does.")
    when: Condition | None = described(
        None, "A CEL condition over `principal`, `tool` and `server`.  [default: always]"
    )
    tools: Globs = described(("*",), "Globs of the tools that it is about.")
    servers: Globs = described(("*",), "Globs of their servers; a composition has none.")
    caller_must_also_have: Flag = described(
        False, "Whether compositions use these tools only for callers that may call them themselves."
    )

    @classmethod
    def faults(cls, given: Mapping[str, Any]) -> Iterator[PydanticCustomError]:
        """Yield a rule that does nothing, and one that does two things."""
        if ("effect" in given) == (given.get("callerMustAlsoHave") is True):
            yield refuse("ExactlyOne", "a rule does one thing", expected="'effect', or 'callerMustAlsoHave: true'")


class QuotaRule(Setting):
    """How often tools may be called."""

    name: Name = described(..., "What the quota is called, in errors.")
    calls: Count = described(..., "So many calls")
    per: Seconds = described(..., "in so much time,")
    burst: Count | None = described(None, "so many of them at once.  [default: calls]")
    tools: Globs = described(("*",), "Globs of the tools that count.")
    agents: Globs = described((), "Globs of the agents that it is for.  [default: all callers]")
    by: Literal["caller-tool", "caller", "tool"] = described("caller-tool", "What is counted apart.")


def check_names(rules: tuple[Any, ...]) -> tuple[Any, ...]:
    """Refuse two rules of one name."""
    names = [rule.name for rule in rules]
    for index, name in enumerate(names):
        if name in names[:index]:
            told = f"the name {shown(name)} is there twice"
            raise refuse("DuplicateName", told, value=shown(name), expected="a name for each", at=(index, "name"))
    return rules


PolicyRules = Annotated[tuple[PolicyRule, ...], Strict(False), AfterValidator(check_names)]
QuotaRules = Annotated[tuple[QuotaRule, ...], Strict(False), AfterValidator(check_names)]
