"""Everything that can happen in a session: one closed union of frozen values.

A *turn* is one user message until its `TurnEnded`. A *step* is one model call and the tool calls it asks for:

    TurnStarted  Recalled?
      Steered*  StepStarted  Compacted?  RequestSent  (TextDelta | ReasoningDelta | CallDelta)*  Replied
        CallStarted  OutputDelta*  CallFinished         once for each call, calls may overlap
      StepStarted ...
      Proved
    TurnEnded                                           exactly one, and one more after each TurnResumed

`Retrying` throws away the deltas of its step so far: the model is asked again. What a sub-agent does is told while the
call that runs it goes on:

    CallStarted  Delegated(TurnStarted)  Delegated(StepStarted) ...  Delegated(TurnEnded)  CallFinished

Where a person has to agree to a call, the turn ends and goes on later:

    CallAwaiting*  TurnEnded(awaiting_approval)  (CallDecided | RuleGranted)*  TurnResumed  CallStarted ...  TurnEnded
    TurnEnded(budget)  BudgetRaised | FinishRequested  TurnResumed  StepStarted ...  TurnEnded

Times are not in here: the log's entries carry them.

Knows the shapes. Refuses to know who appends them (the loop and the session) and who reads them (everybody else).
Readers match on the type and close the match with `assert_never`, so a new shape is found by the type checker.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Union

from agent.messages import AssistantMessage, UserMessage
from agent.messages import File as File

StopReason = Literal[
    "answered",  # the model said it is done, and nothing contradicts it
    "awaiting_approval",  # open calls wait for a person; `Session.decide` resumes
    "stopped",  # the person pressed Stop
    "step_limit",  # too many steps; the last reply is a summary without tools
    "budget",  # money, tokens or time are used up
    "loop",  # the same call with the same result, or the same words, again and again
    "empty_answer",  # the model said nothing, and nothing again when asked once more
    "output_truncated",  # the answer was cut at the output limit
    "content_filtered",  # the provider's filter cut the answer
    "interrupted",  # the app died in mid-turn; found at the next start
    "error",  # the model's server failed, or we did: `fault` says whose side
]

Finish = Literal["stop", "tool_calls", "length", "content_filter"]
"""Why a reply ended, put right: calls make it `tool_calls` whatever the server said."""

CallStatus = Literal["done", "failed", "denied", "stopped", "interrupted"]


@dataclass(frozen=True)
class Usage:
    """Tokens of one model call, as the server counted them; 0 where it did not say."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0


@dataclass(frozen=True)
class Fault:
    """Why a turn failed: a code that the page has words for, and what the other side said."""

    code: str
    """One of `errors.FAULT_CODES`, such as `wrong_key` or `rate_limited`."""
    message: str
    """Plain English, without secrets: what happened and what to do."""
    detail: str = ""
    """The server's own words, cut and scrubbed."""


@dataclass(frozen=True)
class MessageQueued:
    """A message sent while a turn runs. It becomes a turn of its own, unless it steers or is withdrawn first.

    Once more with the same id: the person has made it a steering one."""

    id: str
    text: str
    images: tuple[File, ...] = ()
    files: tuple[File, ...] = ()
    expects: tuple[str, ...] = ()
    steer: bool = False
    """It enters the running turn before its next step, as `Steered`. Where the turn ends before that, it waits like any
    other."""

    @property
    def message(self) -> UserMessage:
        return UserMessage(self.text, images=self.images, files=self.files, expects=self.expects)


@dataclass(frozen=True)
class MessageWithdrawn:
    """A queued message that will not be sent: the person took it back, or pressed Stop."""

    id: str


@dataclass(frozen=True)
class TurnStarted:
    turn: int
    """Counts from 1 within the session."""
    message: UserMessage
    queued_id: str | None = None
    """The `MessageQueued` this turn was made from."""
    parent: int | None = None
    """The turn it follows; None where it opens the conversation. An edited message has the parent of the first one."""


@dataclass(frozen=True)
class Steered:
    """A queued message entered the running turn, before its next step."""

    queued_id: str
    message: UserMessage


@dataclass(frozen=True)
class Memory:
    """Something worth knowing in every conversation of its owner."""

    id: str
    text: str


@dataclass(frozen=True)
class Recalled:
    """What the model was reminded of at the start of the turn."""

    memories: tuple[Memory, ...]
    text: str
    """As the model reads it."""


@dataclass(frozen=True)
class BranchSelected:
    """The person went over to another branch. No turn runs or starts by it."""

    turn: int | None
    """The branch's last turn; None where every turn was undone."""


@dataclass(frozen=True)
class StepStarted:
    step: int
    """Counts from 1 within the turn; an approval does not restart it."""


@dataclass(frozen=True)
class RequestSent:
    """The exact request of this step. Linear in storage: only what the request before did not hold already."""

    model: str
    body: Mapping[str, Any]
    """The request's JSON without `messages`."""
    kept: int
    """How many leading messages are those of the session's previous request."""
    messages: tuple[Mapping[str, Any], ...]
    """The messages after those, as sent."""


@dataclass(frozen=True)
class TextDelta:
    text: str


@dataclass(frozen=True)
class ReasoningDelta:
    text: str


@dataclass(frozen=True)
class CallDelta:
    """A piece of a call that is still being written."""

    position: int
    """Which call of this reply, from 0: the index in `Replied.message.tool_calls`, if it comes to that."""
    name: str
    """The name as far as it is known."""
    arguments: str
    """The new piece of the arguments' text, as it came."""


@dataclass(frozen=True)
class Retrying:
    """This attempt is void, the deltas of the step are thrown away, another attempt follows."""

    code: str
    """A fault code; `adapting`: the request was put right after a refusal; `repeating`: the words went in circles."""
    detail: str
    seconds: float
    """The pause before the next attempt."""
    attempt: int
    """The number of the attempt that follows, from 2."""


@dataclass(frozen=True)
class Replied:
    """The whole reply, assembled. It replaces the deltas of its step."""

    message: AssistantMessage
    finish: Finish
    usage: Usage | None = None
    model: str = ""
    """The model's name as the server gave it; empty where it did not."""


@dataclass(frozen=True)
class CallAwaiting:
    """A call that a person must allow before it runs."""

    call_id: str
    arguments_hash: str
    """`policy.arguments_hash` of the exact arguments: a decision holds for these and no others."""
    why: str


@dataclass(frozen=True)
class CallDecided:
    call_id: str
    arguments_hash: str
    allowed: bool
    reason: str = ""
    """Why not, in the person's words: the model reads it."""
    arguments: str | None = None
    """What runs in place of the model's arguments where the person changed them: JSON text of one object."""


@dataclass(frozen=True)
class Rule:
    """What a person allowed beyond one call. It answers where policy asks; it never overrules a refusal."""

    id: str
    """A digest of all that follows: the same grant is the same rule."""
    lasts: Literal["session", "workspace"]
    tool: str
    effects: tuple[str, ...]
    """How far the allowed call reached (`tool.Effect` values, sorted); a call that reaches elsewhere is not covered."""
    words: tuple[str, ...] = ()
    """Covers what starts with these words, of all that a call does (`tool.Atom`); empty: covers one exact call."""
    arguments_hash: str = ""
    """Of that exact call."""
    text: str = ""
    """The words, or the start of the exact call's arguments, for the list of rules. Nothing is decided by it."""


@dataclass(frozen=True)
class RuleGranted:
    """With a decision about a call, before its `CallDecided`. A rule that lasts for the workspace is kept outside the
    log too, and holds there: this is the record of who granted it."""

    rule: Rule
    call_id: str


@dataclass(frozen=True)
class RuleRevoked:
    rule_id: str


@dataclass(frozen=True)
class TurnResumed:
    """The turn that waited for a person goes on: nothing waits any more."""

    turn: int


@dataclass(frozen=True)
class CallStarted:
    call_id: str
    rules: tuple[str, ...] = ()
    """The ids of the rules that allowed it, where policy asked and no person was."""


@dataclass(frozen=True)
class OutputDelta:
    """Output of a call that is still running."""

    call_id: str
    text: str


@dataclass(frozen=True)
class PartialPicture:
    """A picture that a running call has not finished: each replaces the one before, the result replaces all."""

    call_id: str
    file: File


@dataclass(frozen=True)
class CallFinished:
    call_id: str
    name: str
    status: CallStatus
    text: str
    """What the model reads, after a note where a person changed the call (the transcript has it)."""
    files: tuple[File, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    """What people see beside it: facts such as `exit_code`, `lines`, `bytes`, `diff`."""
    images: tuple[File, ...] = ()
    """What the model is shown beside the text."""


@dataclass(frozen=True)
class Nudged:
    """The loop told the model something: a fact that contradicts it, a warning before a limit."""

    code: str
    text: str


@dataclass(frozen=True)
class PlanItem:
    text: str
    status: Literal["open", "doing", "done", "dropped"] = "open"
    why: str = ""
    """Why it was dropped."""


@dataclass(frozen=True)
class PlanChanged:
    """The model's checklist for this turn, whole, as it is now."""

    items: tuple[PlanItem, ...]


@dataclass(frozen=True)
class Compacted:
    """The context was made to fit. The transcript has everything still."""

    tokens_before: int
    tokens_after: int
    """Of the request, as counted or estimated."""
    elided: Mapping[str, str] = field(default_factory=dict)
    """The calls whose results are shown shortened from now on, each with how the model can read the whole again."""
    left_out: tuple[str, ...] = ()
    """The calls that are not shown any more, nor their results."""
    summary: str = ""
    """What stands for the turns up to `summarised`."""
    summarised: int | None = None
    """The last turn of the branch that the summary stands for."""
    by_model: bool = True
    """The summary is the model's; False: it could not be had, and what the person said stands there."""
    usage: Usage | None = None
    """Of the model call that wrote the summary."""
    window: int | None = None
    """How many tokens fit, where the server has just said so."""


@dataclass(frozen=True)
class Check:
    """One thing that had to be true at the end, and whether it is."""

    what: str
    """A line of `agent/expectations.py`, such as `report.md json`; or an item of the plan that is not done."""
    source: Literal["message", "plan", "person"]
    """Who asked for it: the task's own words, the plan, or the person's list of what must be true."""
    ok: bool | None
    """None: it could not be looked at, or the model gave it up."""
    found: str = ""
    """What was found instead: one of `proof.FOUND`; empty where all is well."""
    detail: str = ""
    """More about that, in nobody's language: an exit code, a line, a reason."""


@dataclass(frozen=True)
class Claim:
    """Something the answer says that the record of the calls does not bear out."""

    text: str
    """The words of the answer."""
    why: str
    """One of `claims.WHY`."""


@dataclass(frozen=True)
class Proved:
    """What was found when the model said that it is done. Before the `TurnEnded` of an answered turn."""

    verdict: Literal["verified", "partly", "not_verified", "could_not"]
    checks: tuple[Check, ...] = ()
    claims: tuple[Claim, ...] = ()


BudgetKind = Literal["steps", "tokens", "money", "seconds"]
BudgetScope = Literal["turn", "session"]


@dataclass(frozen=True)
class Budget:
    """How much of something may be spent, and how much is. Model calls, tokens, the price table's currency, seconds."""

    kind: BudgetKind
    scope: BudgetScope
    limit: float
    spent: float


@dataclass(frozen=True)
class Meter:
    """What was spent: model calls, tokens, money and time."""

    steps: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    """Of the input."""
    output_tokens: int = 0
    reasoning_tokens: int = 0
    """Of the output."""
    counted: bool = True
    """The server counted all of the tokens; False: some are estimated."""
    money: float | None = 0.0
    """None: the price of a model that answered is not known."""
    currency: str = ""
    model_s: float = 0.0
    """Seconds in which a model was at work."""
    tool_s: float = 0.0
    """Seconds in which a tool was at work; several side by side count once."""
    seconds: float = 0.0
    """From the start to the end, without the time in which a person was waited for."""

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True)
class BudgetRaised:
    """The person gives more of what ran out; a `TurnResumed` follows."""

    kind: BudgetKind
    by: float
    scope: BudgetScope = "turn"


@dataclass(frozen=True)
class BudgetSet:
    """The person sets another limit in this conversation, for each turn or for the whole of it."""

    kind: BudgetKind
    scope: BudgetScope
    limit: float | None
    """None: no limit."""


@dataclass(frozen=True)
class FinishRequested:
    """The person wants the turn to end with a summary instead of more of what ran out; a `TurnResumed` follows."""


@dataclass(frozen=True)
class Delegated:
    """What happened in a sub-agent, told under the call that runs it. Deltas are not: what they come to is."""

    call_id: str
    event: Event


def id_within(call_id: str, inner_id: str) -> str:
    """A sub-agent's call among all calls of the session: its own id is only unique within the sub-agent."""
    return f"{call_id}-{inner_id}"


@dataclass(frozen=True)
class FromTurn:
    """This turn, and all after it on the branch."""

    turn: int


@dataclass(frozen=True)
class OneCall:
    """What one call changed."""

    call_id: str


@dataclass(frozen=True)
class OneUndo:
    """An undo: what it took back comes again."""

    undo_id: str


UndoTarget = Union[FromTurn, OneCall, OneUndo]


@dataclass(frozen=True)
class Undone:
    """Files were put back, and where whole turns were undone a `BranchSelected` follows."""

    id: str
    target: UndoTarget
    moved: bool
    """Did the conversation go with the files?"""
    leaf: int | None
    """The branch's last turn at that time."""
    gone: tuple[int, ...] = ()
    """The turns all of whose changes to files are not there any more."""
    back: tuple[int, ...] = ()
    """The turns whose changes to files are there again."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Facts as a call has them (`before`, `checkpoint`, `changed`, `changed_total`), and what was left: `kept`,
    `cannot`, `failed`, `without_checkpoint`."""
    paths: tuple[str, ...] | None = None
    """The only files that were asked for; None: all that the target changed."""


@dataclass(frozen=True)
class Receipt:
    """What a stopped turn had done when it was stopped."""

    steps: int
    """Model calls that were begun."""
    calls: int
    """Tool calls that ran, to their end or not."""
    killed: int = 0
    """Processes that the Stop ended."""
    changed: Mapping[str, str] = field(default_factory=dict)
    """Files that are other than before the turn: path in the workspace, and `added`, `modified` or `deleted`."""
    complete: bool = True
    """False where more files may have changed: a call ran that nobody watched, or it changed too many to be listed."""


@dataclass(frozen=True)
class TurnEnded:
    turn: int
    reason: StopReason
    fault: Fault | None = None
    receipt: Receipt | None = None
    """Where the reason is `stopped`."""
    budget: Budget | None = None
    """Where the reason is `budget`: what ran out."""
    meter: Meter | None = None
    """What the turn has taken so far."""


Event = Union[
    MessageQueued,
    MessageWithdrawn,
    TurnStarted,
    Steered,
    Recalled,
    BranchSelected,
    StepStarted,
    RequestSent,
    TextDelta,
    ReasoningDelta,
    CallDelta,
    Retrying,
    Replied,
    CallAwaiting,
    CallDecided,
    RuleGranted,
    RuleRevoked,
    TurnResumed,
    CallStarted,
    OutputDelta,
    PartialPicture,
    CallFinished,
    Nudged,
    PlanChanged,
    Compacted,
    Delegated,
    Proved,
    BudgetRaised,
    BudgetSet,
    FinishRequested,
    Undone,
    TurnEnded,
]
