"""draw_diagram and draw_chart: what is in the picture, and what cannot be drawn."""

from __future__ import annotations

import io
import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from agent.errors import ToolError
from tests.tools.calling import call
from tools.charts import MAX_BARS, MAX_SERIES, draw_chart, from_csv
from tools.diagram_layout import laid_out
from tools.diagram_spec import MAX_BOXES, Arrow, read_diagram
from tools.diagrams import EDGE, draw, draw_diagram
from tools.fonts import font_for


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "files").mkdir()
    return tmp_path / "files"


def opened(png: bytes) -> Image.Image:
    return Image.open(io.BytesIO(png)).convert("RGB")


def count_of(picture: Image.Image, colour: str) -> int:
    """Pixels of about this colour."""
    wanted = [int(colour[at : at + 2], 16) for at in (1, 3, 5)]
    return int((np.abs(np.asarray(picture, dtype=int) - wanted).max(axis=2) < 12).sum())


# ---------------------------------------------------------------------- diagrams


def test_lines_become_boxes_and_arrows() -> None:
    diagram = read_diagram("# a flow\na: First\na -> b : then\nb --> 终点：最后\nc <-> a\nc -- b\n\nlonely")
    assert diagram.boxes == {"a": "First", "b": "b", "终点": "终点", "c": "c", "lonely": "lonely"}
    assert diagram.arrows == (
        Arrow("a", "b", "then"),
        Arrow("b", "终点", "最后", dashed=True),
        Arrow("c", "a", heads=2),
        Arrow("c", "b", heads=0),
    )


@pytest.mark.parametrize(
    "spec, words",
    [
        ("# nothing", "empty"),
        ("a -> ", "line 1"),
        ("fine: yes\n -> b", "line 2"),
        ("\n".join(f"b{n}" for n in range(MAX_BOXES + 1)), f"at most {MAX_BOXES}"),
        ("a: " + "x" * 300, "line 1"),
        ("a" + " " * 19_000 + "b", "line 1: a line has at most"),
    ],
)
def test_what_is_no_diagram_is_refused_with_the_line(spec: str, words: str) -> None:
    with pytest.raises(ToolError, match=words):
        read_diagram(spec)


NAMES = st.sampled_from("abcdefgh")


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(NAMES, NAMES), max_size=20), st.sampled_from(["down", "right"]))
def test_no_box_covers_another_and_every_arrow_goes_from_box_to_box(arrows: list[tuple[str, str]], way: str) -> None:
    sizes = {name: (90.0 + 10 * index, 46.0) for index, name in enumerate("abcdefgh")}
    placed = laid_out(sizes, arrows, "right" if way == "right" else "down", 80, 46)
    for a, b in itertools.combinations(sizes, 2):
        (ax, ay), (bx, by) = placed.boxes[a], placed.boxes[b]
        apart_x = abs(ax - bx) >= (sizes[a][0] + sizes[b][0]) / 2
        assert apart_x or abs(ay - by) >= (sizes[a][1] + sizes[b][1]) / 2
    for (a, b), path in zip(arrows, placed.paths, strict=True):
        assert path[0] == placed.boxes[a] and path[-1] == placed.boxes[b]
        assert all(0 <= x <= placed.width and 0 <= y <= placed.height for x, y in path)


def test_a_drawing_is_shown_and_saved(root: Path) -> None:
    result = call(draw_diagram, root, spec="用户 -> 循环: 消息\n循环 -> 模型\n模型 -> 循环", title="智能体循环")
    [file] = result.files
    saved = root / result.details["path"]
    assert saved.read_bytes() == Path(file.path).read_bytes()
    assert file.mime == "image/png" and saved.name.startswith("智能体循环-")
    picture = opened(saved.read_bytes())
    assert result.details["size"] == f"{picture.width}x{picture.height}"
    assert count_of(picture, EDGE) > 500  # the borders of the boxes
    assert "images/" in result.text


def test_more_boxes_make_a_larger_picture_up_to_a_limit() -> None:
    small = opened(draw(read_diagram("a -> b"))[0])
    large = opened(draw(read_diagram("\n".join(f"b{n} -> b{n + 1}" for n in range(50))))[0])
    assert small.height < large.height <= 6_000


def test_signs_that_no_font_here_can_write_are_named(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="can write 'lop循环'"):
        font_for("loop 循环", [tmp_path])
    assert font_for("循环").path.exists()


# ---------------------------------------------------------------------- charts


def test_a_chart_from_numbers_in_the_call(root: Path) -> None:
    series = [{"name": "收入", "values": [3, 5, 8]}, {"name": "支出", "values": [2, 4, 1]}]
    result = call(draw_chart, root, kind="bar", labels=["一月", "二月", "三月"], series=series, title="收支")
    picture = opened((root / result.details["path"]).read_bytes())
    assert count_of(picture, "#0f6f68") > 10_000 and count_of(picture, "#d08b2c") > 5_000
    assert len(result.files) == 1


def test_a_dollar_is_no_formula(root: Path) -> None:
    series = [{"name": r"$\x", "values": [3, 5]}, {"name": "cost $", "values": [2, 4]}]
    words = {"title": r"price ($) and \cost{ ($)", "x_title": r"$\x$", "y_title": r"$\y$"}
    result = call(draw_chart, root, kind="bar", labels=[r"$\a{$", "b"], series=series, **words)
    assert (root / result.details["path"]).stat().st_size > 1_000


@pytest.mark.parametrize("kind", ["line", "scatter"])
def test_a_chart_from_a_file(root: Path, kind: str) -> None:
    (root / "data.csv").write_text("t;a;note;b\n" + "\n".join(f"{n};{n * n};x;{-n}" for n in range(30)))
    result = call(draw_chart, root, kind=kind, path="data.csv")
    picture = opened((root / result.details["path"]).read_bytes())
    assert count_of(picture, "#0f6f68") > 300 and count_of(picture, "#d08b2c") > 300


def test_columns_are_found_by_their_names_and_gaps_are_left_open() -> None:
    along, [line] = from_csv('日期,数量\n周一,1\n周二,\n周三,"1,200"\n'.encode(), "t.csv", "日期", ["数量"], "line")
    assert along.labels == ["周一", "周二", "周三"] and line.name == "数量"
    assert line.values[0] == 1 and line.values[1] != line.values[1] and line.values[2] == 1200


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"kind": "bar"}, "either `series`"),
        ({"kind": "bar", "series": [{"values": [1, 2]}], "labels": ["a"]}, "2 values for 1 labels"),
        ({"kind": "bar", "series": [{"values": [1.0] * (MAX_BARS + 1)}]}, f"at most {MAX_BARS}"),
        ({"kind": "line", "series": [{"values": []}]}, "no values"),
        ({"kind": "line", "series": [{"values": [1e308, -1e308]}]}, "too large"),
        ({"kind": "scatter", "series": [{"values": [1]}], "labels": ["a"]}, "numbers as labels"),
        ({"kind": "line", "path": "t.csv", "y": ["nope"]}, "Its columns are: a, b"),
        ({"kind": "line", "path": "bad.csv", "y": ["b"]}, "line 3, column 'b': 'many'"),
        ({"kind": "line", "path": "none.csv"}, "does not exist"),
        ({"kind": "line", "path": "empty.csv"}, "is empty"),
        ({"kind": "line", "path": "words.csv"}, "no column with numbers"),
        ({"kind": "line", "path": "wide.csv"}, f"at most {MAX_SERIES} series"),
    ],
)
def test_what_cannot_be_drawn_is_said(root: Path, arguments: dict[str, object], words: str) -> None:
    (root / "t.csv").write_text("a,b\n1,2\n")
    (root / "bad.csv").write_text("a,b\n1,2\n2,many\n")
    (root / "empty.csv").write_text("")
    (root / "wide.csv").write_text("a," * 50_000 + "a\n" + "1," * 50_000 + "1\n")
    (root / "words.csv").write_text("a,b\nx,y\n")
    with pytest.raises(ToolError, match=words):
        call(draw_chart, root, **arguments)
    assert not (root / "images").exists()
