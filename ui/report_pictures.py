"""Pictures for a report, as data URIs: the outbox's own files only, and only what Pillow has read to its end.

Knows sizes and picture formats. Refuses SVG, which is a document and may hold anything.
"""

from __future__ import annotations

import base64
from pathlib import Path

from agent.events import File
from ui.downloads import lies_in, picture_type

MAX_PICTURE = 4 << 20
MAX_TOGETHER = 24 << 20
"""Bytes. What is larger, or comes after so much, is named and not shown: a report is to be sent around."""


class Pictures:
    """The pictures of one report, in their order."""

    def __init__(self, outbox: Path) -> None:
        self._outbox = outbox
        self._left = MAX_TOGETHER

    def embed(self, file: File) -> str:
        """A data URI; empty for what is no picture of the outbox, and for what is too large."""
        path = Path(file.path)
        if not file.path or not lies_in(self._outbox, file) or path.stat().st_size > min(MAX_PICTURE, self._left):
            return ""
        kind = picture_type(path)
        if not kind:
            return ""
        content = path.read_bytes()
        self._left -= len(content)
        return f"data:{kind};base64,{base64.b64encode(content).decode()}"
