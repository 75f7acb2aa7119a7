"""Blocks as a Mermaid flowchart."""

from __future__ import annotations

from dataclasses import dataclass, field

from weft.cli.drawing.blocks import Block, Box, Column, Fan, Frame, entry_label

SHAPES = {
    "end": ("([", "])"),
    "tool": ("[", "]"),
    "composition": ("[[", "]]"),
    "agent": ("[/", "/]"),
    "data": ("(", ")"),
    "control": ("{{", "}}"),
}
# Mermaid has entity codes of its own, without the ampersand.
ENTITIES = str.maketrans(
    {"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "&": "#amp;", "`": "#96;", "\n": " ", "\r": " "}
)


def mermaid(block: Block) -> str:
    """Return a flowchart, from top to bottom."""
    chart = _Chart()
    chart.add(block, 1)
    return "\n".join(["flowchart TD", *chart.lines, *chart.edges]) + "\n"


@dataclass(frozen=True, slots=True)
class _Ends:
    """Where edges enter a block, and where they leave it."""

    entry: str
    exits: tuple[str, ...]


@dataclass(slots=True)
class _Chart:
    lines: list[str] = field(default_factory=list[str])
    edges: list[str] = field(default_factory=list[str])
    count: int = 0

    def add(self, block: Block, depth: int) -> _Ends:
        match block:
            case Box():
                return self._box(block, depth)
            case Column():
                return self._column(block, depth)
            case Fan():
                return self._fan(block, depth)
            case Frame():
                self._line(f'subgraph {self._id()}["{_text(block.title)}"]', depth)
                ends = self.add(block.block, depth + 1)
                self._line("end", depth)
                return ends

    def _box(self, box: Box, depth: int) -> _Ends:
        name = self._id()
        before, after = SHAPES[box.kind]
        detail = f"<br/>{_text(box.detail)}" if box.detail else ""
        self._line(f'{name}{before}"{_text(box.title)}{detail}"{after}', depth)
        return _Ends(name, (name,))

    def _column(self, column: Column, depth: int) -> _Ends:
        first, *rest = [(entry_label(label, block), self.add(block, depth)) for label, block in column.items]
        last = first[1]
        for label, ends in rest:
            self._edges(last.exits, ends.entry, label)
            last = ends
        return _Ends(first[1].entry, last.exits)

    def _fan(self, fan: Fan, depth: int) -> _Ends:
        head = self._box(fan.head, depth)
        exits: list[str] = []
        for branch in fan.branches:
            ends = self.add(branch.block, depth)
            self._edges(head.exits, ends.entry, entry_label(branch.label, branch.block), dashed=branch.aside)
            exits += [] if branch.aside else ends.exits
        if fan.tail is None:
            return _Ends(head.entry, tuple(exits))
        tail = self._box(fan.tail, depth)
        self._edges(exits, tail.entry, "")
        return _Ends(head.entry, tail.exits)

    def _edges(self, sources: list[str] | tuple[str, ...], target: str, label: str, *, dashed: bool = False) -> None:
        arrow = "-.->" if dashed else "-->"
        said = f'|"{_text(label)}"|' if label else ""
        for source in sources:
            self._line(f"{source} {arrow}{said} {target}", 1, self.edges)

    def _line(self, text: str, depth: int, into: list[str] | None = None) -> None:
        (self.lines if into is None else into).append("    " * depth + text)

    def _id(self) -> str:
        self.count += 1
        return f"n{self.count}"


def _text(text: str) -> str:
    return text.translate(ENTITIES)
