"""send_file: giving a file to the person.

Knows the outbox and what kind of file a name promises. Refuses to hand over a path in the workspace: a command could
put another file there before anyone opens it, so the person gets a copy of the bytes that were checked.
"""

from __future__ import annotations

import secrets
import unicodedata
from pathlib import Path
from typing import Annotated

from pydantic import Field

from agent.events import File
from agent.tool import Effect, ToolContext, ToolResult, tool
from tools.entries import size_text
from tools.names import shown
from tools.workspace import Workspace

_OFFICE = "application/vnd.openxmlformats-officedocument"
_KINDS = {
    ".txt": "text/plain", ".log": "text/plain", ".md": "text/markdown", ".csv": "text/csv", ".html": "text/html",
    ".htm": "text/html", ".css": "text/css", ".js": "text/javascript", ".py": "text/x-python", ".toml": "text/plain",
    ".yaml": "text/plain", ".yml": "text/plain", ".json": "application/json", ".xml": "application/xml",
    ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp",
    ".svg": "image/svg+xml", ".pdf": "application/pdf", ".zip": "application/zip", ".gz": "application/gzip",
    ".mp3": "audio/mpeg", ".wav": "audio/wav", ".mp4": "video/mp4", ".webm": "video/webm",
    ".docx": f"{_OFFICE}.wordprocessingml.document", ".xlsx": f"{_OFFICE}.spreadsheetml.sheet",
    ".pptx": f"{_OFFICE}.presentationml.presentation",
}  # fmt: skip
"""Our own table: Python's differs between versions and machines."""
_ANY_BYTES = "application/octet-stream"


@tool(Effect.READ)
def send_file(
    context: ToolContext, path: Annotated[str, Field(description="A file, relative to the workspace.")]
) -> ToolResult:
    """Send a file of the workspace to the user, who gets a card to open or download. Any kind of file, up to 200 MiB.

    Use this whenever the user asks for a file: naming a path in the answer does not give it to them.
    """
    copy = Workspace(context.workspace).copy_out(path, new_outbox_folder(context.outbox))
    file = card(copy)
    details = {"path": shown(path), "bytes": file.size}
    return ToolResult(f"The user now has {file.name} ({size_text(file.size)}).", (file,), details)


def new_outbox_folder(outbox: Path) -> Path:
    """A name for a folder in the outbox that nobody can guess, not made yet."""
    return outbox / secrets.token_urlsafe(16)


def card(copy: Path) -> File:
    """The event's view of a file that lies in the outbox."""
    name = shown(unicodedata.normalize("NFC", copy.name))
    return File(str(copy), name, _KINDS.get(copy.suffix.lower(), _ANY_BYTES), copy.stat().st_size)
