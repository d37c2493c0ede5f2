"""list_files and read_file."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.errors import ToolError
from agent.tool import MAX_RESULT_CHARS
from tests.tools.calling import call
from tools.reading import MAX_SHOWN_ENTRIES, list_files, read_file


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "files"
    (root / "data" / "deep" / "deeper").mkdir(parents=True)
    (root / "node_modules" / "left-pad").mkdir(parents=True)
    (root / ".glassloop" / "results").mkdir(parents=True)
    (root / ".tmp" / "scratch").mkdir(parents=True)
    (root / "notes.txt").write_text("one\ntwo\nthree\n")
    (root / "data" / "numbers.csv").write_text("a,b\n")
    (root / "data" / "deep" / "deeper" / "x.csv").write_text("x" * 2048)
    (root / "link").symlink_to("/etc/passwd")
    return root


def test_a_listing_shows_sizes_and_hides_what_nobody_wrote(root: Path) -> None:
    result = call(list_files, root)
    assert result.text.splitlines() == [
        "data/",
        "data/deep/",
        "data/numbers.csv  4 bytes",
        "link  (symbolic link, not followed)",
        "node_modules/",
        "notes.txt  14 bytes",
    ]
    assert result.details == {"path": ".", "entries": 6}


def test_a_glob_searches_all_levels_and_depth_bounds_it(root: Path) -> None:
    assert call(list_files, root, glob="*.csv").text.splitlines() == [
        "data/deep/deeper/x.csv  2 KiB",
        "data/numbers.csv  4 bytes",
    ]
    assert call(list_files, root, glob="*.csv", depth=2).text == "data/numbers.csv  4 bytes"
    assert call(list_files, root, path="data/deep").text.splitlines()[0] == "data/deep/deeper/"
    assert "matches" in call(list_files, root, glob="*.nope").text
    assert call(list_files, root, path="node_modules").text == "node_modules/left-pad/"


def test_a_long_listing_is_cut_and_says_so(root: Path) -> None:
    for number in range(MAX_SHOWN_ENTRIES + 50):
        (root / f"f{number:04}").touch()
    result = call(list_files, root, depth=1)
    assert len(result.text.splitlines()) == MAX_SHOWN_ENTRIES + 1 and "more than is shown" in result.text
    assert result.details["truncated"] is True


def test_a_name_cannot_pretend_to_be_two_lines(root: Path) -> None:
    (root / "a\nnotes.txt  0 bytes").touch()
    assert "a\\nnotes.txt  0 bytes  0 bytes" in call(list_files, root).text.splitlines()


def test_an_empty_folder_and_no_folder(root: Path) -> None:
    (root / "empty").mkdir()
    assert call(list_files, root, path="empty").text == "The folder is empty."
    for path in ("notes.txt", "nowhere", "link", ".."):
        with pytest.raises(ToolError):
            call(list_files, root, path=path)


def test_a_whole_file_is_given_as_it_is(root: Path) -> None:
    result = call(read_file, root, path="notes.txt")
    assert result.text == "one\ntwo\nthree"
    assert result.details == {"path": "notes.txt", "lines": 3}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"start_line": 2}, "[notes.txt: lines 2 to 3 of 3]\ntwo\nthree"),
        ({"max_lines": 1}, "[notes.txt: line 1 of 3. Go on with start_line=2]\none"),
        ({"start_line": 2, "max_lines": 1}, "[notes.txt: line 2 of 3. Go on with start_line=3]\ntwo"),
        ({"start_line": -1}, "[notes.txt: line 3 of 3]\nthree"),
        ({"start_line": -99}, "one\ntwo\nthree"),
        ({"start_line": 0}, "one\ntwo\nthree"),
    ],
)
def test_parts_of_a_file(root: Path, arguments: dict[str, int], text: str) -> None:
    assert call(read_file, root, path="notes.txt", **arguments).text == text


def test_beyond_the_end_is_an_error_that_says_where_the_end_is(root: Path) -> None:
    with pytest.raises(ToolError, match="has 3 lines"):
        call(read_file, root, path="notes.txt", start_line=4)


def test_a_long_file_is_read_in_parts_without_loss(root: Path) -> None:
    lines = [f"{number} " + "x" * (number % 200) for number in range(3000)]
    (root / "long.txt").write_text("\n".join(lines) + "\n")
    read: list[str] = []
    while len(read) < len(lines):
        result = call(read_file, root, path="long.txt", start_line=len(read) + 1)
        assert len(result.text) <= MAX_RESULT_CHARS
        head, *part = result.text.split("\n")
        assert head.startswith("[long.txt: lines ")
        read += part
    assert read == lines and "truncated" not in result.details


def test_one_line_that_is_too_long_is_read_in_columns_without_loss(root: Path) -> None:
    line = "".join(chr(0x4E00 + number % 5000) for number in range(30_000))
    (root / "line.json").write_text(line + "\nshort\n", encoding="utf-8")
    read = ""
    while len(read) < len(line):
        result = call(read_file, root, path="line.json", start_line=1, start_column=len(read) + 1, max_lines=1)
        assert len(result.text) <= MAX_RESULT_CHARS
        read += result.text.partition("\n")[2]
    assert read == line
    assert "Go on with start_line=2" in result.text


def test_the_encoding_is_named_where_it_is_not_plain(root: Path) -> None:
    (root / "gb.txt").write_bytes("中文文件\n".encode("gb18030"))
    assert call(read_file, root, path="gb.txt").text == (
        "[gb.txt: not UTF-8; read as GB18030, which is a guess]\n中文文件"
    )
    (root / "empty").touch()
    assert call(read_file, root, path="empty").text == "[the file is empty]"
    (root / "image.png").write_bytes(b"\x89PNG\r\n\x1a\n\0")
    with pytest.raises(ToolError, match="send_file"):
        call(read_file, root, path="image.png")
