"""write_file, append_file and edit_file: changing text in the workspace.

Knows what models get wrong about edits and how to tell them. Refuses to know how a file is written safely
(`workspace.py`) and how its encoding is kept (`text_files.py`).
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from agent.errors import ToolError
from agent.tool import Effect, ToolContext, ToolResult, tool
from tools.entries import size_text
from tools.names import shown
from tools.text_files import Text, decode, diff
from tools.workspace import Workspace

_MAX_LISTED_PLACES = 20

Path = Annotated[str, Field(description="Relative to the workspace, such as notes/today.md.")]


@tool(Effect.WRITE)
def write_file(
    context: ToolContext, path: Path, content: Annotated[str, Field(description="The whole new text of the file.")]
) -> ToolResult:
    """Write a whole text file (UTF-8), replacing what was there. Missing folders are made. Up to 16 MiB.

    To change a part of a file use edit_file; to add to its end use append_file.
    """
    workspace = Workspace(context.workspace)
    old = _old_text(workspace, path)
    data = Text("").encode(content)
    workspace.write_bytes(path, data)
    done = "Wrote" if old is None else "Replaced"
    details = {"path": shown(path), "lines": _count_lines(content), "bytes": len(data)}
    changes = {} if old is None else {"diff": diff(path, old, content)}
    text = f"{done} {shown(path)}: {_count_lines(content)} lines, {size_text(len(data))}."
    return ToolResult(text, details=details | changes)


@tool(Effect.WRITE)
def append_file(
    context: ToolContext, path: Path, content: Annotated[str, Field(description="The text to add.")]
) -> ToolResult:
    """Add text at the end of a file, in the file's own encoding; the file is made if it is missing.

    The text starts on a new line: a line end is put before it where the file does not end with one.
    """
    workspace = Workspace(context.workspace)
    old = _old_file(workspace, path)
    joint = "\n" if old.text and not old.text.endswith("\n") else ""
    data = old.encode(joint + content)
    workspace.append(path, data)
    lines = _count_lines(content)
    details = {"path": shown(path), "lines": lines, "bytes": len(data)}
    return ToolResult(f"Added {lines} lines, {size_text(len(data))} to {shown(path)}.", details=details)


@tool(Effect.WRITE)
def edit_file(
    context: ToolContext,
    path: Path,
    old_text: Annotated[
        str, Field(description="The exact text to replace, spaces and indentation included, as read_file gave it.")
    ],
    new_text: Annotated[str, Field(description="What to put there; empty to delete.")],
    replace_all: Annotated[bool, Field(description="Replace every occurrence instead of exactly one.")] = False,
) -> ToolResult:
    """Replace an exact piece of text in a file.

    The piece must occur exactly once, unless replace_all is true: give enough lines around it. The rest of the file,
    its encoding and its line ends stay as they are.
    """
    workspace = Workspace(context.workspace)
    file = decode(workspace.read_bytes(path), path)
    wanted, replacement = _in_the_files_lines(old_text, file), _in_the_files_lines(new_text, file)
    if not wanted:
        raise ToolError("old_text is empty. To add text use append_file; to write a new file use write_file")
    if wanted == replacement:
        raise ToolError("old_text and new_text are the same, so there is nothing to change")
    count = file.text.count(wanted)
    if count == 0:
        raise ToolError(f"old_text does not occur in {shown(path)!r}. {_nearly(file.text, wanted)}")
    if count > 1 and not replace_all:
        raise ToolError(
            f"old_text occurs {count} times in {shown(path)!r}, {_at_lines(_places(file.text, wanted))}. Give more of "
            "the lines around the one you mean, or set replace_all"
        )
    new = file.text.replace(wanted, replacement)
    workspace.write_bytes(path, file.mark + file.encode(new))
    replaced = f"{count} places" if count > 1 else f"1 place, {_at_lines(_places(file.text, wanted))}"
    changes = {"path": shown(path), "replaced": count, "diff": diff(path, file.text, new)}
    return ToolResult(f"Changed {shown(path)} in {replaced}.", details=changes)


def _old_text(workspace: Workspace, path: str) -> str | None:
    """The text that is about to be replaced, for the comparison; None where there is none to compare with."""
    try:
        return decode(workspace.read_bytes(path), path).text
    except ToolError:
        return None


def _old_file(workspace: Workspace, path: str) -> Text:
    try:
        workspace.stat(path)
    except ToolError:  # not there yet; whatever else is wrong with the path, appending says it
        return Text("")
    return decode(workspace.read_bytes(path), path)


def _in_the_files_lines(text: str, file: Text) -> str:
    """Line ends as `file.text` has them: a model may send "\\r\\n" for a file that was read with "\\n" in it."""
    return text.replace("\r\n", "\n") if "\r" not in file.text else text


def _places(text: str, wanted: str) -> list[int]:
    """The line numbers at which `wanted` begins."""
    places: list[int] = []
    start, line = 0, 1
    while len(places) < _MAX_LISTED_PLACES and (found := text.find(wanted, start)) >= 0:
        line += text.count("\n", start, found)
        places.append(line)
        line += wanted.count("\n")
        start = found + len(wanted)
    return places


def _at_lines(lines: list[int]) -> str:
    return f"at line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines))}"


def _nearly(text: str, wanted: str) -> str:
    """A hint where only the spaces differ, which is the usual reason."""
    lines = [" ".join(line.split()) for line in text.split("\n")]
    looked_for = [" ".join(line.split()) for line in wanted.strip("\n").split("\n")]
    near = [
        number + 1
        for number in range(len(lines) - len(looked_for) + 1)
        if lines[number : number + len(looked_for)] == looked_for
    ]
    if any(looked_for) and near:
        return f"It would, {_at_lines(near[:3])}, if spaces did not count: copy the text exactly as read_file gives it"
    return "Read the file again and copy the text exactly"


def _count_lines(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n") and text != "")
