"""Was it what the case expects? See README.md beside this file for what the fields mean."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from agent.events import Event, ReasoningDelta, Replied, RequestSent, Retrying, TextDelta, TurnEnded
from agent.messages import AssistantMessage, UserMessage
from tests.wire.playing import Case, Played

WORDS = {
    "wrong_key": "bad_request",
    "forbidden": "bad_request",
    "unknown_model": "bad_request",
    "adapting": "bad_request",
    "unreachable": "connection_lost",
    "tls": "connection_lost",
}
"""Our classes in the words of the cases, where they are not the same."""

FINISH_OF_ERROR = {"incomplete_stream": "none", "connection_lost": "none", "timeout": "none", "provider_error": "error"}


def judge(case: Case, played: Played) -> list[str]:
    """Everything that is not as expected."""
    expect = case["expect"]
    wrong = list(played.problems)
    if case.get("endpoint") != "images":
        wrong += judge_first(expect, played)
    run = expect.get("run") or {}
    wrong += judge_run(run, played)
    if options := run.get("any_of"):
        faults = [judge_run(option, played) for option in options]
        if all(faults):
            wrong += [f"none of any_of: {'; '.join(fault)}" for fault in faults]
    return wrong


# ------------------------------------------------------------------ the first answer alone


def judge_first(expect: Mapping[str, Any], played: Played) -> list[str]:
    found = first_answer(played)
    wrong = [
        f"first answer, {key}: expected {expect[key]!r}, found {found.get(key)!r}"
        for key in ("text", "reasoning", "error", "finish")
        if key in expect and _stripped(expect[key]) != _stripped(found.get(key))
    ]
    if "tool_calls" in expect:
        wrong += judge_calls(expect["tool_calls"], found.get("tool_calls", ()))
    for key, value in (expect.get("usage") or {}).items():
        usage = found.get("usage")
        names = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens"}
        if key in names and getattr(usage, names[key], None) != value:
            wrong.append(f"usage {key}: expected {value}, found {usage}")
    return wrong


def first_answer(played: Played) -> dict[str, Any]:
    """What was made of the first answer: from the request that was not turned down to the end of that attempt."""
    refused = next((i for i, request in enumerate(played.requests) if not request["refused"]), 0)
    events = _after_request(played.events, refused)
    text = "".join(e.text for e in events if isinstance(e, TextDelta))
    reasoning = "".join(e.text for e in events if isinstance(e, ReasoningDelta))
    found: dict[str, Any] = {"text": text, "reasoning": reasoning, "error": None}
    last = events[-1] if events else None
    if isinstance(last, Replied):
        message = last.message
        found |= {"text": message.text, "reasoning": message.reasoning, "tool_calls": message.tool_calls}
        found |= {"finish": last.finish, "usage": last.usage}
    elif isinstance(last, Retrying):
        found["error"] = WORDS.get(last.code, last.code)
    elif isinstance(last, TurnEnded):
        found["error"] = _error(last)
    found.setdefault("finish", FINISH_OF_ERROR.get(str(found["error"])))
    return found


def _after_request(events: Iterable[Event], number: int) -> list[Event]:
    attempt: list[Event] = []
    sent = -1
    for event in events:
        if isinstance(event, RequestSent):
            sent += 1
        elif sent == number:
            attempt.append(event)
            if isinstance(event, (Replied, Retrying, TurnEnded)):
                break
    return attempt


def judge_calls(expected: list[Mapping[str, Any]], found: Any) -> list[str]:
    if len(expected) != len(found):
        return [f"expected {len(expected)} calls, found {[(c.name, c.arguments) for c in found]}"]
    wrong = []
    ids = [call.id for call in found]
    if len(set(ids)) != len(ids) or not all(ids):
        wrong.append(f"ids {ids}")
    for want, call in zip(expected, found, strict=True):
        if want.get("id") is not None and want["id"] != call.id:
            wrong.append(f"id {call.id!r}, expected {want['id']!r}")
        if want["name"] != call.name:
            wrong.append(f"name {call.name!r}, expected {want['name']!r}")
        if want.get("invalid"):
            if call.fault is None:
                wrong.append(f"{call.name} should be invalid, found {call.arguments}")
        elif "arguments" in want and json.loads(call.arguments) != want["arguments"]:
            wrong.append(f"arguments {call.arguments}, expected {want['arguments']}")
    return wrong


# ------------------------------------------------------------------ the whole run


def judge_run(run: Mapping[str, Any], played: Played) -> list[str]:
    ended = next((e for e in reversed(played.events) if isinstance(e, TurnEnded)), None)
    text = final_text(played)
    wrong = []
    if "text" in run and _stripped(run["text"]) != text:
        wrong.append(f"text {text!r}, expected {run['text']!r}")
    if run.get("text_not_empty") and not text:
        wrong.append("the text is empty")
    if "executed" in run and run["executed"] != played.executed:
        wrong.append(f"executed {played.executed}, expected {run['executed']}")
    if "executed_max" in run and len(played.executed) > run["executed_max"]:
        wrong.append(f"executed {len(played.executed)} calls, {run['executed_max']} allowed")
    if "requests" in run:
        wrong += _judge_count(run["requests"], len(played.requests))
    if "stop" in run and (ended is None or ended.reason not in run["stop"]):
        wrong.append(f"stopped by {ended}, expected {run['stop']}")
    if "error" in run and (ended is None or _error(ended) != run["error"]):
        wrong.append(f"ended by {ended}, expected {run['error']}")
    return wrong


def final_text(played: Played) -> str:
    """What the last turn left as the model's last words."""
    words = ""
    for message in played.messages:
        if isinstance(message, UserMessage) and message.source == "person":
            words = ""
        elif isinstance(message, AssistantMessage):
            words = message.text
    return words.strip()


def _judge_count(wanted: Any, count: int) -> list[str]:
    most = wanted["max"] if isinstance(wanted, dict) else wanted
    least = 0 if isinstance(wanted, dict) else wanted
    return [] if least <= count <= most else [f"{count} requests, expected {wanted}"]


def _error(ended: TurnEnded) -> str | None:
    if ended.reason == "error" and ended.fault is not None:
        return WORDS.get(ended.fault.code, ended.fault.code)
    return ended.reason if ended.reason not in ("answered", "stopped") else None


def _stripped(value: Any) -> Any:
    return value.strip() if isinstance(value, str) else value
