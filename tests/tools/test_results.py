"""Long results are kept whole, and the model is told how to read them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated

import pytest

from agent.messages import ToolCall
from agent.tool import MAX_RESULT_CHARS, Effect, Toolbox, ToolContext, tool
from tests.tools.calling import call, context
from tools.reading import list_files, read_file
from tools.results import keep_whole

LONG = "\n".join(f"line {number} 行" for number in range(5000))


@tool(Effect.READ)
async def talk(context: ToolContext, text: Annotated[str, "what to say"] = LONG) -> str:
    """Say a lot."""
    return text


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "files").mkdir()
    return tmp_path / "files"


def test_the_toolbox_cuts_and_the_whole_can_be_read_in_parts(root: Path) -> None:
    result = asyncio.run(Toolbox([talk], keep_whole).run(ToolCall("call_1", "talk", "{}"), context(root)))
    assert len(result.text) < MAX_RESULT_CHARS + 500
    assert ".glassloop/results/call_1.txt" in result.text and "read_file" in result.text and "5000 lines" in result.text
    assert (root / ".glassloop/results/call_1.txt").read_text(encoding="utf-8") == LONG
    part = call(read_file, root, path=".glassloop/results/call_1.txt", start_line=2500, max_lines=2)
    assert part.text.endswith("line 2499 行\nline 2500 行")
    assert call(list_files, root).text == "The folder is empty."


@pytest.mark.parametrize("call_id", ["../../x", "a/b", "", "a\0b", "x" * 500, "call 1", "呼", "\ud800"])
def test_a_strange_id_makes_a_plain_name(root: Path, tmp_path: Path, call_id: str) -> None:
    given = context(root)
    given.call_id = call_id
    assert ".glassloop/results/" in keep_whole(given, "text \ud800")
    [kept] = (root / ".glassloop/results").iterdir()
    assert kept.read_bytes() == b"text ?" and kept.suffix == ".txt" and kept.stem.isalnum()
    assert [p.name for p in tmp_path.iterdir()] == ["files"]


def test_where_it_cannot_be_kept_the_result_is_still_given(root: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (root / ".glassloop").symlink_to(tmp_path / "outside")
    result = asyncio.run(
        Toolbox([talk], keep_whole).run(ToolCall("c", "talk", json.dumps({"text": "x" * 20_000})), context(root))
    )
    assert result.ok and "could not be kept" in result.text and result.text.startswith("xxx")
    assert list((tmp_path / "outside").iterdir()) == []
