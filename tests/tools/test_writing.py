"""write_file, append_file, edit_file."""

from __future__ import annotations

import codecs
from pathlib import Path

import pytest

from agent.errors import ToolError
from tests.tools.calling import call
from tools.writing import append_file, edit_file, write_file


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "files").mkdir()
    return tmp_path / "files"


def test_a_new_file_and_a_replaced_one(root: Path) -> None:
    new = call(write_file, root, path="a/b.md", content="# 标题\n\ntext")
    assert (root / "a/b.md").read_text(encoding="utf-8") == "# 标题\n\ntext"
    assert new.details == {"path": "a/b.md", "lines": 3, "bytes": 14} and new.text.startswith("Wrote")
    again = call(write_file, root, path="a/b.md", content="# 标题\n\nother")
    assert again.text.startswith("Replaced")
    assert "-text\n" in again.details["diff"] and "+other\n" in again.details["diff"]


def test_what_cannot_be_written_changes_nothing(root: Path) -> None:
    (root / "d").mkdir()
    for path, content in (("../x", ""), ("d", ""), ("a\ud800", ""), ("a", "\ud800"), ("con", ""), ("", "")):
        with pytest.raises(ToolError):
            call(write_file, root, path=path, content=content)
    assert [p.name for p in root.iterdir()] == ["d"]


def test_a_binary_file_may_be_replaced(root: Path) -> None:
    (root / "x").write_bytes(b"\0\1\2")
    assert call(write_file, root, path="x", content="text").details["bytes"] == 4
    assert (root / "x").read_bytes() == b"text"


def test_appending_starts_on_a_new_line(root: Path) -> None:
    (root / "log").write_bytes(b"one")
    call(append_file, root, path="log", content="two\n")
    result = call(append_file, root, path="log", content="three\nfour\n")
    assert (root / "log").read_bytes() == b"one\ntwo\nthree\nfour\n"
    assert result.details["lines"] == 2
    call(append_file, root, path="new/log", content="first\n")
    assert (root / "new/log").read_bytes() == b"first\n"


def test_appending_keeps_the_files_encoding_and_line_ends(root: Path) -> None:
    start = codecs.BOM_UTF16_LE + "一\r\n".encode("utf-16-le")
    (root / "utf16").write_bytes(start)
    call(append_file, root, path="utf16", content="二\n")
    assert (root / "utf16").read_bytes() == start + "二\r\n".encode("utf-16-le")
    (root / "gb").write_bytes("中文\n".encode("gb18030"))
    call(append_file, root, path="gb", content="二\n")
    assert (root / "gb").read_bytes() == "中文\n二\n".encode("gb18030")
    (root / "binary").write_bytes(b"\0")
    with pytest.raises(ToolError):
        call(append_file, root, path="binary", content="x")
    assert (root / "binary").read_bytes() == b"\0"


def test_an_edit_changes_exactly_one_place(root: Path) -> None:
    (root / "a.py").write_text("x = 1\ny = 2\nz = 1\n")
    result = call(edit_file, root, path="a.py", old_text="y = 2", new_text="y = 3")
    assert (root / "a.py").read_text() == "x = 1\ny = 3\nz = 1\n"
    assert result.details["replaced"] == 1
    assert result.details["diff"] == "--- a/a.py\n+++ b/a.py\n@@ -1,3 +1,3 @@\n x = 1\n-y = 2\n+y = 3\n z = 1\n"
    assert "line 2" in result.text


def test_an_ambiguous_edit_names_the_lines_and_changes_nothing(root: Path) -> None:
    text = "a\nfoo\nb\nfoo\nfoo\n"
    (root / "x").write_text(text)
    with pytest.raises(ToolError, match=r"3 times.*at lines 2, 4, 5"):
        call(edit_file, root, path="x", old_text="foo", new_text="bar")
    assert (root / "x").read_text() == text
    result = call(edit_file, root, path="x", old_text="foo", new_text="bar", replace_all=True)
    assert (root / "x").read_text() == text.replace("foo", "bar") and result.details["replaced"] == 3


def test_a_text_that_is_not_there_gets_a_hint(root: Path) -> None:
    (root / "x.py").write_text("def f():\n\tif a:\n\t\treturn 1\n")
    with pytest.raises(ToolError, match="at line 2, if spaces did not count"):
        call(edit_file, root, path="x.py", old_text="    if a:\n        return 1", new_text="")
    with pytest.raises(ToolError, match="does not occur"):
        call(edit_file, root, path="x.py", old_text="nothing like it", new_text="")
    for old, new in (("", "x"), ("def", "def")):
        with pytest.raises(ToolError):
            call(edit_file, root, path="x.py", old_text=old, new_text=new)
    assert (root / "x.py").read_text() == "def f():\n\tif a:\n\t\treturn 1\n"


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\r\nb\r\nc\r\n", "a\nb", "x\ny", b"x\r\ny\r\nc\r\n"),
        (b"a\r\nb\r\nc\r\n", "a\r\nb", "x\r\ny", b"x\r\ny\r\nc\r\n"),
        (b"a\nb\n", "a\r\nb", "x\r\ny", b"x\ny\n"),
        (b"a\r\nb\nc\n", "b\nc", "d", b"a\r\nd\n"),
        (codecs.BOM_UTF8 + b"a\n", "a", "b", codecs.BOM_UTF8 + b"b\n"),
        (
            codecs.BOM_UTF16_BE + "旧\n".encode("utf-16-be"),
            "旧",
            "新",
            codecs.BOM_UTF16_BE + "新\n".encode("utf-16-be"),
        ),
        ("旧的\n".encode("gb18030"), "旧", "新", "新的\n".encode("gb18030")),
    ],
)
def test_an_edit_keeps_encoding_mark_and_line_ends(root: Path, before: bytes, old: str, new: str, after: bytes) -> None:
    (root / "x").write_bytes(before)
    call(edit_file, root, path="x", old_text=old, new_text=new)
    assert (root / "x").read_bytes() == after
