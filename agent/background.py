"""What goes on beyond a turn: processes that were started for a session and outlive the call that started them.

Knows what a session and its readers may ask about them. Refuses to know how they are held and what they run: that is
behind `Background`, which the app hands in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class Background(Protocol):
    """The background processes of all sessions. Belongs to one event loop."""

    def is_busy(self, session_id: str) -> bool:
        """Does any process of this session run?"""

    def facts(self, session_id: str) -> Sequence[Mapping[str, Any]]:
        """JSON facts about each process, in the order they were started; those that ended stay for a while.

        `id`, `name`, `command`, `network`, `started_at` (seconds since the epoch), `running`, `bytes` (said so far);
        when it has ended `reason`, `exit_code` (None where a signal ended it), `killed`, `seconds`, too.
        """

    def said(self, session_id: str, process_id: str) -> str:
        """The last of what one has said, a few thousand characters, cleaned. Raises Refused for an unknown one."""

    async def end(self, session_id: str, process_id: str) -> None:
        """End one with all that it started, and wait for the proof. Raises Refused for an unknown one."""

    async def end_all(self, session_id: str) -> None:
        """The same for every process of the session, which is over."""
