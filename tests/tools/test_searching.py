"""search_files: finds, stays within its bounds, and cannot be hung."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agent.errors import ToolError
from agent.tool import MAX_RESULT_CHARS
from tests.tools.calling import acall, call
from tools.searching import MAX_MATCHES, MAX_SEARCHED_BYTES, MAX_SEARCHED_FILE_BYTES, search_files


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "files"
    for folder in ("src", ".git", ".glassloop/results"):
        (root / folder).mkdir(parents=True)
    (root / "src" / "a.py").write_text("import os\n\ndef find(x):\n    return x\n")
    (root / "src" / "b.txt").write_text("Find me\n中文一行\n", encoding="utf-8")
    (root / ".git" / "c").write_text("find\n")
    (root / ".glassloop" / "results" / "d").write_text("find\n")
    (root / "bin").write_bytes(b"find\0")
    (root / "link").symlink_to("src/a.py")
    return root


def test_plain_text_is_found_with_path_and_line(root: Path) -> None:
    result = call(search_files, root, query="find(")
    assert result.text == "src/a.py:3: def find(x):\n[2 files searched; 1 left out (not text, or over 4 MiB)]"
    assert result.details == {"matches": 1}
    assert "src/b.txt:2: 中文一行" in call(search_files, root, query="中文").text
    assert "No match." in call(search_files, root, query="nowhere").text


def test_case_glob_and_path_narrow_it(root: Path) -> None:
    assert call(search_files, root, query="find", ignore_case=True).details["matches"] == 2
    assert call(search_files, root, query="find", ignore_case=True, glob="*.txt").details["matches"] == 1
    assert call(search_files, root, query="find", path="src/a.py").details["matches"] == 1
    assert call(search_files, root, query="find", path=".glassloop/results").details["matches"] == 1
    with pytest.raises(ToolError):
        call(search_files, root, query="find", path="nowhere")


def test_regular_expressions(root: Path) -> None:
    assert "src/a.py:3:" in call(search_files, root, query=r"^def \w+\(", regex=True).text
    assert call(search_files, root, query=r"^FIND", regex=True, ignore_case=True).details["matches"] == 1
    assert "src/b.txt:2:" in call(search_files, root, query=r"\p{Han}{4}", regex=True).text


@pytest.mark.parametrize("pattern", ["(", "(?=a)b", r"(a)\1", "a{2000}", "((a{1000}){1000}){1000}"])
def test_a_pattern_that_is_not_understood_says_why(root: Path, pattern: str) -> None:
    with pytest.raises(ToolError, match="RE2"):
        call(search_files, root, query=pattern, regex=True)


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(.*?,){25}x", "(x+x+)+y", "(a*)*b", r"^(([a-z])+.)+[A-Z]$"])
def test_no_pattern_holds_the_app_up(root: Path, pattern: str) -> None:
    """With a backtracking engine the first of these takes longer than the universe is old."""
    (root / "evil.txt").write_text("a" * 50_000 + "!\n" + "1," * 20_000 + "\n" + "x" * 50_000)

    async def search_while_beating() -> int:
        beats = 0
        search = asyncio.create_task(acall(search_files, root, query=pattern, regex=True))
        while not search.done():
            await asyncio.sleep(0)
            beats += 1
        await search
        return beats

    assert asyncio.run(asyncio.wait_for(search_while_beating(), 60)) > 0


def test_many_and_long_matches_are_cut(root: Path) -> None:
    (root / "many.txt").write_text("hit\n" * 1000)
    (root / "long.txt").write_text("x" * 5000 + "hit" + "y" * 5000)
    result = call(search_files, root, query="hit")
    assert result.details == {"matches": MAX_MATCHES, "truncated": True} and "narrow" in result.text
    assert len(result.text) < MAX_RESULT_CHARS
    line = call(search_files, root, query="hit", path="long.txt").text.splitlines()[0]
    assert len(line) < 400 and "hit" in line


def test_a_search_reads_only_so_much_and_says_that_it_is_not_all(root: Path) -> None:
    for number in range(MAX_SEARCHED_BYTES // MAX_SEARCHED_FILE_BYTES):
        with (root / f"hole{number:03}").open("wb") as file:
            file.truncate(MAX_SEARCHED_FILE_BYTES)
    (root / "z.txt").write_text("needle\n")
    result = call(search_files, root, query="needle")
    assert result.details == {"matches": 0, "truncated": True} and "narrow" in result.text
    assert call(search_files, root, query="needle", glob="*.txt").details == {"matches": 1}


def test_a_query_of_two_lines_is_refused(root: Path) -> None:
    with pytest.raises(ToolError, match="line by line"):
        call(search_files, root, query="a\nb")
