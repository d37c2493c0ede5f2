"""One conversation: its log, its workspace, its owner, and the turn that runs in it.

    send    a message becomes a turn, or waits in the queue while one runs
    decide  a person's answer to a call that waits; the turn goes on
    stop    the turn's task is cancelled; what was said is kept, every open call gets an answer
    edit    another message, or the same one again, in place of an earlier one: a new branch, the old one is kept
    resume  go on after an interruption, a stop, a limit or a failure
    undo    files and conversation go back together, and forth again

Knows when a turn may run and how it ends: everything unusual that `run_turn` raises is turned into the turn's one
`TurnEnded` here and nowhere else. Refuses to know what happens inside a turn, and who is watching.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from agent.agent import Agent
from agent.approval import Decision, judge, settle, stands_for
from agent.errors import NotKept, Refused, TurnStop
from agent.events import (
    BranchSelected,
    CallFinished,
    CallStatus,
    Event,
    Fault,
    MessageQueued,
    MessageWithdrawn,
    Nudged,
    OneCall,
    OneUndo,
    OutputDelta,
    RequestSent,
    Rule,
    RuleGranted,
    RuleRevoked,
    StopReason,
    TurnEnded,
    TurnResumed,
    TurnStarted,
    Undone,
    UndoTarget,
)
from agent.log import EventLog
from agent.loop import run_turn
from agent.messages import AssistantMessage, ToolCall, UserMessage
from agent.policy import Verdict
from agent.receipt import receipt
from agent.requests import Requests
from agent.tool import Effect, ToolContext, cut_middle
from agent.transcript import Transcript
from agent.turn import TurnState
from agent.undo import OnConflict, Preview, diff, preview, undo
from agent.workspace_rules import WorkspaceRules

logger = logging.getLogger(__name__)

RESUMABLE = ("interrupted", "stopped", "step_limit", "budget", "output_truncated", "empty_answer", "error")
"""The ends after which it makes sense to go on without a new message."""

INTERRUPTED = "Interrupted while it ran; its result is lost. It may have done its work, or a part of it."


def other_branch(calls: Sequence[ToolCall]) -> str:
    """What the model is told of calls that it cannot see: their effect on the world outlives their branch."""
    lines = [f"- {call.name}({cut_middle(call.arguments, 300)})" for call in calls[-20:]]
    return (
        "On another branch of this conversation, which you do not see, these calls ran. What they changed may still be "
        "there: look before you repeat any of them.\n" + "\n".join(lines)
    )


class Session:
    """A conversation. All methods belong to one event loop; `agent` may be replaced between turns."""

    def __init__(
        self,
        agent: Agent,
        workspace: Path,
        outbox: Path,
        owner: str = "",
        log: EventLog | None = None,
        id: str = "",
        workspace_rules: WorkspaceRules | None = None,
    ) -> None:
        self.id = id or secrets.token_urlsafe(16)
        self.owner = owner
        self.agent = agent
        self.workspace = workspace
        self.outbox = outbox
        self.log = log if log is not None else EventLog()
        self.transcript = Transcript()
        self.requests = Requests()
        self.context_chars: int | None = None
        """How much of the transcript fits the model, once a server has said that it was too much."""
        self.turn = TurnState()
        """The leaf's."""
        self._turns: dict[int, TurnState] = {}
        self._undone: frozenset[int] = frozenset()
        """The turns whose changes to files are not there any more."""
        self.rules: dict[str, Rule] = {}
        """What was granted for this session and not revoked, by id; `workspace_rules` has those that last longer."""
        self.workspace_rules = workspace_rules
        for entry in self.log.since(0):
            self._fold(entry.event)
        self._task: asyncio.Task[Any] | None = None
        self._stopping = False

    # ------------------------------------------------------------------ what the doors call

    @property
    def running(self) -> bool:
        return self._task is not None and not self._task.done()

    @property
    def busy(self) -> bool:
        """Does anything of it run: a turn, or a process in the background?"""
        background = self.agent.background
        return self.running or (background is not None and background.is_busy(self.id))

    @property
    def waiting(self) -> bool:
        """Does the turn wait for a person?"""
        return self.turn.ended == "awaiting_approval" and bool(self.waiting_calls())

    @property
    def title(self) -> str:
        """The first line the person wrote, cut; empty before."""
        first = next((m.text for m in self.transcript.messages if isinstance(m, UserMessage)), "")
        return first.strip().split("\n")[0][:60]

    def send(self, text: str) -> None:
        """Start a turn with this message, or queue it while one runs. Raises Refused for an empty one."""
        if not text.strip():
            raise Refused("an empty message")
        if not self.running:
            self._answer_open_calls("denied", "Not run: the user went on with another message.")
        if self.running or self.turn.queue:  # what an interruption left in the queue comes first
            self.append(MessageQueued(secrets.token_hex(8), text))
        else:
            self._start(UserMessage(text), self.transcript.branches.leaf)
        if not self.running:
            self._go_on()

    def withdraw(self, message_id: str) -> None:
        """Take a queued message back. Raises Refused when it is not in the queue any more."""
        if message_id not in self.turn.queue:
            raise Refused("this message is no longer waiting")
        self.append(MessageWithdrawn(message_id))

    def decide(
        self,
        call_id: str,
        arguments_hash: str,
        allowed: bool,
        reason: str = "",
        scope: str = "once",
        arguments: str | None = None,
    ) -> None:
        """Answer a call that waits for a person; `approval.Decision` says what each argument means."""
        self.decide_all([Decision(call_id, arguments_hash, allowed, reason, scope, arguments)])

    def decide_all(self, decisions: Iterable[Decision]) -> None:
        """Answer calls that wait for a person. Once none waits (a rule may answer the rest), the turn goes on.

        Raises Refused, and then no decision counts, as `approval.settle` says.
        """
        settled = settle(self, decisions)
        lasting = [e.rule for e in settled if isinstance(e, RuleGranted) and e.rule.lasts == "workspace"]
        if lasting and self.workspace_rules is not None:
            self.workspace_rules.grant(self.workspace, lasting)
        for event in settled:
            self.append(event)
        if settled and all(judge(self, self.agent, call).answer != "ask" for call in self.waiting_calls()):
            self.append(TurnResumed(self.turn.number))
            self._go_on()

    def revoke(self, rule_id: str) -> None:
        """Take a rule back, from the next call on. Raises Refused for an unknown rule, or one that cannot be undone."""
        lasting = self.workspace_rules
        if rule_id not in self.rules and (lasting is None or not lasting.revoke(self.workspace, rule_id)):
            raise Refused("there is no such rule")
        self.append(RuleRevoked(rule_id))

    async def stop(self) -> list[str]:
        """End the running turn and empty the queue; return the texts that were not sent. Safe to call at any time."""
        if self._task is not None and self.running:
            if not self._stopping:  # a second cancel would cut short what the first one set off
                self._stopping = True
                self._task.cancel()
            await asyncio.wait([self._task])
            self._stopping = False
            if self.turn.ended is None:  # cancelled before its first line ran
                self._end("stopped")
        unsent = dict(self.turn.queue)
        for message_id in unsent:
            self.append(MessageWithdrawn(message_id))
        return list(unsent.values())

    async def close(self) -> None:
        """The session is over, here or for good: its turn is stopped, and what it left in the background is ended."""
        await self.stop()
        if self.agent.background is not None:
            await self.agent.background.end_all(self.id)

    def edit(self, turn: int, text: str) -> None:
        """Say this in place of the message of `turn`: a new branch beside it. What waits there goes on waiting.

        Raises Refused for an empty message, an unknown turn, and while a turn runs.
        """
        if not text.strip():
            raise Refused("an empty message")
        self._branch_off(turn, UserMessage(text))

    def retry(self, turn: int) -> None:
        """Ask the same again, on a new branch. Raises Refused as `edit` does."""
        self._check_branching(turn)
        message = self.transcript.of(turn)[0]
        assert isinstance(message, UserMessage)
        self._branch_off(turn, message)

    def select(self, turn: int) -> None:
        """Go over to the newest branch through `turn`. Raises Refused as `edit` does."""
        self._check_branching(turn)
        self.append(BranchSelected(self.transcript.branches.newest_leaf(turn)))

    def siblings(self, turn: int) -> list[int]:
        """The versions of this turn, itself among them, oldest first. Raises KeyError for an unknown turn."""
        return self.transcript.branches.siblings(turn)

    def path(self, leaf: int) -> list[int]:
        """The turns from the first to `leaf`; `transcript.of` says what was said in each. KeyError if unknown."""
        return self.transcript.branches.path(leaf)

    def resume(self) -> None:
        """Go on, in a turn of its own, where the last one was cut off. Raises Refused where it was not."""
        reason = self.turn.ended
        if self.running or reason not in RESUMABLE:
            raise Refused("there is nothing to go on with")
        text = f"Go on where you were cut off ({reason}). Look before you repeat a call whose result you did not get."
        self._answer_open_calls("denied", f"Not run: the turn ended ({reason}).")
        self._start(UserMessage(text, source="glassloop"), self.transcript.branches.leaf)
        self._go_on()

    def recover(self) -> None:
        """End a turn that its process did not live to end. For the one who opens the session from its log."""
        decided_in_vain = self.turn.ended == "awaiting_approval" and self.open_calls() and not self.waiting
        if not self.running and (self.turn.ended is None or decided_in_vain):
            self._end("interrupted")

    async def undo_preview(self, target: UndoTarget, paths: Collection[str] | None = None) -> Preview:
        """What `undo` would do now. Raises Refused for a target that cannot be undone."""
        return await preview(self, target, paths)

    async def undo(
        self, target: UndoTarget, paths: Collection[str] | None = None, on_conflict: OnConflict = "refuse"
    ) -> Undone:
        """Take back what `target` changed, files and conversation: see `agent/undo.py`. A message sent meanwhile waits.

        Raises Refused while a turn runs, for an unknown target, and for conflicts without a choice.
        """
        if self.running:
            raise Refused("a turn is running; stop it first")
        undoing = self._undo(target, paths, on_conflict, queued=frozenset(self.turn.queue))
        task = asyncio.create_task(undoing, name=f"undo in session {self.id}")
        self._task = task
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise Refused("stopped before it began") from None
            raise

    async def diff(self, target: OneCall | OneUndo, path: str) -> str:
        """Unified diff of one file that a call or an undo changed. Raises Refused where it did not."""
        return await diff(self, target, path)

    async def wait(self) -> StopReason | None:
        """Wait until no turn runs; return how the last one ended."""
        while self.running and self._task is not None:
            await asyncio.wait([self._task])
        return self.turn.ended

    # ------------------------------------------------------------------ what the loop calls

    def append(self, event: Event) -> None:
        """Write to the log; the session's own views of it follow."""
        if isinstance(event, RequestSent):
            event = self.requests.shrink(event)
        self.log.append(event)
        self._fold(event)

    def open_calls(self) -> list[ToolCall]:
        """The calls of the last reply that have no result yet, in the model's order, as they are to run."""
        return list(self.transcript.open_calls.values())

    def waiting_calls(self) -> list[ToolCall]:
        """The open calls that a person is asked about and has not decided."""
        return [call for call in self.open_calls() if call.id in self.turn.waiting]

    def decision(self, call: ToolCall) -> Verdict | None:
        """What a person decided about exactly this call; None where nobody did."""
        decided = self.turn.decisions.get(call.id)
        if decided is None or not stands_for(decided, call):
            return None
        return Verdict("allow") if decided.allowed else Verdict("deny", decided.reason or "The user said no.")

    def tool_context(self, call: ToolCall) -> ToolContext:
        def emit(text: str) -> None:
            self.append(OutputDelta(call.id, text))

        return ToolContext(self.id, call.id, self.workspace, self.outbox, emit)

    # ------------------------------------------------------------------ inside

    def _fold(self, event: Event) -> None:
        if isinstance(event, TurnStarted):
            self.turn = self._turns[event.turn] = TurnState(queue=self.turn.queue)
        elif isinstance(event, BranchSelected):
            self.turn = TurnState(queue=self.turn.queue) if event.turn is None else self._turns[event.turn]
        elif isinstance(event, Undone):
            self._undone = self._undone.union(event.gone).difference(event.back)
        elif isinstance(event, RuleGranted) and event.rule.lasts == "session":
            self.rules[event.rule.id] = event.rule
        elif isinstance(event, RuleRevoked):
            self.rules.pop(event.rule_id, None)
        elif isinstance(event, RequestSent):
            self.requests.add(event)
        self.transcript.add(event)
        self.turn.add(event)

    async def _undo(
        self, target: UndoTarget, paths: Collection[str] | None, on_conflict: OnConflict, queued: frozenset[str]
    ) -> Undone:
        try:
            return await undo(self, target, paths, on_conflict)
        finally:
            if self.turn.queue.keys() - queued and not self._stopping:  # sent meanwhile, as if it were sent now
                self._answer_open_calls("denied", "Not run: the user went on with another message.")
                self._go_on()

    def _check_branching(self, turn: int) -> None:
        if self.running:
            raise Refused("a turn is running; stop it first")
        if turn not in self._turns:
            raise Refused("there is no such turn")

    def _branch_off(self, turn: int, message: UserMessage) -> None:
        self._check_branching(turn)
        self._start(message, self.transcript.branches.parents[turn])
        self._go_on()

    def _start(self, message: UserMessage, parent: int | None, queued_id: str | None = None) -> None:
        """A new turn. What other branches have changed meanwhile is told: the model cannot see it otherwise."""
        number = len(self._turns) + 1
        calls = [call for turn in range((parent or 0) + 1, number) for call in self._changes_of(turn)]
        self.append(TurnStarted(number, message, queued_id, parent))
        if calls:
            try:
                self.append(Nudged("other_branch", other_branch(calls)))
            except NotKept as lost:
                self._end(lost.reason, lost.fault)
                raise

    def _changes_of(self, turn: int) -> list[ToolCall]:
        """The calls of this turn that ran and may have changed something that is still there."""
        if turn in self._undone:
            return []
        replies = (m for m in self.transcript.of(turn) if isinstance(m, AssistantMessage))
        calls = [call for reply in replies for call in reply.tool_calls if call.id in self._turns[turn].started]
        tools = self.agent.toolbox
        return [call for call in calls if (tool := tools.get(call.name)) and tool.effect is not Effect.READ]

    def _go_on(self) -> None:
        self._task = asyncio.create_task(self._run_turns(), name=f"session {self.id}")

    async def _run_turns(self) -> None:
        """The open turn, then the queued ones, until the queue is empty or a person is needed."""
        while self.turn.ended is None or self.turn.queue:
            if self.turn.ended is not None:
                message_id, text = next(iter(self.turn.queue.items()))
                try:
                    self._start(UserMessage(text), self.transcript.branches.leaf, message_id)
                except NotKept as error:
                    logger.error("session %s: a queued message goes on waiting: %s", self.id, error)
                    return
            await self._play()
            if self._stopping or self.turn.ended in ("awaiting_approval", "stopped"):
                return

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
        try:
            if reason == "stopped":
                self._answer_open_calls("stopped", "Stopped by the user before it ran.")
            elif reason == "interrupted":
                self._answer_open_calls("interrupted", "Not run: the app ended before it could.")
            elif reason != "awaiting_approval":
                self._answer_open_calls("denied", f"Not run: the turn ended ({reason}).")
            self.append(TurnEnded(self.turn.number, reason, fault, receipt(self) if reason == "stopped" else None))
        except NotKept as lost:  # the calls stay open in the log, too; whoever goes on answers them
            self.append(TurnEnded(self.turn.number, lost.reason, lost.fault))

    def _answer_open_calls(self, status: CallStatus, text: str) -> None:
        for call in self.open_calls():
            if call.id in self.turn.started:  # and has no result: the app ended, or could not write it down
                self.append(CallFinished(call.id, call.name, "interrupted", INTERRUPTED))
            else:
                self.append(CallFinished(call.id, call.name, status, text))
