"""What a person sees of a file before opening it: facts for the page, found once, when the file is handed over.

    {"kind": "text", "text": ..., "language": "python", "cut": true}      text, code, JSON laid out, HTML as its source
    {"kind": "table", "rows": [[...]], "cut": true}                       CSV, its first rows
    {"kind": "pdf", "pages": 12, "picture": "data:image/webp;base64,..."} its first page
    {"kind": "archive", "files": 3, "names": [...]}                       a folder

Small, so that they may stand in the log. Pictures, sound and film need none: the page shows the file itself. Knows what
is worth showing. Refuses to know how anything looks.
"""

from __future__ import annotations

import base64
import binascii
import csv
import io
import json
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

from PIL import Image

from agent.errors import ToolError
from tools.bundle import Bundle
from tools.documents import Reader
from tools.text_files import decode
from tools.workspace import Workspace

_LOOK_BYTES = 64 << 10
_JSON_BYTES = 200_000
MAX_CHARS, MAX_LINES = 4_000, 60
MAX_ROWS, MAX_COLUMNS, MAX_CELL_CHARS = 20, 12, 60
MAX_NAMES = 12
PAGE_WIDTH = 640
MAX_PICTURE_BYTES = 120_000

_LANGUAGES = {
    ".py": "python", ".js": "javascript", ".ts": "typescript", ".json": "json", ".html": "html", ".htm": "html",
    ".svg": "html", ".xml": "html", ".css": "css", ".sh": "bash", ".sql": "sql", ".yaml": "yaml", ".yml": "yaml",
    ".md": "markdown", ".java": "java", ".c": "c", ".h": "c", ".cpp": "cpp", ".go": "go", ".rs": "rust",
    ".diff": "diff", ".patch": "diff", ".toml": "ini", ".ini": "ini",
}  # fmt: skip
_TABLES = (".csv", ".tsv")


def of_file(copy: Path, name: str, mime: str) -> dict[str, Any] | None:
    """The facts about a file of text or rows; None where there is nothing to show."""
    if not (mime.startswith("text/") or mime in ("application/json", "application/xml", "image/svg+xml")):
        return None
    with copy.open("rb") as file:
        data = file.read(_LOOK_BYTES + 1)
    cut = len(data) > _LOOK_BYTES
    try:
        text = decode(data[: data.rfind(b"\n") + 1 or None] if cut else data, name).text
    except ToolError:
        return None
    suffix = PurePosixPath(name).suffix.lower()
    if suffix in _TABLES and (table := _table(text, cut)):
        return table
    if suffix == ".json" and copy.stat().st_size <= _JSON_BYTES:
        with suppress(ValueError, RecursionError):
            text, cut = json.dumps(json.loads(copy.read_bytes()), ensure_ascii=False, indent=2), False
    return _text(text, _LANGUAGES.get(suffix, "text"), cut) if text.strip() else None


def of_bundle(made: Bundle) -> dict[str, Any]:
    return {"kind": "archive", "files": len(made.names), "names": list(made.names[:MAX_NAMES])}


async def of_pdf(reader: Reader, workspace: Workspace, path: str) -> dict[str, Any] | None:
    """The first page, as the reader behind the fence has drawn it; None where it cannot be."""
    try:
        answer = await reader.ask(workspace, path, kind="pdf", picture=PAGE_WIDTH)
        drawn = base64.b64decode(str(answer.get("picture", "")), validate=True)
        with Image.open(io.BytesIO(drawn), formats=["WEBP"]) as picture:
            sound = picture.width <= 2 * PAGE_WIDTH and picture.height <= 4 * PAGE_WIDTH
    except (ToolError, binascii.Error, OSError, ValueError, SyntaxError):
        return None
    if not sound or len(drawn) > MAX_PICTURE_BYTES:
        return None
    picture_url = f"data:image/webp;base64,{base64.b64encode(drawn).decode()}"
    return {"kind": "pdf", "pages": int(answer["total"]), "picture": picture_url}


def _text(text: str, language: str, cut: bool) -> dict[str, Any]:
    lines = text.split("\n")
    shown = "\n".join(lines[:MAX_LINES])[:MAX_CHARS]
    cut = cut or len(shown) < len(text.rstrip("\n"))
    return {"kind": "text", "text": shown, "language": language} | ({"cut": True} if cut else {})


def _table(text: str, cut: bool) -> dict[str, Any] | None:
    try:
        dialect: Any = csv.Sniffer().sniff(text[:4_000], ",;\t|")
    except csv.Error:
        dialect = csv.excel
    rows: list[list[str]] = []
    try:
        for row in csv.reader(io.StringIO(text), dialect):
            if len(rows) == MAX_ROWS:
                cut = True
                break
            if row:
                rows.append([cell[:MAX_CELL_CHARS] for cell in row[:MAX_COLUMNS]])
    except csv.Error:
        return None
    if len(rows) < 1 or max(len(row) for row in rows) < 2:
        return None
    return {"kind": "table", "rows": rows} | ({"cut": True} if cut else {})
