"""The processes in the background: which session started them, and that they end with it.

    start    under the fence, at most so many for a session and for the whole app
    end      one, all of a session; proven empty trees

Implements `agent.background.Background`. An ended process stays to be read from for a while. When the app dies, however
it dies, the fence ends them. Knows who owns a process. Refuses to know what it is for and how it is told to the model.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agent.errors import Refused, ToolError
from tools.sandbox import BackgroundProcess, Command, Fence

MAX_OF_SESSION = 3
MAX_IN_ALL = 8
MAX_SAID_BYTES = 4_000
"""Of its output, for the person who looks at it."""
MAX_ENDED = 12
"""Of all sessions together, to be read from: each keeps about 0.4 MB of output."""


@dataclass(frozen=True, eq=False)
class Started:
    """A process with what is known about it."""

    id: str
    session_id: str
    name: str
    text: str
    """The command as the model wrote it."""
    network: bool
    process: BackgroundProcess
    started_at: float = field(default_factory=time.time)
    """Seconds since the epoch."""


class Processes:
    """All of this app. Belongs to one event loop."""

    def __init__(
        self,
        fence: Fence,
        max_life_s: float,
        max_of_session: int = MAX_OF_SESSION,
        max_in_all: int = MAX_IN_ALL,
    ) -> None:
        """`max_life_s`: seconds after which a process is ended, whatever it does."""
        self.fence = fence
        self.max_of_session, self.max_in_all, self.max_life_s = max_of_session, max_in_all, max_life_s
        self._started: dict[str, Started] = {}

    async def start(self, session_id: str, command: Command, name: str, text: str) -> Started:
        """Start a command that goes on. Raises ToolError where as many run as may."""
        self._check_room(session_id)
        life = replace(command.limits, timeout_s=self.max_life_s, cpu_s=max(command.limits.cpu_s, int(self.max_life_s)))
        process = await self.fence.start(replace(command, limits=life))
        started = Started(f"p{secrets.token_hex(3)}", session_id, name, text, command.network, process)
        self._started[started.id] = started
        self._forget_the_oldest()
        return started

    def get(self, session_id: str, process_id: str) -> Started | None:
        """The session's process of that id; None for an unknown one, and for another session's alike."""
        found = self._started.get(process_id)
        return found if found is not None and found.session_id == session_id else None

    def of(self, session_id: str) -> list[Started]:
        """The session's processes, in the order they were started."""
        return [one for one in self._started.values() if one.session_id == session_id]

    def forget(self, started: Started) -> None:
        """Do not list it any more. It must have ended."""
        self._started.pop(started.id, None)

    # ------------------------------------------------------------------ what the session and the page ask

    def is_busy(self, session_id: str) -> bool:
        """See `Background.is_busy`."""
        return any(one.process.running for one in self.of(session_id))

    def facts(self, session_id: str) -> Sequence[Mapping[str, Any]]:
        """See `Background.facts`."""
        return [_facts(one) for one in self.of(session_id)]

    def said(self, session_id: str, process_id: str) -> str:
        """See `Background.said`."""
        process = self._known(session_id, process_id).process
        return process.read(max(0, process.position - MAX_SAID_BYTES))

    async def end(self, session_id: str, process_id: str) -> None:
        """See `Background.end`."""
        await self._known(session_id, process_id).process.stop()

    async def end_all(self, session_id: str) -> None:
        """See `Background.end_all`."""
        mine = self.of(session_id)
        await asyncio.gather(*(one.process.stop() for one in mine))
        for one in mine:
            self.forget(one)

    # ------------------------------------------------------------------ inside

    def _known(self, session_id: str, process_id: str) -> Started:
        started = self.get(session_id, process_id)
        if started is None:
            raise Refused("there is no such process in this session")
        return started

    def _check_room(self, session_id: str) -> None:
        running = [one for one in self._started.values() if one.process.running]
        mine = [f"{one.id} ({one.name})" for one in running if one.session_id == session_id]
        if len(mine) >= self.max_of_session:
            raise ToolError(f"{len(mine)} processes run already, more may not. Stop one first: {', '.join(mine)}")
        if len(running) >= self.max_in_all:
            raise ToolError("no process can be started now: as many run as may in the whole app. Try again later")

    def _forget_the_oldest(self) -> None:
        ended = [one for one in self._started.values() if not one.process.running]
        for one in ended[: max(0, len(ended) - MAX_ENDED)]:
            self.forget(one)


def _facts(one: Started) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "id": one.id,
        "name": one.name,
        "command": one.text,
        "network": one.network,
        "started_at": one.started_at,
        "running": one.process.running,
        "bytes": one.process.position,
    }
    outcome = one.process.outcome
    if outcome is not None:
        facts |= {"reason": outcome.reason, "exit_code": outcome.exit_code, "killed": outcome.killed}
        facts["seconds"] = round(outcome.seconds, 2)
    return facts
