"""The JSON action protocol: reading actions, and the conversation around them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent.events import CallDelta, Replied, RequestSent, Retrying, TextDelta
from agent.llm.actions import action_schema, read_action
from agent.llm.model import Request
from agent.llm.names import Names
from agent.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from tests.agent.llm.serving import DONE, TOOLS, WEATHER, delta, event, refuses, says, serving, unless

NAMES = Names(TOOLS)
TOOL = '{"action": "tool", "tool": "get_weather", "args": {"city": "Oslo"}}'

TOOL_ACTIONS = [
    TOOL,
    f"```json\n{TOOL}\n```",
    f"I will look.\n{TOOL}\nThen I will tell you.",
    f"{TOOL}\n{TOOL}",
    f'{TOOL}\n{{"action": "final", "answer": "sunny"}}',
    "{'action': 'tool', 'tool': 'get_weather', 'args': {'city': 'Oslo'}}",
    '{"action": "tool", "tool": "get_weather", "args": {"city": "Oslo"}',
    '{"tool": "get_weather", "args": {"city": "Oslo"}}',
    '{"action": "get_weather", "action_input": {"city": "Oslo"}}',
    '{"name": "get_weather", "arguments": {"city": "Oslo"}}',
    '{"action": "tool", "name": "get_weather", "arguments": "{\\"city\\": \\"Oslo\\"}"}',
    '<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}}</tool_call>',
    '{"thought": "hm", "action": "tool", "tool": "get_weather", "args": {"city": "Oslo"}}',
]

FINAL_ACTIONS = [
    ('{"action": "final", "answer": "Sunny."}', "Sunny."),
    ('{"action": "final"}', ""),
    ('{"tool": "none"}', ""),
    ('{"action": "final", "text": "Sunny {really}."}', "Sunny {really}."),
    ('```\n{"action": "final_answer", "action_input": "Sunny."}\n```', "Sunny."),
    ('{"answer": "Sunny."}', "Sunny."),
    ('{"action": "final", "answer": "Sunn', "Sunn"),
]


@pytest.mark.parametrize("text", TOOL_ACTIONS)
def test_a_tool_is_read_out_of_what_stands_around_it(text: str) -> None:
    action = read_action(text, NAMES)
    assert action is not None and action.kind == "tool"
    assert NAMES.real(action.call.name) == "get_weather"
    arguments = json.loads(action.call.arguments)
    assert (json.loads(arguments) if isinstance(arguments, str) else arguments) == {"city": "Oslo"}


@pytest.mark.parametrize(("text", "answer"), FINAL_ACTIONS)
def test_an_end_is_read(text: str, answer: str) -> None:
    action = read_action(text, NAMES)
    assert action is not None and (action.kind, action.text) == ("final", answer)


@pytest.mark.parametrize("text", ["Sunny.", "", "{}", '{"a": 1}', '{"action": "dance"}', '{"action": "tool"}', "[1]"])
def test_what_is_no_action(text: str) -> None:
    assert read_action(text, NAMES) is None


@pytest.mark.parametrize(
    "text", [TOOL, TOOL[:-1], '{"action": "tool", "tool": "write_file", "args": {"path": "a", "co']
)
def test_a_tools_action_that_may_be_cut_is_none(text: str) -> None:
    assert read_action(text, NAMES, cut=True) is None


def test_the_schema_has_a_branch_a_tool_and_one_for_the_end() -> None:
    schema = action_schema(TOOLS, NAMES)
    assert [b["properties"]["tool"]["const"] for b in schema["anyOf"][:-1]] == [tool.name for tool in TOOLS]
    assert schema["anyOf"][0]["properties"]["args"] == WEATHER.parameters


def kinds(events: list[Any]) -> list[str]:
    return [type(e).__name__ for e in events]


async def test_a_decision_becomes_an_ordinary_call(tmp_path: Path) -> None:
    async with serving(tmp_path, says(TOOL[:30], TOOL[30:]), protocol="json") as served:
        events = await served.ask("How is Oslo?")
        assert kinds(events) == ["RequestSent", "CallDelta", "Replied"]
        assert events[1] == CallDelta(0, "get_weather", '{"city": "Oslo"}')
        [call] = events[-1].message.tool_calls
        assert (call.name, call.arguments, events[-1].finish) == ("get_weather", '{"city": "Oslo"}', "tool_calls")
        body = served.bodies[0]
        assert "tools" not in body and body["temperature"] == 0
        assert body["response_format"]["json_schema"]["schema"]["anyOf"]


async def test_after_the_result_it_decides_again_and_then_answers_in_words(tmp_path: Path) -> None:
    history = (
        UserMessage("How is Oslo?"),
        AssistantMessage("", "", (ToolCall("a", "get_weather", '{"city": "Oslo"}'),)),
        ToolMessage("a", "get_weather", "hail"),
    )
    async with serving(tmp_path, says('{"action": "final"}'), says("Ha", "il."), protocol="json") as served:
        events = await served.ask(Request("Be brief.", history, TOOLS))
        assert kinds(events) == ["RequestSent", "RequestSent", "TextDelta", "TextDelta", "Replied"]
        assert events[-1].message == AssistantMessage("Hail.")
        decide, answer = served.bodies
        assert "hail" in decide["messages"][-1]["content"] and "get_weather" in decide["messages"][0]["content"]
        assert "get_weather(" not in json.dumps(answer) and "response_format" not in answer
        assert answer["messages"][0] == {"role": "system", "content": "Be brief."}


async def test_the_same_call_again_is_taken_for_the_end(tmp_path: Path) -> None:
    history = (
        UserMessage("How is Oslo?"),
        AssistantMessage("", "", (ToolCall("a", "get_weather", '{"city": "Oslo"}'),)),
        ToolMessage("a", "get_weather", "hail"),
    )
    async with serving(tmp_path, says(TOOL), says("Hail."), protocol="json") as served:
        assert (await served.ask(Request("", history, TOOLS)))[-1].message == AssistantMessage("Hail.")


async def test_what_is_no_action_is_told_twice_and_then_shown(tmp_path: Path) -> None:
    async with serving(tmp_path, says("It is sunny."), repeat=True, protocol="json") as served:
        events = await served.ask()
        assert [e.code for e in events if isinstance(e, Retrying)] == ["malformed_response"] * 2
        assert events[-1].message.text == "It is sunny." and len(served.bodies) == 3
        told = served.bodies[2]["messages"]
        assert [m["role"] for m in told[1:]] == ["user", "assistant", "user", "assistant", "user"]
        assert "not what I asked for" in told[-1]["content"]


async def test_a_server_without_tools_is_asked_in_json(tmp_path: Path) -> None:
    no_tools = unless(says(TOOL), [{"path": "tools", "absent": True}], refuses(400, "m does not support tools"))
    async with serving(tmp_path, no_tools, says("All well.")) as served:
        events = await served.ask()
        assert [e.code for e in events if isinstance(e, Retrying)] == ["adapting"]
        assert events[-1].message.tool_calls[0].name == "get_weather"
        assert (await served.ask())[-1].message.text == "All well."
        assert len(served.bodies) == 3 and all("tools" not in b for b in served.bodies[1:])


async def test_a_server_that_enforces_nothing_is_asked_all_the_same(tmp_path: Path) -> None:
    plain = unless(
        says('{"action": "final", "answer": "Well."}'),
        [{"path": "response_format", "absent": True}],
        refuses(400, "response_format is not supported"),
    )
    async with serving(tmp_path, plain, protocol="json") as served:
        events = await served.ask()
        assert [e.text for e in events if isinstance(e, TextDelta)] == ["Well."]
        assert [e.body.get("response_format", {}).get("type") for e in events if isinstance(e, RequestSent)] == [
            "json_schema",
            "json_object",
            None,
        ]


async def test_a_model_that_keeps_printing_its_calls_is_asked_in_json(tmp_path: Path) -> None:
    printed = says('<tool_call>{"name": "ping", "arguments": {}}</tool_call>')
    async with serving(tmp_path, printed, printed, printed, says(TOOL)) as served:
        for _ in range(3):
            assert (await served.ask())[-1].message.tool_calls[0].name == "ping"
        assert (await served.ask())[-1].message.tool_calls[0].name == "get_weather"
        assert ["tools" in body for body in served.bodies] == [True, True, True, False]


async def test_tokens_of_both_requests_are_counted(tmp_path: Path) -> None:
    usage = {"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 2}}
    decide = {"stream": [event(delta(content='{"action": "final"}')), event(delta("stop")), event(usage), DONE]}
    answer = {"stream": [event(delta(content="Hi")), event(delta("stop")), event(usage), DONE]}
    async with serving(tmp_path, decide, answer, protocol="json") as served:
        reply = (await served.ask())[-1]
        assert isinstance(reply, Replied) and reply.usage is not None
        assert (reply.usage.input_tokens, reply.usage.output_tokens) == (20, 4)


@pytest.mark.parametrize(("said", "language"), [("奥斯陆天气如何？", "中文"), ("How is Oslo?", "in words")])
async def test_the_answer_is_asked_for_in_the_persons_language(tmp_path: Path, said: str, language: str) -> None:
    async with serving(tmp_path, says('{"tool": "none"}'), says("ok"), protocol="json") as served:
        await served.ask(said)
        assert language in served.bodies[1]["messages"][-1]["content"]
