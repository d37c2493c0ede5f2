"""Proof of done: what had to be true when the model says that it is finished, and whether it is.

    wanted      what is expected: by the task's words, by the plan, by the person's own list
    looked_at   each of it compared with the workspace and the record of the calls: `Check`
    unborne     what the answer claims and the record does not bear out: `Claim` (`agent/claims.py`)
    prove       one pointed fact back to the model, twice at most; then the verdict, in the log

An honest "I could not, because ..." is always a valid end. Knows what counts as proof. Refuses to know how a file is
opened and how a command runs: a `Prover` does that.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from agent.attached import own_words
from agent.claims import Ran, same_file, sentences, unborne, wrote_in
from agent.events import Check, Claim, Nudged, PlanItem, Proved
from agent.expectations import Expectation, expectation, outputs_named
from agent.limits import steps_left
from agent.messages import AssistantMessage, ToolCall, UserMessage
from agent.tool import Effect, ToolContext

if TYPE_CHECKING:
    from agent.agent import Agent
    from agent.session import Session
    from agent.turn import TurnState

Verdict = Literal["verified", "partly", "not_verified", "could_not"]

FOUND = {
    "missing": "{what} does not exist",
    "empty": "{what} is empty",
    "not_file": "{what} is not a plain file",
    "lacks": "{what}: these words are not in it",
    "invalid": "{what}: it cannot be read as such ({detail})",
    "unreadable": "{what} cannot be looked at ({detail})",
    "unchanged": "{what} was there before, and nothing in this turn has written it",
    "failed": "{what} does not exit with 0 ({detail})",
    "asks": "{what} was not run: commands are asked for here",
    "off": "{what} was not run: there are no commands here",
    "open": 'the plan still has "{what}", which is not done',
    "dropped": 'the plan gave up "{what}" ({detail})',
}
"""What can be found instead of what was expected, as the model is told; the page has words of its own for each."""

POINTED = ("unmet", "unmet_again", "unborne")
"""The nudges of this file: two at most in a turn, and one about a claim."""
MOST_POINTED = 2
QUOTING = ("unmet", "unmet_again")
"""The ones that may hold a line of a file or of what a command said."""


class Prover(Protocol):
    """Looks at facts. Implemented in `tools/proving.py`. A finding is (is it so, one of FOUND, more about it)."""

    def look(self, workspace: Path, kind: str, path: str, text: str) -> tuple[bool | None, str, str]:
        """One of `expectations.Kind` but for `command`. Blocks. Raises nothing: what cannot be looked at is None."""

    def find(self, workspace: Path, name: str) -> str:
        """The path of a file of this name in any folder, the nearest one; empty where there is none. Blocks."""

    async def run(self, context: ToolContext, command: str) -> tuple[bool | None, str, str]:
        """Run a command as the agent's are run. Policy was asked before."""


async def prove(session: Session, agent: Agent, answer: str) -> bool:
    """True where the turn may end with this answer, its proof in the log; False where the model was told a fact."""
    record = record_of(session)
    checks = await looked_at(session, agent, record)
    claims = unborne(answer, _all_calls(session) if _only_asked(session, record) else record)
    unmet = [check for check in checks if check.ok is False]
    open_facts = [check for check in unmet if not confesses(answer, check)]
    if nudge := _pointed(session, agent, open_facts, claims):
        session.append(nudge)
        return False
    if checks or claims:
        could_not = bool(unmet) and not open_facts and not claims
        session.append(Proved("could_not" if could_not else verdict(checks, claims), checks, claims))
    return True


def verdict(checks: Sequence[Check], claims: Sequence[Claim]) -> Verdict:
    """What the facts come to. A claim that is not borne out spoils all of it: the answer cannot be trusted."""
    if claims:
        return "not_verified"
    if all(check.ok for check in checks):
        return "verified"
    given_up = any(check.found == "dropped" for check in checks)
    return "partly" if given_up or any(check.ok for check in checks) else "not_verified"


def _pointed(session: Session, agent: Agent, unmet: Sequence[Check], claims: Sequence[Claim]) -> Nudged | None:
    """The one fact that the model should hear; None where there is none, it heard enough, or has no step left."""
    told = [code for code in POINTED if code in session.turn.nudges]
    if len(told) >= MOST_POINTED or steps_left(session, agent) < 1:
        return None
    if unmet:
        fact = FOUND[unmet[0].found].format(what=unmet[0].what, detail=unmet[0].detail)
        text = f"Not done yet: {fact}. Put that right, or say plainly that you could not, and why."
        return Nudged("unmet_again" if "unmet" in told else "unmet", text)
    if claims and "unborne" not in told:
        return Nudged("unborne", f"Your answer says: “{claims[0].text}” {_TOLD[claims[0].why]} Do it, or correct that.")
    return None


_TOLD = {
    "not_run": "But no command in this turn did that.",
    "run_failed": "But the last command that did failed.",
    "not_written": "But no call in this turn has written it.",
    "not_saved": "But no call in this turn has written anything.",
    "not_sent": "But no call in this turn has handed over a file.",
}


# ---------------------------------------------------------------------- what is expected


def wanted(session: Session) -> list[Expectation]:
    """What must be true at the end of this turn, each subject once; the person's own lines first."""
    messages = [m for turn in _turns(session) for m in session.transcript.of(turn.number) if isinstance(m, UserMessage)]
    said = [message for message in messages if message.source in ("person", "steering")]
    found = [expectation(line) for message in said for line in message.expects]
    named = [names for message in said if (names := outputs_named(own_words(message.text)))]
    found += [Expectation(name, "message", "exists", name) for name in (named[-1] if named else ())]
    done = [item.text for item in session.turn.plan if item.status == "done"]
    found += [Expectation(name, "plan", "exists", name) for text in done for name in outputs_named(text)]
    kept: list[Expectation] = []
    for one in found:
        if not any(other.kind != "command" and same_file(other.subject, one.subject) for other in kept) or (
            one.source == "person"
        ):
            kept.append(one)
    return kept


async def looked_at(session: Session, agent: Agent, record: Sequence[Ran]) -> tuple[Check, ...]:
    """Everything that is expected, looked at. Without a prover only the plan counts, and what a person asked for."""
    checks = []
    for want in wanted(session):
        if agent.prover is not None:
            checks.append(await _look(session, agent, agent.prover, want, record))
        elif want.source == "person":
            checks.append(Check(want.line, want.source, None, "unreadable"))
    return (*checks, *_unfinished(session.turn.plan))


async def _look(session: Session, agent: Agent, prover: Prover, want: Expectation, record: Sequence[Ran]) -> Check:
    if want.kind == "command":
        ok, found, detail = await _run(session, agent, prover, want.subject)
        return Check(want.line, want.source, ok, found, detail)
    look, path = prover.look, want.subject
    ok, found, detail = await asyncio.to_thread(look, session.workspace, want.kind, path, want.text)
    if want.source != "person":
        if found == "missing" and (path := await asyncio.to_thread(prover.find, session.workspace, want.subject)):
            ok, found, detail = await asyncio.to_thread(look, session.workspace, want.kind, path, want.text)
        if ok and not any(ran.wrote(path) for ran in record):
            ok, found = False, "unchanged"
    return Check(want.line, want.source, ok, found, detail)


async def _run(session: Session, agent: Agent, prover: Prover, command: str) -> tuple[bool | None, str, str]:
    verdict = agent.policy.judge({Effect.EXECUTE})
    if verdict.answer != "allow":
        return None, "asks" if verdict.answer == "ask" else "off", ""
    context = replace(session.tool_context(ToolCall("", "", "{}")), emit=lambda text: None)
    return await prover.run(context, command)


def _unfinished(plan: Iterable[PlanItem]) -> Iterator[Check]:
    """Dropping is not finishing, and what is open is not done."""
    for item in plan:
        if item.status == "dropped":
            yield Check(item.text, "plan", None, "dropped", item.why)
        elif item.status != "done":
            yield Check(item.text, "plan", False, "open")


# ---------------------------------------------------------------------- the record


def _turns(session: Session) -> list[TurnState]:
    """This turn, and those that it goes on from, the first one first."""
    turns: list[TurnState] = []
    turn: TurnState | None = session.turn
    while turn is not None:
        turns.insert(0, turn)
        turn = turn.before
    return turns


def record_of(session: Session) -> list[Ran]:
    """The calls that ran since the person last asked for something, in the order in which they ended."""
    return [ran for turn in _turns(session) for ran in _calls(session, turn)]


def _all_calls(session: Session) -> list[Ran]:
    """The same of the whole branch."""
    path = session.transcript.branches.path(session.transcript.branches.leaf)
    return [ran for number in path for ran in _calls(session, session.turn_state(number))]


def _calls(session: Session, turn: TurnState) -> Iterator[Ran]:
    replies = (m for m in session.transcript.of(turn.number) if isinstance(m, AssistantMessage))
    calls = {call.id: call for reply in replies for call in reply.tool_calls}
    for event in turn.finished:
        if event.call_id in turn.started and event.call_id in calls:
            lives_on = "no_checkpoint" in event.details or "process" in event.details
            watched = session.agent.checkpoints is not None and not lives_on
            tool = session.agent.toolbox.get(event.name)
            yield Ran(calls[event.call_id], event, tool, watched, delegated=event.call_id in turn.delegated)


def _only_asked(session: Session, record: Sequence[Ran]) -> bool:
    """Was this turn only a question about what was done before? Then what was done before answers it."""
    first = session.transcript.of(session.turn.number)[0]
    asks = isinstance(first, UserMessage) and re.search(r"[?？]|吗|了没", first.text)
    return not record and bool(asks) and not (isinstance(first, UserMessage) and outputs_named(first.text))


# ---------------------------------------------------------------------- an honest failure

_UNABLE = re.compile(
    r"\b(?:could not|couldn['’]t|can ?not|can['’]t|(?:was|am|were) not able|wasn['’]t able|unable|failed to)\b|"
    r"\b(?:not possible|impossible|do(?:es)? not pass|still fails?|(?:tests?|command|check|build)s? fail(?:s|ed)?)\b|"
    r"\b(?:did not work|didn['’]t work|(?:was|were|is|are) (?:refused|denied|not allowed|not offered))\b|"
    r"被拒绝|未获允许|没能|未能|无法|没法|做不到|没有(?:成功|完成|通过)|不能|失败|未(?:完成|通过)",
    re.IGNORECASE,
)
_LACKING = re.compile(
    r"\b(?:did not|didn['’]t|have not|haven['’]t|has not|hasn['’]t|was not|is not)\b|"
    r"\b(?:does not exist|is missing)\b|没有|未|不存在",
    re.IGNORECASE,
)
"""Counts only beside the name of what is missing: "I did not change anything else" confesses nothing."""
_NO_CONFESSION = re.compile(
    r"\b(?:could|can)(?: ?not|n['’]t) (?:have|be \w+er\b|be more|be better|agree|wait|ask for|help but)|"
    r"\b(?:could|can)(?: ?not|n['’]t) (?:resist|believe|find any|see any)|"
    r"\b(?:no|0|zero|nothing|none|without)\b[^.]*\bfail|\bdid(?: not|n['’]t) (?:fail|have to|need)|"
    r"没有失败|不能再|无法更",
    re.IGNORECASE,
)


_NAMES_A_FILE = re.compile(r"[\w-]\.[A-Za-z][A-Za-z0-9]{0,4}\b")


def confesses(answer: str, check: Check) -> bool:
    """Does the answer say plainly that this was not achieved?

    In a sentence that names it; or in "I could not, because ..." that names no other file. Where the answer says
    elsewhere that it was made, neither counts. "I could not have done it better" is no confession.
    """
    name = _name_of(check)
    if wrote_in(answer, name):
        return False
    said = [sentence for sentence in sentences(answer) if not _NO_CONFESSION.search(sentence)]
    named = [sentence for sentence in said if name.rpartition("/")[2] in sentence]
    unable = [sentence for sentence in said if _UNABLE.search(sentence)]
    return any(map(_LACKING.search, named)) or any(one in named or not _NAMES_A_FILE.search(one) for one in unable)


def _name_of(check: Check) -> str:
    return check.what if check.found == "open" else expectation(check.what).subject
