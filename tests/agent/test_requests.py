"""Requests are kept without saying everything twice, and written out again exactly."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agent.events import Event, RequestSent
from agent.requests import Requests, rebuild

MESSAGES = st.lists(st.sampled_from([{"role": "user", "content": c} for c in "abc"]), max_size=6).map(tuple)


@given(st.lists(MESSAGES, max_size=6))
def test_what_is_rebuilt_is_what_was_sent(sent: list[tuple[dict[str, Any], ...]]) -> None:
    requests, log = Requests(), list[Event]()
    for messages in sent:
        event = requests.shrink(RequestSent("m", {"model": "m"}, 0, messages))
        requests.add(event)
        log.append(event)
    assert list(rebuild(log)) == [{"model": "m", "messages": list(messages)} for messages in sent]


def test_a_growing_conversation_is_kept_once() -> None:
    requests, kept = Requests(), []
    for count in range(1, 50):
        messages = tuple({"role": "user", "content": str(number)} for number in range(count))
        event = requests.shrink(RequestSent("m", {}, 0, messages))
        requests.add(event)
        kept.append(len(event.messages))
    assert kept == [1] * 49
