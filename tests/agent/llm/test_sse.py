"""Framing: whatever the line ends, wherever the bytes are cut."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.llm.sse import DONE, EventStream, Unreadable

PAYLOADS = [{"a": "æ 🚢\u2028 x"}, {"b": [1, {"c": None}]}, DONE]
BODY = 'data: {"a": "æ 🚢\u2028 x"}\n\ndata: {"b": [1, {"c": null}]}\n\ndata: [DONE]\n\n'


def read(data: bytes, size: int = 0) -> list[Any]:
    stream = EventStream()
    pieces = [data[i : i + size] for i in range(0, len(data), size)] if size else [data]
    return [payload for piece in pieces for payload in stream.feed(piece)] + stream.close()


@given(st.integers(1, 40), st.sampled_from(["\n", "\r\n", "\r"]), st.sampled_from(["", "\ufeff"]))
def test_any_cut_any_line_end(size: int, line_end: str, mark: str) -> None:
    assert read((mark + BODY).replace("\n", line_end).encode(), size) == PAYLOADS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('data:{"a":1}\n\n', [{"a": 1}]),
        (': hello\n\ndata: {"a":1}\n\n: bye\n\n', [{"a": 1}]),
        ('event: chunk\nid: 7\nretry: 10\ndata: {"a":1}\n\n', [{"a": 1}]),
        ('data: {"a":\ndata: 1}\n\n', [{"a": 1}]),
        ('data: {"a":1}\ndata: {"b":2}\n', [{"a": 1}, {"b": 2}]),
        ('data: {"a":1}', [{"a": 1}]),
        ('{"a":1}\n{"b":2}\n', [{"a": 1}, {"b": 2}]),
        ('{\n  "a": 1\n}\n', [{"a": 1}]),
        ('[{"error": 1}]', [[{"error": 1}]]),
        ("data:\n\ndata: ping\n\n", []),
        ('data: data: data:{"a":1}\n\n', [{"a": 1}]),
        ('data: {"a": "x\ty"}\n\n', [{"a": "x\ty"}]),
        ('{"a":1}\nheartbeat\n{"b":2}\n[DONE]\n', [{"a": 1}, {"b": 2}, DONE]),
        ("data: [done]\n\n", [DONE]),
        ('error: {"code": 500}\n\n', [{"error": {"code": 500}}]),
        ("event: error\ndata: upstream gone\n\n", [{"error": "upstream gone"}]),
        ("event: error\ndata: upstream gone", [{"error": "upstream gone"}]),
        ("", []),
    ],
)
def test_shapes(text: str, expected: list[Any]) -> None:
    for size in (0, 1, 3):
        assert read(text.encode(), size) == expected


def test_a_payload_is_given_before_its_blank_line() -> None:
    assert EventStream().feed(b'data: {"a": 1}\n') == [{"a": 1}]


def test_broken_json_is_said_and_not_skipped() -> None:
    with pytest.raises(Unreadable):
        EventStream().feed(b'data: {"a": \n\ndata: {"b": 1}\n\n')


def test_a_payload_over_very_many_lines_is_given_up() -> None:
    """Each line may end it, so the time to read one grows with their square."""
    with pytest.raises(Unreadable, match="too many lines"):
        EventStream().feed(b"data: {\n" * 20_000)


def test_a_page_is_kept_for_the_error_message() -> None:
    stream = EventStream()
    assert stream.feed(b"<html><title>502</title></html>") == []
    assert stream.close() == []
    assert "502" in stream.stray[0]
