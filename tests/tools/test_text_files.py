"""Bytes to text and back: what was not meant to change stays."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import ToolError
from tools.text_files import MAX_DIFF_LINES, decode, diff

CHINESE = "你好，世界\n第二行\n"


@pytest.mark.parametrize(
    ("data", "text", "encoding", "note"),
    [
        (b"plain\n", "plain\n", "utf-8", ""),
        (CHINESE.encode(), CHINESE, "utf-8", ""),
        (codecs.BOM_UTF8 + CHINESE.encode(), CHINESE, "utf-8", "byte order mark"),
        (codecs.BOM_UTF16_LE + CHINESE.encode("utf-16-le"), CHINESE, "utf-16-le", "UTF-16-LE"),
        (codecs.BOM_UTF16_BE + CHINESE.encode("utf-16-be"), CHINESE, "utf-16-be", "UTF-16-BE"),
        (CHINESE.encode("gb18030"), CHINESE, "gb18030", "guess"),
        (b"a\r\nb\r\n", "a\nb\n", "utf-8", ""),
        (b"a\r\nb\nc\r", "a\r\nb\nc\r", "utf-8", ""),
        (b"", "", "utf-8", ""),
    ],
)
def test_what_is_recognised_and_written_back_unchanged(data: bytes, text: str, encoding: str, note: str) -> None:
    file = decode(data, "x")
    assert (file.text, file.encoding) == (text, encoding)
    assert note in file.note and bool(note) == bool(file.note)
    assert file.mark + file.encode(file.text) == data


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=50).filter(lambda t: "\0" not in t))
def test_every_text_comes_back(text: str) -> None:
    data = text.encode()
    file = decode(data, "x")
    assert file.mark + file.encode(file.text) == data


@pytest.mark.parametrize(
    ("data", "hint"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0", "PNG"),
        (b"\xff\xd8\xff\xe0\0", "JPEG"),
        (b"%PDF-1.7\n\0", "PDF"),
        (b"PK\x03\x04\0", "docx"),
        (b"text with \0 in it", "not text"),
        (b"caf\xe9 au lait", "not text"),
        (codecs.BOM_UTF16_LE + b"odd", "not text"),
        (codecs.BOM_UTF32_LE + "x".encode("utf-32-le"), "not text"),
    ],
)
def test_what_is_no_text_is_refused_with_a_hint(data: bytes, hint: str) -> None:
    with pytest.raises(ToolError, match=hint):
        decode(data, "x")


def test_a_text_that_the_encoding_cannot_hold_is_refused() -> None:
    with pytest.raises(ToolError, match="UTF-8"):
        decode(b"", "x").encode("\ud800")


def test_line_ends_are_not_doubled() -> None:
    assert decode(b"a\r\n", "x").encode("b\r\nc\n") == b"b\r\nc\r\n"


def test_a_diff_is_unified_and_bounded() -> None:
    assert diff("a.txt", "1\n2\n", "1\n3") == (
        "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n 1\n-2\n+3\n\\ No newline at end of file\n"
    )
    assert diff("a", "same\n", "same\n") == ""
    long = diff("a", "", "x\n" * 5000)
    assert long.count("\n") == MAX_DIFF_LINES + 1 and "more lines" in long
    assert "too many" in diff("a", "x\n" * 20_000, "y\n")
