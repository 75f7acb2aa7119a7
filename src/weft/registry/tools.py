"""Tools by name and version: which one a name means, and to whom."""

from __future__ import annotations

from collections.abc import Iterator

from weft.ir.document import Document, ToolDef
from weft.ir.versions import precedence


def key_of(name: str, version: str | None) -> str:
    """Return what names one version of a tool; a tool without versions has its name alone."""
    return name if version is None else f"{name}@{version}"


class Tools:
    """The tools of a document. Each is known by its index, and a bare name means its newest version."""

    def __init__(self, document: Document) -> None:
        self.all = document.tools
        self._named: dict[str, list[int]] = {}
        for index, tool in enumerate(document.tools):
            self._named.setdefault(tool.name, []).append(index)
        for several in self._named.values():
            if len(several) > 1:
                several.sort(key=lambda index: precedence(self.all[index].version), reverse=True)
        self._pins: dict[int, dict[str, str]] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._named

    def names(self) -> Iterator[str]:
        """Yield every name once."""
        return iter(self._named)

    def versions(self, name: str) -> list[str]:
        """Return the versions of a tool, newest first."""
        return [version for index in self._named.get(name, ()) if (version := self.all[index].version) is not None]

    def newest(self, name: str) -> int | None:
        """Return the newest version of a tool."""
        several = self._named.get(name)
        return several[0] if several else None

    def is_alone(self, name: str) -> bool:
        """Tell whether a name can mean only one tool."""
        return len(self._named.get(name, ())) < 2

    def label(self, index: int) -> str:
        """Return a tool as people are told of it: with its version where the name alone could mean another one."""
        tool = self.all[index]
        return tool.name if self.is_alone(tool.name) else key_of(tool.name, tool.version)

    def pinned(self, owner: int | None, name: str) -> str | None:
        """Return the version that a composition says it depends on, when it says so of exactly one."""
        if owner is None or not (depends := self.all[owner].depends):
            return None
        if owner not in self._pins:
            pins: dict[str, set[str]] = {}
            for one in depends:
                if one.type == "tool":
                    pins.setdefault(one.name, set()).add(one.version)
            self._pins[owner] = {pin: next(iter(versions)) for pin, versions in pins.items() if len(versions) == 1}
        return self._pins[owner].get(name)

    def meant(self, name: str, version: str | None = None, *, by: int | None = None) -> int | None:
        """Return the tool that a name means: the version given, else the one that `by` depends on, else the newest."""
        several = self._named.get(name)
        if not several:
            return None
        wanted = version or self.pinned(by, name)
        if wanted is None:
            return several[0]
        # A tool that has no version is all there is of it.
        return next((index for index in several if self.all[index].version in (wanted, None)), None)


def newest_tools(document: Document) -> list[ToolDef]:
    """Return the newest version of each tool, in the order of the document."""
    tools = Tools(document)
    return [tool for index, tool in enumerate(document.tools) if tools.newest(tool.name) == index]


def find_tool(document: Document, key: str) -> ToolDef | None:
    """Return the tool that a person means by its name, or by `name@version`."""
    tools = Tools(document)
    index = tools.newest(key)
    if index is None and "@" in key:
        name, _, version = key.rpartition("@")
        index = tools.meant(name, version)
        if index is not None and tools.all[index].version != version:
            return None
    return None if index is None else tools.all[index]
