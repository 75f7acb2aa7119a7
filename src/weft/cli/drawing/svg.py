"""Blocks as an SVG of our own: boxes from top to bottom, branches side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from weft.cli.drawing.blocks import Block, Box, Column, Fan, Frame, entry_label
from weft.cli.drawing.canvas import LABEL, TITLE, Canvas, shortened, width_of

GAP = 34
LABELLED_GAP = 48
BETWEEN = 28
PADDING = 16
FRAME_TITLE = 24
MARGIN = 24
MOST_TITLE = 40
MOST_DETAIL = 52
MOST_LABEL = 44


@dataclass(frozen=True, slots=True)
class Laid:
    """A block with its size: `left` and `right` of the axis on which edges enter at the top and leave at the bottom."""

    block: Block
    left: float
    right: float
    height: float
    children: tuple[Laid, ...] = ()
    gaps: tuple[float, ...] = ()

    @property
    def width(self) -> float:
        """The whole width."""
        return self.left + self.right


def svg(block: Block, title: str) -> str:
    """Return a drawing that needs nothing else: no script, no font, no file."""
    laid = _lay(block)
    canvas = Canvas(laid.width + 2 * MARGIN, laid.height + 2 * MARGIN, title)
    _draw(laid, MARGIN + laid.left, MARGIN, canvas)
    return canvas.text()


def _lay(block: Block) -> Laid:
    match block:
        case Box():
            return _lay_box(block)
        case Column():
            return _lay_column(block)
        case Fan():
            return _lay_fan(block)
        case Frame():
            return _lay_frame(block)


def _lay_box(box: Box) -> Laid:
    title, detail = shortened(box.title, MOST_TITLE), shortened(box.detail, MOST_DETAIL)
    half = max(width_of(title, TITLE), width_of(detail, LABEL), 56) / 2 + 14
    return Laid(box, half, half, 46 if box.detail else 32)


def _lay_column(column: Column) -> Laid:
    children = [_lay(block) for _, block in column.items]
    # The edge into the first item comes from outside, and whoever draws it makes room for it.
    entries = [entry_label(*item) for item in column.items]
    gaps = [0.0] + [LABELLED_GAP if label else GAP for label in entries[1:]]
    labels = [width_of(shortened(label, MOST_LABEL), LABEL) + 16 for label in entries]
    left, right = max(one.left for one in children), max([one.right for one in children] + labels)
    return Laid(column, left, right, sum(gaps) + sum(one.height for one in children), tuple(children), tuple(gaps))


def _lay_fan(fan: Fan) -> Laid:
    head = _lay_box(fan.head)
    branches = [_wide_enough(_lay(branch.block), entry_label(branch.label, branch.block)) for branch in fan.branches]
    tail = [_lay_box(fan.tail)] if fan.tail is not None else []
    row = sum(one.width for one in branches) + BETWEEN * (len(branches) - 1)
    first, last = branches[0].left, row - branches[-1].right
    axis = (first + last) / 2
    left = max(axis, head.left, *(one.left for one in tail))
    right = max(row - axis, head.right, *(one.right for one in tail))
    labelled = any(entry_label(branch.label, branch.block) for branch in fan.branches)
    gap = LABELLED_GAP + 14 if labelled else GAP + 6
    height = head.height + gap + max(one.height for one in branches) + GAP
    return Laid(fan, left, right, height + sum(one.height for one in tail), (head, *branches, *tail), (axis, gap))


def _wide_enough(laid: Laid, label: str) -> Laid:
    """Return a block with room around it for the label above it."""
    half = width_of(shortened(label, MOST_LABEL), LABEL) / 2
    left, right = max(laid.left, half), max(laid.right, half)
    return Laid(Column((("", laid.block),)), left, right, laid.height, (laid,), (0.0,))


def _lay_frame(frame: Frame) -> Laid:
    inner = _lay(frame.block)
    title = width_of(shortened(frame.title, MOST_TITLE), LABEL) + 2 * PADDING
    left = inner.left + PADDING
    right = max(inner.right + PADDING, title - left)
    return Laid(frame, left, right, inner.height + FRAME_TITLE + 2 * PADDING - 8, (inner,))


def _draw(laid: Laid, x: float, y: float, canvas: Canvas) -> None:
    match laid.block:
        case Box():
            canvas.box(laid.block, x - laid.left, y, laid.width, laid.height)
        case Column():
            _draw_column(laid, laid.block, x, y, canvas)
        case Fan():
            _draw_fan(laid, laid.block, x, y, canvas)
        case Frame():
            canvas.frame(shortened(laid.block.title, MOST_TITLE), x - laid.left, y, laid.width, laid.height)
            _draw(laid.children[0], x, y + FRAME_TITLE + PADDING - 8, canvas)


def _draw_column(laid: Laid, column: Column, x: float, y: float, canvas: Canvas) -> None:
    for index, (item, child, gap) in enumerate(zip(column.items, laid.children, laid.gaps, strict=True)):
        if index:
            canvas.arrow(x, y, x, y + gap)
            canvas.label(entry_label(*item), x + 8, y + gap / 2 + 3, "start")
        _draw(child, x, y + gap, canvas)
        y += gap + child.height


def _draw_fan(laid: Laid, fan: Fan, x: float, y: float, canvas: Canvas) -> None:
    count = len(fan.branches)
    head, branches, tail = laid.children[0], laid.children[1 : 1 + count], laid.children[1 + count :]
    axis, gap = laid.gaps
    _draw(head, x, y, canvas)
    top = y + head.height + gap
    bottom = top + max(one.height for one in branches)
    at = x - axis
    for branch, child in zip(fan.branches, branches, strict=True):
        center = at + child.left
        canvas.arrow(x, y + head.height, center, top, dashed=branch.aside)
        canvas.label(entry_label(branch.label, branch.block), center, top - 15, "middle")
        _draw(child, center, top, canvas)
        if not branch.aside:
            canvas.merge(center, top + child.height, bottom, x, bottom + GAP, ends=_end(fan))
        at += child.width + BETWEEN
    if tail:
        _draw(tail[0], x, bottom + GAP, canvas)


def _end(fan: Fan) -> Literal["arrow", "line"]:
    return "arrow" if fan.tail is not None else "line"
