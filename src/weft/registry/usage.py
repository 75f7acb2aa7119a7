"""Who uses what: undeclared and idle dependencies, deprecated entities, schemas that nobody needs."""

from __future__ import annotations

from collections.abc import Iterator

from weft.errors import ExpressionInvalid, Loc, Problem, shown
from weft.ir.refs import references
from weft.registry.book import Book, reference_to, schemas_at
from weft.registry.entities import Entity, Reference, ToolDef
from weft.registry.findings import Severities, as_severe


def check_declared(book: Book) -> Iterator[Problem]:
    """Report what a composition uses without depending on it, and what it depends on without using it."""
    for tool in book.document.tools:
        if tool.spec is None and not tool.depends:
            continue
        loc = book.place(reference_to(tool))
        used = [(at, ref) for at, ref in book.steps(tool) if book.get(ref.type, ref.name, ref.version) is not None]
        declared = set(book.depends_on(tool))
        if not tool.depends and used:
            names = ", ".join(sorted({str(ref) for _, ref in used}))
            yield Problem(
                code="NoDepends",
                severity="warning",
                message=f"{shown(tool.name)} does not say what it depends on; it uses {names}",
                loc=loc,
                expected="depends, with the version of each",
            )
        elif tool.depends:
            yield from _undeclared(used, declared, loc)
            yield from _idle(book, tool, {ref for _, ref in used}, loc)


def _undeclared(used: list[tuple[Loc, Reference]], declared: set[Reference], loc: Loc) -> Iterator[Problem]:
    told = set[Reference]()
    for at, ref in used:
        if ref in declared or ref in told:
            continue
        told.add(ref)
        yield Problem(
            code="UndeclaredDependency",
            message=f"the spec uses {ref.type} {ref}, which is not in depends",
            loc=(*loc, *at),
            value=shown(ref.name),
            expected=f'{{"type": "{ref.type}", "name": "{ref.name}", "version": "{ref.version}"'
            + (f', "skill": "{ref.skill}"}}' if ref.skill else "}"),
        )


def _idle(book: Book, tool: ToolDef, used: set[Reference], loc: Loc) -> Iterator[Problem]:
    used = used | book.schemas_in(tool)
    for at, ref in book.declared(tool):
        if ref not in used and book.get(ref.type, ref.name, ref.version) is not None:
            yield Problem(
                code="UnusedDependency",
                severity="warning",
                message=f"{shown(tool.name)} depends on {ref.type} {ref} and does not use it",
                loc=(*loc, *at),
                value=shown(ref.name),
                expected="only what the spec uses",
            )


def check_deprecated(book: Book, severities: Severities) -> Iterator[Problem]:
    """Report the use of what is deprecated, once for each user."""
    if severities.deprecated_entity == "ignore":
        return
    gone = {reference_to(one): one for one in book.entities() if getattr(one, "deprecated", False)}
    if not gone:
        return
    for entity in book.entities():
        loc, told = book.place(reference_to(entity)), set[Reference]()
        for at, ref in _used(book, entity):
            if ref.entity not in gone or ref.entity in told:
                continue
            told.add(ref.entity)
            said: str | None = getattr(gone[ref.entity], "deprecation_message", None)
            problem = Problem(
                code="Deprecated",
                message=f"{ref.type} {ref.entity} is deprecated{f': {said}' if said else ''}",
                loc=(*loc, *at),
                value=shown(ref.name),
                expected="one that is not",
            )
            yield from as_severe(problem, severities.deprecated_entity)


def _used(book: Book, entity: Entity) -> Iterator[tuple[Loc, Reference]]:
    yield from book.declared(entity)
    if isinstance(entity, ToolDef):
        if entity.source is not None:
            source = entity.source
            yield ("source", "server"), Reference("server", source.server, source.server_version or "")
        yield from book.steps(entity)
    for loc, schema in schemas_at(entity):
        for at, name in references(schema):
            try:
                yield (*loc, *at), Reference("schema", *book.schema_refs.key_of(name).split(":", 1))
            except ExpressionInvalid:
                continue


def check_unused(book: Book, severities: Severities) -> Iterator[Problem]:
    """Report schemas that no tool, agent or dependency needs; a schema that only such schemas need is one, too."""
    if severities.unused_schema == "ignore":
        return
    used = set[Reference]()
    for entity in (*book.document.tools, *book.document.agents):
        used |= book.schemas_in(entity)
        for ref in book.depends_on(entity):
            if ref.type == "schema" and (schema := book.get("schema", ref.name, ref.version)) is not None:
                used |= {ref, *book.schemas_in(schema)}
    for schema in book.document.schemas:
        ref = reference_to(schema)
        if ref not in used:
            problem = Problem(
                code="UnusedSchema",
                message=f"schema {ref} is not used",
                loc=(*book.place(ref), "name"),
                value=shown(schema.name),
                expected=f'a "$ref": "#{schema.name}:{schema.version}", or no such schema',
            )
            yield from as_severe(problem, severities.unused_schema)
