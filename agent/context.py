"""The context: what the model is shown at this step, a view of the transcript.

    fit          a request: system prompt, messages, tools
    Compactions  what is not shown in full any more: a fold of the log

The view is a function of the transcript and of the `Compacted` events alone, so a restart gives the same, and between
two of them it only grows: what a provider has cached of it stays good. A call is never parted from its result. Refuses
to decide what is left out (`agent/compaction.py` does), to edit the transcript, and to know how a request looks on the
wire.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from agent.events import BranchSelected, Compacted, Event, TurnStarted
from agent.llm.model import Request, ToolSpec
from agent.messages import AssistantMessage, Message, ToolMessage, UserMessage
from agent.tool import cut_middle
from agent.transcript import Transcript

if TYPE_CHECKING:
    from agent.agent import Agent
    from agent.session import Session

ELIDED_CHARS = 300
"""What is left of a result that is shown by reference: its beginning and its end."""

STEPS_LEFT_OUT = "Earlier steps of this task were left out here, because they do not fit any more."


def fit(session: Session, agent: Agent, may_call: bool = True) -> Request:
    """Everything said so far, as far as it fits, and the tools. `may_call=False` asks for an answer in words."""
    return Request(
        system=agent.system_prompt,
        messages=tuple(session.compactions.view(session.transcript)),
        tools=tuple(ToolSpec(tool.name, tool.description, tool.parameters) for tool in agent.toolbox),
        tool_choice="auto" if may_call else "none",
    )


class Compactions:
    """What was compacted, by the turn in which it was: it holds on the branches that this turn is on."""

    def __init__(self) -> None:
        self._leaf: int | None = None
        self._by_turn: dict[int, list[Compacted]] = {}
        self._elided: dict[tuple[str, str], ToolMessage] = {}  # the same objects each time
        self._summaries: dict[str, UserMessage] = {}

    def add(self, event: Event) -> None:
        if isinstance(event, (TurnStarted, BranchSelected)):
            self._leaf = event.turn
        elif isinstance(event, Compacted) and self._leaf is not None:
            self._by_turn.setdefault(self._leaf, []).append(event)

    def on(self, path: Sequence[int]) -> list[Compacted]:
        """What was compacted on these turns, in order."""
        return [event for turn in path for event in self._by_turn.get(turn, ())]

    def view(self, transcript: Transcript, further: Sequence[Compacted] = ()) -> list[Message]:
        """The messages of the selected branch as the model is shown them; `further`: what may be compacted next."""
        path = transcript.branches.path(transcript.branches.leaf)
        done = [*self.on(path), *further]
        elided = {call: how for event in done for call, how in event.elided.items()}
        left_out = {call for event in done for call in event.left_out}
        last = next((e for e in reversed(done) if e.summarised in path), None)
        view: list[Message] = []
        if last is not None and last.summarised is not None:
            view.append(self._summary(last.summary))
            path = path[path.index(last.summarised) + 1 :]
        for turn in path:
            view.extend(self._turn(transcript.of(turn), elided, left_out))
        return view

    def _turn(self, messages: Sequence[Message], elided: dict[str, str], left_out: set[str]) -> Iterator[Message]:
        gone: set[str] = set()  # of whole steps: a call that is shown has its result
        for message in messages:
            if isinstance(message, AssistantMessage) and message.tool_calls:
                calls = {call.id for call in message.tool_calls}
                if calls <= left_out:
                    if not gone:
                        yield self._note(STEPS_LEFT_OUT)
                    gone |= calls
                    continue
            elif isinstance(message, ToolMessage):
                if message.call_id in gone:
                    continue
                if message.call_id in elided:
                    yield self._shortened(message, elided[message.call_id])
                    continue
            yield message

    def _shortened(self, message: ToolMessage, how: str) -> ToolMessage:
        key = (message.call_id, message.text)
        if key not in self._elided:
            self._elided[key] = replace(message, text=cut_middle(message.text, ELIDED_CHARS, how), images=())
        return self._elided[key]

    def _summary(self, text: str) -> UserMessage:
        return self._note(f"The earlier part of this conversation is left out, because it does not fit. {text}")

    def _note(self, text: str) -> UserMessage:
        if text not in self._summaries:
            self._summaries[text] = UserMessage(text, source="glassloop")
        return self._summaries[text]
