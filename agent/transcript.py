"""The transcript: what was said, as a fold of the log.

At any instant it is valid for a model: each call is followed by exactly one result before anything else is said, once
`act` has answered the open ones. Knows how events become messages; refuses to know what is shown or sent.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from agent.branches import Branches
from agent.events import (
    BranchSelected,
    CallDecided,
    CallFinished,
    Event,
    Nudged,
    Recalled,
    Replied,
    Retrying,
    Steered,
    StepStarted,
    TextDelta,
    TurnEnded,
    TurnStarted,
)
from agent.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage


@dataclass
class _Turn:
    messages: list[Message] = field(default_factory=list)
    open_calls: dict[str, ToolCall] = field(default_factory=dict)
    edits: dict[str, str] = field(default_factory=dict)  # of open calls: what the model is told of each


class Transcript:
    """Grows with the log: what was said in a turn is append-only, and no branch is ever dropped."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.branches = Branches()
        self.messages: list[Message] = []
        """The selected branch, from the first turn to the leaf."""
        self._turn = _Turn()  # the leaf
        self._turns: dict[int, _Turn] = {}
        self._said: list[str] = []  # deltas of a reply that is not finished
        for event in events:
            self.add(event)

    @property
    def open_calls(self) -> dict[str, ToolCall]:
        """The leaf's calls that still need their result, by id, as they are to run: with a person's changes."""
        return self._turn.open_calls

    def open_in(self, turn: int) -> dict[str, ToolCall]:
        """The same for any turn. Raises KeyError for an unknown one."""
        return self._turns[turn].open_calls

    def of(self, turn: int) -> Sequence[Message]:
        """What was said in this turn, whatever branch it is on. Raises KeyError for an unknown turn."""
        return self._turns[turn].messages

    def add(self, event: Event) -> None:
        """Raises KeyError or ValueError for an event that cannot follow here."""
        if isinstance(event, TextDelta):
            self._said.append(event.text)
        elif isinstance(event, (StepStarted, Retrying)):
            self._said.clear()
        elif isinstance(event, Replied):
            self._said.clear()
            self._say(event.message)
            self._turn.open_calls = {call.id: call for call in event.message.tool_calls}
        elif isinstance(event, CallDecided):
            if event.arguments is not None:
                call = self.open_calls[event.call_id]
                self._turn.edits[call.id] = edit_note(call.arguments, event.arguments)
                self.open_calls[call.id] = replace(call, arguments=event.arguments)
        elif isinstance(event, CallFinished):
            self.open_calls.pop(event.call_id)
            ok = event.status == "done"
            text = self._turn.edits.pop(event.call_id, "") + event.text
            self._say(ToolMessage(event.call_id, event.name, text, ok, event.images))
        elif isinstance(event, (Nudged, Recalled)):
            self._say(UserMessage(event.text, source="glassloop"))
        elif isinstance(event, Steered):
            self._say(event.message)
        elif isinstance(event, TurnStarted):
            grows = event.parent == self.branches.leaf
            self.branches.add(event)
            self._turn = self._turns[event.turn] = _Turn()
            if not grows:
                self._show_branch()
            self._say(event.message)
        elif isinstance(event, BranchSelected):
            self.branches.add(event)
            self._turn = _Turn() if event.turn is None else self._turns[event.turn]
            self._show_branch()
        elif isinstance(event, TurnEnded):
            self._keep_partial()

    def _say(self, message: Message) -> None:
        self.messages.append(message)
        self._turn.messages.append(message)

    def _show_branch(self) -> None:
        path = self.branches.path(self.branches.leaf)
        self.messages = [message for turn in path for message in self._turns[turn].messages]

    def _keep_partial(self) -> None:
        """What a reply had said when its turn ended under it was said, and the next turn builds on it."""
        if text := "".join(self._said).strip():
            self._say(AssistantMessage(text))
        self._said.clear()


def edit_note(before: str, after: str) -> str:
    """What the model is told of a call whose arguments (JSON objects) a person changed before allowing it."""
    old, new = json.loads(before), json.loads(after)
    others = {
        name: value for name, value in new.items() if name not in old or json.dumps(old[name]) != json.dumps(value)
    }
    gone = [name for name in old if name not in new]
    facts = [f"changed to {json.dumps(others, ensure_ascii=False)}"] if others else []
    facts += [f"left out: {', '.join(gone)}"] if gone else []
    return f"[The user changed the arguments of this call before it ran. {'; '.join(facts)}]\n"
