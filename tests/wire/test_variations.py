"""More of the same kinds as the cases beside this file, told in Python: other shapes, other words, other orders."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.agent.llm.serving import DONE, call_delta, calls, delta, event, refuses, says, unless
from tests.wire.__main__ import run
from tests.wire.serving import Replay

Case = dict[str, Any]

TEXT = {"type": "string"}
NOTED = says("Noted.")
PIXEL = {"image_png_base64": "iVBORw0KGgo="}


def tool(name: str, properties: dict[str, Any], *required: str) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": list(required)}
    return {"type": "function", "function": {"name": name, "description": name, "parameters": parameters}}


READ = tool("read_file", {"path": TEXT, "limit": {"type": "integer"}}, "path")
WEATHER = tool("get_weather", {"city": TEXT}, "city")
PING = tool("ping", {})


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return calls(name, json.dumps(arguments))


def variation(
    id: str,
    *answers: Any,
    first: Any = None,
    text: str = "Noted.",
    requests: Any = None,
    ends: Any = None,
    **fields: Any,
) -> Case:
    """A case: its answers, what is expected of the first one, and how the run must end."""
    run_: dict[str, Any] = {"text": text} if ends is None else dict(ends)
    if requests is not None:
        run_["requests"] = requests
    opening, *others = answers
    case = {"id": id, "title": id, "kind": "variation", "source": ["own/case#1"], "prompt": "Please go on."}
    return {**case, "response": opening, "then": others, "expect": {**(first or {}), "run": run_}, **fields}


def asks(content: str = "Is it open?") -> dict[str, Any]:
    return {"role": "user", "content": content}


def says_calls(*entries: tuple[str, str, str]) -> dict[str, Any]:
    made = [{"id": i, "type": "function", "function": {"name": n, "arguments": a}} for i, n, a in entries]
    return {"role": "assistant", "content": None, "tool_calls": made}


def result(id: str, content: Any = "yes") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": content}


CLEAN = {**NOTED, "require_clean": True}
READ_X = ("x", "read_file", '{"path":"b"}')
LONG = [
    asks("Q " * 400),
    {"role": "assistant", "content": "A " * 400},
    asks("R " * 400),
    {"role": "assistant", "content": "B"},
]
SMALLER = [{"request": -1, "smaller_than": 0}]


def gap(seconds: float) -> list[dict[str, Any]]:
    return [{"request": 1, "min_gap_s": seconds}]


HISTORY = [
    variation("history-orphan-result", CLEAN, tools=[READ], history=[asks(), result("zz")], requests=1),
    variation("history-late-result", CLEAN, tools=[READ], history=[asks(), says_calls(READ_X), asks(), result("x")], requests=1),
    variation(
        "history-same-id-twice",
        CLEAN,
        tools=[READ],
        history=[asks(), says_calls(READ_X), result("x"), says_calls(READ_X), result("x")],
        requests=1,
    ),
    variation(
        "history-broken-arguments",
        CLEAN,
        tools=[READ],
        history=[asks(), says_calls(("x", "read_file", '{"path":')), result("x")],
        requests=1,
    ),
    variation("history-empty-answers", CLEAN, history=[asks(), {"role": "assistant", "content": " "}, asks()], requests=1),
    variation(
        "history-answers-in-a-row",
        unless(NOTED, [{"path": "messages[2:3][*].role", "equals": "user"}], refuses(400, "roles must alternate")),
        history=[asks(), {"role": "assistant", "content": "x"}, {"role": "assistant", "content": "y"}],
        requests=1,
    ),
    variation(
        "history-user-after-tool",
        call("ping"),
        unless(NOTED, [{"path": "messages[-2].role", "equals": "assistant"}], refuses(400, "Unexpected role 'user' after role 'tool'")),
        tools=[PING],
        tool_results={"ping": {"sleep_s": 30}},
        script=[{"say": "Survey."}, {"cancel_when_tool_starts": "ping"}, {"say": "And?"}],
        requests=3,
    ),
    variation(
        "history-blank-result",
        call("ping"),
        unless(NOTED, [{"path": "messages[-1].content", "matches": "\\S"}], refuses(400, "chat content is empty")),
        tools=[PING],
        tool_results={"ping": " \n"},
        requests=2,
    ),
    variation(
        "history-image-refused",
        call("ping"),
        unless(NOTED, [{"path": "messages[-1].role", "equals": "tool"}], refuses(400, "This model does not support image input")),
        tools=[PING],
        tool_results={"ping": PIXEL},
        requests=3,
    ),
    variation(
        "history-one-call-at-a-time",
        {"stream": [event(delta(tool_calls=[
            {"index": 0, "id": "a", "function": {"name": "ping", "arguments": "{}"}},
            {"index": 1, "id": "b", "function": {"name": "read_file", "arguments": '{"path":"x"}'}},
        ])), event(delta("tool_calls")), DONE]},
        unless(NOTED, [{"path": "messages[*].tool_calls[1]", "absent": True}], refuses(400, "This model only supports single tool-calls at once!")),
        tools=[PING, READ],
        requests=3,
    ),
]  # fmt: skip

REQUESTS = [
    variation(
        "request-stream-options",
        unless(NOTED, [{"path": "stream_options", "absent": True}], refuses(400, "Unknown parameter: stream_options")),
        requests=2,
    ),
    variation(
        "request-names-in-any-script",
        {"stream": [event(call_delta("@@TOOL1@@", '{"city":"x"}', index=0, id="a")), event(call_delta("@@TOOL0@@", '{"ort":"y"}', index=1, id="b")), event(delta("tool_calls")), DONE]},
        NOTED,
        tools=[tool("wetter.abfrage", {"ort": TEXT}, "ort"), tool("天气", {"city": TEXT}, "city")],
        first={"tool_calls": [{"name": "天气", "arguments": {"city": "x"}}, {"name": "wetter.abfrage", "arguments": {"ort": "y"}}]},
        requests=2,
    ),
    variation(
        "request-tool-choice-refused",
        call("read_file", path="a"),
        unless(says("Sum."), [{"path": "tool_choice", "absent": True}], refuses(400, "tool_choice none is not supported")),
        tools=[READ],
        settings={"max_steps": 1},
        ends={"text": "Sum.", "stop": ["step_limit"]},
        requests={"max": 4},
    ),
    variation(
        "request-tool-choice-ignored",
        call("read_file", path="a"),
        unless(says("Sum."), [{"path": "tools", "absent": True}], call("read_file", path="b")),
        tools=[READ],
        settings={"max_steps": 1},
        after="repeat",
        ends={"text": "Sum.", "stop": ["step_limit"]},
        requests={"max": 4},
    ),
    variation(
        "request-no-tools",
        unless(says("I cannot."), [{"path": "tools", "absent": True}], refuses(400, "library/gemma does not support tools")),
        tools=[READ],
        text="I cannot.",
        requests={"max": 3},
    ),
    variation(
        "request-no-tools-and-no-schema",
        unless(
            says("Hello."),
            [{"path": "tools", "absent": True}, {"path": "response_format", "absent": True}],
            refuses(400, "tools and response_format are not supported"),
        ),
        tools=[READ],
        text="Hello.",
        requests={"max": 5},
    ),
    variation(
        "request-no-system-role",
        unless(NOTED, [{"path": "messages[*].role", "none_equals": "system"}], refuses(400, "System role not supported")),
        history=[{"role": "system", "content": "You keep the light."}],
        request_expectation=[{"request": -1, "path": "messages[0].content", "contains": "keep the light"}],
        requests=2,
    ),
]  # fmt: skip

RETRIES = [
    variation("retry-date", refuses(429, "slow", {"retry-after": "@@DATE+1@@"}), NOTED, request_expectation=gap(0.9), first={"error": "rate_limited"}, requests=2),
    variation("retry-milliseconds", refuses(429, "slow", {"retry-after-ms": "700"}), NOTED, request_expectation=gap(0.7), requests=2),
    variation("retry-in-words", refuses(429, "Please try again in 1.2s."), NOTED, request_expectation=gap(1.2), requests=2),
    variation("retry-unavailable", refuses(503, "busy", {"retry-after": "1"}), NOTED, request_expectation=gap(0.95), first={"error": "overloaded"}, requests=2),
    variation("retry-cut-before-anything", {"stream": [": x\n\n"], "end": "abort"}, NOTED, first={"error": "connection_lost"}, requests=2),
    variation("retry-no-first-token", {**says("late"), "first_delay_ms": 3000}, NOTED, settings={"first_token_timeout_s": 1}, first={"error": "timeout"}, requests=2),
    variation("retry-only-comments", {"stream": [": x\n\n"], "end": "hang", "hang_ms": 6000}, NOTED, settings={"first_token_timeout_s": 1, "idle_timeout_s": 1}, first={"error": "timeout"}, requests=2),
    variation("retry-after-a-tool", call("ping"), {"stream": [event(delta(content="Half"))], "end": "abort"}, NOTED, tools=[PING], ends={"text": "Noted.", "executed": [{"name": "ping", "arguments": {}}]}, requests=3),
    variation("retry-limit-in-stream", {"stream": [event({"error": {"message": "Rate limit exceeded", "code": 429}})]}, NOTED, first={"error": "rate_limited"}, requests=2),
    variation("retry-not-for-credits-in-stream", {"stream": [event({"error": {"message": "Insufficient credits", "code": 402}})]}, after="repeat", ends={"error": "quota_exhausted"}, requests=1),
    variation("retry-server-error", refuses(500, "Internal server error"), NOTED, first={"error": "provider_error"}, requests=2),
    variation("malformed-event", {"stream": ['data: {"choices":[{"delta":{"con\n\n', DONE], "malformed": True}, NOTED, first={"error": "malformed_response"}, requests=2),
    variation("malformed-page", {"headers": {"content-type": "text/html"}, "body": "<html><title>Sign in</title></html>"}, NOTED, first={"error": "malformed_response"}, requests=2),
]  # fmt: skip

ENDINGS = [
    variation("end-done-without-finish", {"stream": [event(delta(content="Hi")), DONE]}, text="Hi", first={"text": "Hi", "finish": "stop"}, requests=1),
    variation("end-nothing-but-done", {"stream": [DONE]}, NOTED, requests=2),
    variation("end-filtered-request", refuses(400, "The prompt was filtered", code="content_filter"), ends={"error": "content_filtered"}, requests=1),
    variation("end-cut-in-reasoning", {"stream": [event(delta(reasoning_content="hm")), event(delta("length")), DONE]}, ends={"error": "output_truncated"}, requests=1),
    variation("end-empty-twice", says(""), after="repeat", ends={"error": "empty_answer"}, requests={"max": 3}),
    variation("end-white-space", says("\n\n"), NOTED, requests=2),
    variation("end-circle-of-two", *[call("ping"), call("read_file", path="a")] * 8, tools=[READ, PING], settings={"max_steps": 60}, after="repeat", ends={"stop": ["loop"]}, requests={"max": 15}),
    variation("overflow-by-status", {"status": 413, "body": {"error": {"message": "Request too large: Limit 6000, Requested 9000"}}}, NOTED, history=LONG, request_expectation=SMALLER, first={"error": "context_overflow"}, after="repeat", requests={"max": 3}),
    variation("overflow-in-stream", {"stream": [event({"error": {"message": "maximum context length is 4096 tokens", "code": "context_length_exceeded"}})]}, NOTED, history=LONG, request_expectation=SMALLER, after="repeat", requests={"max": 3}),
    variation("overflow-for-ever", refuses(400, "prompt is too long: 9000 tokens > 100 maximum"), after="repeat", ends={"error": "context_overflow"}, requests={"max": 5}),
]  # fmt: skip

REPLIES = [
    variation("reasoning-wanted-back", {"stream": [event(delta(reasoning="It has it.")), *call("read_file", path="a")["stream"]]}, unless(NOTED, [{"path": "messages[-2].reasoning", "equals": "It has it."}], refuses(400, "reasoning must be passed back with tool results")), tools=[READ], requests=3),
    variation("reasoning-details-wanted-back", {"stream": [event(delta(reasoning="R", reasoning_details=[{"type": "reasoning.encrypted", "data": "zz", "index": 0}])), *call("read_file", path="a")["stream"]]}, unless(NOTED, [{"path": "messages[-2].reasoning_details[0].data", "equals": "zz"}], refuses(400, "missing reasoning_details")), tools=[READ], requests=2),
    variation("text-two-calls", says('See.\n<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}}</tool_call>\n<tool_call>{"name": "get_weather", "arguments": {"city": "Bern"}}</tool_call>'), NOTED, tools=[WEATHER], first={"text": "See.", "finish": "tool_calls"}, ends={"text": "Noted.", "executed": [{"name": "get_weather", "arguments": {"city": c}} for c in ("Oslo", "Bern")]}, requests=2),
    variation("text-call-cut", says('<tool_call>{"name": "get_weather", "arguments": {"city": "Os', finish="length"), NOTED, tools=[WEATHER], first={"finish": "length"}, ends={"text": "Noted.", "executed": []}),
    variation("surrogate-in-arguments", {"stream": [event(call_delta("read_file", '{"path": "a\\ud83c"}', index=0, id="a")), event(delta("tool_calls")), DONE]}, CLEAN, tools=[READ], requests=2),
    variation("surrogates-in-two-pieces", {"stream": [event(delta(content="a \ud83d")), event(delta(content="\ude00 b")), event(delta("stop")), DONE]}, text="a 😀 b", first={"text": "a 😀 b"}),
]  # fmt: skip
# ruff: noqa: E501 one case a line

CASES = {case["id"]: case for case in [*HISTORY, *REQUESTS, *RETRIES, *ENDINGS, *REPLIES]}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    place = tmp_path_factory.mktemp("cases")
    for name, case in CASES.items():
        (place / f"{name}.json").write_text(json.dumps(case), encoding="utf-8")
    with Replay(place) as server:
        return asyncio.run(run(server, list(server.cases.values()), tmp_path_factory.mktemp("runs")))


@pytest.mark.parametrize("name", CASES)
def test_variation(name: str, results: dict[str, list[str]]) -> None:
    assert results[name] == []
