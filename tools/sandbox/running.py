"""One running command on the app's side: a thread that reads, counts, forwards, and waits for the proven end.

Knows the life of a process as three calls (`Process`). Knows no mechanism and no event loop: a thread of its
own serves any loop in any thread, keeps a flood of output away from the loop, and lives as long as the
command, which matters because a parent-death signal is sent when the thread that started the process ends.
"""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from tools.sandbox.collector import Collector
from tools.sandbox.command import Command, Outcome, Reason

LIVE_PAUSE_S = 0.1
"""Between two pieces of live text: ten a second is what a page can draw."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Ending:
    """How a process tree ended; `Outcome` without the output."""

    reason: Reason
    exit_code: int | None = None
    signal: int | None = None
    killed: int = 0
    error: str | None = None


class Process(Protocol):
    """A command that was started, whatever holds it."""

    def read(self, timeout: float) -> list[tuple[int, bytes]]:
        """Wait at most `timeout` seconds and give pieces of (0 for stdout or 1 for stderr, bytes)."""

    def stop(self) -> None:
        """Begin to end the tree. May be called from any thread, any number of times, after the end too."""

    @property
    def ending(self) -> Ending | None:
        """None until the tree is empty and all output was given."""


Spawn = Callable[[Command], Process]
"""The one method of a backend: start a command behind a boundary. Raises `OSError` when it cannot."""


class Running:
    """One command from its start to its outcome."""

    def __init__(self, spawn: Spawn, command: Command, on_live: Callable[[str], None] | None) -> None:
        """Start at once. `on_live` is called in this command's own thread."""
        self.result: Future[Outcome] = Future()
        self.result.set_running_or_notify_cancel()  # from here on nobody can cancel it: there will be an outcome
        self.collector = Collector(command.scrubber)
        self._spawn, self._command, self._on_live = spawn, command, on_live
        self._process: Process | None = None
        self._asked: Reason | None = None
        self._begun = time.monotonic()
        threading.Thread(target=self._drive, name="command", daemon=True).start()

    def stop(self, reason: Reason = "stopped") -> None:
        """End it; the first reason given is the one reported. Returns at once, from any thread."""
        self._asked = self._asked or reason
        if self._process is not None:
            self._process.stop()

    def _drive(self) -> None:
        try:
            ending = self._follow()
        except OSError as error:
            ending = Ending("refused", 126, error=f"the command could not be started: {error}")
        except Exception as error:  # noqa: BLE001  a bug here must still end the tree and give an outcome
            _log.exception("the thread of a command failed")
            self.stop()
            ending = Ending("stopped", error=f"{type(error).__name__}: {error}")
        self.collector.finish()
        self._forward()
        self.result.set_result(self._outcome(ending))

    def _follow(self) -> Ending:
        process = self._process = self._spawn(self._command)
        if self._asked:  # between the start and the line above
            process.stop()
        forwarded = time.monotonic()
        while True:
            ending = process.ending
            if ending is not None:
                return ending
            for stream, data in process.read(LIVE_PAUSE_S):
                self.collector.feed(stream, data)
            if self.collector.received > self._command.limits.output_bytes:
                self.stop("output_limit")
            if time.monotonic() - forwarded >= LIVE_PAUSE_S:
                self._forward()
                forwarded = time.monotonic()

    def _forward(self) -> None:
        text = self.collector.take_live() if self._on_live else ""
        if text and self._on_live:
            self._on_live(text)

    def _outcome(self, ending: Ending) -> Outcome:
        # The supervisor only knows that it was told to stop; why is known here.
        reason = self._asked if ending.reason == "stopped" and self._asked else ending.reason
        both = self.collector.both
        return Outcome(
            reason=reason,
            exit_code=ending.exit_code,
            signal=ending.signal,
            seconds=time.monotonic() - self._begun,
            killed=ending.killed,
            output=both.text(),
            stdout=self.collector.streams[0].text(),
            stderr=self.collector.streams[1].text(),
            omitted_bytes=both.omitted,
            total_bytes=both.total,
            error=ending.error,
        )
