"""One conversation: its log, its workspace, its owner, and the turn that runs in it.

    send    a message becomes a turn, or waits in the queue while one runs
    decide  a person's answer to a call that waits; the turn goes on
    stop    the turn's task is cancelled; what was said is kept, every open call gets an answer
    edit    another message, or the same one again, in place of an earlier one: a new branch, the old one is kept
    resume  go on after an interruption, a stop, a limit or a failure
    raise_budget  finish  give_up  what becomes of a turn that has used something up
    undo    files and conversation go back together, and forth again

Knows when a turn may run and how it ends: everything unusual that `run_turn` raises is turned into the turn's one
`TurnEnded` here and nowhere else. Refuses to know what happens inside a turn, and who is watching.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any

from agent.agent import Agent
from agent.approval import Decision, judge, settle, stands_for
from agent.attached import own_words, reworded
from agent.context import Compactions
from agent.errors import NotKept, Refused, TurnStop
from agent.events import (
    BranchSelected,
    Budget,
    BudgetKind,
    BudgetRaised,
    BudgetScope,
    BudgetSet,
    CallFinished,
    CallStatus,
    Event,
    Fault,
    File,
    FinishRequested,
    Memory,
    MessageQueued,
    MessageWithdrawn,
    Meter,
    Nudged,
    OneCall,
    OneUndo,
    OutputDelta,
    PartialPicture,
    RequestSent,
    Rule,
    RuleGranted,
    RuleRevoked,
    Steered,
    StopReason,
    TurnEnded,
    TurnResumed,
    TurnStarted,
    Undone,
    UndoTarget,
)
from agent.limits import Budgets
from agent.log import Entry, EventLog
from agent.loop import run_turn
from agent.memory import remind
from agent.messages import AssistantMessage, ToolCall, UserMessage
from agent.meter import Meters
from agent.policy import Verdict
from agent.receipt import receipt
from agent.requests import Requests
from agent.store.memories import Memories
from agent.tokens import Counts
from agent.tool import ToolContext, cut_middle
from agent.transcript import Transcript
from agent.turn import TurnState
from agent.undo import OnConflict, Preview, diff, preview, undo
from agent.voices import Voices
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
        memory: Memories | None = None,
    ) -> None:
        self.id = id or secrets.token_urlsafe(16)
        self.owner = owner
        self.agent = agent
        self.workspace = workspace
        self.outbox = outbox
        self.log = log if log is not None else EventLog()
        self.transcript = Transcript()
        self.requests = Requests()
        self.compactions = Compactions()
        """What of the transcript the model is not shown any more."""
        self.counts = Counts()
        """What the model's server has counted."""
        self.meters = Meters(agent.prices)
        self.budgets = Budgets()
        self.turn = TurnState()
        """The leaf's."""
        self._turns: dict[int, TurnState] = {}
        self._undone: frozenset[int] = frozenset()
        """The turns whose changes to files are not there any more."""
        self.rules: dict[str, Rule] = {}
        """What was granted for this session and not revoked, by id; `workspace_rules` has those that last longer."""
        self.workspace_rules = workspace_rules
        self.memory = memory
        """What is remembered of the owner; None where nothing may be."""
        self.voices = Voices()
        for entry in self.log.since(0):
            self._take(entry)
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

    def send(
        self,
        text: str,
        *,
        images: tuple[File, ...] = (),
        files: tuple[File, ...] = (),
        expects: tuple[str, ...] = (),
        steer: bool = False,
    ) -> None:
        """Start a turn with this message, or queue it while one runs; `UserMessage` says what each part is.

        `steer`: it enters the running turn before its next step. Raises Refused for an empty one.
        """
        if not text.strip() and not files:
            raise Refused("an empty message")
        queued = MessageQueued(secrets.token_hex(8), text, images, files, expects, steer)
        if not self.running:
            self._answer_open_calls("denied", "Not run: the user went on with another message.")
        if self.running or self.turn.queue:  # what an interruption left in the queue comes first
            self.append(queued)
        else:
            self._start(queued.message, self.transcript.branches.leaf)
        if not self.running:
            self._go_on()

    def steer(self, message_id: str) -> None:
        """Let a queued message enter the running turn. Raises Refused where it does not wait, or no turn runs."""
        if message_id not in self.turn.queue:
            raise Refused("this message is no longer waiting")
        if self.turn.ended is not None:
            raise Refused("no turn is running that it could steer")
        self.append(replace(self.turn.queue[message_id], steer=True))

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
        return [queued.text for queued in unsent.values()]

    async def close(self) -> None:
        """The session is over, here or for good: its turn is stopped, and what it left in the background is ended."""
        await self.stop()
        if self.agent.background is not None:
            await self.agent.background.end_all(self.id)

    def edit(self, turn: int, text: str) -> None:
        """Say this in place of the message of `turn`: a new branch beside it. What waits there goes on waiting.

        Raises Refused for an empty message, an unknown turn, and while a turn runs. What was attached stays attached.
        """
        self._check_branching(turn)
        old = self.transcript.of(turn)[0]
        assert isinstance(old, UserMessage)
        message = replace(old, text=reworded(old.text, text) if old.files else text)
        if not message.text.strip():
            raise Refused("an empty message")
        self._branch_off(turn, message)

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

    def raise_budget(self, kind: BudgetKind, by: float) -> None:
        """Give the turn more of what it has used up, and let it go on.

        Raises Refused where it has not used that up, or for an amount that is none.
        """
        scope = self._check_paused(kind)
        if not (isfinite(by) and by > 0):
            raise Refused("this is no amount to add")
        limits = self.agent.limits
        if limits.binding and (scope == "session" or by > (limits.of(kind, scope) or by)):
            raise Refused("this limit was set by whoever runs the app")
        was = self.turn.ended
        self.append(BudgetRaised(kind, by, scope))
        if was == "step_limit":  # it has summed up already
            self.append(Nudged("raised", f"The user gives you {by:g} more model calls. Go on with the task."))
        self.append(TurnResumed(self.turn.number))
        self._go_on()

    def finish(self) -> None:
        """Let a turn that has used something up say how far it got, without tools. Raises Refused for any other."""
        self._check_paused(None)
        self.append(FinishRequested())
        self.append(TurnResumed(self.turn.number))
        self._go_on()

    def give_up(self) -> None:
        """A turn that has used something up stays where it is, and asks no more. Raises Refused for any other."""
        self._check_paused(None)
        self.append(TurnResumed(self.turn.number))
        self._end("stopped")

    def set_budget(self, kind: BudgetKind, scope: BudgetScope, limit: float | None) -> None:
        """Another limit for this conversation; None: none. Raises Refused for a number that is no limit."""
        if limit is not None and not (isfinite(limit) and limit > 0):
            raise Refused("this is no limit")
        most = self.agent.limits.of(kind, scope) if self.agent.limits.binding else None
        if most is not None and (limit is None or limit > most):
            raise Refused("this limit was set by whoever runs the app")
        self.append(BudgetSet(kind, scope, limit))

    def spent(self, now: float | None = None) -> Meter:
        """What the turn has taken by `now`, or so far."""
        return self.meters.turn(self.turn.number, now or self.log.now()) if self.turn.number else Meter()

    def spent_in_all(self, now: float | None = None) -> Meter:
        """What all turns of the session have taken by `now`, or so far."""
        return self.meters.session(now or self.log.now())

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
        self._take(self.log.append(event))

    @property
    def steering(self) -> bool:
        """Does a message wait for the next step?"""
        return any(queued.steer for queued in self.turn.queue.values())

    def take_steering(self) -> None:
        """What waits for the next step enters the turn. Only while no call is open."""
        for queued in [queued for queued in self.turn.queue.values() if queued.steer]:
            self.append(Steered(queued.id, replace(queued.message, source="steering")))

    def open_calls(self) -> list[ToolCall]:
        """The calls of the last reply that have no result yet, in the model's order, as they are to run."""
        return list(self.transcript.open_calls.values())

    def waiting_calls(self) -> list[ToolCall]:
        """The open calls that a person is asked about and has not decided."""
        return [call for call in self.open_calls() if call.id in self.turn.waiting]

    def turn_state(self, turn: int) -> TurnState:
        """Where any turn stands. Raises KeyError for an unknown one."""
        return self._turns[turn]

    def decision(self, call: ToolCall) -> Verdict | None:
        """What a person decided about exactly this call; None where nobody did."""
        decided = self.turn.decisions.get(call.id)
        if decided is None or not stands_for(decided, call):
            return None
        return Verdict("allow") if decided.allowed else Verdict("deny", decided.reason or "The user said no.")

    def tool_context(self, call: ToolCall) -> ToolContext:
        def emit(text: str) -> None:
            self.append(OutputDelta(call.id, text))

        def show(file: File) -> None:
            self.append(PartialPicture(call.id, file))

        return ToolContext(self.id, call.id, self.workspace, self.outbox, emit, show, session=self)

    # ------------------------------------------------------------------ inside

    def _take(self, entry: Entry) -> None:
        self.meters.add(entry)
        self._fold(entry.event)

    def _fold(self, event: Event) -> None:
        if isinstance(event, TurnStarted):
            before = self.turn if event.message.source == "glassloop" else None  # the same task goes on
            plan = before.plan if before else ()
            self.turn = self._turns[event.turn] = TurnState(queue=self.turn.queue, plan=plan, before=before)
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
        self.voices.add(event)
        self.turn.add(event)
        self.compactions.add(event)
        self.counts.add(event)
        self.budgets.add(event)

    async def _undo(
        self, target: UndoTarget, paths: Collection[str] | None, on_conflict: OnConflict, queued: frozenset[str]
    ) -> Undone:
        try:
            return await undo(self, target, paths, on_conflict)
        finally:
            if self.turn.queue.keys() - queued and not self._stopping:  # sent meanwhile, as if it were sent now
                self._answer_open_calls("denied", "Not run: the user went on with another message.")
                self._go_on()

    def _check_paused(self, kind: BudgetKind | None) -> BudgetScope:
        """Has the turn used up this (None: anything)? Whose limit it was."""
        if self.running or self.turn.ended not in ("budget", "step_limit"):
            raise Refused("nothing is used up here")
        budget = self.turn.budget or Budget("steps", "turn", self.turn.steps, self.turn.steps)
        if kind not in (None, budget.kind):
            raise Refused(f"what is used up is {budget.kind}")
        return budget.scope

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
        try:
            if message.source == "person":
                said = own_words(message.text) if message.files else message.text
                remind(self, said, self._told(parent))
            if calls:
                self.append(Nudged("other_branch", other_branch(calls)))
        except NotKept as lost:
            self._end(lost.reason, lost.fault)
            raise

    def _told(self, leaf: int | None) -> set[Memory]:
        """What the model was reminded of on the branch that ends here, where no summary stands for it."""
        path = self.transcript.branches.path(leaf)
        gone = [path.index(event.summarised) for event in self.compactions.on(path) if event.summarised in path]
        return {memory for turn in path[max(gone, default=-1) + 1 :] for memory in self._turns[turn].recalled}

    def _changes_of(self, turn: int) -> list[ToolCall]:
        """The calls of this turn that ran and may have changed something that is still there."""
        if turn in self._undone:
            return []
        replies = (m for m in self.transcript.of(turn) if isinstance(m, AssistantMessage))
        calls = [call for reply in replies for call in reply.tool_calls if call.id in self._turns[turn].started]
        tools = self.agent.toolbox
        return [call for call in calls if (tool := tools.get(call.name)) and tool.may_change]

    def _go_on(self) -> None:
        self._task = asyncio.create_task(self._run_turns(), name=f"session {self.id}")

    async def _run_turns(self) -> None:
        """The open turn, then the queued ones, until the queue is empty or a person is needed."""
        while self.turn.ended is None or self.turn.queue:
            if self.turn.ended is not None:
                message_id, queued = next(iter(self.turn.queue.items()))
                try:
                    self._start(queued.message, self.transcript.branches.leaf, message_id)
                except NotKept as error:
                    logger.error("session %s: a queued message goes on waiting: %s", self.id, error)
                    return
            await self._play()
            if self._stopping or self.turn.ended in ("awaiting_approval", "stopped", "budget"):
                return

    async def _play(self) -> None:
        """One turn, from wherever it stands to exactly one TurnEnded."""
        reason: StopReason = "answered"
        fault: Fault | None = None
        budget: Budget | None = None
        try:
            await run_turn(self, self.agent)
        except asyncio.CancelledError:
            reason = "stopped"
        except TurnStop as stop:
            reason, fault, budget = stop.reason, stop.fault, stop.budget
        except Exception as error:  # ours: the operator gets the traceback, the person gets a sentence
            logger.exception("turn %s of session %s failed", self.turn.number, self.id)
            reason, fault = "error", Fault("bug", "Something in the app itself failed.", type(error).__name__)
        self._end(reason, fault, budget)

    def _end(self, reason: StopReason, fault: Fault | None = None, budget: Budget | None = None) -> None:
        """Leave no call open, unless the open ones are what the turn waits for."""
        try:
            if reason == "stopped":
                self._answer_open_calls("stopped", "Stopped by the user before it ran.")
            elif reason == "interrupted":
                self._answer_open_calls("interrupted", "Not run: the app ended before it could.")
            elif reason != "awaiting_approval":
                self._answer_open_calls("denied", f"Not run: the turn ended ({reason}).")
            stopped = receipt(self) if reason == "stopped" else None
            self.append(TurnEnded(self.turn.number, reason, fault, stopped, budget, self.spent()))
        except NotKept as lost:  # the calls stay open in the log, too; whoever goes on answers them
            self.append(TurnEnded(self.turn.number, lost.reason, lost.fault))

    def _answer_open_calls(self, status: CallStatus, text: str) -> None:
        for call in self.open_calls():
            if call.id in self.turn.started:  # and has no result: the app ended, or could not write it down
                self.append(CallFinished(call.id, call.name, "interrupted", INTERRUPTED))
            else:
                self.append(CallFinished(call.id, call.name, status, text))
