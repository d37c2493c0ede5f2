"""One conversation: its log, its workspace, its owner, and the turn that runs in it.

    send    a message becomes a turn, or waits in the queue while one runs
    decide  a person's answer to a call that waits; the turn goes on
    stop    the turn's task is cancelled; what was said is kept, every open call gets an answer

Knows when a turn may run and how it ends: everything unusual that `run_turn` raises is turned into the turn's one
`TurnEnded` here and nowhere else. Refuses to know what happens inside a turn, and who is watching.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from agent.agent import Agent
from agent.errors import Refused, TurnStop
from agent.events import (
    CallDecided,
    CallFinished,
    CallStatus,
    Event,
    Fault,
    MessageQueued,
    MessageWithdrawn,
    Nudged,
    OutputDelta,
    StepStarted,
    StopReason,
    TurnEnded,
    TurnStarted,
)
from agent.log import EventLog
from agent.loop import run_turn
from agent.messages import ToolCall, UserMessage
from agent.policy import Verdict, arguments_hash
from agent.tool import ToolContext
from agent.transcript import Transcript

logger = logging.getLogger(__name__)


@dataclass
class TurnState:
    """Where the current turn stands: a fold of the log."""

    number: int = 0
    steps: int = 0
    ended: StopReason | None = "answered"
    nudges: set[str] = field(default_factory=set)
    decisions: dict[str, CallDecided] = field(default_factory=dict)
    queue: dict[str, str] = field(default_factory=dict)
    """Messages that wait for their turn, by id."""

    def add(self, event: Event) -> None:
        if isinstance(event, TurnStarted):
            self.number, self.steps, self.ended = event.turn, 0, None
            self.nudges.clear()
            self.queue.pop(event.queued_id or "", None)
        elif isinstance(event, StepStarted):
            self.steps = event.step
            self.decisions.clear()  # a decision dies with its step
        elif isinstance(event, Nudged):
            self.nudges.add(event.code)
        elif isinstance(event, CallDecided):
            self.decisions[event.call_id] = event
            self.ended = None
        elif isinstance(event, MessageQueued):
            self.queue[event.id] = event.text
        elif isinstance(event, MessageWithdrawn):
            self.queue.pop(event.id, None)
        elif isinstance(event, TurnEnded):
            self.ended = event.reason


class Session:
    """A conversation. All methods belong to one event loop; `agent` may be replaced between turns."""

    def __init__(
        self, agent: Agent, workspace: Path, outbox: Path, owner: str = "", log: EventLog | None = None, id: str = ""
    ) -> None:
        self.id = id or secrets.token_urlsafe(16)
        self.owner = owner
        self.agent = agent
        self.workspace = workspace
        self.outbox = outbox
        self.log = log if log is not None else EventLog()
        self.transcript = Transcript()
        self.turn = TurnState()
        for entry in self.log.since(0):
            self._fold(entry.event)
        self._task: asyncio.Task[None] | None = None
        self._stopping = False

    # ------------------------------------------------------------------ what the doors call

    @property
    def running(self) -> bool:
        return self._task is not None and not self._task.done()

    @property
    def title(self) -> str:
        """The first line the person wrote, cut; empty before."""
        first = next((m.text for m in self.transcript.messages if isinstance(m, UserMessage)), "")
        return first.strip().split("\n")[0][:60]

    def send(self, text: str) -> None:
        """Start a turn with this message, or queue it while one runs. Raises Refused for an empty one."""
        if not text.strip():
            raise Refused("an empty message")
        if self.running:
            self.append(MessageQueued(secrets.token_hex(8), text))
        else:
            self._answer_open_calls("denied", "Not run: the user went on with another message.")
            self.append(TurnStarted(self.turn.number + 1, UserMessage(text)))
            self._go_on()

    def withdraw(self, message_id: str) -> None:
        """Take a queued message back. Raises Refused when it is not in the queue any more."""
        if message_id not in self.turn.queue:
            raise Refused("this message is no longer waiting")
        self.append(MessageWithdrawn(message_id))

    def decide(self, call_id: str, arguments_hash_: str, allowed: bool, reason: str = "") -> None:
        """Answer a call that waits for a person; once none waits, the turn goes on.

        Raises Refused unless the call is open, undecided, and its arguments are the ones the person saw.
        """
        call = next((call for call in self.open_calls() if call.id == call_id), None)
        if self.running or self.turn.ended not in ("awaiting_approval", None) or call is None:
            raise Refused("this call does not wait for a decision")
        if call_id in self.turn.decisions or arguments_hash(call) != arguments_hash_:
            raise Refused("the decision is stale: the call was decided already, or its arguments are others")
        self.append(CallDecided(call_id, arguments_hash_, allowed, reason))
        if all(call.id in self.turn.decisions for call in self.open_calls()):
            self._go_on()

    async def stop(self) -> list[str]:
        """End the running turn and empty the queue; return the texts that were not sent. Safe to call at any time."""
        unsent = list(self.turn.queue.values())
        for message_id in list(self.turn.queue):
            self.append(MessageWithdrawn(message_id))
        if self._task is not None and self.running:
            if not self._stopping:  # a second cancel would cut short what the first one set off
                self._stopping = True
                self._task.cancel()
            await asyncio.wait([self._task])
            self._stopping = False
            if self.turn.ended is None:  # cancelled before its first line ran
                self._end("stopped")
        return unsent

    async def wait(self) -> StopReason | None:
        """Wait until no turn runs; return how the last one ended."""
        while self.running and self._task is not None:
            await asyncio.wait([self._task])
        return self.turn.ended

    # ------------------------------------------------------------------ what the loop calls

    def append(self, event: Event) -> None:
        """Write to the log; the session's own views of it follow."""
        self.log.append(event)
        self._fold(event)

    def open_calls(self) -> list[ToolCall]:
        """The calls of the last reply that have no result yet, in the model's order."""
        return list(self.transcript.open_calls.values())

    def decision(self, call: ToolCall) -> Verdict | None:
        """What a person decided about exactly this call; None where nobody did."""
        decided = self.turn.decisions.get(call.id)
        if decided is None or decided.arguments_hash != arguments_hash(call):
            return None
        return Verdict("allow") if decided.allowed else Verdict("deny", decided.reason or "The user said no.")

    def tool_context(self, call: ToolCall) -> ToolContext:
        def emit(text: str) -> None:
            self.append(OutputDelta(call.id, text))

        return ToolContext(self.id, call.id, self.workspace, self.outbox, emit)

    # ------------------------------------------------------------------ inside

    def _fold(self, event: Event) -> None:
        self.transcript.add(event)
        self.turn.add(event)

    def _go_on(self) -> None:
        self._task = asyncio.create_task(self._run_turns(), name=f"session {self.id}")

    async def _run_turns(self) -> None:
        """The open turn, then the queued ones, until the queue is empty or a person is needed."""
        await self._play()
        while self.turn.queue and self.turn.ended not in ("awaiting_approval", "stopped"):
            message_id, text = next(iter(self.turn.queue.items()))
            self.append(TurnStarted(self.turn.number + 1, UserMessage(text), message_id))
            await self._play()

    async def _play(self) -> None:
        """One turn, from wherever it stands to exactly one TurnEnded."""
        reason: StopReason = "answered"
        fault: Fault | None = None
        try:
            await run_turn(self, self.agent)
        except asyncio.CancelledError:
            reason = "stopped"
        except TurnStop as stop:
            reason, fault = stop.reason, stop.fault
        except Exception as error:  # ours: the operator gets the traceback, the person gets a sentence
            logger.exception("turn %s of session %s failed", self.turn.number, self.id)
            reason, fault = "error", Fault("bug", "Something in the app itself failed.", type(error).__name__)
        self._end(reason, fault)

    def _end(self, reason: StopReason, fault: Fault | None = None) -> None:
        """Leave no call open, unless the open ones are what the turn waits for."""
        if reason == "stopped":
            self._answer_open_calls("stopped", "Stopped by the user before it ran.")
        elif reason != "awaiting_approval":
            self._answer_open_calls("denied", f"Not run: the turn ended ({reason}).")
        self.append(TurnEnded(self.turn.number, reason, fault))

    def _answer_open_calls(self, status: CallStatus, text: str) -> None:
        for call in self.open_calls():
            self.append(CallFinished(call.id, call.name, status, text))


class Sessions:
    """The sessions of this process. Every access names the owner, and only the owner's are found."""

    def __init__(self) -> None:
        self._by_id: dict[str, Session] = {}

    def add(self, session: Session) -> Session:
        self._by_id[session.id] = session
        return session

    def get(self, owner: str, session_id: str) -> Session:
        """Raises Refused for an unknown session and for another's alike: the answer must not tell which."""
        session = self._by_id.get(session_id)
        if session is None or not secrets.compare_digest(session.owner.encode(), owner.encode()):
            raise Refused("there is no such session")
        return session

    def of(self, owner: str) -> list[Session]:
        """The owner's sessions, the newest first."""
        return [s for s in reversed(self._by_id.values()) if secrets.compare_digest(s.owner, owner)]

    async def stop_all(self, sessions: Iterable[Session] | None = None) -> None:
        """End every running turn, for a shutdown."""
        await asyncio.gather(*(session.stop() for session in (sessions or list(self._by_id.values()))))
