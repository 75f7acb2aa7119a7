"""Resolving: every schema that refers to others becomes one that stands alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from weft.errors import ExpressionInvalid, Loc, Problem
from weft.expr.schemas import check_schema
from weft.ir.document import Document, ToolDef
from weft.ir.entities import AgentEntity, SchemaEntity, Skill
from weft.ir.nodes import Node
from weft.ir.refs import Schemas, fragment_of

N = TypeVar("N", bound=Node)
_FIELDS = {"input_schema": "inputSchema", "output_schema": "outputSchema"}


def schemas_of(document: Document) -> Schemas:
    """Return the schemas of a registry, as references name them."""
    return Schemas({f"{one.name}:{one.version}": one.body for one in document.schemas})


def resolve(document: Document) -> tuple[Document, list[Problem]]:
    """Return the document with plain schemas, and what is wrong with its references."""
    resolver = _Resolver(schemas_of(document))
    held: dict[str, list[Any]] = {
        "schemas": [resolver.entity(index, one) for index, one in enumerate(document.schemas)],
        "tools": [resolver.tool(index, one) for index, one in enumerate(document.tools)],
        "agents": [resolver.agent(index, one) for index, one in enumerate(document.agents)],
    }
    changed = {
        section: new
        for section, new in held.items()
        if any(a is not b for a, b in zip(new, document.section(section), strict=True))
    }
    return (document.model_copy(update=changed) if changed else document), resolver.problems


class _Resolver:
    def __init__(self, schemas: Schemas) -> None:
        self.problems: list[Problem] = []
        self._schemas = schemas
        self._known: dict[str, dict[str, Any] | None] = {}
        self._broken = set[str]()

    def entity(self, index: int, entity: SchemaEntity) -> SchemaEntity:
        before = len(self.problems)
        plain = self._plain(entity.body, ("schemas", index, "schema"))
        if len(self.problems) > before:
            self._broken.add(f"{entity.name}:{entity.version}")
        return entity if plain is None else entity.model_copy(update={"body": plain})

    def tool(self, index: int, tool: ToolDef) -> ToolDef:
        return self._fields(tool, ("tools", index))

    def agent(self, index: int, agent: AgentEntity) -> AgentEntity:
        skills: list[Skill] = []
        for at, skill in enumerate(agent.skills):
            skills.append(self._fields(skill, ("agents", index, "skills", at)))
        same = all(a is b for a, b in zip(skills, agent.skills, strict=True))
        return agent if same else agent.model_copy(update={"skills": skills})

    def _fields(self, node: N, loc: Loc) -> N:
        updates: dict[str, Any] = {}
        for name, key in _FIELDS.items():
            schema: dict[str, Any] | None = getattr(node, name)
            if schema is not None and (plain := self._plain(schema, (*loc, key))) is not None:
                updates[name] = plain
        return node.model_copy(update=updates) if updates else node

    def _plain(self, schema: Mapping[str, Any], loc: Loc) -> dict[str, Any] | None:
        """Return the schema made plain, or None when it is so already or cannot be."""
        sole = fragment_of(schema.get("$ref")) if len(schema) == 1 else None
        if sole is not None and sole in self._known:
            return self._known[sole]
        named = self._schemas.named_in(schema)
        if not named:
            return None
        plain = self._made(schema, named, loc)
        if sole is not None and plain is not None:
            self._known[sole] = plain
        return plain

    def _made(self, schema: Mapping[str, Any], named: list[tuple[Loc, str]], loc: Loc) -> dict[str, Any] | None:
        before = len(self.problems)
        for at, name in named:
            try:
                self._schemas.key_of(name)
            except ExpressionInvalid as error:
                self._report(error, (*loc, *at))
        if len(self.problems) > before:
            return None
        try:
            used = self._schemas.used_by(schema)
        except ExpressionInvalid:
            # Told at the schema whose reference it is.
            return None
        if used & self._broken:
            return None
        try:
            plain = self._schemas.plain(schema)
            check_schema(plain)
        except ExpressionInvalid as error:
            self._report(error, loc)
            return None
        return plain

    def _report(self, error: ExpressionInvalid, loc: Loc) -> None:
        self.problems.append(
            Problem(
                code=error.code,
                message=error.message,
                loc=loc,
                value=error.value,
                expected=error.expected,
                suggestion=error.suggestion,
            )
        )
