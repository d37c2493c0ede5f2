"""What a path may look like: the same on every system."""

from __future__ import annotations

from pathlib import PurePosixPath, PureWindowsPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import ToolError
from tools.names import MAX_DEPTH, shown, split

ROOT = PurePosixPath("/srv/sessions/abc/files")


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("a", ("a",)),
        ("./a", ("a",)),
        ("a/./b", ("a", "b")),
        ("a//b/", ("a", "b")),
        ("", ()),
        (".", ()),
        ("./", ()),
        (".env", (".env",)),
        ("..a/b..c", ("..a", "b..c")),
        ("-rf", ("-rf",)),
        ("报告 第1章.txt", ("报告 第1章.txt",)),
        ("/srv/sessions/abc/files/a/b", ("a", "b")),
        ("/srv/sessions/abc/files", ()),
        ("/srv//sessions/./abc/files/a", ("a",)),
        ("/workspace/a", ("a",)),
        ("/workspace", ()),
    ],
)
def test_a_path_inside_is_taken_apart(path: str, names: tuple[str, ...]) -> None:
    assert split(path, ROOT) == names


@pytest.mark.parametrize(
    "path",
    [
        "../x",
        "a/../b",
        "..",
        "/etc/passwd",
        "/",
        "//",
        "/srv/sessions/abc/files2/a",
        "/srv/sessions/abc",
        "/srv/sessions/abc/files/../other/a",
        "/workspace/../etc/passwd",
        "/workspaces/a",
        "~",
        "~/x",
        "~root/x",
        "a\0b",
        "a\nb",
        "a\x7f",
        "a\x1b[31m",
        "n" * 256,
        "名" * 86,
        "/".join("d" * 2000),
        "a/" * MAX_DEPTH + "a",
        "x" * 1025,
        "\ud800",
        # names that Windows keeps or cannot hold, refused everywhere
        "CON",
        "con",
        "nul.txt",
        "a/PRN/b",
        "AUX.tar.gz",
        "COM0",
        "com9.log",
        "LPT1",
        "CONIN$",
        "conout$.txt",
        "C:\\x",
        "C:/x",
        "c:x",
        "\\\\srv\\share",
        "\\\\?\\C:\\x",
        "//srv/share",
        "a\\b",
        "a:b",
        "a.txt:stream",
        "a.",
        "a ",
        " a",
        "a /b",
        'a"b',
        "a|b",
        "a*b",
        "a?b",
    ],
)
def test_every_other_path_is_refused(path: str) -> None:
    with pytest.raises(ToolError):
        split(path, ROOT)


@pytest.mark.parametrize(
    ("path", "instead"),
    [
        ("~/notes.txt", "notes.txt"),
        ("/home/me/notes.txt", "notes.txt"),
        ("data\\a.csv", "data/a.csv"),
        ("../a", "folder/"),
    ],
)
def test_a_refusal_says_what_to_write(path: str, instead: str) -> None:
    with pytest.raises(ToolError, match=instead):
        split(path, ROOT)


def test_an_absolute_path_on_windows() -> None:
    root = PureWindowsPath("C:\\work\\files")
    assert split("C:\\work\\files\\a\\b.txt", root) == ("a", "b.txt")
    for path in ("C:\\work\\other\\b.txt", "D:\\work\\files\\a", "C:/work/files/a:b"):
        with pytest.raises(ToolError):
            split(path, root)


@given(st.text(max_size=200))
def test_whatever_comes_out_is_plain_names(path: str) -> None:
    try:
        names = split(path, ROOT)
    except ToolError:
        return
    for name in names:
        assert name not in ("", ".", "..") and "/" not in name and "\\" not in name and "\0" not in name
        assert len(name.encode()) <= 255


def test_what_is_shown_cannot_pass_for_layout() -> None:
    assert shown("a\nb\u202etxt\x1b[0m") == "a\\nb\\u202etxt\\x1b[0m"
    assert shown("报告　一.txt") == "报告　一.txt"
    assert shown("\udcff") == "\\udcff"
