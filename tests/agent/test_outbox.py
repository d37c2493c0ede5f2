"""Handed-over files get the name of what is in them."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

import pytest

from agent.events import File
from agent.outbox import content_name, name_by_content
from agent.tool import ToolResult


def handed(path: Path, content: bytes) -> File:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return File(str(path), path.name, "text/plain", len(content))


def test_a_file_is_named_by_its_bytes_and_its_folder_goes(tmp_path: Path) -> None:
    outbox = tmp_path / "outbox"
    file = handed(outbox / "random" / "note.txt", b"hello")
    named = asyncio.run(name_by_content(ToolResult("x", (file,), images=(file,)), outbox))
    expected = outbox / (hashlib.sha256(b"hello").hexdigest() + ".txt")
    assert [Path(f.path) for f in (*named.files, *named.images)] == [expected, expected]
    assert expected.read_bytes() == b"hello" and named.files[0].name == "note.txt"
    assert list(outbox.iterdir()) == [expected] and content_name(expected) == expected.name


def test_the_same_bytes_are_kept_once_and_others_beside_them(tmp_path: Path) -> None:
    files = [handed(tmp_path / str(n) / "a.txt", content) for n, content in enumerate((b"x", b"x", b"y"))]
    named = asyncio.run(name_by_content(ToolResult("", tuple(files)), tmp_path)).files
    assert named[0].path == named[1].path != named[2].path
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("name", ["no suffix", "odd.\u202etxt", "long." + "x" * 20, ".hidden"])
def test_only_a_plain_suffix_is_taken_over(tmp_path: Path, name: str) -> None:
    named = asyncio.run(name_by_content(ToolResult("", (handed(tmp_path / "d" / name, b"x"),)), tmp_path)).files[0]
    assert Path(named.path).name == hashlib.sha256(b"x").hexdigest() and named.name == name


def test_a_file_elsewhere_stays_where_it_is(tmp_path: Path) -> None:
    file = handed(tmp_path / "elsewhere" / "a.txt", b"x")
    result = ToolResult("", (file,))
    assert asyncio.run(name_by_content(result, tmp_path / "outbox")) == result and Path(file.path).exists()
    assert asyncio.run(name_by_content(ToolResult("nothing"), tmp_path)) == ToolResult("nothing")
