"""What goes on in the background: its list in the right panel, and the buttons in it.

Knows how a process looks and what a person may do with it. Refuses to know gradio, and how a process is held and ended
(`agent/background.py` is asked).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from agent.errors import Refused
from agent.session import Session
from ui.history import Action
from ui.markup import button, when
from ui.safe_text import one_line
from ui.texts import Words, duration
from ui.visits import Visit, Visits

MAX_LINES = 12
"""Of a process's output, from its end."""


class Processes:
    """The list and its actions, by the name that a button gives."""

    def __init__(self, visits: Visits) -> None:
        self._visits = visits
        self.actions: dict[str, Action] = {"process": self._open, "process_stop": self._stop}

    async def _open(self, visit: Visit, data: dict[str, Any]) -> None:
        """Show what it says, or stop showing it."""
        process_id = str(data.get("id", ""))
        visit.process = "" if visit.process == process_id else process_id
        visit.panel_bell.set()

    async def _stop(self, visit: Visit, data: dict[str, Any]) -> None:
        session = self._visits.session(visit)
        background = session.agent.background
        if background is None:
            raise Refused("there is no such process in this session")
        await background.end(session.id, str(data.get("id", "")))
        self._visits.ring(visit.owner)

    # ------------------------------------------------------------------ markup

    def state(self, visit: Visit) -> Sequence[Any]:
        """What changes when the list has to be drawn anew, although no event of the session says so."""
        facts = _facts(visit.session)
        return [(one["id"], one["running"], one["bytes"] if one["id"] == visit.process else 0) for one in facts]

    def running(self, visit: Visit) -> bool:
        """Does anything go on, so that the list may change by itself?"""
        return any(one["running"] for one in _facts(visit.session))

    def panel(self, visit: Visit) -> str:
        """The list; empty where nothing was started."""
        facts, words = _facts(visit.session), visit.words
        if not facts:
            return ""
        running = sum(bool(one["running"]) for one in facts)
        title = escape(words["processes"].format(count=running))
        items = "".join(_process(words, one, self._said(visit, one)) for one in facts)
        return f'<section class="gl-processes" aria-label="{title}"><h2>{title}</h2><ul>{items}</ul></section>'

    def _said(self, visit: Visit, fact: Mapping[str, Any]) -> str | None:
        background = visit.session.agent.background
        if background is None or fact["id"] != visit.process:
            return None
        lines = background.said(visit.session.id, visit.process).rstrip().splitlines()
        return "\n".join(lines[-MAX_LINES:])


def _facts(session: Session) -> Sequence[Mapping[str, Any]]:
    background = session.agent.background
    return background.facts(session.id) if background is not None else ()


def _process(words: Words, fact: Mapping[str, Any], said: str | None) -> str:
    """One line that opens to the command and the last of the output."""
    running, process_id, command = bool(fact["running"]), str(fact["id"]), str(fact["command"])
    opened = said is not None
    mark = "running" if running else "done" if fact.get("exit_code") == 0 else "stopped"
    since = f"{escape(words['process_since'])} {when(fact['started_at'])}" if running else escape(_ended(words, fact))
    stop = button(words["stop"], kind="gl-secondary", do="process_stop", id=process_id) if running else ""
    name = str(fact["name"]) or command
    more = ""
    if said is not None:
        shown = (
            f"<pre>{escape(said)}</pre>"
            if said.strip()
            else f'<p class="gl-small">{escape(words["process_silent"])}</p>'
        )
        more = f'<p class="gl-small"><code>{escape(one_line(command, 300))}</code></p>{shown}'
    return (
        f'<li><div class="gl-process"><button class="gl-process-name" data-do="process" data-id="{escape(process_id)}" '
        f'aria-expanded="{"true" if opened else "false"}"><span class="gl-mark gl-{mark}"></span>'
        f"<span><b>{escape(one_line(name, 60))}</b><i>{since}</i></span></button>{stop}</div>{more}</li>"
    )


def _ended(words: Words, fact: Mapping[str, Any]) -> str:
    facts = [words["process_stopped" if fact.get("reason") == "stopped" else "process_ended"]]
    if isinstance(code := fact.get("exit_code"), int) and fact.get("reason") == "exit":
        facts.append(words["fact_exit_code"].format(value=code))
    if killed := fact.get("killed"):
        facts.append(words["receipt_killed_one" if killed == 1 else "receipt_killed"].format(count=killed))
    if isinstance(seconds := fact.get("seconds"), (int, float)):
        facts.append(duration(words, float(seconds)))
    return words["comma"].join(facts)
