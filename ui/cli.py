"""One task in the terminal: the second reader of the log. The answer goes to stdout, everything about it to stderr.

Knows signals, questions and exit codes. Refuses to know how an entry looks (`terminal.py`) and where the session comes
from (`app.py`).
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from types import FrameType
from typing import Any

from agent.events import StopReason, TurnEnded
from agent.log import Entry, dump_entry
from agent.messages import ToolCall
from agent.policy import arguments_hash
from agent.session import Session
from ui.cli_texts import CliTexts, DoctorTexts
from ui.doctor import Finding, State
from ui.terminal import Piece, Style, Terminal, clean, exactly

EXIT_CODES: Mapping[StopReason, int] = {
    "answered": 0,
    "error": 1,
    "step_limit": 3,
    "budget": 3,
    "loop": 3,
    "empty_answer": 3,
    "output_truncated": 3,
    "content_filtered": 3,
    "interrupted": 3,
    "awaiting_approval": 4,
    "stopped": 130,
}
"""`ui/arguments.py` lists them for people; 2 is a wrong command line or setting."""

_COLOURS: Mapping[Style, str] = {"plain": "", "dim": "2", "good": "32", "bad": "31", "ask": "33"}

Show = Callable[[Entry], None]
Ask = Callable[[ToolCall], bool]


NOT_PROVED = 5
"""The exit code of an answer that facts are against."""


async def run_task(
    session: Session, task: str, show: Show, texts: CliTexts, ask: Ask | None, expects: tuple[str, ...] = ()
) -> int:
    """Do one task and return the exit code. `ask` decides about calls that need a person; None: nobody is there.

    `expects`: what must be true at the end.

    Ctrl-C and SIGTERM stop the turn; a second one leaves at once.
    """
    seq = len(session.log)
    try:
        with _stop_on_signals(session, texts):
            session.send(task, expects=expects)
            seq = await _follow_turn(session, seq, show)
        while ask is not None and session.turn.ended == "awaiting_approval":
            with _on_signals(signal.default_int_handler):  # at a question there is nothing to stop: just leave
                _decide(session, ask, texts)
            with _stop_on_signals(session, texts):
                seq = await _follow_turn(session, seq, show)
    except KeyboardInterrupt:
        return EXIT_CODES["stopped"]
    finally:
        await session.stop()
    proved = session.turn.proved
    if session.turn.ended == "answered" and proved is not None and proved.verdict != "verified":
        return NOT_PROVED
    return EXIT_CODES[session.turn.ended or "error"]


async def _follow_turn(session: Session, seq: int, show: Show) -> int:
    """Show everything from `seq` until the turn has ended; return where to go on."""
    async with aclosing(session.log.follow(seq)) as batches:
        async for batch in batches:
            for entry in batch:
                show(entry)
            seq += len(batch)
            if isinstance(batch[-1].event, TurnEnded):
                break
    await session.wait()
    return seq


def _decide(session: Session, ask: Ask, texts: CliTexts) -> None:
    for call in session.open_calls():
        if call.id not in session.turn.decisions:
            allowed = ask(call)
            session.decide(call.id, arguments_hash(call), allowed, "" if allowed else texts.refused_by_person)


@contextmanager
def _stop_on_signals(session: Session, texts: CliTexts) -> Iterator[None]:
    """Within: the first signal stops the turn, the second ends the process."""
    loop = asyncio.get_running_loop()
    stopping: list[asyncio.Task[Any]] = []

    def stop() -> None:
        if stopping:
            say(texts.leaving)
            os._exit(EXIT_CODES["stopped"])  # the sandbox ends its commands when the app is gone
        say("\n" + texts.stopping)
        stopping.append(loop.create_task(session.stop()))

    with _on_signals(lambda *_: loop.call_soon_threadsafe(stop)):
        yield


@contextmanager
def _on_signals(handler: Callable[[int, FrameType | None], Any]) -> Iterator[None]:
    """Within: Ctrl-C and SIGTERM go to this handler, whatever asyncio has set."""
    before = {sign: signal.signal(sign, handler) for sign in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for sign, old in before.items():
            signal.signal(sign, old)


# ------------------------------------------------------------------ where the log goes


def show_json(entry: Entry) -> None:
    """One entry as one line of JSON on stdout, in the form that `agent.log.load_entry` reads."""
    print(json.dumps(dump_entry(entry)), flush=True)


def show_text(texts: CliTexts, no_color: bool) -> Show:
    """Entries as text, with a little colour where a person looks at it."""
    terminal = Terminal(texts)
    coloured = sys.stderr.isatty() and not no_color

    def show(entry: Entry) -> None:
        for piece in terminal.show(entry):
            print(_painted(piece) if coloured else piece.text, end="", flush=True, file=_stream(piece))

    return show


def ask_in_terminal(texts: CliTexts) -> Ask | None:
    """A question on stderr with an answer from stdin; None where no person sits there."""
    if not sys.stdin.isatty():
        return None

    def ask(call: ToolCall) -> bool:
        print(f"\n{texts.asks.format(name=call.name)}\n{exactly(call)}", file=sys.stderr)
        print(texts.allow, end="", flush=True, file=sys.stderr)
        return sys.stdin.readline().strip().lower() in texts.yes

    return ask


def _stream(piece: Piece) -> Any:
    return sys.stdout if piece.answer else sys.stderr


def _painted(piece: Piece) -> str:
    code = _COLOURS[piece.style]
    return f"\x1b[{code}m{piece.text}\x1b[0m" if code else piece.text


def say(text: str) -> None:
    """A line about what the app does; never on stdout, which holds results."""
    print(text, file=sys.stderr, flush=True)


# ------------------------------------------------------------------ what the doctor found

_MARKS: Mapping[State, str] = {"ok": "[ok]", "warn": "[!] ", "bad": "[x] "}


def show_finding(finding: Finding) -> None:
    """A finding as a line on stdout, with its advice below it."""
    mark = _MARKS[finding.state]
    print(f"{mark} {finding.subject}: {clean(finding.text)}", flush=True)
    if finding.advice:
        print(f"       {clean(finding.advice)}", flush=True)


def show_verdict(findings: Sequence[Finding], words: DoctorTexts) -> int:
    """The last line, and the exit code: 1 where something must be put right."""
    worst = {finding.state for finding in findings}
    print("\n" + words["unwell" if "bad" in worst else "some_warnings" if "warn" in worst else "all_well"])
    return 1 if "bad" in worst else 0
