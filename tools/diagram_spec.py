"""A diagram as text: boxes and arrows, a line each.

    # comment
    loop: Agent loop          a box with its text; a name that only stands in arrows is a box, too
    user -> loop: message     an arrow, with what it says
    loop --> log              dashed
    loop <-> model            both ways
    a -- b                    a line

Knows the lines. Refuses to know where anything stands and how it looks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from agent.errors import ToolError

MAX_BOXES = 60
MAX_ARROWS = 150
MAX_TEXT = 200
"""Characters in a box or at an arrow."""
MAX_LINE = 3 * MAX_TEXT + 100
"""The time to read one grows faster than its length."""

_ARROW = re.compile(r"^(?P<a>.+?)\s*(?P<kind><-->|<->|-->|->|--|→)\s*(?P<b>[^:：]+?)\s*(?:[:：]\s*(?P<text>.*))?$")
_BOX = re.compile(r"^(?P<name>[^:：]+?)\s*[:：]\s*(?P<text>.+)$")


@dataclass(frozen=True)
class Arrow:
    start: str
    end: str
    text: str = ""
    dashed: bool = False
    heads: int = 1
    """0: a line; 1: at the end; 2: at both ends."""


@dataclass(frozen=True)
class Diagram:
    boxes: dict[str, str]
    """Text by name, in the order in which they are first named."""
    arrows: tuple[Arrow, ...]


def read_diagram(spec: str) -> Diagram:
    """Raises ToolError, naming the line, for one that is neither a box nor an arrow, and for too much of anything."""
    boxes: dict[str, str] = {}
    texts: dict[str, str] = {}
    arrows: list[Arrow] = []
    for number, line in enumerate(spec.splitlines(), start=1):
        line = line.strip().rstrip(";").strip()
        if not line or line.startswith("#"):
            continue
        if len(line) > MAX_LINE:
            raise ToolError(f"line {number}: a line has at most {MAX_LINE} characters")
        if found := _ARROW.match(line):
            start, end = (_name(found[side], number) for side in "ab")
            boxes.setdefault(start, start)
            boxes.setdefault(end, end)
            kind = found["kind"]
            heads = 2 if kind.startswith("<") else 0 if kind == "--" else 1
            arrows.append(Arrow(start, end, _text(found["text"] or "", number), "-->" in kind, heads))
        elif found := _BOX.match(line):
            name = _name(found["name"], number)
            boxes.setdefault(name, name)
            texts[name] = _text(found["text"], number)
        else:
            name = _name(line, number)
            boxes.setdefault(name, name)
    if not boxes:
        raise ToolError("the diagram is empty: write a line for each box (name: text) and each arrow (name -> name)")
    if len(boxes) > MAX_BOXES or len(arrows) > MAX_ARROWS:
        raise ToolError(f"a diagram has at most {MAX_BOXES} boxes and {MAX_ARROWS} arrows; draw several instead")
    return Diagram({name: texts.get(name, name) for name in boxes}, tuple(arrows))


def _name(text: str, number: int) -> str:
    name = text.strip().strip("[]\"'").strip()
    if not name or len(name) > MAX_TEXT or re.search(r"->|--", name):
        raise ToolError(f"line {number}: a line reads `name: text` or `name -> name: text`")
    return name


def _text(text: str, number: int) -> str:
    if len(text) > MAX_TEXT:
        raise ToolError(f"line {number}: a text has at most {MAX_TEXT} characters")
    return text.strip().strip('"').strip().replace("\\n", "\n")
