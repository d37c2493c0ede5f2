"""Text in files: from bytes to text and back, without changing what was not meant to change.

Knows encodings, line ends and what is no text at all. Refuses to know files and tools. Models write "\\n" and UTF-8; a
file that came from elsewhere keeps its own encoding, byte order mark and line ends when a part of it is edited.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from difflib import unified_diff

from agent.errors import ToolError
from tools.names import shown

MAX_DIFF_LINES = 400
_MAX_DIFFED_LINES = 10_000
"""Of old and new text together: beyond it a comparison takes too long for what it tells."""

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

_KNOWN_BINARIES = (
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"%PDF", "a PDF document"),
    (b"PK\x03\x04", "a zip archive (or a document made of one: docx, xlsx, pptx, epub, jar)"),
    (b"\x1f\x8b", "gzip data"),
    (b"\x7fELF", "a program"),
    (b"SQLite format 3", "an SQLite database"),
)


@dataclass(frozen=True)
class Text:
    """A text and how its file writes it."""

    text: str
    """With "\\n" between the lines where the file uses one kind of line end throughout."""
    encoding: str = "utf-8"
    mark: bytes = b""
    """The byte order mark at its start."""
    newline: str = "\n"

    @property
    def note(self) -> str:
        """What is unusual about the encoding; empty for plain UTF-8."""
        if self.encoding == "gb18030":
            return "not UTF-8; read as GB18030, which is a guess"
        if self.encoding == "utf-8":
            return "UTF-8 with a byte order mark" if self.mark else ""
        return self.encoding.upper()

    def encode(self, text: str) -> bytes:
        """`text` as it has to stand in this file, without the mark. Raises ToolError where the encoding has no room."""
        if self.newline == "\r\n":
            text = text.replace("\r\n", "\n").replace("\n", "\r\n")
        try:
            return text.encode(self.encoding)
        except UnicodeEncodeError as error:
            what = ascii(text[error.start : error.start + 1])
            raise ToolError(f"the text holds {what}, which cannot be written as {self.encoding.upper()}") from None


def decode(data: bytes, path: str) -> Text:
    """Read a file's bytes as text. Raises ToolError, with a hint, for what is no text."""
    for mark, encoding in _BYTE_ORDER_MARKS:
        if data.startswith(mark) and not data.startswith(codecs.BOM_UTF32_LE):
            return _text(_decoded(data[len(mark) :], encoding, path), encoding, mark)
    if b"\0" in data:
        raise _not_text(data, path)
    for encoding in ("utf-8", "gb18030"):
        try:
            return _text(data.decode(encoding), encoding, b"")
        except UnicodeDecodeError:
            continue
    raise _not_text(data, path)


def diff(path: str, old: str, new: str) -> str:
    """Unified diff of two texts; cut, or a note, where it would be too long to be of use."""
    old_lines, new_lines = _lines(old), _lines(new)
    if len(old_lines) + len(new_lines) > _MAX_DIFFED_LINES:
        return f"[{len(old_lines)} lines became {len(new_lines)}: too many to compare]\n"
    lines = [
        line if line.endswith("\n") else line + "\n\\ No newline at end of file\n"
        for line in unified_diff(old_lines, new_lines, f"a/{shown(path)}", f"b/{shown(path)}")
    ]
    if len(lines) > MAX_DIFF_LINES:
        lines[MAX_DIFF_LINES:] = [f"[... {len(lines) - MAX_DIFF_LINES} more lines ...]\n"]
    return "".join(lines)


def _lines(text: str) -> list[str]:
    """With their line ends. Not `splitlines`, which also cuts where no editor does."""
    *whole, rest = text.split("\n")
    return [line + "\n" for line in whole] + ([rest] if rest else [])


def _text(text: str, encoding: str, mark: bytes) -> Text:
    crlf = text.count("\r\n")
    if crlf and crlf == text.count("\n") == text.count("\r"):
        return Text(text.replace("\r\n", "\n"), encoding, mark, "\r\n")
    return Text(text, encoding, mark)


def _decoded(data: bytes, encoding: str, path: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        raise _not_text(data, path) from None


def _not_text(data: bytes, path: str) -> ToolError:
    kind = next(
        (words for start, words in _KNOWN_BINARIES if data.startswith(start)), "not text, or in an unknown encoding"
    )
    return ToolError(
        f"{shown(path)!r} is {kind}, so it cannot be read as text. send_file hands it to the user; a command or a "
        "script can look into it or convert it"
    )
