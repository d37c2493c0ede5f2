"""What is put around the tools when the list is built."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent.errors import ToolError
from agent.tool import Effect, ToolContext, ToolResult, tool
from tests.tools.calling import call, context
from tools import standard_tools
from tools.guards import scrubbed, within_quota
from tools.reading import read_file
from tools.sandbox import CommandLimits, Scrubber
from tools.writing import write_file

KEY = "sk-a-secret-key-0815"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "files").mkdir()
    return tmp_path / "files"


@tool(Effect.READ)
async def tell(context: ToolContext, fail: bool = False) -> ToolResult:
    """Say the secret in every way."""
    context.emit(f"live {KEY}")
    context.stop_note = "noted"
    if fail:
        raise ToolError(f"error {KEY}")
    return ToolResult(f"text {KEY}", details={"value": KEY, "lines": 3})


def test_a_secret_is_taken_out_of_everything_that_is_shown(root: Path) -> None:
    said: list[str] = []
    given = context(root, said.append)
    guarded = scrubbed(tell, Scrubber([KEY]).scrub)
    result = call(guarded, given)
    with pytest.raises(ToolError) as error:
        call(guarded, given, fail=True)
    everything = [*said, result.text, str(result.details), str(error.value)]
    assert len(said) == 2 and not any(KEY in text for text in everything)
    assert result.details["lines"] == 3 and given.stop_note == "noted"


def test_read_file_in_the_list_is_scrubbed(root: Path) -> None:
    (root / "config").write_text(f"key = {KEY}\n")
    tools = {tool.name: tool for tool in standard_tools(None, None, root, scrubber=Scrubber([KEY]))}
    assert KEY in call(read_file, root, path="config").text
    assert call(tools["read_file"], root, path="config").text == "key = [secret removed]"


def test_a_full_workspace_takes_no_more(root: Path) -> None:
    by_bytes = within_quota(write_file, max_bytes=10, max_files=100)
    call(by_bytes, root, path="a", content="x" * 11)
    with pytest.raises(ToolError, match="full: it holds 11 bytes"):
        call(by_bytes, root, path="b", content="x")
    assert not (root / "b").exists()
    (root / "a").unlink()
    call(by_bytes, root, path="b", content="x")
    with pytest.raises(ToolError, match="full"):
        call(within_quota(write_file, max_bytes=100, max_files=0), root, path="c", content="")


def test_the_list_holds_every_writer_to_the_quota(root: Path) -> None:
    (root / "a").write_text("12345")
    tools = standard_tools(None, None, root, CommandLimits(quota_bytes=4))
    writers: dict[str, dict[str, Any]] = {
        "write_file": {"path": "a", "content": ""},
        "append_file": {"path": "a", "content": ""},
        "edit_file": {"path": "a", "old_text": "1", "new_text": ""},
        "draw_diagram": {"spec": "a"},
        "draw_chart": {"kind": "bar", "series": [{"values": [1]}]},
    }
    assert {tool.name for tool in tools if tool.effect is Effect.WRITE} == set(writers)
    for writer in tools:
        if writer.effect is Effect.WRITE:
            with pytest.raises(ToolError, match="full"):
                call(writer, root, **writers[writer.name])


def test_the_list_has_what_the_app_can_offer(root: Path) -> None:
    names = [tool.name for tool in standard_tools(None, None, root)]
    assert names == [
        "current_time", "calculator", "list_files", "read_file", "search_files", "write_file", "append_file",
        "edit_file", "send_file", "draw_diagram", "draw_chart",
    ]  # fmt: skip
    for described in standard_tools(None, None, root):
        assert described.parameters["type"] == "object" and "context" not in described.parameters["properties"]
