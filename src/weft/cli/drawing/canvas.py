"""What drawings are made of: SVG text, escaped, with sizes guessed from the characters."""

from __future__ import annotations

import unicodedata
from html import escape
from typing import Literal

from weft.cli.drawing.blocks import Box

TITLE = 13.0
LABEL = 11.0
FONT = "ui-sans-serif, system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, 'DejaVu Sans', sans-serif"
INK, LINE, PAPER = "#1f2933", "#7b8794", "#ffffff"
FILLS = {
    "end": ("#ffffff", "#7b8794"),
    "tool": ("#e6f1fb", "#2f74b5"),
    "composition": ("#efe8fa", "#7650b0"),
    "agent": ("#e6f6ec", "#2f8a57"),
    "data": ("#f4f4f1", "#8d8d82"),
    "control": ("#fdf2d8", "#b07f0a"),
}


def width_of(text: str, size: float) -> float:
    """Return how wide a text is, generously: fonts differ, and a box that is too narrow cannot be read."""
    return sum(1.05 if unicodedata.east_asian_width(one) in "WF" else 0.61 for one in text) * size


def shortened(text: str, most: int) -> str:
    """Return a text on one line, cut where it is too long."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"


class Canvas:
    """Collects the elements of one SVG."""

    def __init__(self, width: float, height: float, title: str) -> None:
        self._head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_n(width)}" height="{_n(height)}" '
            f'viewBox="0 0 {_n(width)} {_n(height)}" role="img" font-family="{FONT}">'
            f"<title>{_x(title)}</title>"
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            f'<path d="M0 0.5 L7.5 4 L0 7.5 z" fill="{LINE}"/></marker></defs>'
            f'<rect width="100%" height="100%" fill="{PAPER}"/>'
        )
        self._frames: list[str] = []
        self._lines: list[str] = []
        self._boxes: list[str] = []

    def text(self) -> str:
        """Return the whole drawing; frames lie below lines, lines below boxes."""
        return "\n".join([self._head, *self._frames, *self._lines, *self._boxes, "</svg>"]) + "\n"

    def box(self, box: Box, x: float, y: float, width: float, height: float) -> None:
        """Draw a box with its title and, smaller, its detail."""
        fill, stroke = FILLS[box.kind]
        radius = height / 2 if box.kind == "end" else 6
        middle = x + width / 2
        # The tooltip has what the box has no room for.
        whole = f"{box.title}: {box.detail}" if box.detail else box.title
        self._boxes.append(
            f"<g><title>{_x(whole)}</title>"
            f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}" rx="{_n(radius)}" '
            f'fill="{fill}" stroke="{stroke}" stroke-width="1.3"/>'
            + _said(shortened(box.title, 40), middle, y + (20 if box.detail else 21), TITLE, weight=600)
            + (_said(shortened(box.detail, 52), middle, y + 36, LABEL) if box.detail else "")
            + "</g>"
        )

    def frame(self, title: str, x: float, y: float, width: float, height: float) -> None:
        """Draw a dashed frame with its title in the upper left corner."""
        self._frames.append(
            f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}" rx="10" fill="{INK}" '
            f'fill-opacity="0.025" stroke="{LINE}" stroke-dasharray="5 4"/>'
            + _said(title, x + 12, y + 17, LABEL, anchor="start", fill=LINE, weight=600)
        )

    def arrow(self, x1: float, y1: float, x2: float, y2: float, *, dashed: bool = False) -> None:
        """Draw an arrow from above to below."""
        self._path(f"M{_n(x1)} {_n(y1)} {_bend(x1, y1, x2, y2)}", tip=True, dashed=dashed)

    def merge(self, x: float, y: float, bottom: float, x2: float, y2: float, *, ends: Literal["arrow", "line"]) -> None:
        """Draw the way back to the axis: straight down beside longer neighbours, then over."""
        self._path(f"M{_n(x)} {_n(y)} V{_n(bottom)} {_bend(x, bottom, x2, y2)}", tip=ends == "arrow")

    def label(self, text: str, x: float, y: float, anchor: Literal["start", "middle"]) -> None:
        """Write on an edge, with the paper's colour around the letters so that the line does not cross them."""
        if text:
            said = _said(shortened(text, 44), x, y, LABEL, anchor=anchor, halo=True)
            self._boxes.append(f"<g><title>{_x(text)}</title>{said}</g>")

    def bar(self, x: float, y: float, width: float, height: float, *, fill: str, stroke: str, title: str) -> None:
        """Draw a plain bar with a tooltip."""
        self._boxes.append(
            f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}" rx="2" fill="{fill}" '
            f'stroke="{stroke}"><title>{_x(title)}</title></rect>'
        )

    def words(self, text: str, x: float, y: float, *, fill: str = INK, weight: int = 400) -> None:
        """Write a text that begins at a place."""
        self._boxes.append(_said(text, x, y, LABEL, anchor="start", fill=fill, weight=weight))

    def _path(self, path: str, *, tip: bool, dashed: bool = False) -> None:
        marker = ' marker-end="url(#tip)"' if tip else ""
        dash = ' stroke-dasharray="4 4"' if dashed else ""
        self._lines.append(f'<path d="{path}" fill="none" stroke="{LINE}" stroke-width="1.3"{dash}{marker}/>')


def _bend(x1: float, y1: float, x2: float, y2: float) -> str:
    middle = (y1 + y2) / 2
    return f"C{_n(x1)} {_n(middle)} {_n(x2)} {_n(middle)} {_n(x2)} {_n(y2)}"


def _said(
    text: str,
    x: float,
    y: float,
    size: float,
    *,
    anchor: str = "middle",
    fill: str = INK,
    weight: int = 400,
    halo: bool = False,
) -> str:
    around = f' stroke="{PAPER}" stroke-width="4" stroke-linejoin="round" paint-order="stroke"' if halo else ""
    return (
        f'<text x="{_n(x)}" y="{_n(y)}" font-size="{_n(size)}" font-weight="{weight}" text-anchor="{anchor}" '
        f'fill="{fill}"{around}>{_x(text)}</text>'
    )


def _n(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")


def _x(text: str) -> str:
    """Return text as XML may hold it: escaped, without control characters."""
    return escape("".join(one if one.isprintable() or one == " " else "�" for one in text))
