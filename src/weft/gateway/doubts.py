"""What is doubtful about a registry now that it is known what the servers offer: told to operators, never an end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from weft.errors import Problem, nearest, shown
from weft.expr.shapes import required_of
from weft.ir.document import Document, ToolDef
from weft.plan.typeflow import source_ref
from weft.ports import is_object
from weft.registry.graph import references
from weft.upstreams.pool import Pool


def doubts(document: Document, pool: Pool, problems: Iterable[Problem]) -> Iterator[str]:
    """Yield a sentence for everything that will not work as it is written, or not as its author may think."""
    for problem in problems:
        if problem.severity == "error" or problem.code == "UnknownName":
            yield _told(problem, document)
    offered = _offered(pool)
    defined = {tool.name for tool in document.tools}
    for tool in document.tools:
        if tool.source is not None:
            yield from _of_source(tool, pool)
        for name in dict.fromkeys(reference.name for reference in references(tool)):
            servers = offered.get(name, [])
            if len(servers) > 1 and name not in defined:
                yield (
                    f"{tool.name!r} calls {name!r}, which {' and '.join(map(repr, servers))} offer: "
                    f"that of {servers[0]!r} is called; say which with `server`"
                )


def _told(problem: Problem, document: Document) -> str:
    at = problem.loc[1] if problem.loc[:1] == ("tools",) and len(problem.loc) > 1 else None
    whose = f"{document.tools[at].name!r}: " if isinstance(at, int) and at < len(document.tools) else ""
    meant = f"; did you mean {problem.suggestion!r}?" if problem.suggestion else ""
    return f"{whose}{problem.message}{meant}"


def _offered(pool: Pool) -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = {}
    for key, server in pool.servers.items():
        for tool in server.inventory.tools:
            found.setdefault(str(tool.get("name")), []).append(key)
    return found


def _of_source(tool: ToolDef, pool: Pool) -> Iterator[str]:
    """Yield why a virtual tool cannot work."""
    assert tool.source is not None
    ref = source_ref(tool)
    server = pool.find(ref)
    if server is None:
        wanted = f"{ref.server}@{ref.version}" if ref.version else str(ref.server)
        close = nearest(wanted, pool.servers)
        yield f"{tool.name!r}: there is no server {shown(wanted)}" + (f"; did you mean {close!r}?" if close else "")
        return
    if not server.connected_once:
        return
    known = server.known.tool(ref.name)
    if known is None:
        close = nearest(ref.name, (str(one.get("name")) for one in server.known.tools))
        meant = f"; did you mean {close!r}?" if close else ""
        yield f"{tool.name!r}: server {server.key!r} has no tool {shown(ref.name)}{meant}"
        return
    schema: object = known.get("inputSchema")
    needed = required_of(schema) if is_object(schema) else ()
    for name in needed:
        if name in tool.source.hide_fields and name not in tool.source.defaults:
            yield f"{tool.name!r} hides {name!r}, which {ref.name!r} needs, and has no default for it: every call fails"
