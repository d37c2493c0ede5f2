"""search_files: where in the workspace does a text stand?

Knows how to look through many files within bounds. Regular expressions run on RE2, whose time grows with the text and
never explodes with the pattern (Python's own `re` can hang for years on `(a+)+$`, and no thread can be stopped).
Refuses to know how files are opened safely and decoded.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any

import re2  # type: ignore[import-untyped]
from pydantic import Field

from agent.errors import ToolError
from agent.tool import MAX_RESULT_CHARS, Effect, ToolContext, ToolResult, tool
from tools.entries import size_text
from tools.glob import matches
from tools.names import shown
from tools.reading import LIBRARY_FOLDERS
from tools.text_files import decode
from tools.workspace import UNLISTED, Workspace

MAX_MATCHES = 100
MAX_LINE_CHARS = 300
MAX_SEARCHED_FILE_BYTES = 4 << 20
MAX_SEARCHED_BYTES = 128 << 20
MAX_SECONDS = 10.0
_PATTERN_MEMORY_BYTES = 8 << 20

Find = Callable[[str], Any]
"""Takes a line; gives the position of the first match, None where there is none."""


@dataclass
class _Search:
    """What was found so far, and what the search may still spend."""

    found: list[str] = field(default_factory=list)
    files: int = 0
    skipped: int = 0
    room: int = MAX_RESULT_CHARS - 500
    """Characters that still fit into the result, with the line of notes below it."""
    bytes_left: int = MAX_SEARCHED_BYTES
    ends_at: float = 0.0

    def add(self, match: str) -> None:
        self.found.append(match)
        self.room -= len(match) + 1

    @property
    def full(self) -> bool:
        return len(self.found) >= MAX_MATCHES or self.room <= MAX_LINE_CHARS

    @property
    def spent(self) -> bool:
        return self.bytes_left <= 0 or time.monotonic() > self.ends_at


@tool(Effect.READ)
def search_files(
    context: ToolContext,
    query: Annotated[str, Field(description="The text to look for, in one line.", min_length=1, max_length=500)],
    path: Annotated[str, Field(description="A folder or a file, relative to the workspace.")] = ".",
    glob: Annotated[str, Field(description="Only files that match, such as *.py.")] = "",
    regex: Annotated[bool, Field(description="Read query as a regular expression (RE2).")] = False,
    ignore_case: bool = False,
) -> ToolResult:
    """Search the text files of the workspace, line by line; gives 'path:line: text' for each match.

    Up to 100 matches. Binary files, files over 4 MiB and folders such as .git and node_modules are left out. Regular
    expressions have no look-around and no back-references.
    """
    find = _by_pattern(query, ignore_case) if regex else _by_text(query, ignore_case)
    workspace = Workspace(context.workspace)
    search = _Search(ends_at=time.monotonic() + MAX_SECONDS)
    ended_early = False
    for file in _files(workspace, path, glob):
        if search.full or search.spent:
            ended_early = True
            break
        _search_file(workspace, file, find, search)
    truncated = ended_early or search.full or search.spent
    details: dict[str, Any] = {"matches": len(search.found)} | ({"truncated": True} if truncated else {})
    return ToolResult(_report(search, truncated), details=details)


def _files(workspace: Workspace, path: str, glob: str) -> Iterator[str]:
    if workspace.stat(path).kind == "file":
        yield "/".join(workspace.names(path))
        return
    for entry in workspace.walk(path, depth=32, skip=LIBRARY_FOLDERS | UNLISTED).entries:
        if entry.kind == "file" and (not glob or matches(entry.path, glob)):
            yield entry.path


def _search_file(workspace: Workspace, path: str, find: Find, search: _Search) -> None:
    try:
        data = workspace.read_bytes(path, MAX_SEARCHED_FILE_BYTES)
        search.bytes_left -= len(data)
        text = decode(data, path).text
    except ToolError:  # too large, not text, no permission, gone: the report says how many
        search.skipped += 1
        return
    search.files += 1
    for number, line in enumerate(text.split("\n"), start=1):
        position = find(line)
        if position is not None:
            search.add(f"{shown(path)}:{number}: {_around(line, position)}")
        if search.full or (number % 1000 == 0 and search.spent):
            return


def _by_text(query: str, ignore_case: bool) -> Find:
    if "\n" in query.rstrip("\n"):
        raise ToolError("the search goes line by line: look for one line of the text")
    wanted = query.rstrip("\n")

    def find(line: str) -> int | None:
        position = line.lower().find(wanted.lower()) if ignore_case else line.find(wanted)
        return position if position >= 0 else None

    return find


def _by_pattern(pattern: str, ignore_case: bool) -> Find:
    options = re2.Options()
    options.max_mem = _PATTERN_MEMORY_BYTES
    options.log_errors = False
    options.case_sensitive = not ignore_case
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0].decode("utf-8", "replace") if isinstance(error.args[0], bytes) else error.args[0]
        raise ToolError(
            f"the regular expression is not understood: {reason}. It is RE2: no look-around, no back-references. "
            "Leave regex out to look for the text as it stands"
        ) from None

    def find(line: str) -> int | None:
        match = compiled.search(line)
        return match.start() if match else None

    return find


def _around(line: str, position: int) -> str:
    """The line, or of a long one the part around the match."""
    if len(line) <= MAX_LINE_CHARS:
        return line.strip("\r")
    start = max(0, position - MAX_LINE_CHARS // 3)
    end = start + MAX_LINE_CHARS
    return f"{'...' if start else ''}{line[start:end]}{'...' if end < len(line) else ''}"


def _report(search: _Search, truncated: bool) -> str:
    lines = list(search.found) or ["No match."]
    notes = [f"{search.files} files searched"]
    if search.skipped:
        notes.append(f"{search.skipped} left out (not text, or over {size_text(MAX_SEARCHED_FILE_BYTES)})")
    if truncated:
        notes.append("there may be more: narrow the search by path, glob or a longer query")
    return "\n".join([*lines, f"[{'; '.join(notes)}]"])
