"""Migration: a registry of version 1 as one of version 2, and what a person must decide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from weft.errors import InputError, shown
from weft.ir.document import Document, ToolDef
from weft.ir.operations import AgentCall
from weft.ir.versions import is_exact
from weft.ir.walk import walk
from weft.registry.graph import references
from weft.registry.tools import Tools

FIRST = "1.0.0"
"""The version that is given to what had none."""
ANY = "*"


@dataclass(frozen=True, slots=True)
class Migrated:
    """The canonical JSON of the new registry, and what somebody has to look at."""

    document: dict[str, Any]
    decisions: tuple[str, ...]


def migrate(document: Document, *, homes: Mapping[str, tuple[str, str]] | None = None) -> Migrated:
    """Return the registry as one of version 2 that means the same.

    `homes` says on which server, and which version of it, a tool is that names none; `*` stands for all of those.

    Raises:
        InputError: it has a version already, or tools of which nobody knows where they are.
    """
    if document.versioned:
        raise InputError("the registry is of schemaVersion 2.0 already", code="AlreadyMigrated")
    return _Migration(document, homes or {}).done()


@dataclass(slots=True)
class _Migration:
    document: Document
    homes: Mapping[str, tuple[str, str]]
    decisions: dict[str, None] = field(default_factory=dict[str, None])
    servers: dict[tuple[str, str], list[dict[str, str]]] = field(
        default_factory=dict[tuple[str, str], list[dict[str, str]]]
    )
    homeless: list[str] = field(default_factory=list[str])
    elsewhere: set[str] = field(default_factory=set[str])

    def done(self) -> Migrated:
        index = Tools(self.document)
        versions = [self._version(tool) for tool in self.document.tools]
        tools = [self._tool(at, tool, versions, index) for at, tool in enumerate(self.document.tools)]
        tools += self._found_homes()
        if self.homeless:
            named = ", ".join(sorted(self.homeless))
            hint = "say so with --from TOOL=SERVER, or --from '*'=SERVER for all of them"
            raise InputError(f"no server is known for {named}", code="NoServer", hint=hint)
        made: dict[str, Any] = {"schemaVersion": "2.0"}
        if self.servers and not self.elsewhere:
            made["servers"] = [
                {"name": name, "version": version, "provides": provides}
                for (name, version), provides in self.servers.items()
            ]
        elif self.elsewhere:
            named = ", ".join(sorted(self.elsewhere))
            self._decide(f"servers are not listed yet, since nobody says where {named} is: give --from TOOL=SERVER")
        made["tools"] = tools
        if self.document.groups:
            made["groups"] = [group.to_ir() for group in self.document.groups]
        return Migrated(made, tuple(self.decisions))

    def _decide(self, what: str) -> None:
        self.decisions[what] = None

    def _version(self, tool: ToolDef) -> str:
        given = tool.version
        if given is None:
            self._decide(f"tool {shown(tool.name)} had no version: {FIRST} is written")
            return FIRST
        if is_exact(given):
            return given
        whole = given.removeprefix("v")
        made = next((one for one in (whole, f"{whole}.0", f"{whole}.0.0") if is_exact(one)), FIRST)
        self._decide(f"tool {shown(tool.name)} had the version {shown(given)}: {made} is written")
        return made

    def _tool(self, at: int, tool: ToolDef, versions: list[str], index: Tools) -> dict[str, Any]:
        made: dict[str, Any] = {"name": tool.name, "version": "", **tool.to_ir()}
        made["version"] = versions[at]
        if tool.source is not None:
            made["source"] = self._source(tool, made["source"], versions[at])
        elif tool.spec is None:
            made |= self._at_home(tool.name, versions[at])
        if depends := self._depends(at, tool, versions, index):
            made["depends"] = depends
        return made

    def _source(self, tool: ToolDef, source: dict[str, Any], version: str) -> dict[str, Any]:
        assert tool.source is not None
        server, given = tool.source.server, tool.source.server_version
        if given is None or not is_exact(given):
            self._decide(
                f"which version of server {shown(server)} this was written for is not said: {FIRST} is written"
            )
        known = given if given is not None and is_exact(given) else FIRST
        self._provide(server, known, tool.name, version)
        rest = {key: value for key, value in source.items() if key not in ("server", "serverVersion")}
        return {"server": server, "serverVersion": known, **rest}

    def _provide(self, server: str, server_version: str, tool: str, version: str) -> None:
        self.servers.setdefault((server, server_version), []).append({"tool": tool, "version": version})

    def _at_home(self, tool: str, version: str) -> dict[str, Any]:
        home = self.homes.get(tool) or self.homes.get(ANY)
        if home is None:
            self.homeless.append(tool)
            return {}
        self._provide(*home, tool, version)
        return {"source": {"server": home[0], "serverVersion": home[1], "tool": tool}}

    def _depends(self, at: int, tool: ToolDef, versions: list[str], index: Tools) -> list[dict[str, str]]:
        found: dict[tuple[str, str], None] = {}
        for one in references(tool):
            meant = index.meant(one.name, one.version, by=at)
            if one.undo and (meant is not None or one.name in self.homes or ANY in self.homes):
                # What undoes a tool may in turn be undone by it, so neither depends on the other.
                self.elsewhere.update(() if meant is not None else (one.name,))
            elif meant is not None:
                found[one.name, versions[meant]] = None
            elif one.name in self.homes or ANY in self.homes:
                found[one.name, FIRST] = None
                self.elsewhere.add(one.name)
            else:
                self.elsewhere.add(one.name)
        if tool.spec is not None:
            for _, node in walk(tool.spec, ()):
                if isinstance(node, AgentCall):
                    self._decide(f"agent {shown(node.name)} is used and not registered: add it to agents and depends")
        return [{"type": "tool", "name": name, "version": version} for name, version in found]

    def _found_homes(self) -> list[dict[str, Any]]:
        """Register the tools that only specs named, once somebody said where they are."""
        known = [name for name in sorted(self.elsewhere) if name in self.homes or ANY in self.homes]
        self.elsewhere.difference_update(known)
        return [{"name": name, "version": FIRST, **self._at_home(name, FIRST)} for name in known]
