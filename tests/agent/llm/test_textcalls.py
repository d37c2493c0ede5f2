"""Calls written as text, in many dialects, whole and a few characters at a time; and texts that only speak of calls."""

from __future__ import annotations

import json

import pytest

from agent.llm.arguments import read_arguments
from agent.llm.names import Names
from agent.llm.textcalls import TextCalls
from tests.agent.llm.serving import TOOLS

CALL = '{"name": "get_weather", "arguments": {"city": "Oslo"}}'
ARGS = '{"city": "Oslo"}'
TAGS = "<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n</function>"
STEP = '<steptml:invoke name="get_weather"><steptml:parameter name="city">Oslo</steptml:parameter></steptml:invoke>'
INVOKE = '<invoke name="get_weather">\n<parameter name="city">Oslo</parameter>\n</invoke>'

DIALECTS = [
    f"<tool_call>\n{CALL}\n</tool_call>",
    f"<tool_call>{CALL}",
    "<tool_call>\n{'name': 'get_weather', 'arguments': {'city': 'Oslo'}}\n</tool_call>",
    '<tool_call>{"name": "get_weather", "arguments": "{\\"city\\": \\"Oslo\\"}"}</tool_call>',
    '<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}</tool_call>',
    '<tool_call>{"name": "functions.get_weather", "parameters": {"city": "Oslo"}}</tool_call>',
    '<tool_call>{"get_weather": {"city": "Oslo"}}</tool_call>',
    '<tool_call>{"tool": "get_weather", "args": {"city": "Oslo"}}</tool_call>',
    "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n</tool_call>",
    f'<tool_call name="get_weather">{ARGS}</tool_call>',
    f"<tool_call>\n{TAGS}\n</tool_call>",
    f"{TAGS}\n</tool_call>",
    f"<seed:tool_call>{TAGS}</seed:tool_call>",
    f"<function=get_weather>{ARGS}</function>",
    f"<function=get_weather{ARGS}</function>",
    f"<function=get_weather({ARGS})></function>",
    f"<function_calls>\n{INVOKE}\n</function_calls>",
    f"<minimax:tool_call>\n{INVOKE}\n</minimax:tool_call>",
    INVOKE,
    f"<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜>{STEP}<｜tool_call_end｜><｜tool_calls_end｜>",
    '<xai:function_call name="get_weather">\n<parameter name="city">Oslo</parameter>\n</xai:function_call>',
    '<|python_start|>[get_weather(city="Oslo")]<|python_end|>',
    f'<|tools_prefix|>[{{"get_weather": {ARGS}}}]<|tools_suffix|>',
    '<function name="get_weather"><parameter name="city">Oslo</parameter></function>',
    "<get_weather>\n<city>Oslo</city>\n</get_weather>",
    f"<tools>{CALL}</tools>",
    f"<tool_use>{CALL}</tool_use>",
    f"<TOOLCALL>[{CALL}]</TOOLCALL>",
    f"<tool_calls>[{CALL}]</tool_calls>",
    f"[TOOL_CALLS][{CALL}]",
    f"[TOOL_CALLS] [{CALL}]",
    f"[TOOL_CALLS]get_weather{ARGS}",
    f"[TOOL_CALLS]get_weather[ARGS]{ARGS}",
    f"[TOOL_CALLS]get_weather[CALL_ID]a1b2c3[ARGS]{ARGS}",
    f"[TOOL_REQUEST]\n{CALL}\n[END_TOOL_REQUEST]",
    f"<|python_tag|>{CALL}<|eom_id|>",
    '<|python_tag|>get_weather.call(city="Oslo")',
    f"<|tool_call|>[{CALL}]<|/tool_call|>",
    '<|tool_call_start|>[get_weather(city="Oslo")]<|tool_call_end|>',
    f"<|action_start|><|plugin|>{CALL}<|action_end|>",
    '<|START_ACTION|>[{"tool_name": "get_weather", "parameters": {"city": "Oslo"}}]<|END_ACTION|>',
    f"<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{ARGS}"
    "<|tool_call_end|><|tool_calls_section_end|>",
    f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{ARGS}\n```"
    "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{ARGS}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    '<｜DSML｜function_calls>\n<｜DSML｜invoke name="get_weather">\n<｜DSML｜parameter name="city" string="true">Oslo'
    "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
    f"<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{ARGS}<|call|>",
    "<start_function_call>call:get_weather{city:<escape>Oslo<escape>}<end_function_call>",
    '<|tool_call>call:get_weather{city:<|"|>Oslo<|"|>}<tool_call|>',
    CALL,
    f"[{CALL}]",
    '{"type": "function", "name": "get_weather", "parameters": {"city": "Oslo"}}',
    '{"tool_calls": [{"function": {"name": "get_weather", "arguments": "{\\"city\\": \\"Oslo\\"}"}}]}',
    f"```json\n{CALL}\n```",
    f"```tool_call\n{CALL}\n```\n",
    '```tool_code\nprint(default_api.get_weather(city="Oslo"))\n```',
    f"```\n<tool_call>{CALL}</tool_call>\n```",
    '[get_weather(city="Oslo")]',
    'get_weather(city="Oslo")',
    f"functools[{CALL}]",
    f"Action: get_weather\nAction Input: {ARGS}\nObservation: sunny",
]

NO_CALLS = [
    f"A model writes `<tool_call>{CALL}</tool_call>` and the server parses it.",
    f'The text "<tool_call>{CALL}</tool_call>" is a call.',
    f"A model writes <tool_call>{CALL}</tool_call> and the server parses it.",
    f"<tool_call>{CALL}</tool_call> is how some models do it.",
    f"Format:\n```\n<tool_call>{CALL}</tool_call>\n```\nThat is all.",
    f"For example:\n```json\n{CALL}\n```",
    f"```json\n{CALL}\n```\nThis asks for the weather.",
    f"Here is how it looks:\n\n<tool_call>\n{CALL}\n</tool_call>\n\nThen the server answers.",
    f"例如：\n<tool_call>{CALL}</tool_call>\n就是一次调用。",
    f"你可以这样写：`<tool_call>{CALL}</tool_call>`。",
    '```json\n{"name": "Alice", "age": 3}\n```',
    '{"name": "Alice", "age": 3}',
    '{"temperature": 3}',
    "[1, 2, 3]",
    'Use get_weather(city="X") to ask.',
    '```python\nget_weather(city="X")\nprint(1)\n```',
    'Here is code:\n```python\nprint("hello")\n```\nDone.',
    "Use the <tool_call> tag to begin, and </tool_call> to end it.",
    "a < b, c[0] > d, [x](http://y), {z}, <b>bold</b> and <function> tags",
    "- [get_weather](docs/weather.md)\n- [ping](docs/ping.md)",
    "Action: none. I am done.",
]


def sift(text: str, size: int, tools: bool = True) -> tuple[str, list[tuple[str, object]]]:
    names = Names(TOOLS if tools else ())
    gate = TextCalls(names)
    shown = "".join(gate.feed(text[i : i + size]) for i in range(0, len(text), size)) + gate.close()
    return shown, [(names.real(c.name) or c.name, read_arguments(c.arguments).value) for c in gate.calls]


@pytest.mark.parametrize("size", [1, 4, 1000])
@pytest.mark.parametrize("before", ["", "I will look.\n\n"])
@pytest.mark.parametrize("text", DIALECTS)
def test_a_call_is_found_and_taken_out(text: str, before: str, size: int) -> None:
    if before and text.startswith("get_weather("):
        before = ""
    shown, calls = sift(before + text, size)
    assert calls == [("get_weather", {"city": "Oslo"})]
    assert shown.strip() == before.strip()


@pytest.mark.parametrize("size", [1, 4, 1000])
@pytest.mark.parametrize("text", NO_CALLS)
def test_a_text_about_calls_is_left_alone(text: str, size: int) -> None:
    assert sift(text, size) == (text, [])


def test_without_tools_nothing_is_a_call() -> None:
    assert sift(DIALECTS[0], 3, tools=False) == (DIALECTS[0], [])


def test_several_calls_and_text_around_them() -> None:
    other = '{"name": "ping", "arguments": {}}'
    shown, calls = sift(f"First.\n<tool_call>{CALL}</tool_call>\n<tool_call>{other}</tool_call>\nAnd then?", 5)
    assert [name for name, _ in calls] == ["get_weather", "ping"]
    assert shown.split() == ["First.", "And", "then?"]


def test_a_closing_tag_inside_an_argument_ends_nothing() -> None:
    content = "about </tool_call> and </function> tags"
    body = json.dumps({"name": "write_file", "arguments": {"path": "a", "content": content}})
    assert sift(f"<tool_call>{body}</tool_call>", 7)[1] == [("write_file", {"path": "a", "content": content})]


def test_ordinary_text_is_not_held_back() -> None:
    gate = TextCalls(Names(TOOLS))
    pieces = ["Hello", " there, ", "3 < 4", " and so on.\n", "Next", " line\n```py", "thon\nx = [1]\n", "```\n", "end"]
    for piece in pieces[:4]:
        assert gate.feed(piece) == piece
    assert "".join([gate.feed(piece) for piece in pieces[4:]] + [gate.close()]) == "".join(pieces[4:])


def test_an_unknown_tool_in_a_clear_envelope_is_a_call_all_the_same() -> None:
    """The toolbox answers it with the names there are."""
    shown, calls = sift('<tool_call>{"name": "fetch", "arguments": {}}</tool_call>', 9)
    assert (shown, calls) == ("", [("fetch", {})])


def test_a_call_that_is_cut_off_is_no_instruction() -> None:
    text = '<tool_call>\n{"name": "write_file", "arguments": {"path": "a", "content": "The keeper'
    assert sift(text, 6) == ("", [("write_file", None)])
