"""The JSON action protocol: tools for models and servers that have no tool calls.

In two requests instead of one: *decide* (a short prompt with one line a tool; the reply is one JSON object, which the
server is asked to enforce), then, where no tool is needed any more, *answer* (in words, without the tool list). As
measured in `docs/json-protocol.md`, it makes small models usable that are lost with a long list of tools.

Knows how to ask, and how to read an action out of what models write around it. Refuses to send anything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from agent.llm.arguments import is_cut, read_arguments, with_end
from agent.llm.dialects import NoCall, WrittenCall, calls_of, json_value, read_calls
from agent.llm.model import Request, ToolSpec
from agent.llm.names import Names
from agent.llm.profile import Profile
from agent.llm.schemas import server_schema
from agent.llm.wire import NOT_SHOWN
from agent.messages import AssistantMessage, Message, ToolMessage, UserMessage

MOST_REMINDERS = 2
"""How often a model is told that its reply was no action, before the reply is shown as what it is."""

REMINDER = "That was not what I asked for. Reply with exactly one JSON object and nothing else: {tool}, or {final}"
ANSWER_NOW = (
    "Now answer me in words. Rely on the results above; where they do not say something, say that you do not know it."
)
ANSWER_NOW_ZH = "现在请用中文回答我。以上面的结果为准；结果里没有的，就说不知道。"
"""Small models answer in the language of the last sentence they read."""
_HAN = re.compile("[\u4e00-\u9fff]")
_FINAL_WORDS = ("final", "final_answer", "finalanswer", "answer", "none", "finish", "done", "respond", "reply")
_TOOL_WORDS = ("tool", "tool_call", "call", "use_tool", "function")
_ANSWER_KEYS = ("answer", "text", "content", "message", "response", "output", "action_input", "final_answer", "final")
_DECIDE = """\
You work for the user with tools in a workspace. Decide the next step: reply with one JSON object and nothing else.

Tools:
{tools}

Use a tool whenever it can do or find out what the user wants: {tool}
Only when no tool helps, or the work is done: {final}

Examples without a tool:
Hello! -> {final}
你好！ -> {final}
Thank you. -> {final}
What is a palindrome? -> {final}
"""


@dataclass(frozen=True)
class Form:
    """How an action is written."""

    tool: str
    final: str
    head: Mapping[str, str]
    """What an action of a tool begins with."""


ENFORCED = Form('{"tool": "<name>", "args": {...}}', '{"tool": "none"}', {})
"""Where the server holds the model to the schema. The name comes first: a small model that had to choose between two
kinds of action before it had thought of a tool chose wrongly in 15 of 21 prompts, and in 2 of 21 this way."""
TOLD = Form(
    '{"action": "tool", "tool": "<name>", "args": {...}}',
    '{"action": "final", "answer": "<your whole answer>"}',
    {"action": "tool"},
)
"""Where the model is only told. The end carries the answer, which saves the second request."""


NO_CALL = WrittenCall("", "{}")


@dataclass(frozen=True)
class Action:
    """What a model wants: a tool, or to say something."""

    kind: Literal["tool", "final"]
    call: WrittenCall = NO_CALL
    text: str = ""
    """The answer, or what was written before the tool's action."""
    repairs: tuple[str, ...] = ()


# ------------------------------------------------------------------ asking


def decision(request: Request, names: Names, profile: Profile) -> tuple[Request, dict[str, Any]]:
    """The request for a decision, and the parameters that go with it."""
    form = form_for(profile)
    tools = "\n".join(_line(tool, names) for tool in request.tools)
    prompt = _DECIDE.format(tools=tools, tool=form.tool, final=form.final)
    system = prompt if profile.short_prompts or not request.system.strip() else f"{request.system}\n\n{prompt}"
    parameters: dict[str, Any] = {"temperature": 0}
    if profile.json_output == "schema":
        schema = action_schema(request.tools, names)
        parameters["response_format"] = {"type": "json_schema", "json_schema": {"name": "action", "schema": schema}}
    elif profile.json_output == "object":
        parameters["response_format"] = {"type": "json_object"}
    return Request(system, tuple(_spoken(request.messages, form))), parameters


def form_for(profile: Profile) -> Form:
    return ENFORCED if profile.json_output == "schema" else TOLD


def answer(request: Request, profile: Profile) -> tuple[Request, dict[str, Any]]:
    """The request for the answer, and the parameters that go with it."""
    users = (m for m in reversed(request.messages) if isinstance(m, UserMessage))
    said = next((m.text for m in users if m.source != "glassloop"), "")
    now = UserMessage(ANSWER_NOW_ZH if _HAN.search(said) else ANSWER_NOW, source="glassloop")
    system = "" if profile.short_prompts else request.system
    parameters = {"repeat_penalty": 1.1} if profile.short_prompts else {}
    return Request(system, (*_spoken(request.messages, form_for(profile)), now)), parameters


def reminded(request: Request, replies: Sequence[str], profile: Profile) -> Request:
    """The same request after replies that were no actions."""
    form = form_for(profile)
    reminder = UserMessage(REMINDER.format(tool=form.tool, final=form.final), source="glassloop")
    told = (message for reply in replies for message in (AssistantMessage(reply), reminder))
    return replace(request, messages=(*request.messages, *told))


def action_schema(tools: Sequence[ToolSpec], names: Names) -> dict[str, Any]:
    """JSON schema of one action: one branch a tool, and one for the end."""
    plain = Profile(schemas="plain")
    branches = [
        {
            "type": "object",
            "properties": {"tool": {"const": names.wire(tool.name)}, "args": server_schema(tool.parameters, plain)},
            "required": ["tool", "args"],
            "additionalProperties": False,
        }
        for tool in tools
    ]
    final = {
        "type": "object",
        "properties": {"tool": {"const": "none"}},
        "required": ["tool"],
        "additionalProperties": False,
    }
    return {"anyOf": [*branches, final]}


def _line(tool: ToolSpec, names: Names) -> str:
    required = tool.parameters.get("required", ())
    arguments = [n if n in required else f"{n}?" for n in tool.parameters.get("properties", {})]
    about = " ".join(tool.description.split("\n\n")[0].split())
    return f"- {names.wire(tool.name)}({', '.join(arguments)}): {about}"


def _spoken(messages: Sequence[Message], form: Form) -> Iterator[Message]:
    """The history as a plain conversation: actions as the model would write them, results as what it is told."""
    for message in messages:
        if isinstance(message, ToolMessage):
            yield UserMessage(f"Result of {message.name}:\n{message.text.strip() or '(no output)'}", source="glassloop")
        elif isinstance(message, AssistantMessage) and message.tool_calls:
            actions = (
                json.dumps({**form.head, "tool": c.name, "args": json.loads(c.arguments)}, ensure_ascii=False)
                for c in message.tool_calls
            )
            yield AssistantMessage("\n".join(filter(None, [message.text, *actions])))
        elif isinstance(message, UserMessage) and message.images:
            yield replace(message, text=f"{message.text}\n{NOT_SHOWN}", images=())
        else:
            yield message


def repeats(call: WrittenCall, messages: Sequence[Message], names: Names) -> bool:
    """Was exactly this just done? Small models do not see when they have what they need."""
    last = next((m for m in reversed(messages) if isinstance(m, (AssistantMessage, UserMessage))), None)
    if not isinstance(last, AssistantMessage) or not last.tool_calls:
        return False
    before = last.tool_calls[-1]
    read = read_arguments(call.arguments)
    return before.name == (names.real(call.name) or call.name) and json.loads(before.arguments) == read.value


# ------------------------------------------------------------------ reading


def read_action(text: str, names: Names, cut: bool = False) -> Action | None:
    """The first action in a reply, whatever stands around it; None where there is none.

    `cut`: the reply was cut off at the output limit. Then a tool's action is none, however it looks.
    """
    stripped = text.strip()
    for start in _openings(stripped):
        action = _action_at(stripped, start, names, cut)
        if action is not None:
            return action
    try:
        calls, _ = read_calls(stripped, names)
    except NoCall:
        return None
    return Action("tool", calls[0]) if not cut and names.real(calls[0].name) else None


def is_plain_answer(text: str, names: Names) -> bool:
    """Prose that neither holds an object nor speaks of a tool: a model that just answers."""
    return (
        bool(text.strip()) and "{" not in text and not any(re.search(rf"\b{re.escape(n)}\b", text) for n in names.tools)
    )


def _openings(text: str) -> Iterator[int]:
    """Where an object may begin: the outermost ones first."""
    at = text.find("{")
    while at >= 0:
        yield at
        at = text.find("{", at + 1)


def _action_at(text: str, start: int, names: Names, cut: bool) -> Action | None:
    repairs: tuple[str, ...] = ()
    try:
        value, _ = json_value(text, start)
    except NoCall:
        value = _truncated(text[start:])
        repairs = ("the action's end was missing",)
        cut = cut or is_cut(text[start:])
    if not isinstance(value, dict):
        return None
    action = _meaning(value, names)
    if action is None or (action.kind == "tool" and cut):
        return None
    if start or repairs or text[start:].strip()[:1] != "{":
        before = re.sub(r"```\w*\s*$", "", text[:start]).strip() if action.kind == "tool" else ""
        return replace(action, text=before or action.text, repairs=repairs)
    return action


def _truncated(text: str) -> Any:
    """An object whose end is missing."""
    in_string = len(re.findall(r'(?<!\\)"', text)) % 2 == 1
    try:
        return json.loads(with_end(text + '"' if in_string else text), strict=False)
    except ValueError:
        return None


def _meaning(value: Mapping[str, Any], names: Names) -> Action | None:
    word = value.get("action", value.get("tool", value.get("type")))
    if isinstance(word, str) and word.strip().lower().replace(" ", "_") in _FINAL_WORDS:
        said = next((value[k] for k in _ANSWER_KEYS if isinstance(value.get(k), str) and value[k] != word), "")
        return Action("final", text=said)
    named = value.get("tool")
    if word in _TOOL_WORDS and isinstance(named, str):
        value = {k: v for k, v in value.items() if k not in ("action", "type")}
    try:
        calls = calls_of(value, names)
    except NoCall:
        only_answer = [k for k in value if k in _ANSWER_KEYS and isinstance(value[k], str)]
        return Action("final", text=value[only_answer[0]]) if only_answer and len(value) == 1 else None
    known = names.real(calls[0].name) is not None or (word in _TOOL_WORDS and calls[0].name not in _TOOL_WORDS)
    return Action("tool", calls[0]) if known else None
