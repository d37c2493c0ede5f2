"""Where the boxes of a diagram stand and which way its arrows go: in layers (the method of Sugiyama), by `grandalf`.

Parts that are not connected stand side by side. Knows sizes and places. Refuses to know texts, fonts and colours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Direction = Literal["down", "right"]
Point = tuple[float, float]

MARGIN = 40.0


@dataclass(frozen=True)
class Placed:
    width: float
    height: float
    boxes: Mapping[str, Point]
    """The middle of each box, from the upper left."""
    paths: Sequence[Sequence[Point]]
    """For each arrow the points it goes through, from the middle of one box to the middle of the other."""


def laid_out(
    sizes: Mapping[str, Point], arrows: Sequence[tuple[str, str]], direction: Direction, gap: float, beside: float
) -> Placed:
    """Places for boxes of these sizes and the arrows between them; `gap`: between layers, `beside`: within one."""
    from grandalf.graphs import Edge, Graph, Vertex  # noqa: PLC0415 (only pictures need it)
    from grandalf.layouts import SugiyamaLayout, VertexViewer  # noqa: PLC0415
    from grandalf.routing import EdgeViewer  # noqa: PLC0415

    turned = direction == "right"
    vertices = {name: Vertex(name) for name in sizes}
    for name, (width, height) in sizes.items():
        vertices[name].view = VertexViewer(*((height, width) if turned else (width, height)))
    edges: dict[tuple[str, str], Edge] = {}
    for a, b in arrows:
        if a != b and (a, b) not in edges and (b, a) not in edges:
            edges[a, b] = Edge(vertices[a], vertices[b])
            edges[a, b].view = EdgeViewer()
    graph = Graph(list(vertices.values()), list(edges.values()))

    boxes: dict[str, Point] = {}
    paths: dict[tuple[str, str], list[Point]] = {}
    across = MARGIN
    depth = 0.0
    for part in graph.C:
        layout = SugiyamaLayout(part)
        layout.xspace, layout.yspace = beside, gap
        roots = [v for v in part.sV if not v.e_in()] or [next(v for v in vertices.values() if v in part.sV)]
        layout.init_all(roots=roots)
        layout.draw(6)
        placed = {v.data: v.view for v in part.sV}
        sides = [view.xy[0] + half * view.w / 2 for view in placed.values() for half in (-1, 1)]
        sides += [x for pair, edge in edges.items() if pair[0] in placed for x, _ in edge.view._pts]
        left, right = min(sides), max(sides)
        top = min(view.xy[1] - view.h / 2 for view in placed.values())
        bottom = max(view.xy[1] + view.h / 2 for view in placed.values())
        by_x, by_y = across - left, MARGIN - top
        for name, view in placed.items():
            boxes[name] = (view.xy[0] + by_x, view.xy[1] + by_y)
        for pair, edge in edges.items():
            if pair[0] in placed:
                middle = [(x + by_x, y + by_y) for x, y in edge.view._pts[1:-1]]
                paths[pair] = [boxes[pair[0]], *_in_order(boxes[pair[0]], middle), boxes[pair[1]]]
        across += right - left + beside
        depth = max(depth, bottom - top)
    width, height = across - beside + MARGIN, depth + 2 * MARGIN
    for a, b in arrows:
        if (a, b) not in paths:
            paths[a, b] = [boxes[a], boxes[b]] if a == b else paths[b, a][::-1]
    if turned:
        width, height = height, width
        boxes = {name: (y, x) for name, (x, y) in boxes.items()}
        paths = {pair: [(y, x) for x, y in path] for pair, path in paths.items()}
    return Placed(width, height, boxes, [paths[pair] for pair in arrows])


def _in_order(start: Point, middle: list[Point]) -> list[Point]:
    """The points of an arrow that was turned round for the layout come from the far end."""
    if len(middle) > 1 and abs(middle[0][1] - start[1]) > abs(middle[-1][1] - start[1]):
        return middle[::-1]
    return middle
