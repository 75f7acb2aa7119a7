"""Groups of a registry: whether what they name is there, as far as a registry can know."""

from __future__ import annotations

from collections.abc import Iterator

from weft.errors import Loc, Problem, nearest, shown
from weft.ir.document import INTERNAL, Document
from weft.ir.groups import GroupDef


def check_groups(document: Document) -> Iterator[Problem]:
    """Report groups named as a tool is, and tools and servers of groups that the registry does not have.

    A server may have tools that nobody registered, and weft.yaml other servers: what is missing is only a warning, and
    only where servers are listed.
    """
    if not document.groups:
        return
    tools = {tool.name for tool in document.tools}
    provided = {one.tool for server in document.servers for one in server.provides}
    servers = {name for one in document.servers for name in (one.name, f"{one.name}@{one.version}")}
    for index, group in enumerate(document.groups):
        loc: Loc = ("groups", index)
        if group.name in tools:
            told = f"a tool is named {shown(group.name)}, too, and clients could not tell them apart"
            yield Problem(
                code="DuplicateName", message=told, loc=(*loc, "name"), value=shown(group.name),
                expected="a name that no tool has",
            )  # fmt: skip
        yield from _check_actions(group, loc, known=tools | provided, certain=bool(document.servers))
        yield from _check_servers(group, loc, known=servers)


def _check_actions(group: GroupDef, loc: Loc, *, known: set[str], certain: bool) -> Iterator[Problem]:
    for key, name in group.actions.items():
        if name.startswith(INTERNAL):
            told, wanted = f"{shown(name)} is a part of other compositions, and never served", "a tool that is served"
        elif certain and name not in known:
            told, wanted = f"the registry has no tool {shown(name)}", "a tool of this registry, or of a server"
        else:
            continue
        yield Problem(
            code="UnknownName", severity="warning", message=told, loc=(*loc, "actions", key), value=shown(name),
            expected=wanted, suggestion=nearest(name, [one for one in known if not one.startswith(INTERNAL)]),
        )  # fmt: skip


def _check_servers(group: GroupDef, loc: Loc, *, known: set[str]) -> Iterator[Problem]:
    for at, name in enumerate(group.servers):
        if known and name not in known:
            yield Problem(
                code="UnknownName",
                severity="warning",
                message=f"the registry has no server {shown(name)}",
                loc=(*loc, "servers", at),
                value=shown(name),
                expected="a server of this registry, or of weft.yaml",
                suggestion=nearest(name, known),
            )
