"""A replay: a recorded log read again, at its own pace, into a log that the page's ordinary readers follow.

    Replay          gives out entries one by one: play, pause, step, finish
    ReplaySession   a session made of them: everything about it can be looked at, nothing can be done in it

No model is asked and no tool runs: there is none. The entries come out as they are, with the times of the recording, so
every replay of a log is the same. Knows logs and pace. Refuses to know where a recording is kept and how it looks.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from agent.agent import Agent
from agent.errors import Refused
from agent.events import Event, StepStarted, TurnStarted
from agent.llm.recorded import RecordedModel
from agent.log import Entry, EventLog
from agent.session import Session
from agent.tool import Toolbox

LONGEST_PAUSE_S = 2.0
"""A longer pause in the recording is cut to this: nobody wants to watch somebody else go for lunch."""

SPEEDS = (1.0, 2.0, 4.0, 8.0)
"""What the page offers."""

_AT_A_STRETCH = 200
"""Entries given out at most before others get a turn."""

IS_RECORDING = "this is a recording"


class Replay:
    """Gives out a recording's entries. Lives in one event loop; `log` is the reader's, and nobody else writes it."""

    def __init__(
        self, entries: Sequence[Entry], speed: float = 1.0, sink: Callable[[Entry], None] | None = None
    ) -> None:
        """`sink` is told of each entry before `log`'s readers are. Raises Refused where there is nothing to replay."""
        if not entries:
            raise Refused("there is nothing in this recording")
        self.entries = entries
        self.log = EventLog(sink=sink, clock=lambda: self.entries[min(len(self.log), len(self.entries) - 1)].at)
        self._speed = speed
        self._task: asyncio.Task[None] | None = None

    @property
    def done(self) -> bool:
        return len(self.log) == len(self.entries)

    @property
    def playing(self) -> bool:
        return self._task is not None and not self._task.done() and not self.done

    @property
    def speed(self) -> float:
        """How many times faster than it was."""
        return self._speed

    @speed.setter
    def speed(self, speed: float) -> None:
        self._speed = speed
        if self.playing:
            self.pause()
            self.play()

    @property
    def next_pause(self) -> float:
        """Seconds from the last entry to the next as they were, cut to LONGEST_PAUSE_S. Clocks may have gone back."""
        at = len(self.log)
        return min(max(self.entries[at].at - self.entries[at - 1].at, 0.0), LONGEST_PAUSE_S) if at else 0.0

    def play(self) -> None:
        """Go on by itself until it is done or paused."""
        if not self.playing:
            self._task = asyncio.create_task(self._play(), name="replay")

    def pause(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def step(self) -> None:
        """One step of a turn at once: a message, or a model call with all the calls it asked for."""
        self.pause()
        while not self.done:
            self._give()
            if not self.done and _begins_something(self.entries[len(self.log)].event):
                return

    def finish(self) -> None:
        """All that is left, at once."""
        self.pause()
        while not self.done:
            self._give()

    async def wait(self) -> None:
        """Until it does not play any more."""
        while self.playing and self._task is not None:
            await asyncio.wait([self._task])

    def _give(self) -> None:
        self.log.append(self.entries[len(self.log)].event)

    async def _play(self) -> None:
        loop = asyncio.get_running_loop()
        due, given = loop.time(), 0
        while not self.done:
            due += self.next_pause / self._speed
            given += 1
            if due > loop.time() or given % _AT_A_STRETCH == 0:
                await asyncio.sleep(max(0.0, due - loop.time()))
            self._give()


def _begins_something(event: Event) -> bool:
    return isinstance(event, (StepStarted, TurnStarted))


class ReplaySession(Session):
    """A session's reading side over a replay. It begins with the first message shown, and paused.

    Whatever would write, run or decide raises Refused. `append` does too, so a command that comes later is refused
    before it is thought of here.
    """

    def __init__(
        self,
        entries: Sequence[Entry],
        replay_of: str,
        owner: str = "",
        outbox: Path = Path(os.devnull),
        source: str = "",
    ) -> None:
        """`replay_of` names the recording for the person. `outbox` is where its handed-over files are, if anywhere.
        `source` begins its id: who knows where the entries came from can find them again.

        Raises Refused where there is nothing to replay.
        """
        self.replay = Replay(entries, sink=self._take)
        self.replay_of, self._source = replay_of, source
        workspace = Path(os.devnull)  # holds no files, and can hold none
        agent, id = Agent(RecordedModel(entries), Toolbox([])), source + secrets.token_urlsafe(16)
        super().__init__(agent, workspace, outbox, owner, self.replay.log, id)
        self.replay.step()

    @property
    def running(self) -> bool:
        """Nothing ever runs, however lively it looks."""
        return False

    @property
    def busy(self) -> bool:
        return self.replay.playing

    @property
    def waiting(self) -> bool:
        """What waited for a person waits no more."""
        return False

    @property
    def title(self) -> str:
        return self.replay_of

    def again(self) -> ReplaySession:
        """The same from the start."""
        return ReplaySession(self.replay.entries, self.replay_of, self.owner, self.outbox, self._source)

    async def close(self) -> None:
        self.replay.pause()

    def recover(self) -> None:
        """There is nothing to bring to rest."""

    def append(self, event: Event) -> NoReturn:
        raise Refused(IS_RECORDING)

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise Refused(IS_RECORDING)

    async def _refuse_later(self, *_: Any, **__: Any) -> NoReturn:
        raise Refused(IS_RECORDING)

    send = withdraw = decide = decide_all = revoke = edit = retry = select = resume = _refuse
    steer = raise_budget = finish = give_up = set_budget = _refuse
    stop = undo = undo_preview = diff = _refuse_later
