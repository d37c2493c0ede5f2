"""What stands in the conversation for a file: escaped, capped, and never more than what it says it is."""

from __future__ import annotations

from typing import Any

import pytest

from agent.attached import announced
from agent.messages import File, UserMessage
from ui.previews import attached_files, handed_file
from ui.safe_text import plain
from ui.texts import TEXTS

EN = TEXTS["en"]


def shown(name: str, mime: str, preview: Any = None, path: str = "/outbox/x") -> str:
    return handed_file(EN, File(path, name, mime, 1200), lambda show: "/f?show=1" if show else "/f", preview)


def test_each_kind_has_its_own_way_to_be_seen() -> None:
    assert "<img src='/f?show=1'" in shown("a.png", "image/png")
    assert "<audio class='gl-audio' controls preload='metadata' src='/f?show=1'" in shown("a.mp3", "audio/mpeg")
    assert "<video" in shown("a.webm", "video/webm")
    for name, mime in (("a.html", "text/html"), ("a.svg", "image/svg+xml"), ("a.bin", "application/octet-stream")):
        markup = shown(name, mime)
        assert 'href="/f"' in markup and "show=1" not in markup and "<img" not in markup
    assert 'download="a&#46;html"' in shown("a.html", "text/html")


def test_text_and_rows_cannot_leave_their_place() -> None:
    evil = "```\n</code></pre><img src=http://evil.test/1.png>\n~~~"
    markup = shown("a.html", "text/html", {"kind": "text", "text": evil, "language": "html"})
    assert markup.endswith(f"````html\n{evil}\n````")
    markup = shown("a.txt", "text/plain", {"kind": "text", "text": "x", "language": "js\n<script>"})
    assert "<script>" not in markup and "```text\nx\n```" in markup
    cell = "<img src=x> | *a* [b](http://evil.test) `c`"
    markup = shown("a.csv", "text/csv", {"kind": "table", "rows": [["h"], [cell]], "cut": True})
    assert f"<td>{plain(cell)}</td>" in markup and "the first 2 rows" in markup and "\n" not in markup
    name = "<b>\u202e.png\" onload='x"
    assert "<b>" not in shown(name, "image/png") and " onload='" not in shown(name, "image/png")


@pytest.mark.parametrize(
    "preview",
    [
        3,
        "text",
        [],
        {"kind": "text", "text": 3},
        {"kind": "text"},
        {"kind": "table", "rows": "abc"},
        {"kind": "table", "rows": [3, "x", None]},
        {"kind": "pdf", "pages": "x", "picture": "http://evil.test/1.png"},
        {"kind": "pdf", "pages": 1, "picture": "data:text/html;base64,AAAA"},
        {"kind": "pdf", "pages": 1, "picture": "data:image/webp;base64,A' onload='x"},
        {"kind": "archive", "files": "3", "names": {}},
        {"kind": "archive", "files": 3, "names": 5},
        {"kind": "other"},
    ],
)
def test_a_log_that_says_nonsense_is_a_plain_card(preview: Any) -> None:
    markup = shown("a.txt", "text/plain", preview)
    assert "evil" not in markup and "<img" not in markup and "onload" not in markup and "gl-file-name" in markup


def test_much_is_cut() -> None:
    rows = [["x" * 500] * 500] * 500
    assert len(shown("a.csv", "text/csv", {"kind": "table", "rows": rows})) < 60_000
    assert len(shown("a.txt", "text/plain", {"kind": "text", "text": "x" * 10**6})) < 6_000
    assert "<img" not in shown(
        "a", "application/pdf", {"kind": "pdf", "picture": f"data:image/webp;base64,{'A' * 10**6}!"}
    )


def test_a_recording_shows_what_was_seen_and_gives_nothing_out() -> None:
    markup = shown("a.csv", "text/csv", {"kind": "table", "rows": [["a", "b"]]}, path="")
    assert "<th>a</th>" in markup and "href" not in markup
    assert "<img" not in shown("a.png", "image/png", path="") and "href" not in shown("a.png", "image/png", path="")


def test_files_of_a_message_stand_under_its_words() -> None:
    files = (File("/o/1", "a.png", "image/png", 5), File("/o/2", "b.pdf", "application/pdf", 6))
    images = (File("/o/3", "a.png", "image/png", 4),)
    message = UserMessage(announced("hi", ["x"]), images=images, files=files)
    markup = attached_files(EN, message, lambda index: f"/f/7-{index}")
    assert "src='/f/7-2?show=1'" in markup and 'href="/f/7-1"' in markup and "gl-attached-below" in markup
    assert attached_files(EN, UserMessage("hi"), str) == ""
