"""draw_chart: bars, lines or points, from numbers in the call or from a CSV file in the workspace.

Knows how a chart looks and how its numbers are found. Drawn by matplotlib, which is imported when a chart is drawn and
not before, without its global state. Refuses to know what the numbers mean.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from agent.errors import ToolError
from agent.tool import Effect, ToolContext, ToolResult, tool
from tools.fonts import font_for
from tools.names import shown
from tools.showing import picture_name, show_picture
from tools.text_files import decode
from tools.workspace import Workspace

Kind = Literal["bar", "line", "scatter"]

MAX_SERIES = 12
MAX_POINTS = 20_000
MAX_BARS = 200
MAX_VALUE = 1e100
MANY_LABELS = 14
"""From here on the labels below the axis are turned, and not every one is written."""

COLOURS = ("#0f6f68", "#d08b2c", "#5b6fb5", "#b3372f", "#4f9d69", "#8a5aa3", "#7d868c", "#c2698f")
INK, SOFT, GRID = "#1d2125", "#565d63", "#e3e3dd"


class Series(BaseModel):
    """One line of a chart, or one colour of its bars."""

    model_config = ConfigDict(extra="forbid")

    name: str = ""
    values: list[float]


@tool(Effect.WRITE)
def draw_chart(
    context: ToolContext,
    kind: Annotated[Kind, Field(description="bar, line or scatter.")],
    title: Annotated[str, Field(description="Above the chart.", max_length=120)] = "",
    labels: Annotated[
        list[float] | list[str], Field(description="Along the x axis, one for each value. For scatter: the x values.")
    ] = [],  # noqa: B006 (never changed)
    series: Annotated[list[Series], Field(description="The values. Not with `path`.")] = [],  # noqa: B006
    path: Annotated[str, Field(description="A CSV file in the workspace with a header line, instead of values.")] = "",
    x: Annotated[str, Field(description="The CSV's column for the x axis; the first one if empty.")] = "",
    y: Annotated[list[str], Field(description="The CSV's columns to draw; all with numbers if empty.")] = [],  # noqa: B006
    x_title: Annotated[str, Field(description="Below the x axis.", max_length=80)] = "",
    y_title: Annotated[str, Field(description="Beside the y axis.", max_length=80)] = "",
) -> ToolResult:
    """Draw a chart from numbers given here, or from a CSV file in the workspace. The user sees it at once.

    It is saved in images/. Any language.
    """
    if bool(path) == bool(series):
        raise ToolError("give either `series` (with `labels`), or `path` of a CSV file")
    if path:
        along, lines = from_csv(Workspace(context.workspace).read_bytes(path), path, x, y, kind)
        x_title = x_title or along.name
    else:
        along, lines = Along(x_title, labels), series
    check(kind, along.labels, lines)
    png, size = draw(kind, along.labels, lines, title, x_title, y_title)
    return show_picture(context, png, picture_name(title or path, "chart"), {"size": size})


# ---------------------------------------------------------------------- numbers


class Along:
    """What stands along the x axis."""

    def __init__(self, name: str, labels: Sequence[float] | Sequence[str]) -> None:
        self.name = name
        self.labels = labels


def from_csv(data: bytes, path: str, x: str, y: Sequence[str], kind: Kind) -> tuple[Along, list[Series]]:
    """The columns of a CSV file with a header. Raises ToolError, naming line and column, for what is no number."""
    text = decode(data, path).text
    try:
        dialect: type[csv.Dialect] | csv.Dialect = csv.Sniffer().sniff(text[:4096], ",;\t|")
    except csv.Error:
        dialect = csv.excel
    try:
        header, *rows = [row for row in csv.reader(io.StringIO(text), dialect) if any(cell.strip() for cell in row)]
    except ValueError:
        raise ToolError(f"{shown(path)!r} is empty: a CSV file with a header line is needed") from None
    except csv.Error as error:
        raise ToolError(f"{shown(path)!r} is no CSV file: {error}") from None
    names = [name.strip() for name in header]
    along = _column(names, x, path) if x else 0
    wanted = [_column(names, name, path) for name in y] or [
        index for index in range(len(names)) if index != along and rows and _number(_cell(rows[0], index)) is not None
    ]
    if not wanted or not rows:
        raise ToolError(f"{shown(path)!r} has no column with numbers beside {names[along]!r}")
    if len(wanted) > MAX_SERIES:
        raise ToolError(f"a chart has at most {MAX_SERIES} series; name the columns to draw in `y`")
    series = [Series(name=names[index], values=_numbers(rows, index, names[index], path)) for index in wanted]
    cells = [_cell(row, along) for row in rows]
    numbers = [_number(cell) for cell in cells]
    if kind != "bar" and all(number is not None for number in numbers):
        return Along(names[along], [number for number in numbers if number is not None]), series
    return Along(names[along], cells), series


def _column(names: Sequence[str], name: str, path: str) -> int:
    if name in names:
        return names.index(name)
    raise ToolError(f"{shown(path)!r} has no column {name!r}. Its columns are: {', '.join(names[:30])}")


def _numbers(rows: Sequence[Sequence[str]], index: int, name: str, path: str) -> list[float]:
    values = []
    for line, row in enumerate(rows, start=2):
        cell = _cell(row, index)
        number = math.nan if cell == "" else _number(cell)
        if number is None:
            raise ToolError(f"{shown(path)!r}, line {line}, column {name!r}: {cell[:40]!r} is not a number")
        values.append(number)
    return values


def _cell(row: Sequence[str], index: int) -> str:
    return row[index].strip() if index < len(row) else ""


def _number(text: str) -> float | None:
    try:
        number = float(text.replace(",", "").replace("%", "").strip())
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def check(kind: Kind, labels: Sequence[Any], lines: Sequence[Series]) -> None:
    """Raises ToolError for what cannot be drawn, or could not be read once it is."""
    if len(lines) > MAX_SERIES:
        raise ToolError(f"a chart has at most {MAX_SERIES} series")
    points = max(len(line.values) for line in lines)
    if not points:
        raise ToolError("there are no values")
    limit = MAX_BARS if kind == "bar" else MAX_POINTS
    if points > limit:
        raise ToolError(f"a {kind} chart has at most {limit} values; draw a line, or sum them up first")
    for line in lines:
        if len(labels) and len(line.values) != len(labels):
            raise ToolError(f"{line.name or 'the series'} has {len(line.values)} values for {len(labels)} labels")
        if any(abs(value) > MAX_VALUE for value in line.values):
            raise ToolError(f"{line.name or 'the series'} has a value beyond {MAX_VALUE:g}, too large to be drawn")
    if kind == "scatter" and any(isinstance(label, str) for label in labels):
        raise ToolError("a scatter chart needs numbers as labels: they are its x values")


# ---------------------------------------------------------------------- drawing


def draw(
    kind: Kind,
    labels: Sequence[float] | Sequence[str],
    lines: Sequence[Series],
    title: str = "",
    x_title: str = "",
    y_title: str = "",
) -> tuple[bytes, str]:
    """The chart as PNG, and its size. Raises ToolError where no font can write its texts."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 (half a second, only for charts)
    from matplotlib.figure import Figure  # noqa: PLC0415
    from matplotlib.font_manager import FontProperties  # noqa: PLC0415
    from matplotlib.layout_engine import ConstrainedLayoutEngine  # noqa: PLC0415

    words = [title, x_title, y_title, *(line.name for line in lines), *map(str, labels), "0123456789.-−"]
    font = FontProperties(fname=str(font_for("".join(words)).path))
    layout = ConstrainedLayoutEngine(w_pad=0.15, h_pad=0.15)
    figure = Figure(figsize=(8, 5), dpi=160, facecolor="#ffffff", layout=layout)
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    places: Sequence[float] = range(max(len(line.values) for line in lines))
    named = bool(labels) and (kind == "bar" or isinstance(labels[0], str))
    if labels and not named:
        places = [float(label) for label in labels]
    for index, line in enumerate(lines):
        _plot(axes, kind, places, line, index, len(lines))
    if named:
        step = max(1, -(-len(labels) // 24))
        axes.set_xticks(list(places)[::step], [_shortened(label) for label in labels[::step]])
    _dress(axes, font, {"title": title, "x": x_title, "y": y_title}, turned=named and len(labels) > MANY_LABELS)
    if len(lines) > 1 or (lines[0].name and lines[0].name != y_title):
        legend = axes.legend(prop=font, frameon=False, loc="best")
        for text in legend.get_texts():
            text.set_parse_math(False)
            text.set_color(INK)
    written = io.BytesIO()
    figure.savefig(written, format="png")
    width, height = canvas.get_width_height()
    return written.getvalue(), f"{width}x{height}"


def _plot(axes: Any, kind: Kind, places: Sequence[float], line: Series, index: int, count: int) -> None:
    colour = COLOURS[index % len(COLOURS)]
    if kind == "bar":
        width = 0.8 / count
        shifted = [place - 0.4 + width * (index + 0.5) for place in places]
        axes.bar(shifted, line.values, width * 0.92, label=line.name, color=colour)
    elif kind == "line":
        dots = "o" if len(line.values) <= 40 else ""
        axes.plot(places, line.values, label=line.name, color=colour, linewidth=2, marker=dots, markersize=4)
    else:
        axes.scatter(places, line.values, label=line.name, color=colour, s=34, edgecolors="#ffffff", linewidths=0.6)


def _dress(axes: Any, font: Any, titles: Mapping[str, str], turned: bool) -> None:
    """Thin lines, soft colours, and our font on every text."""
    axes.set_axisbelow(True)
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(SOFT)
    axes.tick_params(length=0, labelcolor=SOFT)
    for text in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        text.set_parse_math(False)  # a "$" is money
        text.set_fontproperties(font)
        text.set_fontsize(10)
    for text in axes.get_xticklabels():
        text.set_rotation(45 if turned else 0)
        text.set_horizontalalignment("right" if turned else "center")
    axes.set_title(titles["title"], fontproperties=font, fontsize=15, color=INK, pad=14, parse_math=False)
    axes.set_xlabel(titles["x"], fontproperties=font, fontsize=11, color=SOFT, parse_math=False)
    axes.set_ylabel(titles["y"], fontproperties=font, fontsize=11, color=SOFT, parse_math=False)


def _shortened(label: float | str) -> str:
    text = label if isinstance(label, str) else f"{label:g}"
    return text if len(text) <= 24 else text[:23] + "…"
