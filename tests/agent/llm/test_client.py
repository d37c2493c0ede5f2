"""The client in front of a server on a real socket."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from pathlib import Path
from typing import Any

import pytest

from agent.errors import ContentFiltered, ContextOverflow, ModelError
from agent.events import CallDelta, ReasoningDelta, Replied, RequestSent, Retrying, TextDelta
from agent.llm.client import OpenAIModel
from agent.llm.kept import Kept
from agent.llm.model import Request
from agent.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from tests.agent.llm.serving import DONE, KEY, TOOLS, call_delta, calls, delta, event, refuses, says, serving, unless


def replied(events: list[Any]) -> Replied:
    assert isinstance(events[-1], Replied)
    return events[-1]


def codes(events: list[Any]) -> list[str]:
    return [e.code for e in events if isinstance(e, Retrying)]


async def test_the_request_told_is_the_request_sent(tmp_path: Path) -> None:
    async with serving(tmp_path, says("Hel", "lo"), temperature=0.5, max_output_tokens=9) as served:
        events = await served.ask(Request("Be brief.", (UserMessage("hi"),), TOOLS))
        [sent] = [e for e in events if isinstance(e, RequestSent)]
        assert {**sent.body, "messages": list(sent.messages)} == served.bodies[0]
        assert [e.text for e in events if isinstance(e, TextDelta)] == ["Hel", "lo"]
        assert replied(events).message == AssistantMessage("Hello")
        assert KEY not in repr(events) and KEY not in repr(served.model.server)


async def test_what_is_learned_is_remembered(tmp_path: Path) -> None:
    refusal = refuses(
        400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.", param="max_tokens"
    )
    strict = unless(says("ok"), [{"path": "max_tokens", "absent": True}], refusal)
    async with serving(tmp_path, strict, repeat=True, max_output_tokens=300) as served:
        assert codes(await served.ask()) == ["adapting"]
        assert codes(await served.ask()) == []
        assert [b.get("max_completion_tokens") for b in served.bodies] == [None, 300, 300]


async def test_several_wishes_are_met_one_after_another(tmp_path: Path) -> None:
    roles = unless(
        says("ok"),
        [{"path": "temperature", "absent": True}],
        refuses(400, "Unsupported value: 'temperature' does not support 0.2"),
    )
    strict = unless(roles, [{"path": "stream_options", "absent": True}], refuses(422, "Unknown field stream_options"))
    strict["require"] += roles["require"]
    strict["else"] = {**refuses(400, "Unsupported value: 'temperature', and stream_options is unknown")}
    async with serving(tmp_path, strict, temperature=0.2) as served:
        assert replied(await served.ask()).message.text == "ok"


async def test_a_refusal_that_teaches_nothing_is_told(tmp_path: Path) -> None:
    async with serving(tmp_path, refuses(400, f"no, {KEY}, I like turtles")) as served:
        with pytest.raises(ModelError) as stop:
            await served.ask()
        assert stop.value.fault is not None and stop.value.fault.code == "bad_request"
        assert "turtles" in stop.value.fault.detail and KEY not in repr(stop.value.fault)


async def test_a_broken_stream_is_thrown_away_and_asked_again(tmp_path: Path) -> None:
    cut = {"stream": [event(delta(content="The bell")), event(call_delta("ping", "{", index=0))], "end": "abort"}
    async with serving(tmp_path, cut, says("The bell rings.")) as served:
        events = await served.ask()
        assert codes(events) == ["connection_lost"]
        assert replied(events).message == AssistantMessage("The bell rings.")
        assert served.bodies[0] == served.bodies[1]


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ({"stream": [event(delta(content="half"))]}, "incomplete_stream"),
        ({"stream": ['data: {"choices": [{"delta"\n\n'], "malformed": True}, "malformed_response"),
        ({"body": "<html><title>Login</title></html>", "headers": {"content-type": "text/html"}}, "malformed_response"),
        ({"body": "", "headers": {"content-type": "text/event-stream"}}, "incomplete_stream"),
        ({"body": {"error": {"message": "busy", "code": 503}}}, "overloaded"),
        ({"stream": [event({"error": {"message": "boom"}})]}, "provider_error"),
        ({"stream": [event(delta("network_error"))]}, "provider_error"),
        (
            {"stream": [event({"choices": -1}), event(delta(content=json.loads("[" * 300 + "]" * 300)))]},
            "incomplete_stream",
        ),
        ({"stream": [event(delta(reasoning_details=json.loads("[" * 900 + "]" * 900)))]}, "malformed_response"),
        (refuses(500, "oops"), "provider_error"),
    ],
)
async def test_every_way_to_fail_is_named_and_passes(tmp_path: Path, answer: Any, code: str) -> None:
    async with serving(tmp_path, answer, says("fine")) as served:
        events = await served.ask()
        assert codes(events) == [code]
        assert replied(events).message.text == "fine"


async def test_patience_ends(tmp_path: Path) -> None:
    async with serving(tmp_path, {"stream": [event(delta(content="half"))]}, repeat=True) as served:
        with pytest.raises(ModelError) as stop:
            await served.ask()
        assert stop.value.fault is not None and stop.value.fault.code == "incomplete_stream"
        assert len(served.requests) == 3


async def test_silence_has_two_measures(tmp_path: Path) -> None:
    late = {**says("late"), "first_delay_ms": 4000}
    hangs = {"stream": [event(delta(content="half"))], "end": "hang", "hang_ms": 4000}
    async with serving(tmp_path, late, hangs, says("fine"), first_token_timeout_s=1, idle_timeout_s=0.5) as served:
        events = await served.ask()
        assert codes(events) == ["timeout", "timeout"] and replied(events).message.text == "fine"
    async with serving(tmp_path, hangs, says("fine"), first_token_timeout_s=3, idle_timeout_s=0.5) as served:
        assert codes(await served.ask()) == ["timeout"]


async def test_comments_keep_a_line_alive_but_not_for_ever(tmp_path: Path) -> None:
    comments = {"stream": [": wait\n\n"] * 100, "delay_ms": 200}
    async with serving(tmp_path, comments, says("fine"), first_token_timeout_s=1, idle_timeout_s=1) as served:
        events = await served.ask()
        assert codes(events) == ["timeout"] and replied(events).message.text == "fine"
    slow = {"stream": [": wait\n\n"] * 6 + says("fine")["stream"], "delay_ms": 200}
    async with serving(tmp_path, slow, first_token_timeout_s=5, idle_timeout_s=0.8) as served:
        assert codes(await served.ask()) == []


async def test_an_answer_is_complete_although_the_line_stays_open(tmp_path: Path) -> None:
    hangs = {"stream": [event(delta(content="done")), event(delta("stop"))], "end": "hang", "hang_ms": 20000}
    async with serving(tmp_path, hangs, idle_timeout_s=0.5) as served:
        assert replied(await served.ask()).message.text == "done"


async def test_the_pause_is_told_before_it_is_waited(tmp_path: Path) -> None:
    async with serving(tmp_path, refuses(429, "slow down", {"retry-after": "30"}), says("x")) as served:
        stream = served.model.stream(Request("", (UserMessage("hi"),)))
        seen = [await anext(stream), await anext(stream)]
        assert isinstance(seen[1], Retrying) and seen[1].seconds >= 30
        waiting = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        waiting.cancel()  # Stop works while it waits
        with contextlib.suppress(asyncio.CancelledError):
            await waiting
        await stream.aclose()


async def test_stop_leaves_no_line_open(tmp_path: Path) -> None:
    hangs = {"stream": [event(delta(content="half"))], "end": "hang", "hang_ms": 20000}
    async with serving(tmp_path, hangs) as served:

        async def read() -> None:
            await served.ask()

        task = asyncio.create_task(read())
        deadline = time.monotonic() + 10
        while not served.requests and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        while not served.requests[0].get("t_end") and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        assert served.requests[0]["client_left"]


async def test_money_is_not_asked_for_twice(tmp_path: Path) -> None:
    gone = refuses(429, "You exceeded your current quota", code="insufficient_quota", type="insufficient_quota")
    async with serving(tmp_path, gone, repeat=True) as served:
        with pytest.raises(ModelError):
            await served.ask()
        assert len(served.requests) == 1


async def test_too_long_and_filtered_are_said_in_their_own_way(tmp_path: Path) -> None:
    long = refuses(
        400, "This model's maximum context length is 4096 tokens, you sent 9000", code="context_length_exceeded"
    )
    async with serving(tmp_path, long) as served:
        with pytest.raises(ContextOverflow) as stop:
            await served.ask()
        assert stop.value.times_too_long == pytest.approx(2.2, 0.01)
    async with serving(tmp_path, refuses(400, "filtered", code="content_filter")) as served:
        with pytest.raises(ContentFiltered):
            await served.ask()


async def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    async with serving(tmp_path, says("x")) as served:
        gone = served.model.server
    model = OpenAIModel(gone)
    events: list[Any] = []
    with pytest.raises(ModelError) as stop:
        async for one in model.stream(Request("", (UserMessage("hi"),))):
            events.append(one)
    await model.close()
    assert stop.value.fault is not None and stop.value.fault.code == "unreachable"
    assert codes(events) == ["unreachable", "unreachable"]


async def test_words_were_asked_for_and_calls_came(tmp_path: Path) -> None:
    async with serving(tmp_path, calls("ping"), says("so far")) as served:
        history = (
            UserMessage("hi"),
            AssistantMessage("", "", (ToolCall("a", "ping", "{}"),)),
            ToolMessage("a", "ping", "pong"),
        )
        events = await served.ask(Request("", history, TOOLS, tool_choice="none"))
        assert replied(events).message == AssistantMessage("so far")
        assert served.bodies[0]["tool_choice"] == "none" and "tools" not in served.bodies[1]


async def test_a_call_the_server_could_not_read(tmp_path: Path) -> None:
    failed = refuses(
        400, "Failed to call a function.", code="tool_use_failed", failed_generation="<function=ping>{}</function>"
    )
    async with serving(tmp_path, failed, repeat=True) as served:
        events = await served.ask()
        [call] = replied(events).message.tool_calls
        assert call.name == "ping" and len(served.requests) == 3


async def test_plain_json_where_events_were_asked_for(tmp_path: Path) -> None:
    message = {"role": "assistant", "content": "Hi", "reasoning_content": "hm"}
    whole = {
        "body": {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": {"prompt_tokens": 3}}
    }
    async with serving(tmp_path, whole) as served:
        reply = replied(await served.ask())
        assert (reply.message.text, reply.message.reasoning) == ("Hi", "hm")
        assert reply.usage is not None and reply.usage.input_tokens == 3


async def test_reasoning_details_go_back_as_they_came(tmp_path: Path) -> None:
    pieces = [{"type": "reasoning.text", "text": t, "index": 0, "format": "x"} for t in ("I ", "see.")]
    signed = {"type": "reasoning.text", "index": 0, "signature": "s1", "format": "x"}
    chunks = [event(delta(reasoning=p["text"], reasoning_details=[p])) for p in pieces]
    chunks += [event(delta(reasoning_details=[signed])), *calls("ping")["stream"]]
    async with serving(tmp_path, {"stream": chunks}, says("ok")) as served:
        events = await served.ask()
        reply = replied(events).message
        assert reply.reasoning == "I see." == "".join(e.text for e in events if isinstance(e, ReasoningDelta))
        await served.ask(Request("", (UserMessage("hi"), reply, ToolMessage("call_1", "ping", "pong")), TOOLS))
        sent = served.bodies[1]["messages"][1]
        assert sent["reasoning_details"] == [{**pieces[0], "text": "I see.", "signature": "s1"}]


def test_kept_fields_are_whole_however_they_come() -> None:
    kept = Kept()
    for text in ("1", "10", " is"):
        kept.add({"reasoning_details": [{"index": 0, "text": text, "signature": None}]})
    for text in ("Look", "Look at", "Look at the page"):
        kept.add({"reasoning_details": [{"index": 1, "text": text, "signature": "s"}]})
    kept.add({"reasoning_details": [{"index": 1, "signature": None}], "extra_content": {"score": float("nan")}})
    assert kept.close() == {
        "reasoning_details": [
            {"index": 0, "text": "110 is", "signature": None},
            {"index": 1, "text": "Look at the page", "signature": "sss"},
        ],
        "extra_content": {"score": None},
    }


async def test_done_without_a_reason_is_an_end(tmp_path: Path) -> None:
    async with serving(tmp_path, {"stream": [event(delta(content="Hi")), DONE]}) as served:
        assert replied(await served.ask()).finish == "stop"


async def test_models_are_listed(tmp_path: Path) -> None:
    async with serving(tmp_path, says("x")) as served:
        assert await served.model.list_models() == ["case"]


async def test_deltas_of_calls_are_told(tmp_path: Path) -> None:
    async with serving(tmp_path, calls("get_weather", '{"city": "Oslo"}')) as served:
        events = await served.ask()
        assert [e for e in events if isinstance(e, CallDelta)] == [CallDelta(0, "get_weather", '{"city": "Oslo"}')]
