"""Whether to ask again, and when.

Knows which failures pass by themselves, how servers say how long to wait, and when patience ends. Refuses to know
what a request is.
"""

from __future__ import annotations

import email.utils
import random
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from agent.llm.faults import Failure

ATTEMPTS = {
    "rate_limited": 6,
    "overloaded": 5,
    "provider_error": 4,
    "connection_lost": 3,
    "incomplete_stream": 3,
    "malformed_response": 3,
    "unreachable": 3,
    "timeout": 3,
    "repeating": 2,
}
"""How often a request is sent at most when it fails with this; once with anything else."""

MORE_TRIES = 2
"""The server refused what the model wrote: the model is asked again so often, it chooses other words each time."""

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 20.0
LONGEST_WAIT_S = 120.0
"""A server that asks for a longer wait than this is reported instead: the person should decide."""


def pause(failure: Failure, attempt: int, jitter: Callable[[], float] = random.random) -> float | None:
    """Seconds to wait after failed attempt number `attempt` (from 1); None where asking again is no use."""
    if failure.misread:
        return 0.0 if attempt <= MORE_TRIES else None
    if failure.code == "repeating":  # the model's fault: the server needs no pause
        return 0.0 if attempt < ATTEMPTS[failure.code] else None
    if attempt >= ATTEMPTS.get(failure.code, 1) or failure.headers.get("x-should-retry") == "false":
        return None
    if failure.status in (404, 405):  # a page that is not there, or is not for this, whatever it says
        return None
    asked = asked_wait(failure.headers, failure.body, failure.detail)
    if asked is not None and asked > LONGEST_WAIT_S:
        return None
    backoff = min(FIRST_PAUSE_S * 2.0 ** (attempt - 1), LONGEST_PAUSE_S) * (0.75 + 0.5 * jitter())
    return max(asked, 0.05) + 0.05 if asked is not None else backoff


def asked_wait(headers: Mapping[str, str], body: Any, words: str) -> float | None:
    """Seconds the server asks to wait: by header in milliseconds, seconds or as a date, by body, or in words."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    after = headers.get("retry-after")
    if after is not None:
        seconds = _number(after.strip().removesuffix("s"))
        return seconds if seconds is not None else _until(after)
    delay = _retry_delay(body)
    if delay is None:
        delay = _in_words(words)
    return delay if delay is not None else _new_window(headers)


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text is not None else None
    except ValueError:
        return None
    return value if value is not None and 0 <= value < 1e9 else None


def _until(date: str) -> float | None:
    """Seconds until an HTTP date; the second it names has begun when that many have passed."""
    parsed = email.utils.parsedate_tz(date)
    return max(0.0, email.utils.mktime_tz(parsed) - time.time()) if parsed else None


def _retry_delay(body: Any) -> float | None:
    """Gemini says it in the details: `{"retryDelay": "34s"}`; others as `retry_after`."""
    if isinstance(body, list):
        return next((d for d in map(_retry_delay, body) if d is not None), None)
    if not isinstance(body, Mapping):
        return None
    for key in ("retryDelay", "retry_after", "retry_after_seconds"):
        if key in body:
            return _number(str(body[key]).removesuffix("s"))
    return _retry_delay([v for v in body.values() if isinstance(v, (dict, list))])


_UNITS = {
    "ms": 0.001,
    "s": 1,
    "sec": 1,
    "second": 1,
    "seconds": 1,
    "m": 60,
    "min": 60,
    "minute": 60,
    "minutes": 60,
    "h": 3600,
}
_WORDS = re.compile(
    r"(?:(?:try|retry)\w*(?: again)? (?:in|after)|\bwait(?: for)?)"
    r" ((?:\d+(?:\.\d+)? ?(?:ms|seconds?|sec|s|minutes?|min|m|h)(?![a-z]) ?)+)",
    re.I,
)
_CHINESE = re.compile(r"(\d+(?:\.\d+)?) ?(毫秒|秒|分钟|小时)[之以]?后")
_CHINESE_UNITS = {"毫秒": 0.001, "秒": 1, "分钟": 60, "小时": 3600}


def _in_words(words: str) -> float | None:
    """`Please try again in 7m12.5s.` `请在 3 秒后重试`"""
    if found := _WORDS.search(words):
        return _duration(found.group(1))
    chinese = _CHINESE.search(words)
    return float(chinese.group(1)) * _CHINESE_UNITS[chinese.group(2)] if chinese else None


def _duration(text: str) -> float:
    """`7m12.5s`"""
    parts = re.findall(r"(\d+(?:\.\d+)?) ?(ms|seconds?|sec|s|minutes?|min|m|h)", text, re.I)
    return sum(float(number) * _UNITS[unit.lower()] for number, unit in parts)


def _new_window(headers: Mapping[str, str]) -> float | None:
    """When what is used up comes back, by the headers that OpenAI and Groq send with every answer."""
    waits = [
        _duration(headers.get(f"x-ratelimit-reset-{kind}", ""))
        for kind in ("requests", "tokens")
        if headers.get(f"x-ratelimit-remaining-{kind}") == "0"
    ]
    return max(waits) if any(waits) else None
