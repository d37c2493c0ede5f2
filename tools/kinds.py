"""What kind of file something is: what its name promises, as far as its bytes keep it.

Knows suffixes and how files begin. Refuses to know what is done with a file: a kind is told to people and models, and
nothing is ever run or drawn because of it alone.
"""

from __future__ import annotations

import re
import warnings
from pathlib import Path

from PIL import Image

_OFFICE = "application/vnd.openxmlformats-officedocument"
_KINDS = {
    ".txt": "text/plain", ".log": "text/plain", ".md": "text/markdown", ".csv": "text/csv",
    ".tsv": "text/tab-separated-values", ".html": "text/html", ".htm": "text/html",
    ".css": "text/css", ".js": "text/javascript", ".py": "text/x-python",
    ".toml": "text/plain", ".yaml": "text/plain", ".yml": "text/plain", ".json": "application/json",
    ".xml": "application/xml", ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif",
    ".webp": "image/webp", ".svg": "image/svg+xml", ".pdf": "application/pdf", ".zip": "application/zip",
    ".gz": "application/gzip", ".mp3": "audio/mpeg", ".wav": "audio/wav", ".ogg": "audio/ogg", ".flac": "audio/flac",
    ".m4a": "audio/mp4", ".mp4": "video/mp4", ".m4v": "video/mp4", ".webm": "video/webm",
    ".epub": "application/epub+zip",
    ".docx": f"{_OFFICE}.wordprocessingml.document", ".xlsx": f"{_OFFICE}.spreadsheetml.sheet",
    ".pptx": f"{_OFFICE}.presentationml.presentation",
}  # fmt: skip
"""Our own table: Python's differs between versions and machines."""
ANY_BYTES = "application/octet-stream"

PICTURES = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp"}
"""Pillow's formats that are drawn and looked at."""

_BEGINNINGS = {
    "application/pdf": rb"(?s).{0,1000}%PDF-",
    "application/zip": rb"PK[\x03\x05]",
    "application/gzip": rb"\x1f\x8b",
    "audio/mpeg": rb"ID3|\xff[\xe2-\xff]",
    "audio/wav": rb"(?s)RIFF....WAVE",
    "audio/ogg": rb"OggS",
    "audio/flac": rb"fLaC",
    "audio/mp4": rb"(?s)....ftyp",
    "video/mp4": rb"(?s)....ftyp",
    "video/webm": rb"\x1a\x45\xdf\xa3",
}
_PICTURE_BEGINNING = re.compile(rb"(?s)\x89PNG\r\n|\xff\xd8\xff|GIF8|RIFF....WEBP")
LOOK_BYTES = 4096


def mime_of(path: Path, name: str) -> str:
    """The kind of the file at `path` that is called `name`; plain bytes where the two do not go together."""
    promised = _KINDS.get(Path(name).suffix.lower(), ANY_BYTES)
    with path.open("rb") as file:
        start = file.read(LOOK_BYTES)
    if not start:
        return promised
    if promised in PICTURES.values():
        found = picture_type(path)
        return found or ("text/plain" if promised != ANY_BYTES and _is_text(start) else ANY_BYTES)
    beginning = _BEGINNINGS.get("application/zip" if _is_package(promised) else promised)
    if beginning is not None:
        return promised if re.match(beginning, start) else ANY_BYTES
    if promised == ANY_BYTES:
        return "text/plain" if _is_text(start) else ANY_BYTES
    return promised if _is_text(start) else ANY_BYTES


def looks_like_picture(start: bytes) -> bool:
    """Does a file begin as a picture does?"""
    return _PICTURE_BEGINNING.match(start) is not None


def picture_type(path: Path) -> str:
    """The kind of a picture whose head is sound, by its bytes; empty for anything else."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # nothing is decoded here
            with Image.open(path, formats=list(PICTURES)) as picture:
                return PICTURES[picture.format or ""]
    except (OSError, SyntaxError, ValueError, KeyError, Image.DecompressionBombError):
        return ""


def _is_package(mime: str) -> bool:
    return mime.startswith(_OFFICE) or mime == "application/epub+zip"


def _is_text(start: bytes) -> bool:
    marked = start.startswith((b"\xff\xfe", b"\xfe\xff"))
    return marked or not re.search(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]", start)
