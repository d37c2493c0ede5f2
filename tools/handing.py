"""send_file: giving a file, or a folder as a ZIP file, to the person.

Knows the outbox. Refuses to hand over a path in the workspace: a command could put another file there before anyone
opens it, so the person gets a copy of the bytes that were checked.
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
import unicodedata
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from agent.events import File
from agent.tool import Effect, Tool, ToolContext, ToolResult, tool
from tools import preview
from tools.bundle import bundle
from tools.documents import Reader
from tools.entries import size_text
from tools.kinds import mime_of
from tools.names import shown
from tools.workspace import Workspace


def send_file_tool(reader: Reader | None = None) -> Tool:
    """The tool. `reader`: draws the first page of a PDF; None: there is no picture of it."""

    @tool(Effect.READ)
    async def send_file(
        context: ToolContext,
        path: Annotated[
            str, Field(description="A file, or a folder to send as a ZIP file, relative to the workspace.")
        ],
    ) -> ToolResult:
        """Send a file of the workspace to the user, who gets a card to open or download. Any kind, up to 200 MiB.

        Use this whenever the user asks for a file: naming a path in the answer does not give it to them.
        """
        result = await asyncio.to_thread(_send, context, path)
        if reader is not None and result.files[0].mime == "application/pdf":
            seen = await preview.of_pdf(reader, Workspace(context.workspace), path)
            if seen is not None:
                return ToolResult(result.text, result.files, {**result.details, "preview": seen})
        return result

    return send_file


def _send(context: ToolContext, path: str) -> ToolResult:
    workspace, outbox = Workspace(context.workspace), new_outbox_folder(context.outbox)
    if workspace.stat(path).kind == "folder":
        return _send_folder(workspace, path, outbox)
    copy = workspace.copy_out(path, outbox)
    file = card(copy)
    details: dict[str, Any] = {"path": shown(path), "bytes": file.size}
    if seen := preview.of_file(copy, file.name, file.mime):
        details["preview"] = seen
    return ToolResult(f"The user now has {file.name} ({size_text(file.size)}).", (file,), details)


def _send_folder(workspace: Workspace, path: str, outbox: Path) -> ToolResult:
    names = workspace.names(path)
    target = outbox / f"{names[-1] if names else 'workspace'}.zip"
    try:
        made = bundle(workspace, path, target)
    except BaseException:
        shutil.rmtree(outbox, ignore_errors=True)
        raise
    file = card(target)
    left = f" {made.left_out} links or unreadable things were left out." if made.left_out else ""
    text = f"The user now has {file.name} ({len(made.names)} files, {size_text(file.size)}).{left}"
    details = {"path": shown(path), "entries": len(made.names), "bytes": file.size, "preview": preview.of_bundle(made)}
    return ToolResult(text, (file,), details)


def new_outbox_folder(outbox: Path) -> Path:
    """A name for a folder in the outbox that nobody can guess, not made yet."""
    return outbox / secrets.token_urlsafe(16)


def card(copy: Path) -> File:
    """The event's view of a file that lies in the outbox."""
    name = shown(unicodedata.normalize("NFC", copy.name))
    return File(str(copy), name, mime_of(copy, name), copy.stat().st_size)
