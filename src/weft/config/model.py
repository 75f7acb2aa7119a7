"""weft.yaml as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, PrivateAttr, model_validator
from pydantic_core import PydanticCustomError

from weft.config.checks import check_server_key, check_store_name, check_view_name
from weft.config.governance import Audit, LockRule
from weft.config.groups import Group, GroupName, unknown_names
from weft.config.identity import Identity, PolicyRules, QuotaRules
from weft.config.middleware import MiddlewareRules
from weft.config.secrets import literal_secrets
from weft.config.sections import (
    Admin,
    CallLimits,
    CompositionsRule,
    Egress,
    Listen,
    Names,
    RegistrySource,
    Store,
    Telemetry,
    View,
)
from weft.config.server import CHILD_ONLY, HTTP_ONLY, Server
from weft.config.settings import Seconds, Setting, described
from weft.errors import Problem
from weft.ir.nodes import refuse
from weft.ports import is_object

HIDDEN = "********"

ServerKey = Annotated[str, AfterValidator(check_server_key)]
ViewName = Annotated[str, AfterValidator(check_view_name)]
StoreName = Annotated[str, AfterValidator(check_store_name)]


class Config(Setting):
    """The settings of a gateway; every key has a default."""

    listen: Listen = described(Listen(), "Where clients reach the gateway.")
    admin: Admin = described(Admin(), "Where operators reach it.")
    registry: RegistrySource = described({}, "Where compositions and virtual tools are.", validate_default=True)
    servers: dict[ServerKey, Server] = described({}, "The MCP servers, each under its `name` or `name@1.2.0`.")
    names: Names = described(Names(), "What tools are called.")
    views: dict[ViewName, View] = described({}, "Selections of tools, each at `/mcp/{name}`.")
    groups: dict[GroupName, Group] = described({}, "Tools that are served as one tool with actions, by its name.")
    identity: Identity = described(Identity(), "How weft knows who calls.")
    policy: PolicyRules = described((), "Who may call what; without a rule that allows, what none denies is allowed.")
    quotas: QuotaRules = described((), "How often tools may be called.")
    middleware: MiddlewareRules = described((), "What stands around the calls of tools, the outermost first.")
    lock: LockRule = described({}, "What is done about tools that nobody approved.", validate_default=True)
    audit: Audit | None = described(None, "The audit log; there is none unless this is given.")
    stores: dict[StoreName, Store] = described({}, "Where stateful patterns keep what they know, by name.")
    compositions: CompositionsRule = described(CompositionsRule(), "Workflows that callers keep and run.")
    limits: CallLimits = described(CallLimits(), "How much is allowed.")
    egress: Egress = described(Egress(), "What weft may reach beside the servers.")
    telemetry: Telemetry = described(Telemetry(), "What can be seen of the work.")
    drain: Seconds = described(20.0, "How long calls may go on after weft was asked to stop.")

    _file: Path | None = PrivateAttr(default=None)
    _problems: tuple[Problem, ...] = PrivateAttr(default=())

    @model_validator(mode="after")
    def _name_servers(self) -> Config:
        for key, server in self.servers.items():
            server._key = key  # pyright: ignore[reportPrivateUsage]  (only the section knows the key)
        return self

    @classmethod
    def faults(cls, given: Mapping[str, Any]) -> Iterator[PydanticCustomError]:
        """Yield certificates that say who calls, when no client is asked for one, and servers that groups lack."""
        if _at(given, "identity", "certificates") and not _at(given, "listen", "tls", "clientCa"):
            told = "no client is asked for a certificate: there is no listen.tls.clientCa"
            wanted = "listen.tls with cert, key and clientCa"
            yield refuse("MissingKey", told, expected=wanted, at=("identity", "certificates"))
        yield from unknown_names(given)

    @property
    def file(self) -> Path | None:
        """The file that the settings came from, or None when all are defaults."""
        return self._file

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The warnings that were found when the file was read."""
        return self._problems

    def shown(self) -> dict[str, Any]:
        """Return all settings as JSON, with references in the place of the values that they stand for."""
        told: dict[Any, Any] = self.model_dump(mode="json", exclude_none=True)
        for entry in told["servers"].values():
            for key in CHILD_ONLY if "url" in entry else HTTP_ONLY:
                entry.pop(key, None)
        for *way, last in list(literal_secrets(told)):
            reduce(getitem, way, told)[last] = HIDDEN
        return told

    def unused(self) -> list[str]:
        """Return a sentence for each setting that is read and checked, and that nothing heeds yet."""
        told: list[str] = []
        if self.telemetry.otel.endpoint is not None:
            told.append("telemetry.otel.endpoint: set it with OTEL_EXPORTER_OTLP_ENDPOINT")
        return told


def _at(value: Any, *place: str) -> Any:
    """Return what stands at a place of the settings as they were written, or None."""
    for key in place:
        value = value.get(key) if is_object(value) else None
    return value
