"""Replays on the page: what a person can do with one, and what stands in the place of the message box then.

Who asks has been checked before (`ui/handlers.py`). Refuses to know gradio, and how time passes in a replay
(`ui/replay.py` does).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path
from typing import Any

from agent.errors import Refused
from agent.sessions import Sessions
from agent.store.store import NO_SESSION
from ui import recordings
from ui.history import Action
from ui.markup import button
from ui.replay import SPEEDS, Replay, ReplaySession
from ui.texts import Words
from ui.visits import Visit


class Replaying:
    """The actions, by the name that a button gives."""

    def __init__(self, sessions: Sessions, folder: Path = recordings.SHIPPED) -> None:
        self._sessions, self._folder = sessions, folder
        self._shipped = recordings.listed(folder)
        self.actions: dict[str, Action] = {
            "recording": self._open_recording,
            "replay_this": self._open_session,
            "replay": self._control,
        }

    # ------------------------------------------------------------------ actions

    async def _open_recording(self, visit: Visit, data: dict[str, Any]) -> None:
        self._show(visit, await self._recording(visit.owner, str(data.get("value", ""))))

    async def _open_session(self, visit: Visit, data: dict[str, Any]) -> None:
        self._show(visit, await self._of_session(visit.owner, str(data.get("id", ""))))

    async def _control(self, visit: Visit, data: dict[str, Any]) -> None:
        session = visit.session
        if not isinstance(session, ReplaySession):
            raise Refused("this is no replay")
        what = str(data.get("value", ""))
        if what == "again":
            again = session.again()
            again.replay.speed = session.replay.speed
            again.replay.play()
            self._show(visit, again)
        elif what in _CONTROLS:
            _CONTROLS[what](session.replay)
        visit.panel_bell.set()

    def _show(self, visit: Visit, session: ReplaySession) -> None:
        self._sessions.add(session)
        visit.show(session)

    # ------------------------------------------------------------------ where replays come from

    async def reopen(self, owner: str, replay_id: str) -> ReplaySession:
        """A replay that has left memory, by the id that it had: from the start, under an id of its own.

        Raises Refused for an id that is none, and where what it was of is not the owner's, or gone.
        """
        kind, _, rest = replay_id.partition(_MARK)
        name, _, _ = rest.partition(_MARK)
        if kind not in (_RECORDING, _SESSION) or not name:
            raise Refused(NO_SESSION)
        replay = await (self._recording if kind == _RECORDING else self._of_session)(owner, name)
        self._sessions.add(replay)
        return replay

    async def _recording(self, owner: str, name: str) -> ReplaySession:
        """One that came with the app."""
        imported = await asyncio.to_thread(recordings.load, name, self._folder)
        return ReplaySession(imported.entries, imported.title or name, owner, source=_source(_RECORDING, name))

    async def _of_session(self, owner: str, session_id: str) -> ReplaySession:
        """One of the owner's own, as far as it has come. Its handed-over files can be had from the replay, too."""
        session = await self._sessions.open(owner, session_id)
        entries = tuple(session.log.since(0))
        return ReplaySession(entries, session.title, owner, session.outbox, _source(_SESSION, session_id))

    # ------------------------------------------------------------------ markup

    def welcome(self, words: Words) -> str:
        """The recordings, on an empty page."""
        if not self._shipped:
            return ""
        shown = "".join(button(one.title, kind="gl-example", do="recording", value=one.name) for one in self._shipped)
        title = escape(words["recordings"])
        return f'<div class="gl-recordings"><p>{title}</p><div role="group" aria-label="{title}">{shown}</div></div>'

    def dock(self, visit: Visit) -> str:
        """The controls of the replay that is on the page; nothing on other pages."""
        session, words = visit.session, visit.words
        if not isinstance(session, ReplaySession):
            return ""
        replay = session.replay

        def control(key: str, what: str, kind: str = "gl-secondary") -> str:
            return button(words[key], kind=kind, do="replay", value=what)

        what = "again" if replay.done else "pause" if replay.playing else "play"
        faster = words["replay_speed"].format(speed=f"{replay.speed:g}")
        buttons = control(f"replay_{what}", what, "gl-primary")
        buttons += "" if replay.done else control("replay_step", "step")
        buttons += button(faster, kind="gl-secondary", do="replay", value="faster")
        buttons += "" if replay.done else control("replay_all", "all")
        return (
            f'<section class="gl-replay" aria-label="{escape(words["replay"])}"><p><b class="gl-tag">'
            f"{escape(words['replay'])}</b> <b>{escape(session.replay_of)}</b> {escape(words['replay_more'])}</p>"
            f'<progress max="{len(replay.entries)}" value="{len(replay.log)}"></progress>'
            f'<div class="gl-answer">{buttons}{button(words["replay_leave"], kind="gl-flat gl-word", do="new")}</div>'
            f"</section>"
        )


_RECORDING, _SESSION, _MARK = "recording", "session", "~"
"""A replay's id is what it is of, with marks between: its address outlives it. No other id has such a mark."""


def _source(kind: str, name: str) -> str:
    return f"{kind}{_MARK}{name}{_MARK}"


def _faster(replay: Replay) -> None:
    """The next speed, and after the last one the first."""
    replay.speed = SPEEDS[(SPEEDS.index(replay.speed) + 1) % len(SPEEDS)]


_CONTROLS: Mapping[str, Callable[[Replay], None]] = {
    "play": Replay.play,
    "pause": Replay.pause,
    "step": Replay.step,
    "all": Replay.finish,
    "faster": _faster,
}
