"""The conversation as the page shows it: a pure fold of the log.

    history()   the turns before the latest one; it changes only when a turn starts or another branch is selected
    live()      the latest turn, also when it has ended: so the end of a turn moves nothing on the screen

An entry costs what is new in it; what is finished is the same object at every call. Knows what each event looks like.
Refuses to know gradio, sessions and browsers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Union

from typing_extensions import assert_never

from agent.attached import own_words
from agent.branches import Branches
from agent.events import (
    BranchSelected,
    BudgetRaised,
    BudgetSet,
    CallAwaiting,
    CallDecided,
    CallDelta,
    CallFinished,
    CallStarted,
    Compacted,
    Delegated,
    File,
    FinishRequested,
    MessageQueued,
    MessageWithdrawn,
    Nudged,
    OutputDelta,
    PartialPicture,
    PlanChanged,
    PlanItem,
    Proved,
    ReasoningDelta,
    Recalled,
    Receipt,
    Replied,
    RequestSent,
    Retrying,
    RuleGranted,
    RuleRevoked,
    Steered,
    StepStarted,
    TextDelta,
    TurnEnded,
    TurnResumed,
    TurnStarted,
    Undone,
)
from agent.log import Entry
from agent.messages import UserMessage
from ui.acts import under_answer
from ui.meters import amount, compaction, under_turn
from ui.parts import Asked, Line, Part, Said, Step, title_of
from ui.pictures import Drawing, drawing_of, under_picture, unfinished
from ui.previews import attached_files, handed_file
from ui.proof import card, must_said, plan_line
from ui.rows import Row, Shown
from ui.safe_text import plain
from ui.sub_agents import SubAgent
from ui.texts import Words
from ui.undos import Undos


@dataclass(frozen=True)
class Handed:
    """A file handed to the person, by its place in the log."""

    id: str
    """`<seq>-<index>`: the entry, and which of its files."""
    file: File
    drawing: Drawing | None = None
    """Where it is a picture made from words."""


FileLink = Callable[[str, bool], str]
"""The address of a handed-over file by its id; True for the one that shows an image in place."""

_CallEvent = Union[CallStarted, OutputDelta, PartialPicture, CallFinished, CallAwaiting, CallDecided]
_TurnEvent = Union[StepStarted, Retrying, Replied, Nudged, TurnResumed, TurnEnded]


class _Turn:
    """One turn: its parts in order, and what can still change in them."""

    def __init__(self, words: Words, is_open: bool = True) -> None:
        self.asked: Asked | None = None
        self.parts: list[Part] = []
        self.step = Step(words, self.parts)
        self.rows: dict[str, Row] = {}
        self.partials: dict[str, Line] = {}
        """Pictures on their way, by the call that draws them."""
        self.plan: tuple[PlanItem, ...] = ()
        self.folded_plan: Line | None = None
        self.open = is_open
        self.foot: Line | None = None
        """Under its last word; it goes when the turn goes on."""

    @property
    def silent(self) -> bool:
        """The model was asked and has not begun to answer."""
        return self.open and self.step.silent and all(row.result is not None for row in self.rows.values())


class View:
    """What a page shows of one session, in one language."""

    def __init__(self, words: Words, file_link: FileLink, acts: bool = False) -> None:
        """`acts`: offer what can be done with a message, an answer, a step."""
        self.commits = 0
        """Grows by one each time `history()` has changed."""
        self.files: list[Handed] = []
        self._words = words
        self._file_link = file_link
        self._acts = acts
        self._undos = Undos(words, acts)
        self._branches = Branches()
        self._history: list[Shown] = []
        self._turns: dict[int, _Turn] = {}
        self._turn = _Turn(words, is_open=False)
        self._requests = 0

    def history(self) -> list[Shown]:
        """The turns before the latest one. The same list only grows; another branch is another list."""
        return self._history

    def live(self) -> list[Shown]:
        """The latest turn."""
        shown = [part.shown() for part in self._turn.parts]
        if self._turn.silent:
            shown.append(
                {"role": "assistant", "content": f'<span class="gl-dots">{plain(self._words["working"])}</span>'}
            )
        return shown

    def changed(self) -> list[Row]:
        """The calls on the branch that is shown that changed files, in order."""
        turns = [self._turns[turn] for turn in self._branches.path(self._branches.leaf)]
        return [row for turn in turns for row in turn.rows.values() if row.has_changes]

    def add(self, entry: Entry) -> None:
        """Fold the next entry of the log."""
        event = entry.event
        match event:
            case TextDelta() | ReasoningDelta() | CallDelta():
                self._turn.step.add(event, entry.at)
            case CallStarted() | OutputDelta() | PartialPicture() | CallFinished() | CallAwaiting() | CallDecided():
                self._call(event, entry)
            case Undone():
                self._undo(event)
            case StepStarted() | Retrying() | Replied() | Nudged() | TurnResumed() | TurnEnded():
                self._proceed(event, entry.at)
            case TurnStarted() | BranchSelected():
                self._go_to(event, entry.seq)
            case Steered():
                self._steer(event, entry.seq)
            case Recalled():
                self._remind(event)
            case RequestSent():
                self._requests += 1
            case Delegated():
                self._look_inside(event, entry)
            case PlanChanged():
                self._turn.plan = event.items
            case Proved():
                self._fold_plan()
                self._turn.parts.append(card(self._words, event))
            case MessageQueued() | MessageWithdrawn() | RuleGranted() | RuleRevoked():
                pass  # the queue and the rules are drawn from the session's state
            case BudgetRaised() | FinishRequested() | Compacted():
                self._spend(event)
            case BudgetSet():
                pass  # the panel draws the limits
            case _:
                assert_never(event)

    def _go_to(self, event: TurnStarted | BranchSelected, seq: int) -> None:
        """A turn becomes the latest: a new one, or the last one of another branch."""
        grows = isinstance(event, TurnStarted) and event.parent == self._branches.leaf
        before = self._turn
        self._branches.add(event)
        if isinstance(event, TurnStarted):
            self._turns[event.turn] = _Turn(self._words)
        if event.turn is not None:
            self._turn = self._turns[event.turn]
        else:  # all turns were undone
            self._turn = _Turn(self._words)
            self._turn.open = False
        if isinstance(event, TurnStarted):
            self._ask(event, seq)
        elif landing := self._undos.landing():
            self._turn.parts.append(landing)
        if grows and before.parts:
            self._history.extend(part.shown() for part in before.parts)
            self.commits += 1
        elif not grows:
            self._count_versions()
            self._show_branch()

    def _show_branch(self) -> None:
        earlier = [self._turns[turn] for turn in self._branches.path(self._branches.leaf)[:-1]]
        self._history = [part.shown() for turn in earlier for part in turn.parts]
        self.commits += 1

    def _count_versions(self) -> None:
        versions: dict[int | None, list[int]] = {}
        for number, parent in self._branches.parents.items():
            versions.setdefault(parent, []).append(number)
        for number in self._branches.path(self._branches.leaf):
            if asked := self._turns[number].asked:
                asked.stand_with(tuple(versions[self._branches.parents[number]]))

    def _ask(self, event: TurnStarted, seq: int) -> None:
        if event.message.source == "person":
            message = event.message
            text = own_words(message.text) if message.files else message.text
            beside = self._attached(message, seq) + must_said(self._words, message.expects)
            self._turn.asked = Asked(self._words, text, event.turn, self._acts, beside)
            self._turn.asked.stand_with(tuple(self._branches.siblings(event.turn)))
            self._turn.parts.append(self._turn.asked)
        else:
            self._say_quietly(self._words["resumed"])

    def _steer(self, event: Steered, seq: int) -> None:
        """The person has said something in the middle."""
        tag = f'<span class="gl-steered">{plain(self._words["steered"])}</span>'
        message = event.message
        text = own_words(message.text) if message.files else message.text
        self._turn.parts.append(Line(plain(text) + self._attached(message, seq) + tag, "user"))

    def _remind(self, event: Recalled) -> None:
        """What the model was reminded of, folded."""
        count = len(event.memories)
        words = self._words["recalled_one" if count == 1 else "recalled"].format(count=count)
        told = Said(title_of("thought", words))
        told.settle("\n".join(f"- {memory.text}" for memory in event.memories))
        self._turn.parts.append(told)

    def _attached(self, message: UserMessage, seq: int) -> str:
        """The files that came with a message of the log's entry `seq`."""
        return attached_files(self._words, message, lambda index: self._file_link(f"{seq}-{index}", False))

    def _undo(self, event: Undone) -> None:
        if gone := self._undos.add(event):
            for turn in (self._turn, *self._turns.values()):
                turn.parts[:] = [part for part in turn.parts if part not in gone]
        self._turn.parts.extend(self._undos.here(event))
        self._show_branch()  # a row among the finished turns may look otherwise now

    def _proceed(self, event: _TurnEvent, at: float) -> None:
        turn = self._turn
        match event:
            case StepStarted():
                turn.step = Step(self._words, turn.parts)
            case Retrying():
                turn.step.drop(text_too=True)
                self._say_quietly(_retrying(self._words, event))
            case Replied():
                rows = turn.step.settle(event, at, self._requests)
                turn.rows.update(rows)
                self._undos.watch(rows)
            case Nudged():
                self._tell(event)
            case TurnResumed():
                turn.open = True
                self._unfold_plan()
                turn.parts[:] = [part for part in turn.parts if part is not turn.foot]
            case TurnEnded():
                turn.open = False
                turn.step.drop(text_too=False)
                self._end(event)
            case _:
                assert_never(event)

    def _call(self, event: _CallEvent, entry: Entry) -> None:
        row = self._turn.rows.get(event.call_id)
        if row is None:
            return  # a log that was cut by hand; what is left of it can still be read
        match event:
            case CallStarted():
                row.start(entry.at, by_rule=bool(event.rules))
            case OutputDelta():
                row.emit(event.text)
            case PartialPicture():
                self._show_partial(event, entry.seq)
            case CallAwaiting():
                row.ask(event.why)
            case CallDecided():
                row.decide(event.allowed, event.arguments)
            case CallFinished():
                row.finish(event, entry.at, entry.seq)
                self._drop_partial(event.call_id)
                self._hand_over(event, entry.seq)
            case _:
                assert_never(event)

    def _look_inside(self, event: Delegated, entry: Entry) -> None:
        if isinstance(event.event, RequestSent):
            self._requests += 1
        if row := self._turn.rows.get(event.call_id):
            inside = row.inside or SubAgent(self._words)
            inside.add(event.event, entry.at, entry.seq, self._requests)
            row.look_inside(inside)

    def _tell(self, event: Nudged) -> None:
        """What the model was told; a long list is folded."""
        words = self._words.get(f"nudge_{event.code}", self._words["nudge"])
        if event.code == "undone":  # the line above says which files
            self._say_quietly(words)
        elif event.code == "other_branch":
            told = Said(title_of("thought", words))
            told.settle(event.text)
            self._turn.parts.append(told)
        else:
            self._say_quietly(words, event.text)

    def _say_quietly(self, text: str, more: str = "") -> None:
        note = f'<span class="gl-quiet">{plain(text)}</span>'
        self._turn.parts.append(Line(f"{note}\n\n{_small(more)}" if more else note))

    def _show_partial(self, event: PartialPicture, seq: int) -> None:
        """A picture on its way, in the place of the one before."""
        self._drop_partial(event.call_id)
        line = Line(unfinished(event.file, partial(self._file_link, f"{seq}-0")))
        self._turn.partials[event.call_id] = line
        self._turn.parts.append(line)

    def _drop_partial(self, call_id: str) -> None:
        if line := self._turn.partials.pop(call_id, None):
            self._turn.parts.remove(line)

    def _hand_over(self, event: CallFinished, seq: int) -> None:
        for index, file in enumerate(event.files):
            handed = Handed(f"{seq}-{index}", file, drawing_of(event.details, index))
            self.files.append(handed)
            link = partial(self._file_link, handed.id)
            preview = event.details.get("preview") if index == 0 else None
            shown = handed_file(self._words, file, link, preview)
            if handed.drawing:
                shown += under_picture(self._words, handed.id, handed.drawing, self._acts)
            self._turn.parts.append(Line(shown))

    def _fold_plan(self) -> None:
        """The plan as it is when the turn ends. While the turn runs it is pinned above the message box."""
        if self._turn.plan and self._turn.folded_plan is None:
            self._turn.folded_plan = plan_line(self._words, self._turn.plan)
            self._turn.parts.append(self._turn.folded_plan)

    def _unfold_plan(self) -> None:
        if self._turn.folded_plan is not None:
            self._turn.parts.remove(self._turn.folded_plan)
            self._turn.folded_plan = None

    def _end(self, event: TurnEnded) -> None:
        if event.reason != "awaiting_approval":
            self._fold_plan()
        if event.reason not in ("answered", "awaiting_approval"):
            self._say_how(event)
        if event.reason == "awaiting_approval":
            return
        spent = under_turn(self._words, event.meter) if event.meter else ""
        if foot := spent + (under_answer(self._words, event.turn) if self._acts else ""):
            self._turn.foot = Line(foot)
            self._turn.parts.append(self._turn.foot)

    def _spend(self, event: BudgetRaised | FinishRequested | Compacted) -> None:
        """Room was made in the context, or a turn that had used something up goes on."""
        if isinstance(event, Compacted):
            title, more = compaction(self._words, event)
            told = Said(title_of("thought", title))
            told.settle(more)
            self._turn.parts.append(told)
        elif isinstance(event, FinishRequested):
            self._say_quietly(self._words["budget_finishing"])
        else:
            kind, by = self._words[f"budget_{event.kind}"], amount(self._words, event.kind, event.by, "")
            self._say_quietly(self._words["budget_raised"].format(by=by, kind=kind))

    def _say_how(self, event: TurnEnded) -> None:
        """A turn that did not end with an answer says so."""
        text = self._words[f"fault_{event.fault.code}" if event.fault else f"ended_{event.reason}"]
        kind = "error" if event.fault else "notice"
        line = f'<span class="gl-end gl-end-{kind}">{plain(text)}</span>'
        if event.receipt and (done := receipt_line(self._words, event.receipt)):
            line += f"\n\n{_small(done)}"
        if event.fault and (detail := event.fault.detail or event.fault.message):
            line += f"\n\n{_small(detail)}"
        self._turn.parts.append(Line(line))


def receipt_line(words: Words, receipt: Receipt) -> str:
    """What a stopped turn had done."""

    def count(key: str, number: int) -> str:
        return words[f"receipt_{key}_one" if number == 1 else f"receipt_{key}"].format(count=number)

    facts = [count("calls", receipt.calls)]
    if receipt.killed:
        facts.append(count("killed", receipt.killed))
    if receipt.changed:
        facts.append(words["receipt_changed"].format(files=", ".join(list(receipt.changed)[:8])))
    if not receipt.complete:
        facts.append(words["receipt_incomplete"])
    return words["comma"].join(facts) if receipt.calls else ""


def _small(text: str) -> str:
    return f'<span class="gl-small">{plain(text[:600])}</span>'


def _retrying(words: Words, event: Retrying) -> str:
    reason = words.get(f"retry_{event.code}", words["retry"])
    if event.seconds < 0.05:
        return words["retry_now"].format(reason=reason)
    return words["retry_in"].format(reason=reason, seconds=f"{max(event.seconds, 1):.0f}")
