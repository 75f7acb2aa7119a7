"""The sections of weft.yaml: every key with its default and a sentence that says what it does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import unquote, urlsplit

from pydantic import AfterValidator, PrivateAttr, Strict, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from weft.config.checks import check_allowed, check_host, is_loopback, parts_of, store_url_fault
from weft.config.server import Globs, Headers, Url
from weft.config.settings import (
    AnyPath,
    Count,
    FilePath,
    Flag,
    Port,
    Seconds,
    Setting,
    Size,
    Text,
    Texts,
    described,
    folder_of,
)
from weft.errors import shown
from weft.ir.nodes import refuse

Finding = Literal["error", "warn", "ignore"]
Checking = Literal["off", "ignore", "warn", "error"]
Allowing = Literal["allow", "warn", "deny"]


LONGEST_PREFIX = 200
"""Characters before every key, of which a store takes 2048 bytes in all."""

Host = Annotated[Text, AfterValidator(check_host)]


class ListenTls(Setting):
    """The certificate of the listener."""

    cert: FilePath = described(..., "The certificate, with those between it and its authority, as PEM.")
    key: FilePath = described(..., "Its key, as PEM.")
    client_ca: FilePath | None = described(None, "Certificates of which one must have signed every client's own.")


class Listen(Setting):
    """Where clients reach the gateway."""

    host: Host = described("127.0.0.1", "The address to listen on; another than loopback needs an authenticator.")
    port: Port = described(15000, "The port; 0 takes a free one.")
    tls: ListenTls | None = described(None, "HTTPS instead of HTTP.")
    allowed_hosts: Texts = described((), "Values of the Host header to accept, beside the listener's own.")
    allowed_origins: Texts = described((), "Values of the Origin header to accept, beside the listener's own.")
    public_url: Url | None = described(
        None, "The URL under which clients know the gateway, when a proxy stands before it."
    )


class Admin(Setting):
    """Where operators reach it: reload, traces, the state of the servers."""

    enabled: Flag = described(True, "Whether there is an admin listener.")
    host: Host = described("127.0.0.1", "Its address, which is loopback: it has no authentication.")
    port: Port = described(15001, "Its port; 0 takes a free one.")

    @field_validator("host")
    @classmethod
    def _local(cls, host: str) -> str:
        if not is_loopback(host):
            told = "the admin listener has no authentication"
            raise refuse("AdminExposed", told, value=shown(host), expected="a loopback address")
        return host


class StartupChecks(Setting):
    """What is done about findings in the registry when it is loaded."""

    missing_entity: Finding = described("error", "A name that nothing has.")
    deprecated_entity: Finding = described("warn", "A name whose entity is deprecated.")
    unused_schema: Finding = described("ignore", "A schema that nothing uses.")


class RuntimeChecks(Setting):
    """What is done about findings in calls."""

    input_validation: Checking = described("warn", "Arguments that do not fit the tool's schema.")
    output_validation: Checking = described("ignore", "A result that does not fit it.")
    unknown_caller: Allowing = described("allow", "A caller that the registry does not know.")
    undeclared_dependency: Allowing = described("warn", "A call of a tool that the caller does not declare.")


class Validation(Setting):
    """How strictly the registry is taken."""

    startup: StartupChecks = described(StartupChecks(), "When it is loaded.")
    runtime: RuntimeChecks = described(RuntimeChecks(), "In every call.")


class RegistrySource(Setting):
    """Where the compositions and virtual tools are."""

    source: Text = described(
        "file://./registry.json",
        "A file (`file://` or a path; JSON, YAML or Python) or an `https://` URL. The default one may be missing.",
    )
    refresh_interval: Seconds = described(300.0, "How often the source is looked at again; a file is also watched.")
    headers: Headers = described({}, "Sent with the request, when the source is a URL.")
    validation: Validation = described(Validation(), "How strictly it is taken.")

    _path: Path | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _located(self, info: ValidationInfo) -> RegistrySource:
        parts = urlsplit(self.source)
        if parts.scheme in ("http", "https"):
            parts_of(self.source)
            return self
        if parts.scheme not in ("", "file") and len(parts.scheme) > 1:
            wanted = "a path, file://, http:// or https://"
            raise refuse("InvalidUrl", "not a source", value=shown(self.source), expected=wanted, at=("source",))
        text = self.source.removeprefix("file:").removeprefix("//")
        path = unquote(text) if parts.scheme == "file" else self.source
        if not path:
            raise refuse("InvalidUrl", "the source is empty", expected="the path of a registry", at=("source",))
        self._path = folder_of(info) / Path(path).expanduser()
        return self

    @property
    def path(self) -> Path | None:
        """The file, or None when the source is a URL."""
        return self._path

    @property
    def url(self) -> str | None:
        """The URL, or None when the source is a file."""
        return self.source if self._path is None else None

    @property
    def optional(self) -> bool:
        """Whether the source may be missing: nobody named it."""
        return "source" not in self.model_fields_set


class Names(Setting):
    """What tools are called."""

    on_collision: Literal["prefix", "priority", "error"] = described(
        "prefix",
        "When two servers offer the same name: both get their server's before it, the first wins, or weft refuses.",
    )


class View(Setting):
    """A selection of tools with a URL of its own, `/mcp/{name}`."""

    description: Text | None = described(None, "What a client is told about it.")
    include: Globs = described(("*",), "Globs of the names that it has.")
    exclude: Globs = described((), "Globs of those that it does not have; they win.")
    hide_raw: Flag = described(False, "Whether tools that its compositions use are left out.")
    groups: Flag = described(True, "Whether groups stand for their tools.")


class CompositionsRule(Setting):
    """What callers may do with workflows of their own."""

    store: Text = described("default", "Which store keeps templates, runs and their statistics.")
    keep: Seconds = described(30.0 * 24 * 3600, "How long runs are kept.")
    tools: Flag = described(False, "Whether clients get the six composition tools (`composition_execute` ...).")


class Store(Setting):
    """Where stateful patterns keep what they know."""

    type: Literal["memory", "sqlite", "redis", "postgres"] = described("memory", "What it is.")
    url: Text | None = described(None, "Where Redis or Postgres is; a password by reference.")
    path: AnyPath | None = described(None, "The file of SQLite.")
    prefix: Text = described(
        "", "What every key begins with; at most 200 characters.", json_schema_extra={"maxLength": LONGEST_PREFIX}
    )
    required: Flag = described(False, "Whether weft refuses to start without it.")
    durable: Flag | None = described(
        None, "Whether it keeps what it takes over a crash.  [default: as its type does; of Redis you have to say so]"
    )
    timeout: Seconds = described(0.25, "The longest that one operation may take.")

    SCHEMES: ClassVar[dict[str, tuple[str, ...]]] = {
        "redis": ("redis", "rediss", "unix"),
        "postgres": ("postgres", "postgresql"),
    }

    @classmethod
    def faults(cls, given: Mapping[str, Any]) -> Iterator[PydanticCustomError]:
        """Yield keys that this type of store does not have, or lacks."""
        kind = given.get("type", "memory")
        if len(str(given.get("prefix", ""))) > LONGEST_PREFIX:
            wanted = f"at most {LONGEST_PREFIX} characters"
            yield refuse("TooLong", "the prefix is too long", expected=wanted, at=("prefix",))
        if kind not in ("memory", "sqlite", *cls.SCHEMES):
            return  # which keys it should have, nobody knows
        if kind == "memory" and given.get("durable") in (True, "true"):
            told, wanted = "memory keeps nothing over a crash", "another type, or durable: false"
            yield refuse("Impossible", told, value="true", expected=wanted, at=("durable",))
        schemes = cls.SCHEMES.get(kind, ())
        needs = "path" if kind == "sqlite" else "url" if schemes else None
        for name in {"url", "path"} & given.keys() - {needs}:
            told = f"a store of type {kind} has no {name}"
            yield refuse("WrongKey", told, value=shown(name), expected=f"no {name!r}", at=(name,))
        if needs is not None and needs not in given:
            yield refuse("MissingKey", f"missing key {needs!r}", expected=f"a store of type {kind} with {needs!r}")
        elif schemes and str(given["url"]).partition("://")[0] not in schemes:
            wanted = f"a URL such as {schemes[0]}://localhost"
            yield refuse("InvalidUrl", f"not a URL of {kind}", expected=wanted, at=("url",))
        elif schemes and (wrong := store_url_fault(str(given["url"]))) is not None:
            yield refuse("InvalidUrl", wrong[0], expected=wrong[1], at=("url",))


class CallLimits(Setting):
    """How much is allowed; what is over a limit ends in an error with its name."""

    body: Size = described(1 << 20, "A request.")
    response: Size = described(8 << 20, "A result of a server.")
    headers: Size = described(32 << 10, "The headers of a request.")
    depth: Count = described(64, "Nesting of the JSON of a request.")
    nodes: Count = described(100_000, "Values in the JSON of a request.")
    string: Size = described(256 << 10, "One name or URI of a request; arguments may be longer.")
    in_flight: Count = described(1024, "Calls at the same time.")
    per_principal: Count = described(
        64, "Calls at the same time of one caller that is known; those who are not share limits.inFlight."
    )
    rate: Count | None = described(None, "Requests a second of one caller, with bursts of twice as many.")
    in_flight_bytes: Size = described(256 << 20, "What requests and results at the same time hold.")
    connections_per_address: Count = described(256, "Connections of one address.")
    header_timeout: Seconds = described(10.0, "How long a client may take to send headers.")
    body_timeout: Seconds = described(30.0, "How long it may take to send a body.")
    timeout: Seconds = described(60.0, "How long a call may take that does not say so itself.")
    max_timeout: Seconds = described(3600.0, "The longest that any call may ask for.")
    steps: Count = described(1000, "Steps of one call, with all that it calls.")
    calls: Count = described(1000, "Calls of tools on servers, in one call.")
    concurrent: Count = described(64, "Calls of tools at the same time, in one call.")
    rows: Count = described(1_000_000, "Rows that one call moves.")
    spans: Count = described(10_000, "Spans of one trace.")
    warnings: Count = described(100, "Warnings of one call.")
    background: Count = described(256, "Work that outlives its call, at the same time.")

    @model_validator(mode="after")
    def _sensible(self) -> CallLimits:
        if self.timeout > self.max_timeout:
            told = "the timeout of a call is longer than any call may take"
            raise refuse("TimeoutTooLong", told, expected=f"at most maxTimeout, {self.max_timeout:g}s", at=("timeout",))
        return self


class Egress(Setting):
    """What weft may reach beside the servers, whose addresses are free."""

    allow: Annotated[tuple[Annotated[Text, AfterValidator(check_allowed)], ...], Strict(False)] = described(
        (), "Hosts and networks (CIDR) that registry sources and token endpoints may be at, though private."
    )
    proxy: Text | None = described(None, "An HTTP proxy for all that goes out.")

    @field_validator("proxy")
    @classmethod
    def _is_url(cls, proxy: str | None) -> str | None:
        if proxy is not None:
            parts_of(proxy)
        return proxy


class Otel(Setting):
    """OpenTelemetry."""

    endpoint: Url | None = described(None, "Not heeded yet: set OTEL_EXPORTER_OTLP_ENDPOINT instead.")


class Logs(Setting):
    """What weft says of its work, on stderr."""

    level: Literal["debug", "info", "warning", "error"] = described("info", "From which level on.")
    format: Literal["text", "json"] = described("text", "For people, or for machines.")


class Telemetry(Setting):
    """What can be seen of the work."""

    traces: Count = described(1000, "How many recent traces are kept for `weft trace`.")
    otel: Otel = described(Otel(), "OpenTelemetry.")
    logs: Logs = described(Logs(), "The log.")
