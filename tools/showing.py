"""A picture that a tool has made: shown to the person, and put into the workspace.

Knows where the two copies go and what the picture is called. Refuses to know how it was made.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from typing import Any

from agent.tool import ToolContext, ToolResult
from tools.entries import size_text
from tools.handing import card, new_outbox_folder
from tools.workspace import Workspace

PICTURES = "images"
"""The folder in the workspace."""


def show_picture(context: ToolContext, png: bytes, name: str, details: Mapping[str, Any]) -> ToolResult:
    """The result of a call that drew `png`: a card for the person, and the path for the model."""
    path = f"{PICTURES}/{name}"
    Workspace(context.workspace).write_bytes(path, png)
    copy = new_outbox_folder(context.outbox) / name
    copy.parent.mkdir(parents=True, mode=0o700)
    copy.write_bytes(png)
    text = f"Drew {path}, {details['size']} pixels, {size_text(len(png))}; the user sees it."
    return ToolResult(text, (card(copy),), {"path": path, "bytes": len(png), **details})


def picture_name(words: str, otherwise: str) -> str:
    """A new file name from the first words of a text."""
    slug = ""
    for word in re.findall(r"\w+", words)[:8]:
        longer = f"{slug}-{word}" if slug else word
        if len(longer.encode()) > 60:
            break
        slug = longer
    return f"{slug.lower() or otherwise}-{secrets.token_hex(3)}.png"
