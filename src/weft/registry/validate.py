"""Validation of a registry: every reference, every circle, every contract, in one run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from weft.errors import Loc, Problem, nearest, shown
from weft.ir.loading import no_collection
from weft.ir.normalise import Parsed
from weft.ir.operations import AgentCall, CompositionCall, ToolCall
from weft.ir.versions import is_exact, refused
from weft.ir.walk import walk
from weft.registry.book import Book, reference_to
from weft.registry.entities import AgentEntity, Entity, Reference, ServerEntity, ToolDef
from weft.registry.findings import Severities, Strictness, as_severe, missing
from weft.registry.gathering import check_groups
from weft.registry.graph import cycles_from
from weft.registry.soundness import check_soundness
from weft.registry.usage import check_declared, check_deprecated, check_unused

SEED = Strictness()


@no_collection()
def validate(book: Book, severities: Severities = SEED, *, allow: Iterable[str] = ()) -> list[Problem]:
    """Return everything that is wrong with a registry, each with its place.

    `allow` are the private networks and hosts in which agents may live, as `egress.allow` of weft.yaml lists them.
    """
    found = [*check_groups(book.document)]
    if not book.document.versioned:
        return [book.located(problem) for problem in found]
    found += [
        *_check_missing(book, severities),
        *_check_versions(book),
        *check_declared(book),
        *_check_cycles(book),
        *check_deprecated(book, severities),
        *check_unused(book, severities),
        *check_soundness(book, allow),
    ]
    return [book.located(problem) for problem in found]


def old_form(parsed: Parsed) -> list[Problem]:
    """Return a warning when this is a registry of version 1; a document of compositions alone is none."""
    document = parsed.document
    bare = [tool for tool in document.tools if tool.version is None]
    sourced = any(tool.source is not None for tool in bare)
    if document.versioned or not sourced or "schemaVersion" not in parsed.source.value:
        return []
    problem = Problem(
        code="OldRegistry",
        severity="warning",
        message=f"a registry of schemaVersion 1.0 pins nothing: tools without a version: {len(bare)}",
        loc=("schemaVersion",),
        value=shown("1.0"),
        expected='"2.0"; weft migrate makes it from this one',
    )
    return [parsed.located(problem)]


def _check_missing(book: Book, severities: Severities) -> Iterator[Problem]:
    for entity in book.entities():
        loc = book.place(reference_to(entity))
        for problem in _missing_in(book, entity, loc):
            yield from as_severe(problem, severities.missing_entity)
    homeless = next((tool for tool in book.document.tools if tool.source is not None), None)
    if homeless is not None and homeless.source is not None and not book.servers:
        yield Problem(
            code="NoServers",
            severity="warning",
            message=f"no servers are listed, so nothing says whether {shown(homeless.source.server)} has its tools",
            loc=(*book.place(reference_to(homeless)), "source", "server"),
            value=shown(homeless.source.server),
            expected="servers, with what each provides",
        )


def _missing_in(book: Book, entity: Entity, loc: Loc) -> Iterator[Problem]:
    for at, ref in book.declared(entity):
        if problem := _absent(book, ref, (*loc, *at)):
            yield problem
    if isinstance(entity, ServerEntity):
        for index, one in enumerate(entity.provides):
            ref = Reference("tool", one.tool, one.version)
            if problem := missing(book, ref, (*loc, "provides", index), keys=("tool", "version")):
                yield problem
    elif isinstance(entity, ToolDef):
        if entity.source is not None and book.servers:
            yield from _check_source(book, entity, loc)
        yield from _missing_agents(book, entity, loc)


def _check_source(book: Book, tool: ToolDef, loc: Loc) -> Iterator[Problem]:
    source = tool.source
    assert source is not None
    ref = Reference("server", source.server, source.server_version or "")
    if problem := missing(book, ref, (*loc, "source"), keys=("server", "serverVersion")):
        yield problem
        return
    server = book.servers.get((ref.name, ref.version))
    if server is not None and (tool.name, tool.version) not in book.provides(server):
        versions = [one.version for one in server.provides if one.tool == tool.name]
        there = f"provides it in {', '.join(versions)}" if versions else f"provides {len(server.provides)} others"
        yield Problem(
            code="NotProvided",
            message=f"server {ref} does not provide {shown(tool.name)} {tool.version}: it {there}",
            loc=(*loc, "source", "server"),
            value=shown(source.server),
            expected=f'{{"tool": "{tool.name}", "version": "{tool.version}"}} in its provides',
        )


def _missing_agents(book: Book, tool: ToolDef, loc: Loc) -> Iterator[Problem]:
    """Report steps that ask an agent or a skill that there is not, once any agents are listed."""
    declared = book.depends_on(tool)
    for at, ref in book.steps(tool) if book.agents else ():
        if ref.type == "agent" and ref not in declared and (problem := _absent(book, ref, (*loc, *at))):
            yield problem


def _absent(book: Book, ref: Reference, loc: Loc) -> Problem | None:
    return missing(book, ref, loc) or _missing_skill(book, ref, (*loc, "skill"))


def _missing_skill(book: Book, ref: Reference, loc: Loc) -> Problem | None:
    agent = book.get(ref.type, ref.name, ref.version)
    if not isinstance(agent, AgentEntity) or ref.skill is None or agent.skill(ref.skill) is not None:
        return None
    skills = [one.id for one in agent.skills]
    return Problem(
        code="UnknownName",
        message=f"agent {ref.entity} has no skill {shown(ref.skill)}",
        loc=loc,
        value=shown(ref.skill),
        expected=f"one of {', '.join(skills)}" if skills else "a skill, of which it has none",
        suggestion=nearest(ref.skill, skills),
    )


def _check_versions(book: Book) -> Iterator[Problem]:
    """Report versions in specs that are ranges or aliases."""
    for tool in book.document.tools:
        if tool.spec is None:
            continue
        for loc, node in walk(tool.spec, ("spec",)):
            version = node.version if isinstance(node, ToolCall | CompositionCall | AgentCall) else None
            if version is not None and not is_exact(version):
                yield refused(version, *book.place(reference_to(tool)), *loc, "version")


def _check_cycles(book: Book) -> Iterator[Problem]:
    """Report every circle of tools and agents once, with its whole path."""
    edges: dict[Reference, dict[Reference, Loc]] = {}
    for entity in (*book.document.tools, *book.document.agents):
        below = edges[reference_to(entity)] = {}
        steps = book.steps(entity) if isinstance(entity, ToolDef) else ()
        for loc, ref in (*book.declared(entity), *steps):
            below.setdefault(ref.entity, loc)
    reported = set[frozenset[Reference]]()
    depths: dict[Reference, int] = {}
    for start in edges:
        for path in cycles_from(start, edges, depths, ()):
            if frozenset(path) in reported:
                continue
            reported.add(frozenset(path))
            first, second = path[0], path[1]
            yield Problem(
                code="Cycle",
                message=f"entities depend on each other in a circle: {_told(path)}",
                loc=(*book.place(first), *edges[first][second]),
                value=shown(str(second)),
                expected="dependencies that never come back",
            )


def _told(path: list[Reference]) -> str:
    mixed = len({ref.type for ref in path}) > 1
    return " -> ".join(f"{ref.type} {ref}" if mixed else str(ref) for ref in path)
