"""The exact messages of a request, rebuilt from what the log holds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.events import RequestSent
from ui.sent_requests import SentRequests
from ui.side import context
from ui.texts import TEXTS


def sent(kept: int, *messages: str) -> RequestSent:
    return RequestSent("m", {"model": "m"}, kept, tuple({"role": "user", "content": text} for text in messages))


def texts(requests: SentRequests, number: int) -> list[Any]:
    return [message["content"] for message in requests.messages(number)]


def test_each_request_is_whole_again() -> None:
    requests = SentRequests()
    for event in (sent(0, "a", "b"), sent(2, "c"), sent(3, "d", "e"), sent(1, "x"), sent(2), sent(0, "new")):
        requests.add(event)
    assert [texts(requests, number) for number in range(1, 7)] == [
        ["a", "b"], ["a", "b", "c"], ["a", "b", "c", "d", "e"], ["a", "x"], ["a", "x"], ["new"],
    ]  # fmt: skip


@given(st.lists(st.lists(st.sampled_from("ab"), max_size=6), min_size=1, max_size=12))
def test_whatever_was_sent_comes_back(conversations: list[list[str]]) -> None:
    requests, before = SentRequests(), list[str]()
    for messages in conversations:
        kept = 0
        while kept < min(len(before), len(messages)) and before[kept] == messages[kept]:
            kept += 1
        requests.add(sent(kept, *messages[kept:]))
        before = messages
    assert [texts(requests, n + 1) for n in range(len(conversations))] == conversations


def test_a_request_that_was_not_sent_is_an_error() -> None:
    requests = SentRequests()
    for number in (0, 1, -1):
        with pytest.raises(IndexError):
            requests.messages(number)


def test_the_panel_shows_every_message_and_escapes_it() -> None:
    requests = SentRequests()
    assert "<details" not in context(TEXTS["en"], requests, None)
    requests.add(sent(0, "<script>alert(1)</script>", "second"))
    requests.add(sent(2, "third"))
    shown = context(TEXTS["en"], requests, None)
    assert "<script>" not in shown and "&lt;script&gt;alert(1)&lt;/script&gt;" in shown
    assert shown.count("<details") == 4 and "Request 2 of 2" in shown and "2 messages as before, 1 new" in shown
    assert "Request 1 of 2" in context(TEXTS["en"], requests, 1)
    assert "Request 2 of 2" in context(TEXTS["en"], requests, 99)
