"""read_document: documents page by page, as text.

A page is a page of a PDF, a slide, a part of a sheet, or about 3,000 characters of anything else. Plain text is cut
here; everything that needs a parser is read by `reader.py`, a program of its own behind the fence with little time and
memory, because such files come from strangers. Knows which kinds there are and what a model is told. Refuses to know
how a format is read and what holds the reader.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import sys
from contextlib import suppress
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from pydantic import Field

from agent.errors import ToolError
from agent.tool import MAX_RESULT_CHARS, Effect, Tool, ToolContext, ToolResult, tool
from tools.entries import size_text
from tools.names import shown
from tools.reader import split
from tools.sandbox import Command, CommandLimits, Fence
from tools.text_files import decode
from tools.workspace import OWN_FOLDER, Workspace

MAX_BYTES = 100_000_000
_ROOM = MAX_RESULT_CHARS - 1_500
"""Characters of pages in one result."""
LIMITS = CommandLimits(
    timeout_s=30, memory_bytes=1024 << 20, file_bytes=64 << 20, processes=64, cpu_s=30, output_bytes=1 << 20
)
_AT_ONCE = 2
"""Readers of all sessions together."""

_KINDS = {
    ".pdf": "pdf", ".docx": "docx", ".docm": "docx", ".xlsx": "xlsx", ".xlsm": "xlsx", ".pptx": "pptx", ".pptm": "pptx",
    ".html": "html", ".htm": "html", ".xhtml": "html", ".epub": "epub",
}  # fmt: skip
_CALLED = {"pdf": "PDF", "docx": "Word", "xlsx": "Excel", "pptx": "PowerPoint", "html": "HTML", "epub": "EPUB"}
_OLD = (".doc", ".xls", ".ppt")

_WHY = {
    "encrypted": "it is protected by a password. Ask the user for a copy without one",
    "old": "it is an old Office file (.doc, .xls, .ppt), or protected by a password. Ask the user to save it as "
    ".docx, .xlsx, .pptx or PDF without a password",
    "broken": "it is broken, or not what its name says",
    "bomb": "unpacked it would be far larger than it looks, so it is not read",
    "missing": "the library that reads it is not installed ({about}). The operator can install what requirements.txt "
    "lists",
}


class Reader:
    """Runs the program that reads documents. Belongs to one event loop."""

    def __init__(self, fence: Fence) -> None:
        self._fence = fence
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def ask(self, workspace: Workspace, path: str, **request: Any) -> dict[str, Any]:
        """The program's answer about a file of the workspace. Raises ToolError where there is none, with why."""
        with workspace.open_read(path):
            pass  # a plain file inside the workspace, or an error that says what it is
        size = workspace.stat(path).size
        if size > MAX_BYTES:
            raise ToolError(f"{shown(path)!r} has {size_text(size)}; {size_text(MAX_BYTES)} can be read at most")
        out = f"{OWN_FOLDER}/reading/{secrets.token_hex(12)}.json"
        workspace.write_bytes(out, b"")
        try:
            where = {"file": str(workspace.root.joinpath(*workspace.names(path))), "out": str(workspace.root / out)}
            argv = (sys.executable, "-I", "-c", _program(), json.dumps({**where, **request}))
            async with self._slots:
                outcome = await self._fence.run(Command(argv, workspace.root, workspace.root, LIMITS))
            if outcome.reason in ("timeout", "memory_limit"):
                raise ToolError(
                    f"{shown(path)!r} could not be read: it took too much time or memory. Ask for fewer pages"
                )
            answer = await asyncio.to_thread(workspace.read_bytes, out, LIMITS.file_bytes)
        finally:
            with suppress(ToolError):
                workspace.remove(out)
        return _sound(path, answer, outcome.error or outcome.stderr)


def _sound(path: str, answer: bytes, said: str) -> dict[str, Any]:
    try:
        found = json.loads(answer)
    except ValueError:
        raise ToolError(f"{shown(path)!r} could not be read: the reader failed. {said[-200:]}".strip()) from None
    if isinstance(found, dict) and "error" in found:
        why = _WHY.get(str(found["error"]), _WHY["broken"]).format(about=shown(str(found.get("about", ""))))
        raise ToolError(f"{shown(path)!r} cannot be read: {why}")
    if not isinstance(found, dict) or not isinstance(found.get("total"), int):
        raise ToolError(f"{shown(path)!r} could not be read: the reader failed")
    return found


@lru_cache
def _program() -> str:
    return (Path(__file__).parent / "reader.py").read_text(encoding="utf-8")


def read_document_tool(reader: Reader) -> Tool:
    """The tool, with this reader behind it."""

    @tool(Effect.READ)
    async def read_document(
        context: ToolContext,
        path: Annotated[str, Field(description="A file, relative to the workspace.")],
        pages: Annotated[
            str, Field(description="Such as 3, 2-5 or 8-. Empty: from the first page as far as one result reaches.")
        ] = "",
    ) -> ToolResult:
        """Read a document as text, page by page: PDF, Word, Excel, PowerPoint, EPUB, HTML, CSV, JSON, plain text.

        A page is a PDF page, a slide, a part of a sheet, or about 3,000 characters. About 10,000 characters at once;
        the last line says where to go on. Pictures in a document are not read.
        """
        first, last = _range(pages)
        workspace = Workspace(context.workspace)
        kind = _KINDS.get(PurePosixPath(path).suffix.lower())
        if kind is None:
            answer = await asyncio.to_thread(_of_text, workspace, path, first, last)
        else:
            answer = await reader.ask(workspace, path, kind=kind, first=first, last=last, chars=_ROOM)
        return _told(path, _CALLED.get(kind or "", "text"), answer, first)

    return read_document


def _range(pages: str) -> tuple[int, int | None]:
    wanted = re.fullmatch(r"(\d{1,6})?\s*(-|–)?\s*(\d{1,6})?", pages.strip())
    if wanted is None:
        raise ToolError(f"pages={pages!r} is no range of pages. Write 3, 2-5 or 8-")
    first, dash, last = wanted.groups()
    begin = max(1, int(first or 1))
    end = int(last) if last else None if dash or not first else begin
    if end is not None and end < begin:
        raise ToolError(f"pages={pages!r}: the last page comes before the first")
    return begin, end


def _of_text(workspace: Workspace, path: str, first: int, last: int | None) -> dict[str, Any]:
    """The same answer as the reader's, for what needs none."""
    suffix = PurePosixPath(path).suffix.lower()
    if suffix in _OLD:
        raise ToolError(f"{shown(path)!r} cannot be read: {_WHY['old']}")
    text = decode(workspace.read_bytes(path), path).text
    if suffix == ".json" and text.count("\n") < 3:
        with suppress(ValueError, RecursionError):
            text = json.dumps(json.loads(text), ensure_ascii=False, indent=1)
    cut = list(split(text.strip("\n")))
    head = cut[0].split("\n", 1)[0] if suffix in (".csv", ".tsv") and cut else ""
    found: list[Any] = []
    room = _ROOM
    for number in range(first, min(last or len(cut), len(cut)) + 1):
        page = cut[number - 1]
        if found and len(page) > room:
            break
        found.append([number, f"columns: {head[:300]}" if head and number > 1 else "", page])
        room -= len(page)
    return {"total": len(cut), "unit": "page", "pages": found}


def _told(path: str, called: str, answer: dict[str, Any], first: int) -> ToolResult:
    total, unit = answer["total"], shown(str(answer.get("unit", "page")))
    pages = [(int(number), shown(str(heading)), str(text)) for number, heading, text in answer.get("pages", ())]
    name = f"{shown(path)}: {called}, {total} {unit}{'' if total == 1 else 's'}"
    if not total:
        return ToolResult(f"[{name}: there is nothing in it]", details={"path": shown(path)})
    if not pages:
        raise ToolError(f"{shown(path)!r} has {total} {unit}{'' if total == 1 else 's'}, so there is no {unit} {first}")
    if called == "PDF" and not any(text.strip() for _, _, text in pages):
        which = f"{pages[0][0]} to {pages[-1][0]}" if len(pages) > 1 else f"{pages[0][0]}"
        raise ToolError(
            f"{shown(path)!r}: no text on {unit} {which} of {total}. It seems to be scanned: pictures of pages. "
            "There is no text recognition here; look at other pages, or ask the user for a version with text"
        )
    body = [
        f"--- {unit} {number}{f' ({heading})' if heading else ''} ---\n{_cut(text)}" for number, heading, text in pages
    ]
    end = pages[-1][0]
    rest = f'[next: pages="{end + 1}-", up to {total}]' if end < total else "[this is the end]"
    shown_pages = f"{pages[0][0]}-{end}/{total}" if end > pages[0][0] else f"{end}/{total}"
    return ToolResult("\n".join([f"[{name}]", *body, rest]), details={"path": shown(path), "pages": shown_pages})


def _cut(text: str) -> str:
    return text if len(text) <= _ROOM else f"{text[:_ROOM]}\n[this page is longer: {len(text):,} characters or more]"
