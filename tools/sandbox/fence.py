"""The fence: the one way in which the house runs a command.

Knows asyncio: cancellation, and handing text to the loop. Knows no mechanism: a backend is a `Spawn`, so a
container or a remote runner is another function.
"""

import asyncio
import weakref
from collections.abc import Callable
from typing import Protocol

from tools.sandbox.boundary import Boundary
from tools.sandbox.collector import Excerpt
from tools.sandbox.command import Command, Outcome
from tools.sandbox.running import Running, Spawn

OnOutput = Callable[[str], None]
OnEnd = Callable[[Outcome], None]


class Fence(Protocol):
    """What runs commands, and what is known to hold them."""

    boundary: Boundary

    async def run(self, command: Command, on_output: OnOutput | None = None, on_end: OnEnd | None = None) -> Outcome:
        """Run a command to its end.

        `on_output` gets stdout and stderr as they come: at most ten calls a second, each bounded, already
        cleaned. `on_end` is called once in every case, before this returns or raises. When the task is
        cancelled, the whole tree is killed and proven empty before `CancelledError` leaves. A command that
        fails or is refused is an `Outcome`.
        """

    async def start(self, command: Command) -> "BackgroundProcess":
        """Start a command that shall outlive this call, with `limits.timeout_s` as its longest life."""


class LocalFence:
    """A fence whose commands are processes of this machine."""

    def __init__(self, boundary: Boundary, spawn: Spawn) -> None:
        self.boundary = boundary
        self._spawn = spawn

    async def run(self, command: Command, on_output: OnOutput | None = None, on_end: OnEnd | None = None) -> Outcome:
        """See `Fence.run`."""
        running = Running(self._spawn, command, _posting(on_output))
        outcome, cancelled = await _until_ended(running)
        if on_end:
            on_end(outcome)
        if cancelled:
            raise asyncio.CancelledError
        return outcome

    async def start(self, command: Command) -> "BackgroundProcess":
        """See `Fence.start`."""
        return BackgroundProcess(Running(self._spawn, command, None))


class BackgroundProcess:
    """A command that goes on while others run. It ends by itself, by `stop`, when its owner forgets it, or
    with the app."""

    def __init__(self, running: Running) -> None:
        self._running = running
        weakref.finalize(self, running.stop)  # the thread holds `running`, nothing but the owner holds this

    @property
    def running(self) -> bool:
        return not self._running.result.done()

    @property
    def outcome(self) -> Outcome | None:
        """What became of it, once it has ended."""
        return None if self.running else self._running.result.result()

    @property
    def position(self) -> int:
        """Bytes of output so far: what to give `read` the next time."""
        return self._running.collector.log.end

    def read(self, since: int = 0) -> str:
        """Give the output after the first `since` bytes, cleaned; of a long one the last 256 KiB."""
        return self.excerpt(since).text

    def excerpt(self, since: int = 0) -> Excerpt:
        """The same, with the position to go on from and what is missing."""
        return self._running.collector.log.read(since)

    async def wait(self, timeout_s: float) -> bool:
        """Wait at most so long for its end; tell whether it has ended. Cancelling ends the waiting, not the
        command."""
        waiter = asyncio.wrap_future(self._running.result)
        try:
            await asyncio.wait([waiter], timeout=timeout_s)
        finally:
            waiter.cancel()
        return not self.running

    async def stop(self) -> Outcome:
        """End the whole tree and wait for the proof. Ended already: gives the outcome."""
        if self.running:
            self._running.stop()
        outcome, cancelled = await _until_ended(self._running)
        if cancelled:
            raise asyncio.CancelledError
        return outcome


def _posting(on_output: OnOutput | None) -> OnOutput | None:
    """Turn a callback for this loop into one for any thread."""
    if on_output is None:
        return None
    loop = asyncio.get_running_loop()

    def post(text: str) -> None:
        if not loop.is_closed():  # closed without waiting for us: the text has no reader any more
            loop.call_soon_threadsafe(on_output, text)

    return post


async def _until_ended(running: Running) -> tuple[Outcome, bool]:
    """Wait for the outcome whatever happens, and tell whether this task was cancelled meanwhile."""
    waiter = asyncio.wrap_future(running.result)
    cancelled = False
    while not waiter.done():
        try:
            await asyncio.shield(waiter)
        except asyncio.CancelledError:
            cancelled = True
            running.stop()
    return waiter.result(), cancelled
