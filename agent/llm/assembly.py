"""From a stream's payloads to one reply.

Knows what a delta may hold and puts text, reasoning and calls together; tells at the end what kind of reply it was.
Calls decide that, not the finish reason. Refuses to know connections and retries. The pieces of calls are told apart
in `calls.py`, calls written as text are found in `textcalls.py`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from agent.events import CallDelta, Finish, ReasoningDelta, Replied, TextDelta, Usage
from agent.llm.arguments import read_arguments
from agent.llm.calls import CallPieces, OpenCall, Piece, entries
from agent.llm.circles import Circle
from agent.llm.dialects import call_in_name
from agent.llm.faults import Failure, Scrubber, from_payload
from agent.llm.finish import Ending, read_finish
from agent.llm.growing import Growing
from agent.llm.ids import fresh_id
from agent.llm.kept import Kept
from agent.llm.model import ModelEvent
from agent.llm.names import Names
from agent.llm.surrogates import Joiner, sound
from agent.llm.textcalls import TextCalls
from agent.llm.thinking import Part, ThinkSplitter
from agent.messages import AssistantMessage, ToolCall

REASONING_FIELDS = ("reasoning_content", "reasoning", "thinking", "reasoning_text", "thought")

_TOKENS_AT_END = re.compile(
    r"(?:<\|(?:im_end|eot_id|eom_id|end|endoftext|return)\|>|</s>|<end_of_turn>|<｜end▁of▁sentence｜>)+\s*$"
)
_HEADER = re.compile(r"^\s*<\|start_header_id\|>\w+<\|end_header_id\|>|^\s*<\|im_start\|>assistant\n")
_CUT = (
    "This call was cut off at the output limit, so it did not run. Make it shorter, for example by doing the work in "
    "several smaller calls."
)
_MIXED = "The pieces of this call and of another could not be told apart, so it did not run. Please call again."
_FILTERED = "The provider's content filter cut this reply in the middle of the call, so it did not run."


class Assembly:
    """One attempt at one reply."""

    def __init__(self, names: Names, taken_ids: Iterable[str], scrub: Scrubber) -> None:
        self.ended: Ending | None = None
        """What the server said, once it has said why it ended."""
        self.usage: Usage | None = None
        self.model = ""
        self.anything = False
        """Has any part of an answer come?"""
        self._names = names
        self._taken = set(taken_ids)
        self._scrub = scrub
        self._text: list[str] = []
        self._shown = 0
        self._reasoning: list[str] = []
        self._reasoning_field = ""
        self._kept = Kept()
        self._index: Any = None
        self._pieces = CallPieces(names)
        self._text_growing, self._reasoning_growing = Growing(), Growing()
        self._text_joiner, self._reasoning_joiner = Joiner(), Joiner()
        self._text_circle, self._reasoning_circle = Circle(), Circle()
        self._thinking = ThinkSplitter()
        self._written = TextCalls(names)

    # ------------------------------------------------------------------ while it streams

    def add(self, payload: Any) -> list[ModelEvent]:
        """Take one payload. Raises Failure for an error, for what is no answer, and for words without end."""
        if not isinstance(payload, Mapping) or not payload.get("choices") or payload.get("error"):
            if failure := from_payload(payload, self._scrub):
                raise failure
            if not isinstance(payload, Mapping):
                return []
        self._facts(payload)
        events: list[ModelEvent] = []
        choices = payload.get("choices") or ()
        for choice in choices if isinstance(choices, list) else [choices]:
            if isinstance(choice, Mapping) and self._is_ours(choice.get("index")):
                self._choice(choice, events)
        return events

    def _is_ours(self, index: Any) -> bool:
        """One answer was asked for: the one that begins first. Its number need not be 0."""
        if self._index is None:
            self._index = index
        return index is None or index == self._index

    def _facts(self, payload: Mapping[str, Any]) -> None:
        if isinstance(model := payload.get("model"), str) and model:
            self.model = model
        usage = payload.get("usage")
        if not usage and isinstance(groq := payload.get("x_groq"), Mapping):
            usage = groq.get("usage")
        self.usage = read_usage(usage) or self.usage
        self.ended = read_finish(payload.get("finish_reason")) or self.ended

    def _choice(self, choice: Mapping[str, Any], events: list[ModelEvent]) -> None:
        delta, whole = choice.get("delta"), choice.get("message")
        if not isinstance(delta, Mapping) or (not delta and isinstance(whole, Mapping)):
            delta = self._new_in(whole) if isinstance(whole, Mapping) else {"content": choice.get("text")}
        ended = read_finish(choice.get("finish_reason")) or read_finish(delta.get("finish_reason"))
        if ended and self._is_all_again(delta.get("content")):
            delta = {**delta, "content": None}
        self._delta(delta, events)
        if choice.get("usage"):
            self.usage = read_usage(choice["usage"]) or self.usage
        self.ended = ended or self.ended

    def _new_in(self, whole: Mapping[str, Any]) -> Mapping[str, Any]:
        """Of a whole message after deltas only the calls count, where none came before."""
        if not self.anything:
            return whole
        return {"tool_calls": whole.get("tool_calls")} if not self._pieces.calls else {}

    def _is_all_again(self, content: Any) -> bool:
        """Does the last chunk only say once more what was said in pieces?"""
        pieces = len(self._text) > 1 and isinstance(content, str) and 2 * len(content) > self._shown
        return pieces and content.strip() == "".join(self._text).strip() != ""

    def _delta(self, delta: Mapping[str, Any], events: list[ModelEvent]) -> None:
        content = delta.get("content")
        if isinstance(content, (int, float)):  # a gateway took a token of digits for a number
            content = json.dumps(content)
        if isinstance(content, str):
            if len(delta) > 1:
                self._think(delta, events)
            self._content(content, events)
        else:
            self._think(delta, events)
            for kind, text in _parts(content):
                if kind == "text":
                    self._content(text, events)
                else:
                    self._reasoned(text, events)
        if len(delta) > 1 or content is None:
            self._rest(delta, events)

    def _rest(self, delta: Mapping[str, Any], events: list[ModelEvent]) -> None:
        """What is rarer than text: refusals, calls, fields to keep."""
        if isinstance(refusal := delta.get("refusal"), str):
            self._content(refusal, events)
        calls = delta.get("tool_calls")
        for entry in entries(calls):
            self._piece(Piece.read(entry), events)
        if not calls and isinstance(old := delta.get("function_call"), Mapping):
            self._piece(Piece.read({"function": old}), events)
        self._kept.add(delta)

    def _think(self, delta: Mapping[str, Any], events: list[ModelEvent]) -> None:
        for name in REASONING_FIELDS:
            text = delta.get(name)
            if isinstance(text, list):
                text = "".join(part for _, part in _parts(text))
            if isinstance(text, str) and text:
                self._reasoning_field = self._reasoning_field or name
                self._reasoned(text, events)
                return
        if not self._reasoning_field:  # some servers send the details and nothing else
            for text in _detail_texts(delta.get("reasoning_details")):
                self._reasoned(text, events)

    def _reasoned(self, text: str, events: list[ModelEvent]) -> None:
        self._reason(self._reasoning_joiner.feed(self._reasoning_growing.feed(text)), events)

    def _reason(self, text: str, events: list[ModelEvent]) -> None:
        if text:
            self.anything = True
            self._watch(self._reasoning_circle, text)
            self._reasoning.append(text)
            events.append(ReasoningDelta(text))

    def _content(self, text: str, events: list[ModelEvent]) -> None:
        if text := self._text_growing.feed(text):
            self._watch(self._text_circle, text)
            self._sort(self._thinking.feed(self._text_joiner.feed(text)), events)

    def _watch(self, circle: Circle, text: str) -> None:
        if circle.closes(text):
            raise Failure("repeating", "the model said the same words over and over")

    def _sort(self, parts: Iterable[Part], events: list[ModelEvent]) -> None:
        for kind, text in parts:
            if kind == "text":
                self._show(self._written.feed(text), events)
            elif kind == "reasoning":
                if not self._reasoning_field:  # MiniMax sends it in both places
                    self._reason(text, events)
            else:
                self._misplaced()

    def _misplaced(self) -> None:
        """The opening tag of the reasoning never came: what was taken for text was none."""
        self._reasoning += self._text
        self._text.clear()
        self._written = TextCalls(self._names)

    def _show(self, text: str, events: list[ModelEvent]) -> None:
        if text:
            self.anything = True
            self._text.append(text)
            self._shown += len(text)
            events.append(TextDelta(text))

    def _piece(self, piece: Piece, events: list[ModelEvent]) -> None:
        self.anything = True
        call, added = self._pieces.add(piece)
        events.append(CallDelta(call.position, self._names.real(call.name) or call.name, added))

    # ------------------------------------------------------------------ when it is over

    def close(self) -> list[ModelEvent]:
        """Let out what was held back. Call once, before `reply`."""
        events: list[ModelEvent] = []
        held = self._text_joiner.feed(self._text_growing.close()) + self._text_joiner.close()
        self._sort(self._thinking.feed(held), events)
        self._sort(self._thinking.close(), events)
        held = self._reasoning_joiner.feed(self._reasoning_growing.close()) + self._reasoning_joiner.close()
        self._reason(held, events)
        self._show(self._written.close(), events)
        for number, written in enumerate(self._written.calls if not self._pieces.calls else ()):
            events.append(CallDelta(number, self._names.real(written.name) or written.name, written.arguments))
        return events

    def reply(self) -> Replied:
        """The whole reply. Raises Failure where the server itself said that it failed."""
        if self.ended in ("error", "overloaded"):
            code = "overloaded" if self.ended == "overloaded" else "provider_error"
            raise Failure(code, "the server ended its answer with an error")
        calls = self._native_calls() or self._text_calls()
        text = _TOKENS_AT_END.sub("", _HEADER.sub("", "".join(self._text))).strip()
        reasoning = "".join(self._reasoning).strip()
        extra: dict[str, Any] = {}
        if self._reasoning_field:
            extra["reasoning_field"] = self._reasoning_field
        if fields := self._kept.close():
            extra["fields"] = fields
        message = AssistantMessage(sound(text), sound(reasoning), tuple(calls), extra)
        return Replied(message, self._finish(calls), self.usage, sound(self.model))

    @property
    def found_in_text(self) -> bool:
        """Were the calls of this reply written as text?"""
        return bool(self._written.calls) and not self._pieces.calls

    def _finish(self, calls: list[ToolCall]) -> Finish:
        if self.ended in ("length", "content_filter"):
            return self.ended
        return "tool_calls" if calls else "stop"

    def _native_calls(self) -> list[ToolCall]:
        opened: list[OpenCall] = []
        seen: set[tuple[str, str, str]] = set()
        for call in self._pieces.calls:
            marks = (call.id, call.name, call.arguments)
            if (call.name or not call.blank) and not (call.id and marks in seen):
                opened.append(call)
            seen.add(marks)
        return [self._native_call(call, last=call is opened[-1]) for call in opened]

    def _native_call(self, call: OpenCall, last: bool) -> ToolCall:
        if rest := call.joiner.close():
            call.take(rest)
        name, arguments = call.name or self._names.real(call.id) or "", call.arguments
        if arguments.strip() in ("", "{}") and (inside := call_in_name(name, self._names)):
            name, arguments = inside.name, inside.arguments
        made = self._finished(name, arguments, call.id, last, extra=call.extra)
        return replace(made, fault=_MIXED) if call.mixed else made

    def _text_calls(self) -> list[ToolCall]:
        written = list(self._written.calls)
        note = "the call was written as text, not sent as a call"
        if not written and not "".join(self._text).strip() and self._names.tools:
            written = self._calls_in_reasoning()
            note = "the call was written inside the reasoning, not sent as a call"
        return [self._finished(call.name, call.arguments, "", call is written[-1], repairs=(note,)) for call in written]

    def _calls_in_reasoning(self) -> list[Any]:
        """Some servers take a call for a part of the reasoning: then the reply is empty, and this ends with it."""
        gate = TextCalls(self._names)
        gate.feed("".join(self._reasoning))
        after = gate.close()
        ends_with_call = gate.calls and "".join(self._reasoning).rstrip().endswith((">", "]"))
        return gate.calls if ends_with_call and after is not None else []

    def _finished(
        self, name: str, arguments: str, id: str, last: bool, repairs: tuple[str, ...] = (), extra: Any = None
    ) -> ToolCall:
        """A call as the rest of the program may trust it."""
        read = read_arguments(arguments)
        real = self._names.real(name)
        written = sound(name)
        if real is not None and real != written and self._names.wire(real) != written:
            repairs += (f"name repaired: the model wrote {written!r}",)
        fault = read.fault or None
        if last and self.ended == "length":
            fault = _CUT
        elif last and self.ended == "content_filter":
            fault = _FILTERED
        if not written:
            fault = "This call names no tool, so it did not run."
        return ToolCall(
            id=self._fresh_id(sound(id)),
            name=real or written,
            arguments=read.text,
            repairs=repairs + read.repairs,
            fault=fault,
            extra=dict(extra or {}),
        )

    def _fresh_id(self, id: str) -> str:
        unique = id if id and id not in self._taken else fresh_id(self._taken)
        self._taken.add(unique)
        return unique


def read_usage(usage: Any) -> Usage | None:
    """Tokens as the server counted them; None where it did not."""
    if not isinstance(usage, Mapping):
        return None

    def number(*path: str) -> int:
        value: Any = usage
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        return int(value) if isinstance(value, (int, float)) and math.isfinite(value) else 0

    cached = number("prompt_tokens_details", "cached_tokens") or number("prompt_cache_hit_tokens")
    return Usage(
        number("prompt_tokens") or number("input_tokens"),
        number("completion_tokens") or number("output_tokens"),
        cached or number("cached_tokens"),
        number("completion_tokens_details", "reasoning_tokens") or number("reasoning_tokens"),
    )


def _parts(content: Any) -> Iterable[Part]:
    """Content as a list of parts: text and thinking, in whatever nesting."""
    for part in content if isinstance(content, list) else [content] if isinstance(content, Mapping) else ():
        if isinstance(part, str):
            yield "text", part
        elif isinstance(part, Mapping):
            thinking = part.get("thinking") or part.get("reasoning")
            if thinking is not None:
                inner = thinking if isinstance(thinking, list) else [{"text": thinking}]
                yield "reasoning", "".join(str(p.get("text") or "") for p in inner if isinstance(p, Mapping))
            elif isinstance(summary := part.get("summary"), list):
                yield "reasoning", "".join(text for _, text in _parts(summary))
            elif isinstance(text := _first_text(part, "text", "refusal", "content"), str):
                yield ("reasoning" if part.get("type") in ("reasoning", "thinking") else "text"), text
            elif isinstance(text, Mapping) and isinstance(text.get("value"), str):
                yield "text", text["value"]


def _first_text(part: Mapping[str, Any], *keys: str) -> Any:
    return next((part[key] for key in keys if part.get(key) is not None), None)


def _detail_texts(details: Any) -> Iterable[str]:
    for detail in details if isinstance(details, list) else ():
        text = (detail.get("text") or detail.get("summary")) if isinstance(detail, Mapping) else None
        if isinstance(text, str):
            yield text
