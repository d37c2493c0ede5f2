"""How many tokens a text is, and how full the model's window is.

What a server has counted is believed, as far as it makes sense; everything else is estimated, and the estimate is put
right by the server's numbers as they come. No vocabulary is needed: letters, digits, signs and characters are counted,
which is within a quarter of what the tokenizers of large models say, for Chinese as for English and code.

Knows sizes. Refuses to decide what is left out when the window is full (`agent/compaction.py` does).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agent.events import BranchSelected, Compacted, Event, Replied, RequestSent, TurnStarted, Usage
from agent.llm.model import Request, ToolSpec, Window
from agent.messages import AssistantMessage, Message, ToolMessage, UserMessage

_PIECES = re.compile(r" ?[A-Za-z]{1,8}|\d{1,2}|[\r\n]+ *|[ \t]{2,}|[!-/:-@\[-`{-~]{1,2}")
"""What is about one token of ASCII text: a word or a part of one, two digits, the start of a line, two signs."""
_IDEOGRAPHS = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]")
PER_IDEOGRAPH = 0.65
"""Tokens of a Chinese, Japanese or Korean character: vocabularies of today have many words of two."""
PER_OTHER = 0.8
"""Tokens of any other character beyond ASCII, such as Chinese punctuation and Cyrillic letters."""
PER_MESSAGE = 4
"""Tokens around each message: its role and where it begins and ends."""
PER_IMAGE = 800
"""Tokens of a picture, by and large; servers differ, and their count corrects it."""

PLAUSIBLE = (0.4, 3.0)
"""A server's count that is not within this of the estimate is of something else, such as of the new tokens only."""


def estimate(text: str) -> int:
    """Tokens of a text."""
    pieces = len(_PIECES.findall(text))
    if text.isascii():
        return pieces
    ideographs = len(_IDEOGRAPHS.findall(text))
    others = len(text) - len(text.encode("ascii", "ignore")) - ideographs
    return round(pieces + ideographs * PER_IDEOGRAPH + others * PER_OTHER)


def estimate_json(value: Any) -> int:
    """Tokens of JSON data, as it is sent."""
    return estimate(json.dumps(value, ensure_ascii=False, default=str))


def estimate_message(message: Message) -> int:
    """Tokens of a message in a request."""
    tokens = PER_MESSAGE + estimate(message.text)
    if isinstance(message, AssistantMessage):
        tokens += sum(PER_MESSAGE + estimate(call.name) + estimate(call.arguments) for call in message.tool_calls)
    elif isinstance(message, (ToolMessage, UserMessage)):
        tokens += PER_IMAGE * len(message.images)
    return tokens


class Sizes:
    """Estimates of one session's messages, each made once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Message, int]] = {}

    def of(self, message: Message) -> int:
        """Tokens of a message that goes on existing."""
        known = self._known.get(id(message))
        if known is None or known[0] is not message:
            known = self._known[id(message)] = message, estimate_message(message)
        return known[1]

    def all_of(self, messages: Sequence[Message]) -> int:
        return sum(self.of(message) for message in messages)


def estimate_tools(tools: Sequence[ToolSpec]) -> int:
    """Tokens of the tools in a request."""
    return sum(
        estimate(tool.name) + estimate(tool.description) + estimate_json(dict(tool.parameters)) + 2 * PER_MESSAGE
        for tool in tools
    )


@dataclass(frozen=True)
class Filling:
    """How full the window is, and with what. All in tokens."""

    window: Window
    system: int
    tools: int
    messages: int
    counted: bool
    """By the server, but for what was said since its last count; False: estimated."""

    @property
    def used(self) -> int:
        return self.system + self.tools + self.messages

    @property
    def share(self) -> float:
        return self.used / self.window.tokens


class Counts:
    """What a session's server has counted: a fold of the log, and what it says of a request."""

    def __init__(self) -> None:
        self.ratio = 1.0
        """The server's tokens for one of ours, as last seen."""
        self.windows: dict[str, int] = {}
        """How many tokens fit, by the model's name, as its server said when it refused more."""
        self.sizes = Sizes()
        self._leaf: int | None = None
        self._model = ""
        self._last: dict[int, Usage | None] = {}  # by turn, since the context was last compacted
        self._overhead: tuple[object, int, int] = (None, 0, 0)

    def add(self, event: Event) -> None:
        if isinstance(event, (TurnStarted, BranchSelected)):
            self._leaf = event.turn
        elif isinstance(event, Compacted):
            self._last.clear()  # what was counted is not what is sent from now on
            if event.window:
                self.windows[self._model] = event.window
        elif isinstance(event, RequestSent):
            self._model = event.model
        elif isinstance(event, Replied) and self._leaf is not None:
            counted = event.usage is not None and event.usage.input_tokens > 0
            self._last[self._leaf] = event.usage if counted else None

    def fill(self, request: Request, path: Sequence[int], window: Window) -> Filling:
        """How full the window is with this request, the next one on the branch of the turns in `path`."""
        system, tools = self._of_agent(request)
        usage = next((self._last[turn] for turn in reversed(path) if turn in self._last), None)
        replies = [at for at, m in enumerate(request.messages) if isinstance(m, AssistantMessage)]
        if usage is None or not replies:
            return self._estimated(request.messages, system, tools, window)
        before = self.sizes.all_of(request.messages[: replies[-1]]) + system + tools
        ratio = usage.input_tokens / max(before, 1)
        if not PLAUSIBLE[0] <= ratio <= PLAUSIBLE[1]:
            return self._estimated(request.messages, system, tools, window)
        self.ratio = ratio
        said = max(usage.output_tokens - usage.reasoning_tokens, 0)
        since = self.sizes.all_of(request.messages[replies[-1] + 1 :])
        used = usage.input_tokens + said + round(since * ratio)
        system, tools = round(system * ratio), round(tools * ratio)
        return Filling(window, system, tools, max(used - system - tools, 0), counted=True)

    def _estimated(self, messages: Sequence[Message], system: int, tools: int, window: Window) -> Filling:
        said = round(self.sizes.all_of(messages) * self.ratio)
        return Filling(window, round(system * self.ratio), round(tools * self.ratio), said, counted=False)

    def _of_agent(self, request: Request) -> tuple[int, int]:
        """System prompt and tools: the same at each request of an agent."""
        key = (request.system, request.tools)
        if self._overhead[0] != key:
            self._overhead = key, estimate(request.system) + PER_MESSAGE, estimate_tools(request.tools)
        return self._overhead[1], self._overhead[2]
