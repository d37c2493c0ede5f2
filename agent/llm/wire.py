"""From the neutral history to the messages of one request.

Knows the chat-completions format and makes every history valid in it: each call answered at once and once, ids unique,
arguments sound, nothing empty, roles in an order that all servers take. How this server wants the details is in its
`Profile`. Refuses to know how requests travel.
"""

from __future__ import annotations

import base64
import hashlib
import json
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agent.llm.arguments import read_arguments
from agent.llm.model import Request, ToolSpec
from agent.llm.names import Names
from agent.llm.profile import Profile
from agent.llm.schemas import server_schema
from agent.llm.surrogates import sound_json
from agent.messages import AssistantMessage, File, Message, ToolCall, ToolMessage, UserMessage

WireMessage = dict[str, Any]

NO_OUTPUT = "(no output)"
NO_RESULT = "(no result: the call was interrupted)"
LEFT_OUT = "(The beginning of this conversation was left out.)"
CALLING = "(calling tools)"
GOING_ON = "(I have read the results.)"
NOT_SHOWN = "(A picture came with this, but it cannot be shown to you: this model takes no pictures.)"
STAND_IN = {"google": {"thought_signature": "skip_thought_signature_validator"}}
"""What Gemini documents for calls that another model made."""
_LETTERS = string.digits + string.ascii_letters


@dataclass(frozen=True)
class Options:
    """What a request asks for beside its messages and tools."""

    model: str
    temperature: float | None = None
    max_output_tokens: int | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Further ones; they overrule the others."""


def build_body(request: Request, names: Names, profile: Profile, options: Options) -> dict[str, Any]:
    """The JSON body of a chat-completions request. Strict JSON whatever the history holds."""
    body: dict[str, Any] = {"model": options.model, "messages": build_messages(request, names, profile)}
    if profile.stream:
        body["stream"] = True
        body["stream_options"] = {"include_usage": True}
    in_words = request.tool_choice == "none"
    with_tools = profile.tools and (not in_words or profile.tool_choice_none or profile.tools_with_calls)
    if request.tools and with_tools:
        body["tools"] = [_tool(tool, names, profile) for tool in request.tools]
        if in_words and profile.tool_choice_none:
            body["tool_choice"] = "none"
    if options.temperature is not None:
        body["temperature"] = options.temperature
    if options.max_output_tokens is not None:
        most = profile.most_output_tokens or options.max_output_tokens
        body[profile.output_limit] = min(options.max_output_tokens, most)
    body.update(options.parameters)
    body = {key: value for key, value in body.items() if key not in profile.refused_parameters}
    return encodable(body)


def encodable(body: dict[str, Any]) -> dict[str, Any]:
    """The body without half surrogates: they cannot be sent."""
    try:
        json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        sound: dict[str, Any] = sound_json(body)
        return sound
    return body


def build_messages(request: Request, names: Names, profile: Profile) -> list[WireMessage]:
    """The messages in the order and shape that servers take."""
    history = _unique_ids(_answered(request.messages))
    if not profile.parallel_calls:
        history = _one_by_one(history)
    messages = list(_merged(_converted(history, names, profile)))
    if messages and messages[0]["role"] != "user":
        messages.insert(0, {"role": "user", "content": LEFT_OUT})
    if profile.answer_before_user:
        messages = list(_with_answers(messages))
    if request.system.strip():
        if profile.system_role == "user" and messages:
            messages[0] = {**messages[0], "content": _joined(request.system, messages[0]["content"])}
        else:
            messages.insert(0, {"role": profile.system_role, "content": request.system})
    return messages


# ------------------------------------------------------------------ repairing the history


def _answered(messages: Sequence[Message]) -> Iterator[Message]:
    """Each call is followed at once by its one result; results of no call are dropped."""
    open_calls: dict[str, ToolCall] = {}
    for message in messages:
        if isinstance(message, ToolMessage):
            if open_calls.pop(message.call_id, None):
                yield message
            continue
        yield from _made_up(open_calls)
        open_calls = {}
        yield message
        if isinstance(message, AssistantMessage):
            open_calls = {call.id: call for call in message.tool_calls}
    yield from _made_up(open_calls)


def _made_up(open_calls: Mapping[str, ToolCall]) -> Iterator[Message]:
    return (ToolMessage(call.id, call.name, NO_RESULT, ok=False) for call in open_calls.values())


def _unique_ids(messages: Iterable[Message]) -> Iterator[Message]:
    """Ids that were given twice, or never, are made different in calls and results alike."""
    used: set[str] = set()
    current: dict[str, str] = {}
    for message in messages:
        if isinstance(message, AssistantMessage) and message.tool_calls:
            current = {}
            calls = []
            for call in message.tool_calls:
                fresh = call.id
                while not fresh or fresh in used:
                    fresh = _digest(f"{fresh} {len(used)}", 9)
                used.add(fresh)
                current[call.id] = fresh
                calls.append(replace(call, id=fresh))
            yield replace(message, tool_calls=tuple(calls))
        elif isinstance(message, ToolMessage):
            yield replace(message, call_id=current.get(message.call_id, message.call_id))
        else:
            yield message


def _one_by_one(messages: Iterable[Message]) -> Iterator[Message]:
    """Several calls of one message as several messages with one call each."""
    results: dict[str, ToolMessage] = {}
    history = list(messages)
    for message in history:
        if isinstance(message, ToolMessage):
            results[message.call_id] = message
    for message in history:
        if isinstance(message, AssistantMessage) and len(message.tool_calls) > 1:
            for number, call in enumerate(message.tool_calls):
                first = message if number == 0 else AssistantMessage(extra=message.extra)
                yield replace(first, tool_calls=(call,))
                yield results.pop(call.id)
        elif not isinstance(message, ToolMessage) or message.call_id in results:
            yield message


# ------------------------------------------------------------------ converting


def _converted(messages: Iterable[Message], names: Names, profile: Profile) -> Iterator[WireMessage]:
    images: list[WireMessage] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            yield _result(message, profile)
            images += _pictures(message, profile)
            continue
        if images:
            yield {"role": "user", "content": images}
            images = []
        if isinstance(message, UserMessage):
            if message.text.strip():
                yield {"role": "user", "content": _said_by_user(message, profile)}
        elif message.text.strip() or message.tool_calls:
            yield _assistant(message, names, profile)
    if images:
        yield {"role": "user", "content": images}


def _said_by_user(message: UserMessage, profile: Profile) -> str | list[WireMessage]:
    """The text, then the pictures that came with it, each under its name; where none can be shown, words say so."""
    if not message.images:
        return message.text
    if not profile.images:
        return f"{message.text}\n{NOT_SHOWN}"
    parts: list[WireMessage] = [{"type": "text", "text": message.text}]
    for image in message.images:
        parts += [{"type": "text", "text": f"{image.name}:"}, _picture(image)]
    return parts


def _assistant(message: AssistantMessage, names: Names, profile: Profile) -> WireMessage:
    wire: WireMessage = {"role": "assistant", "content": message.text}
    if message.tool_calls:
        if not message.text.strip():
            wire["content"] = {"null": None, "empty": "", "words": CALLING}[profile.content_beside_calls]
        wire["tool_calls"] = [_call(call, names, profile) for call in message.tool_calls]
    reasoning = message.reasoning or (" " if profile.reasoning_always and message.tool_calls else "")
    if profile.reasoning_back and reasoning:
        field = profile.reasoning_field or str(message.extra.get("reasoning_field") or "reasoning_content")
        wire[field] = reasoning
    if profile.extras_back:
        wire.update(message.extra.get("fields") or {})
    return wire


def _call(call: ToolCall, names: Names, profile: Profile) -> WireMessage:
    arguments = read_arguments(call.arguments)
    function = {"name": names.wire(call.name), "arguments": arguments.text}
    wire: WireMessage = {"id": wire_id(call.id, profile), "type": "function", "function": function}
    if profile.extras_back:
        extra = dict(call.extra)
        function.update(extra.pop("function", {}))
        wire = {**extra, **wire}
    if profile.signed_calls:
        wire.setdefault("extra_content", STAND_IN)
    return wire


def _result(message: ToolMessage, profile: Profile) -> WireMessage:
    wire: WireMessage = {
        "role": "tool",
        "tool_call_id": wire_id(message.call_id, profile),
        "content": message.text if message.text.strip() else NO_OUTPUT,
    }
    if message.images and not profile.images:
        wire["content"] += f"\n{NOT_SHOWN}"
    if profile.name_in_results:
        wire["name"] = message.name
    return wire


def _pictures(message: ToolMessage, profile: Profile) -> list[WireMessage]:
    """Tool messages hold text only, so the user shows the pictures."""
    if not (message.images and profile.images):
        return []
    parts: list[WireMessage] = [{"type": "text", "text": f"The image that {message.name} gave back:"}]
    return parts + [_picture(image) for image in message.images]


def _picture(image: File) -> WireMessage:
    try:
        data = base64.b64encode(Path(image.path).read_bytes()).decode()
    except OSError:
        return {"type": "text", "text": f"({image.name} is not there any more)"}
    return {"type": "image_url", "image_url": {"url": f"data:{image.mime};base64,{data}"}}


def _tool(tool: ToolSpec, names: Names, profile: Profile) -> WireMessage:
    description = tool.description[: profile.longest_description]
    function: WireMessage = {"name": names.wire(tool.name), "description": description}
    parameters = server_schema(tool.parameters, profile)
    if parameters["properties"] or profile.schemas == "full":
        function["parameters"] = parameters
    return {"type": "function", "function": function}


def wire_id(id: str, profile: Profile) -> str:
    """The id as this server takes it: the same for a call and for its result."""
    if profile.id_format == "nine":
        return id if len(id) == 9 and id.isascii() and id.isalnum() else _digest(id, 9)
    allowed = len(id) <= 40 and id.isascii() and id.replace("_", "a").replace("-", "a").isalnum()
    return id if profile.id_format == "as_is" or allowed else _digest(id, 24)


def _digest(text: str, length: int) -> str:
    number = int.from_bytes(hashlib.sha256(text.encode("utf-8", "replace")).digest(), "big")
    letters = []
    for _ in range(length):
        number, at = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[at])
    return "".join(letters)


# ------------------------------------------------------------------ order


def _merged(messages: Iterable[WireMessage]) -> Iterator[WireMessage]:
    """Two user messages in a row, or two answers, are one: many chat templates refuse more."""
    last: WireMessage | None = None
    for message in messages:
        mergeable = message["role"] in ("user", "assistant") and "tool_calls" not in (last or {})
        if last is not None and mergeable and last["role"] == message["role"]:
            last = {**last, **message, "content": _joined(last["content"], message["content"])}
            continue
        if last is not None:
            yield last
        last = message
    if last is not None:
        yield last


def _joined(first: Any, second: Any) -> Any:
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    if not first or not second:
        return first or second
    return [*_parts(first), *_parts(second)]


def _parts(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [{"type": "text", "text": content}]


def _with_answers(messages: Iterable[WireMessage]) -> Iterator[WireMessage]:
    before = ""
    for message in messages:
        if before == "tool" and message["role"] == "user":
            yield {"role": "assistant", "content": GOING_ON}
        yield message
        before = message["role"]
