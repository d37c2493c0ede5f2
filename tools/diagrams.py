"""draw_diagram: boxes and arrows from a few lines of text.

    diagram_spec.py     the lines
    diagram_layout.py   where everything stands
    fonts.py            a font that can write it
    this file           the drawing, with Pillow, and the tool

Knows how a diagram looks. Refuses to know what is in it.
"""

from __future__ import annotations

import io
import itertools
import math
import re
from collections.abc import Callable, Sequence
from typing import Annotated, Literal

from PIL import Image, ImageDraw, ImageFont
from pydantic import Field

from agent.tool import Effect, ToolContext, ToolResult, tool
from tools.diagram_layout import Placed, Point, laid_out
from tools.diagram_spec import Arrow, Diagram, read_diagram
from tools.fonts import Font, font_for
from tools.showing import picture_name, show_picture

PAPER, INK, SOFT, LINE, FILL, EDGE = "#ffffff", "#1d2125", "#565d63", "#7d868c", "#edf5f3", "#0f6f68"
"""The page's light colours: a picture is looked at outside it, too."""

TEXT_SIZE, LABEL_SIZE, TITLE_SIZE = 17, 14, 22
BOX_CHARS, LABEL_CHARS = 22, 20
"""Where a line of text is broken, in widths of a Latin letter; a Chinese sign takes two."""
_CLOSING = "、，。；：！？）】》」』”’％"
_PIECE = re.compile(rf"[\u2e80-\uffef][{_CLOSING}]*\s*|[^\s\u2e80-\uffef]+\s*|\s+")
"""What is never broken: a word, or a Chinese sign with the punctuation that ends it."""

SHARP = 2
"""Pixels of the picture for each unit of the layout; drawn at twice that, and made smaller for smooth edges."""
MAX_SIDE, MAX_PIXELS = 6_000, 12_000_000
"""Of the picture. Four times as many pixels are held while it is drawn."""

Measure = Callable[[str, int], "tuple[float, float]"]


@tool(Effect.WRITE)
def draw_diagram(
    context: ToolContext,
    spec: Annotated[
        str,
        Field(
            description="One line each. A box: `name: text shown`. An arrow: `name -> name: what it says` (`-->` "
            "dashed, `<->` both ways, `--` without a head). A name that stands only in arrows is a box, too.",
            min_length=1,
            max_length=20_000,
        ),
    ],
    title: Annotated[str, Field(description="Above the diagram.", max_length=120)] = "",
    direction: Annotated[Literal["down", "right"], Field(description="Which way it runs.")] = "down",
) -> ToolResult:
    """Draw a diagram of boxes and arrows, such as a flow, an architecture, a tree or states. The user sees it at once.

    It is laid out by itself and saved in images/. Any language. Keep the texts short, and use at most 60 boxes.
    """
    png, size = draw(read_diagram(spec), title, direction)
    return show_picture(context, png, picture_name(title, "diagram"), {"size": size})


def draw(diagram: Diagram, title: str = "", direction: Literal["down", "right"] = "down") -> tuple[bytes, str]:
    """The picture as PNG, and its size as "1024x768". Raises ToolError where no font can write the texts."""
    texts = [title, *diagram.boxes.values(), *(arrow.text for arrow in diagram.arrows)]
    pen = _Pen(font_for("".join(texts)))
    boxes = {name: _wrapped(text, BOX_CHARS) for name, text in diagram.boxes.items()}
    labels = [_wrapped(arrow.text, LABEL_CHARS) if arrow.text else "" for arrow in diagram.arrows]
    sizes = {name: _box_size(pen.measure(text, TEXT_SIZE)) for name, text in boxes.items()}
    placed = laid_out(
        sizes,
        [(arrow.start, arrow.end) for arrow in diagram.arrows],
        direction,
        *_room(pen, labels, diagram, direction),
    )

    head = 56.0 if title else 0.0
    width = max(placed.width, pen.measure(title, TITLE_SIZE)[0] + 80 if title else 0)
    height = placed.height + head
    scale = min(SHARP, MAX_SIDE / max(width, height), math.sqrt(MAX_PIXELS / (width * height)))
    pen.begin(width, height, scale * 2, ((width - placed.width) / 2, head))
    if title:
        pen.write((placed.width / 2, 34 - head), title, TITLE_SIZE, INK)
    ways = [_way(placed, sizes, diagram.arrows, index, direction) for index in range(len(diagram.arrows))]
    for arrow, way in zip(diagram.arrows, ways, strict=True):
        pen.arrow(way, arrow)
    for name, text in boxes.items():
        pen.box(placed.boxes[name], sizes[name], text)
    taken = [_around(placed.boxes[name], sizes[name]) for name in boxes]
    for label, way in zip(labels, ways, strict=True):
        if label:
            place = _free_place(way, pen.measure(label, LABEL_SIZE), taken)
            pen.label(place, label)
    return pen.finish()


# ---------------------------------------------------------------------- shapes


def _room(pen: _Pen, labels: Sequence[str], diagram: Diagram, direction: str) -> tuple[float, float]:
    """How far layers, and boxes of one layer, stand apart, so that what the arrows say has room."""
    said = [pen.measure(label, LABEL_SIZE) for label in labels if label]
    widest, highest = (max((extent[side] for extent in said), default=0.0) for side in (0, 1))
    pairs = [frozenset((arrow.start, arrow.end)) for arrow in diagram.arrows]
    rows = 1 + bool(said) * (len(set(pairs)) < len(pairs))  # two texts between the same boxes stand one above the other
    if direction == "right":
        return 62 + widest, 46 + rows * highest
    return 66 + rows * (highest + 14), max(46.0, widest * 0.8)


def _box_size(text: tuple[float, float]) -> Point:
    return max(text[0] + 36, 76.0), max(text[1] + 24, 46.0)


def _wrapped(text: str, limit: int) -> str:
    """Lines of at most `limit` widths, broken at blanks or between Chinese signs."""
    lines: list[str] = []
    for paragraph in text.split("\n"):
        line = ""
        for piece in _PIECE.findall(paragraph):
            if line and _widths(line + piece.rstrip()) > limit:
                lines.append(line.strip())
                line = ""
            line += piece
        lines.append(line.strip())
    return "\n".join(lines)


def _widths(text: str) -> int:
    return sum(2 if ord(sign) > 0x2E7F else 1 for sign in text)


def _way(placed: Placed, sizes: dict[str, Point], arrows: Sequence[Arrow], index: int, direction: str) -> list[Point]:
    """The points of an arrow from border to border; arrows between the same two boxes run beside each other."""
    arrow, path = arrows[index], list(placed.paths[index])
    if arrow.start == arrow.end:
        return _loop(path[0], sizes[arrow.start], direction)
    same = [i for i, other in enumerate(arrows) if {other.start, other.end} == {arrow.start, arrow.end}]
    aside = (same.index(index) - (len(same) - 1) / 2) * 26
    if aside:
        if arrow.start > arrow.end:
            aside = -aside  # the two are seen from opposite ends
        (ax, ay), (bx, by) = path[0], path[-1]
        length = math.hypot(bx - ax, by - ay) or 1.0
        path = [(x - (by - ay) / length * aside, y + (bx - ax) / length * aside) for x, y in path]
    path[0] = _border(placed.boxes[arrow.start], sizes[arrow.start], path[0], path[1])
    path[-1] = _border(placed.boxes[arrow.end], sizes[arrow.end], path[-1], path[-2])
    return _smooth(path)


def _loop(middle: Point, size: Point, direction: str) -> list[Point]:
    """From a box to itself, on the side that other arrows use least."""
    if direction == "right":
        x, y = middle[0], middle[1] - size[1] / 2
        return _smooth([(x + 9, y), (x + 16, y - 30), (x - 16, y - 30), (x - 9, y)])
    x, y = middle[0] + size[0] / 2, middle[1]
    return _smooth([(x, y - 9), (x + 30, y - 16), (x + 30, y + 16), (x, y + 9)])


def _border(middle: Point, size: Point, inside: Point, outside: Point) -> Point:
    """Where the way from a point inside a box to one outside crosses its border."""
    (x, y), (dx, dy) = inside, (outside[0] - inside[0], outside[1] - inside[1])
    steps = [1.0]
    if dx:
        steps.append((middle[0] + math.copysign(size[0] / 2, dx) - x) / dx)
    if dy:
        steps.append((middle[1] + math.copysign(size[1] / 2, dy) - y) / dy)
    step = min(step for step in steps if step >= 0)
    return x + dx * step, y + dy * step


def _smooth(points: list[Point]) -> list[Point]:
    """A curve through the points (Catmull and Rom's), as short straight pieces."""
    if len(points) == 2:
        return points
    padded = [points[0], *points, points[-1]]
    curve = [points[0]]
    for p0, p1, p2, p3 in zip(padded, padded[1:], padded[2:], padded[3:], strict=False):
        for step in range(1, 17):
            t = step / 16
            curve.append(
                (
                    _between(p0[0], p1[0], p2[0], p3[0], t),
                    _between(p0[1], p1[1], p2[1], p3[1], t),
                )
            )
    return curve


def _between(a: float, b: float, c: float, d: float, t: float) -> float:
    return 0.5 * (2 * b + (c - a) * t + (2 * a - 5 * b + 4 * c - d) * t**2 + (3 * b - 3 * c + d - a) * t**3)


Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""


def _around(middle: Point, size: Point, pad: float = 3.0) -> Box:
    (x, y), (width, height) = middle, size
    return x - width / 2 - pad, y - height / 2 - pad, x + width / 2 + pad, y + height / 2 + pad


def _free_place(way: Sequence[Point], size: Point, taken: list[Box]) -> Point:
    """Where along its arrow a text covers least of what is there; half-way, if it can be had. It is taken then."""
    places = [_part(way, part / 100) for part in (50, 40, 60, 32, 68, 25, 75, 18, 82)]
    boxes = [_around(place, size) for place in places]
    covered = [sum(_overlap(box, other) for other in taken) for box in boxes]
    best = covered.index(min(covered))
    taken.append(boxes[best])
    return places[best]


def _overlap(a: Box, b: Box) -> float:
    return max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[1], b[1]))


def _part(way: Sequence[Point], part: float) -> Point:
    """So far along, from 0 to 1."""
    lengths = [math.dist(a, b) for a, b in itertools.pairwise(way)]
    left = sum(lengths) * part
    for (a, b), length in zip(itertools.pairwise(way), lengths, strict=True):
        if left <= length:
            return _along(a, b, left / length if length else 0.0)
        left -= length
    return way[-1]


# ---------------------------------------------------------------------- ink


class _Pen:
    """Draws in units of the layout."""

    def __init__(self, font: Font) -> None:
        self._font = font
        self._fonts: dict[float, ImageFont.FreeTypeFont] = {}
        self._scale, self._origin = 1.0, (0.0, 0.0)
        self._image = Image.new("RGB", (1, 1))
        self._draw = ImageDraw.Draw(self._image)

    def begin(self, width: float, height: float, scale: float, origin: Point) -> None:
        self._scale, self._origin = scale, origin
        self._image = Image.new("RGB", (round(width * scale), round(height * scale)), PAPER)
        self._draw = ImageDraw.Draw(self._image)

    def measure(self, text: str, size: int) -> tuple[float, float]:
        """Width and height of lines of text, in units."""
        box = self._draw.multiline_textbbox((0, 0), text, font=self._sized(size * 4), spacing=size)
        return (box[2] - box[0]) / 4, (box[3] - box[1]) / 4

    def write(self, middle: Point, text: str, size: int, colour: str) -> None:
        font = self._sized(size * self._scale)
        spacing = size * self._scale / 4
        self._draw.multiline_text(
            self._at(middle), text, font=font, fill=colour, anchor="mm", align="center", spacing=spacing
        )

    def box(self, middle: Point, size: Point, text: str) -> None:
        (x, y), (width, height) = middle, size
        corners = [self._at((x - width / 2, y - height / 2)), self._at((x + width / 2, y + height / 2))]
        line = round(1.6 * self._scale)
        self._draw.rounded_rectangle(corners, radius=9 * self._scale, fill=FILL, outline=EDGE, width=line)
        self.write(middle, text, TEXT_SIZE, INK)

    def label(self, middle: Point, text: str) -> None:
        width, height = self.measure(text, LABEL_SIZE)
        (x, y), pad = middle, 4
        corners = [
            self._at((x - width / 2 - pad, y - height / 2 - pad)),
            self._at((x + width / 2 + pad, y + height / 2 + pad)),
        ]
        self._draw.rounded_rectangle(corners, radius=5 * self._scale, fill=PAPER)
        self.write(middle, text, LABEL_SIZE, SOFT)

    def arrow(self, way: list[Point], arrow: Arrow) -> None:
        pieces = _dashes(way) if arrow.dashed else [way]
        for piece in pieces:
            self._draw.line(
                [self._at(point) for point in piece], fill=LINE, width=round(2 * self._scale), joint="curve"
            )
        if arrow.heads:
            self._head(way[-1], way[-2] if len(way) == 2 else way[-4])
        if arrow.heads == 2:
            self._head(way[0], way[1] if len(way) == 2 else way[3])

    def finish(self) -> tuple[bytes, str]:
        width, height = (max(1, round(side / 2)) for side in self._image.size)
        written = io.BytesIO()
        self._image.resize((width, height), Image.Resampling.LANCZOS).save(written, "PNG", optimize=True)
        return written.getvalue(), f"{width}x{height}"

    def _head(self, tip: Point, before: Point) -> None:
        angle = math.atan2(tip[1] - before[1], tip[0] - before[0])
        back = [(tip[0] - 12 * math.cos(angle + turn), tip[1] - 12 * math.sin(angle + turn)) for turn in (-0.42, 0.42)]
        self._draw.polygon([self._at(point) for point in (tip, *back)], fill=LINE)

    def _at(self, point: Point) -> Point:
        return (point[0] + self._origin[0]) * self._scale, (point[1] + self._origin[1]) * self._scale

    def _sized(self, size: float) -> ImageFont.FreeTypeFont:
        if size not in self._fonts:
            self._fonts[size] = ImageFont.truetype(self._font.path, size, index=self._font.index)
        return self._fonts[size]


def _dashes(way: Sequence[Point], dash: float = 8.0, gap: float = 6.0) -> list[list[Point]]:
    """The way in pieces with gaps between."""
    pieces: list[list[Point]] = []
    walked = 0.0
    for a, b in itertools.pairwise(way):
        length = math.dist(a, b)
        at = 0.0
        while at < length:
            place = (walked + at) % (dash + gap)
            step = min((dash if place < dash else dash + gap) - place, length - at) or 1e-6
            if place < dash:
                pieces.append([_along(a, b, at / length), _along(a, b, (at + step) / length)])
            at += step
        walked += length
    return pieces


def _along(a: Point, b: Point, part: float) -> Point:
    return a[0] + (b[0] - a[0]) * part, a[1] + (b[1] - a[1]) * part
