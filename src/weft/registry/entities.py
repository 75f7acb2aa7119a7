"""The entities of a registry, and how they name each other."""

from __future__ import annotations

from dataclasses import dataclass

from weft.ir.document import ToolDef, ToolSource
from weft.ir.entities import SBOM, AgentEntity, Capabilities, Extension, Provision, SchemaEntity, ServerEntity, Skill
from weft.ir.fields import Dependency, Entity, Kind

__all__ = [
    "SBOM",
    "AgentEntity",
    "Capabilities",
    "Dependency",
    "Entity",
    "Extension",
    "Kind",
    "Provision",
    "Reference",
    "SchemaEntity",
    "ServerEntity",
    "Skill",
    "ToolDef",
    "ToolSource",
]


@dataclass(frozen=True, slots=True, order=True)
class Reference:
    """One version of an entity, as another one names it; a tool of a v1 document has no version, which is ""."""

    type: Kind
    name: str
    version: str = ""
    skill: str | None = None

    def __str__(self) -> str:
        at = f"@{self.version}" if self.version else ""
        return f"{self.name}{at}{f'/{self.skill}' if self.skill else ''}"

    @property
    def entity(self) -> Reference:
        """The entity itself, whichever skill is used."""
        return self if self.skill is None else Reference(self.type, self.name, self.version)
