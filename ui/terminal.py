"""The log as text for a terminal: the answer, and a row for each step.

Knows how an entry looks in plain text. Refuses to know where the text goes (`cli.py` does) and what happens next. Text
of a model or a tool may hold anything, so control characters never pass: they could move the cursor and repaint what
was said before.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from typing_extensions import assert_never

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
    FinishRequested,
    MessageQueued,
    MessageWithdrawn,
    Nudged,
    OutputDelta,
    PartialPicture,
    PlanChanged,
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
from agent.messages import ToolCall
from ui import meters
from ui.cli_texts import CliTexts
from ui.meters import compaction
from ui.proof import headline, plan_lines, proof_lines

ROW_CHARS = 100

_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Everything that is not text: C0 and C1 without tab and newline, what turns the writing direction, half characters."""

Style = Literal["plain", "dim", "good", "bad", "ask"]


@dataclass(frozen=True)
class Piece:
    """Some text, and how it is meant."""

    text: str
    answer: bool = False
    """The model's words; everything else is about them."""
    style: Style = "plain"


class Terminal:
    """A fold of one session's log: takes entries in order, gives pieces to write."""

    def __init__(self, texts: CliTexts) -> None:
        self._texts = texts
        self._calls: dict[str, ToolCall] = {}
        self._started: dict[str, float] = {}
        self._half_lines: dict[str, str] = {}
        self._inner: dict[str, Terminal] = {}  # of the sub-agents, by the call that runs each
        self._said = ""  # of this step
        self._thinking = False

    def show(self, entry: Entry) -> Iterator[Piece]:
        """What an entry adds to the screen."""
        match entry.event:
            case TextDelta(text):
                yield from self._say(text)
            case ReasoningDelta():
                yield from self._think()
            case Retrying() as retry:
                yield from self._end_line()
                self._said = ""
                yield self._row(self._texts.retrying.format(detail=one_line(retry.detail), attempt=retry.attempt))
            case Replied(message):
                yield from self._say(message.text[len(self._said) :])
                yield from self._end_line()
                self._calls.update((call.id, call) for call in message.tool_calls)
            case CallStarted(call_id):
                self._started[call_id] = entry.at
                yield self._row(f"> {one_line(describe(self._calls[call_id]))}")
            case OutputDelta(call_id, text):
                yield from self._output(call_id, text)
            case CallFinished() as finished:
                yield from self._finished(finished, entry.at)
            case Delegated(call_id, inner):
                yield from self._inside(call_id, replace(entry, event=inner))
            case CallAwaiting(call_id, _, why):
                yield self._row(f"? {one_line(describe(self._calls[call_id]))}  {one_line(why)}".rstrip(), "ask")
            case Steered() | Recalled() | Nudged() | Compacted() as told:
                yield self._told(told)
            case TurnEnded() as ended:
                yield from self._ended(ended)
            case StepStarted():
                self._said, self._thinking = "", False
            case (
                TurnStarted()
                | RequestSent()
                | CallDelta()
                | PartialPicture()
                | CallDecided()
                | MessageQueued()
                | MessageWithdrawn()
                | BranchSelected()
                | RuleGranted()
                | RuleRevoked()
                | TurnResumed()
                | BudgetRaised()
                | BudgetSet()
                | FinishRequested()
                | Undone()
            ):
                pass  # shown by what follows; here is one message, nothing is undone and nothing granted beyond a call
            case PlanChanged() | Proved() as stand:
                yield from self._stand(stand)
            case _ as unknown:
                assert_never(unknown)

    def _told(self, event: Steered | Recalled | Nudged | Compacted) -> Piece:
        """What the model is told in the middle of a turn, and by whom; or that it is shown less."""
        if isinstance(event, Compacted):
            return self._row(f"- {compaction(self._texts.page, event)[0]}")
        if isinstance(event, Steered):
            return self._row(self._texts.steered.format(text=one_line(event.message.text)))
        if isinstance(event, Recalled):
            told = one_line("; ".join(memory.text for memory in event.memories))
            return self._row(self._texts.recalled.format(text=told))
        return self._row(self._texts.note.format(text=one_line(event.text)))

    def _say(self, text: str) -> Iterator[Piece]:
        self._said += text
        if text:
            yield Piece(clean(text), answer=True)

    def _think(self) -> Iterator[Piece]:
        if not self._thinking:
            self._thinking = True
            yield self._row(self._texts.thinking)

    def _ended(self, ended: TurnEnded) -> Iterator[Piece]:
        yield from self._end_line()
        words = [self._texts.endings[ended.reason]]
        if ended.fault:
            words += [ended.fault.message, ended.fault.detail]
        if said := " ".join(clean(word) for word in words if word):
            yield self._row(said, "bad")
        if ended.receipt and ended.receipt.calls:
            yield self._row(f"  {self._receipt(ended.receipt)}")
        if ended.meter and (spent := meters.line(self._texts.page, ended.meter)):
            yield self._row(f"- {spent}")

    def _receipt(self, receipt: Receipt) -> str:
        """What a stopped turn had done."""
        words, files = self._texts.receipt, ", ".join(clean(path) for path in list(receipt.changed)[:8])
        facts = [words["calls"].format(count=receipt.calls)]
        facts += [words["killed"].format(count=receipt.killed)] if receipt.killed else []
        facts += [words["changed"].format(files=files)] if files else []
        facts += [words["incomplete"]] if not receipt.complete else []
        return "; ".join(facts)

    def _stand(self, event: PlanChanged | Proved) -> Iterator[Piece]:
        """How far the plan is, or what was found at the end."""
        yield from self._end_line()
        if isinstance(event, PlanChanged):
            first, *lines = plan_lines(self._texts.page, event.items)
            yield self._row(clean(first))
        else:
            first, lines = headline(self._texts.page, event), proof_lines(self._texts.page, event)
            yield self._row(clean(first), "good" if event.verdict == "verified" else "ask")
        for line in lines:
            yield self._row(clean(line))

    def _end_line(self) -> Iterator[Piece]:
        if self._said and not self._said.endswith("\n"):
            self._said += "\n"
            yield Piece("\n", answer=True)

    def _output(self, call_id: str, text: str) -> Iterator[Piece]:
        *lines, rest = (self._half_lines.get(call_id, "") + text).split("\n")
        self._half_lines[call_id] = rest
        for line in lines:
            yield self._row(f"  | {clean(line)}")

    def _inside(self, call_id: str, entry: Entry) -> Iterator[Piece]:
        """What a sub-agent does, indented. Its answer is not told here: it comes as the call's result."""
        inner = self._inner.setdefault(call_id, Terminal(self._texts))
        yield from (replace(p, text="    " + p.text) for p in inner.show(entry) if not p.answer)

    def _finished(self, finished: CallFinished, at: float) -> Iterator[Piece]:
        if rest := self._half_lines.pop(finished.call_id, ""):
            yield self._row(f"  | {clean(rest)}")
        seconds = f"{at - self._started[finished.call_id]:.1f} s" if finished.call_id in self._started else ""
        lines = _reason(finished.text).strip().splitlines()
        more = self._texts.more_lines.format(count=len(lines) - 1) if len(lines) > 1 else ""
        facts = (self._texts.statuses[finished.status], seconds, one_line(lines[0]) if lines else "", more)
        yield self._row(
            f"< {clean(finished.name)}: {', '.join(fact for fact in facts if fact)}",
            "good" if finished.status == "done" else "bad",
        )
        for file in finished.files:
            yield self._row("  " + clean(self._texts.file.format(name=file.name, size=file.size, path=file.path)))

    @staticmethod
    def _row(text: str, style: Style = "dim") -> Piece:
        return Piece(text + "\n", style=style)


def describe(call: ToolCall) -> str:
    """A call in one line: a single argument as it is, several by name."""
    arguments = json.loads(call.arguments)
    if len(arguments) == 1:
        (value,) = arguments.values()
        return f"{call.name} {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
    return f"{call.name} " + ", ".join(f"{key}={json.dumps(v, ensure_ascii=False)}" for key, v in arguments.items())


def _reason(text: str) -> str:
    """What a failed result says, where it is JSON around an error."""
    try:
        found = json.loads(text) if text.startswith('{"ok": false') else None
    except ValueError:
        return text
    return str(found.get("error", text)) if isinstance(found, dict) else text


def exactly(call: ToolCall) -> str:
    """Every argument whole, for a decision: what cannot be seen is spelled out instead of left out."""
    rows = []
    for name, value in json.loads(call.arguments).items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        visible = "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)
        rows.append(f"  {name}: " + visible.replace("\n", "\n    "))
    return "\n".join(rows)


def clean(text: str) -> str:
    """Text that cannot steer a terminal."""
    return _CONTROL.sub("", _ANSI.sub("", text.replace("\r\n", "\n").replace("\r", "\n")))


def one_line(text: str) -> str:
    """The start of a text on one line."""
    line = " ".join(clean(text).split())
    return line if len(line) <= ROW_CHARS else line[: ROW_CHARS - 3] + "..."
