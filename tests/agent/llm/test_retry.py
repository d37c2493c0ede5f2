"""When to ask again."""

from __future__ import annotations

import email.utils
import time

import pytest

from agent.llm.faults import Failure
from agent.llm.retry import ATTEMPTS, LONGEST_WAIT_S, asked_wait, pause


def failure(code: str = "rate_limited", detail: str = "", **fields: object) -> Failure:
    return Failure(code, detail, 429, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("headers", "body", "words", "seconds"),
    [
        ({"retry-after": "2"}, None, "", 2),
        ({"retry-after": "0.5"}, None, "", 0.5),
        ({"retry-after-ms": "1500", "retry-after": "60"}, None, "", 1.5),
        ({}, {"error": {"details": [{"@type": "RetryInfo", "retryDelay": "34s"}]}}, "", 34),
        ({}, [{"error": {"details": [{"retryDelay": "0.25s"}]}}], "", 0.25),
        ({}, {"retry_after": 3}, "", 3),
        ({}, None, "Please try again in 1.5s.", 1.5),
        ({}, None, "Please try again in 20ms.", 0.02),
        ({}, None, "Please try again in 1m12.5s.", 72.5),
        ({}, None, "Please retry after 7 seconds.", 7),
        ({}, None, "Please wait 3 seconds before retrying.", 3),
        ({}, None, "请求过于频繁，请在2秒后重试", 2),
        ({"retry-after": "5s"}, None, "", 5),
        ({}, None, "Please wait, 3 more models are loading", None),
        ({"retry-after": "soon"}, None, "", None),
        ({}, None, "Too fast", None),
    ],
)
def test_the_wait_a_server_asks_for(headers: dict[str, str], body: object, words: str, seconds: float | None) -> None:
    assert (
        asked_wait(headers, body, words) == pytest.approx(seconds)
        if seconds
        else asked_wait(headers, body, words) is None
    )


def test_a_date_is_a_wait_too() -> None:
    date = email.utils.formatdate(time.time() + 30, usegmt=True)
    wait = asked_wait({"retry-after": date}, None, "")
    assert wait is not None and 28 <= wait <= 30


def test_never_shorter_than_asked_and_never_for_ever() -> None:
    wait = pause(failure(headers={"retry-after": "1"}), 1)
    assert wait is not None and wait >= 1
    assert pause(failure(headers={"retry-after": str(LONGEST_WAIT_S + 1)}), 1) is None


def test_the_pause_grows_and_ends() -> None:
    waits = [
        pause(failure("overloaded"), attempt, jitter=lambda: 0.5) for attempt in range(1, ATTEMPTS["overloaded"] + 1)
    ]
    assert waits == [0.5, 1.0, 2.0, 4.0, None]


@pytest.mark.parametrize(
    "code", ["quota_exhausted", "wrong_key", "bad_request", "content_filtered", "context_overflow"]
)
def test_what_does_not_pass_by_itself_is_not_asked_again(code: str) -> None:
    assert pause(failure(code), 1) is None
    assert pause(failure(headers={"x-should-retry": "false"}), 1) is None
