"""May this call run? Judged by effects and arguments, never by a tool's name.

Knows how strict the app is. Refuses to know how a person is asked, what they answered, and what a tool does:
`agent/approval.py` lets a person's decisions and rules answer what is left open here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from agent.messages import ToolCall
from agent.tool import Effect

Answer = Literal["allow", "ask", "deny"]

Mode = Literal["read_only", "ask", "auto"]
Boundary = Literal["strong", "partial", "none"]
"""How much of the fence around commands holds here, found by attacking it at start-up."""
Exposure = Literal["local", "share", "space"]
"""Who can reach the page: this machine, whoever has the link, everybody."""


@dataclass(frozen=True)
class Verdict:
    answer: Answer
    why: str = ""
    """For the person where the answer is ask, for the model where it is deny."""
    rules: tuple[str, ...] = ()
    """The ids of a person's rules that turned ask into allow."""


ALLOW = Verdict("allow")
HEARSAY = Verdict("ask", "Something from outside was read in this conversation, and it may be what asks for this.")
"""What lasts in the person's name is theirs to wish. Where only they have spoken it was their wish."""
_STRICTNESS: tuple[Answer, ...] = ("allow", "ask", "deny")


@dataclass(frozen=True)
class Policy:
    """One verdict an effect. What no rule names is allowed: whoever writes the rules out names every effect."""

    rules: Mapping[Effect, Verdict] = field(default_factory=dict)
    unasked: str = ""
    """Where nobody can be asked: why, for the model. What no rule of the person's covers is denied there."""

    def judge(self, effects: Iterable[Effect], from_outside: bool = True) -> Verdict:
        """The strictest verdict among the call's effects (`Tool.effects`).

        `from_outside`: has the model read what neither the person nor the app wrote (`agent/voices.py`)?
        """
        effects = sorted(effects)
        verdicts = [self.rules.get(effect, ALLOW) for effect in effects]
        if Effect.REMEMBER in effects and from_outside:
            verdicts.append(HEARSAY)
        strictest = max(verdicts, key=lambda verdict: _STRICTNESS.index(verdict.answer), default=ALLOW).answer
        reasons = dict.fromkeys(verdict.why for verdict in verdicts if verdict.answer == strictest)
        return Verdict(strictest, " ".join(filter(None, reasons)))

    def answered(self, question: Verdict) -> Verdict:
        """What becomes of a call that is asked about: a question, or where nobody can be asked a refusal."""
        return Verdict("deny", f"{self.unasked} {question.why}".strip()) if self.unasked else question

    @classmethod
    def of(cls, mode: Mode, boundary: Boundary, exposure: Exposure) -> Policy:
        """The app's policy.

        read_only   anything but reading is denied, and the model is told so.
        ask         reading and writing run, a command, the network and money are asked for. Writing needs no question
                    because the file tools hold by themselves (they cannot leave the workspace, on any system), and
                    what they change can be undone; a question that always gets a yes teaches people not to read.
        auto        what stays inside the fence runs: commands too, as long as there is a whole fence for them to stay
                    inside of. Where it is partial or missing they are asked for. The network and money leave any
                    fence, so they are asked for everywhere.

        With strangers at the page a click proves nothing, for the stranger does the clicking: without a whole fence
        commands are off there. An unknown boundary counts as none, an unknown exposure as public; an unknown mode
        raises ValueError.
        """
        fenced, public = boundary == "strong", exposure != "local"
        if mode == "read_only":
            refusal = Verdict("deny", "The session is read-only: look, but change, run and send nothing.")
            return cls({effect: ALLOW if effect is Effect.READ else refusal for effect in Effect})
        if mode not in ("ask", "auto"):
            raise ValueError(f"unknown mode {mode!r}")
        return cls(
            {
                Effect.READ: ALLOW,
                Effect.WRITE: ALLOW,
                Effect.EXECUTE: _commands(mode, fenced, public),
                Effect.NETWORK: Verdict("ask", "It asks for the network, outside the fence."),
                Effect.SPEND: Verdict("ask", "It costs money."),
                Effect.REMEMBER: ALLOW,  # but see HEARSAY
            }
        )


def default_mode(boundary: Boundary) -> Mode:
    """The mode of an app that was told nothing: the fence where it is whole, else a person."""
    return "auto" if boundary == "strong" else "ask"


def _commands(mode: Mode, fenced: bool, public: bool) -> Verdict:
    if not fenced and public:
        return Verdict("deny", "Commands are off: the page is public and nothing fences them in completely here.")
    if not fenced:
        return Verdict("ask", "It runs a command, and the fence around commands is not complete on this machine.")
    return ALLOW if mode == "auto" else Verdict("ask", "It runs a command.")


def arguments_hash(call: ToolCall) -> str:
    """What a decision is bound to: a call with other arguments needs a decision of its own."""
    return hashlib.sha256(f"{call.name}\0{call.arguments}".encode()).hexdigest()
