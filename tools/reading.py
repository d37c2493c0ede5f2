"""list_files and read_file: looking around in the workspace.

Knows how much of a folder or a file a model should get at once. Refuses to know how a path is walked (`workspace.py`)
and how bytes become text (`text_files.py`).

A file's text is given without line numbers: models copy what they read into edit_file, numbers and all, and the small
ones do it most. Where numbers help, in finding a place, search_files gives them.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from agent.errors import ToolError
from agent.tool import MAX_RESULT_CHARS, Effect, ToolContext, ToolResult, tool
from tools.entries import Entry, size_text
from tools.glob import matches
from tools.names import shown
from tools.text_files import decode
from tools.workspace import UNLISTED, Workspace

MAX_SHOWN_ENTRIES = 300
MAX_SHOWN_CHARS = MAX_RESULT_CHARS - 500
"""Of a file at once: with the line that says which part it is, no result is cut again on its way."""

LIBRARY_FOLDERS = frozenset({".git", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".mypy_cache"})
"""Listed and not looked into, unless one is asked for by its path: nobody wrote what is in them."""


@tool(Effect.READ)
def list_files(
    context: ToolContext,
    path: Annotated[str, Field(description="A folder, relative to the workspace.")] = ".",
    glob: Annotated[
        str, Field(description="Only paths that match, such as *.py or src/**/*.md. Searches all levels.")
    ] = "",
    depth: Annotated[int | None, Field(description="Levels of folders; 2, or all with a glob.", ge=1, le=32)] = None,
) -> ToolResult:
    """List the files and folders of the workspace with their sizes.

    Up to 300 entries. Folders end with '/'. Links are shown and not followed; .git, node_modules and the like are shown
    and not opened.
    """
    levels = depth or (32 if glob else 2)
    listing = Workspace(context.workspace).walk(path, levels, skip=LIBRARY_FOLDERS | UNLISTED)
    visible = (entry for entry in listing.entries if entry.path not in UNLISTED)
    found = [entry for entry in visible if not glob or matches(entry.path, glob)]
    lines = [_line(entry) for entry in found[:MAX_SHOWN_ENTRIES]]
    if not found:
        lines = ["Nothing here matches." if glob else "The folder is empty."]
    truncated = listing.truncated or len(found) > MAX_SHOWN_ENTRIES
    if truncated:
        lines.append(f"[more than is shown here ({len(lines)} of at least {len(found)}): ask for a folder or a glob]")
    if listing.closed:
        lines.append(f"[{listing.closed} folders could not be opened]")
    details: dict[str, Any] = {"path": shown(path), "entries": len(found)}
    return ToolResult("\n".join(lines), details=details | ({"truncated": True} if truncated else {}))


@tool(Effect.READ)
def read_file(
    context: ToolContext,
    path: Annotated[str, Field(description="A text file, relative to the workspace.")],
    start_line: Annotated[
        int, Field(description="First line, from 1. Negative: so many lines from the end, -20 for the last 20.")
    ] = 1,
    max_lines: Annotated[int, Field(description="Lines at most.", ge=1)] = 2000,
    start_column: Annotated[
        int,
        Field(description="Where in the first line to begin, from 1: only for a line too long for one result.", ge=1),
    ] = 1,
) -> ToolResult:
    """Read a text file of the workspace, or a part of it.

    Gives the text as it is, without line numbers, about 11,000 characters at once; a first line in [brackets] says
    where to go on if that is not all. Files up to 16 MiB; UTF-8, UTF-16 and GB18030 are recognised.
    """
    file = decode(Workspace(context.workspace).read_bytes(path), path)
    lines = file.text.split("\n")
    if lines[-1] == "":
        lines.pop()
    if not lines:
        return ToolResult("[the file is empty]", details={"path": shown(path), "lines": 0})
    first = max(1, len(lines) + start_line + 1) if start_line < 0 else max(1, start_line)
    if first > len(lines):
        raise ToolError(f"{shown(path)!r} has {len(lines)} lines, so there is no line {first}")
    part, after = _part(lines, first, max_lines, start_column)
    notes = [note for note in (file.note, _range_note(first, len(part), len(lines), after)) if note]
    head = f"[{shown(path)}: {'. '.join(notes)}]\n" if notes else ""
    details: dict[str, Any] = {"path": shown(path), "lines": len(part)}
    return ToolResult(head + "\n".join(part), details=details | ({"truncated": True} if after else {}))


def _line(entry: Entry) -> str:
    name = shown(entry.path)
    if entry.kind == "file":
        return f"{name}  {size_text(entry.size)}"
    return {"folder": f"{name}/", "link": f"{name}  (symbolic link, not followed)"}.get(
        entry.kind, f"{name}  (pipe, socket or device)"
    )


def _part(lines: list[str], first: int, max_lines: int, start_column: int) -> tuple[list[str], str]:
    """The lines that fit into one result, and how to go on; empty where nothing is left."""
    wanted = lines[first - 1 : first - 1 + max_lines]
    wanted[0] = wanted[0][start_column - 1 :]
    if len(wanted[0]) > MAX_SHOWN_CHARS:
        return [wanted[0][:MAX_SHOWN_CHARS]], f"start_line={first}, start_column={start_column + MAX_SHOWN_CHARS}"
    room, count = MAX_SHOWN_CHARS, 0
    while count < len(wanted) and len(wanted[count]) + 1 <= room:
        room -= len(wanted[count]) + 1
        count += 1
    count = max(count, 1)
    following = first + count
    return wanted[:count], f"start_line={following}" if following <= len(lines) else ""


def _range_note(first: int, count: int, total: int, after: str) -> str:
    if first == 1 and count == total and not after:
        return ""
    last = first + count - 1
    which = f"line {first}" if count == 1 else f"lines {first} to {last}"
    return f"{which} of {total}" + (f". Go on with {after}" if after else "")
