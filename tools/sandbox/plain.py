"""A process without a supervisor: watched and ended from the app itself, as well as that goes.

Knows psutil. Used where there is no supervisor (macOS, Windows). Does not promise what it cannot keep: a
process that leaves both its group and its parents between two looks is not found again, and nothing ends the
tree when the app is killed, unless the backend has a means of its own for that (a job object).
"""

import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import IO

import psutil

from tools.sandbox.command import Command, Reason
from tools.sandbox.running import Ending

_PIECE = 64 * 1024
_LOOK_S = 0.1
_LAST_OUTPUT_S = 0.25  # a process that was not found may hold a pipe open for ever
_WAITING_PIECES = 16  # a flood waits in the pipe, not in memory
_KILL_WITHIN_S = 3.0


class PlainProcess:
    """A started program, its output and the descendants seen so far. Implements `running.Process`."""

    def __init__(
        self, program: "subprocess.Popen[bytes]", command: Command, end_all: Callable[[], None], folder: "Folder | None"
    ) -> None:
        """`end_all` ends what the backend itself can reach; `folder` counts the workspace, None where nothing
        does."""
        self.ending: Ending | None = None
        self._program, self._limits, self._end_all = program, command.limits, end_all
        self._folder, self._workspace = folder, str(command.workspace)
        self._pieces: queue.Queue[tuple[int, bytes]] = queue.Queue(_WAITING_PIECES)
        self._begun = self._looked = time.monotonic()
        self._seen: dict[int, psutil.Process] = {}
        self._reason: Reason | None = None
        self._ended_at: float | None = None
        self._killed = 0
        assert program.stdout and program.stderr
        self._pumps = [self._pump(0, program.stdout), self._pump(1, program.stderr)]

    def stop(self) -> None:
        self._reason = self._reason or "stopped"

    def read(self, timeout: float) -> list[tuple[int, bytes]]:
        pieces: list[tuple[int, bytes]] = []
        try:
            pieces.append(self._pieces.get(timeout=timeout))
            while True:
                pieces.append(self._pieces.get_nowait())
        except queue.Empty:
            self._look()
        return pieces

    def _pump(self, name: int, pipe: IO[bytes]) -> threading.Thread:
        def pump() -> None:
            with pipe:
                while (data := os.read(pipe.fileno(), _PIECE)) and self.ending is None:
                    self._pieces.put((name, data))

        thread = threading.Thread(target=pump, name="command-output", daemon=True)
        thread.start()
        return thread

    def _look(self) -> None:
        now = time.monotonic()
        if self._ended_at is not None:
            if now - self._ended_at > _LAST_OUTPUT_S or not any(pump.is_alive() for pump in self._pumps):
                self._finish()
            return
        if now - self._looked >= _LOOK_S:
            self._looked = now
            self._reason = self._reason or self._limit_reached(now)
        if self._reason is not None or self._program.poll() is not None:
            self._empty()
            self._ended_at = time.monotonic()

    def _limit_reached(self, now: float) -> Reason | None:
        if now - self._begun > self._limits.timeout_s:
            return "timeout"
        tree = self._tree()
        if sum(map(_resident, tree)) > self._limits.memory_bytes:
            return "memory_limit"
        if len(tree) > self._limits.processes:
            return "process_limit"
        if self._folder is not None:
            size, files = self._folder(self._workspace, self._limits.quota_files)
            if size > self._limits.quota_bytes or files > self._limits.quota_files:
                return "quota"
        return None

    def _tree(self) -> list[psutil.Process]:
        """List who lives, and remember them: an orphan has no parent by which it would be found later."""
        for parent in [*self._seen.values(), _process(self._program.pid)]:
            for child in _children(parent):
                self._seen.setdefault(child.pid, child)
        return [process for process in self._seen.values() if process.is_running()]  # by start time too, not only by id

    def _empty(self) -> None:
        deadline = time.monotonic() + _KILL_WITHIN_S
        counted: set[int] = set()
        while True:
            alive = [process for process in self._tree() if _lives(process)]
            if self._program.poll() is None:
                counted.add(self._program.pid)
                self._program.kill()
            self._end_all()
            for process in alive:
                counted.add(process.pid)
                _kill(process)
            if (not alive and self._program.poll() is not None) or time.monotonic() > deadline:
                break
            time.sleep(0.005)
        self._killed = len(counted)

    def _finish(self) -> None:
        code = self._program.poll()
        left = [process.pid for process in self._tree() if _lives(process)]
        self.ending = Ending(
            self._reason or "exit",
            exit_code=code if code is not None and code >= 0 else None,
            signal=-code if code is not None and code < 0 else None,
            killed=self._killed,
            error=f"{len(left)} processes of the command could not be ended" if left or code is None else None,
        )
        while not self._pieces.empty():  # a pump that waits for room finds it, and ends
            self._pieces.get_nowait()


Folder = Callable[[str, int], tuple[int, int]]


def end_group(program: "subprocess.Popen[bytes]") -> Callable[[], None]:
    """Give the call that kills the process group of a program that was started in a session of its own."""

    def end() -> None:
        if sys.platform != "win32":
            try:
                os.killpg(program.pid, 9)
            except (ProcessLookupError, PermissionError):
                return  # empty; on macOS a group of zombies is not permitted

    return end


def _process(pid: int) -> psutil.Process | None:
    try:
        return psutil.Process(pid)
    except psutil.Error:
        return None


def _children(parent: psutil.Process | None) -> list[psutil.Process]:
    try:
        return parent.children(recursive=True) if parent else []
    except psutil.Error:
        return []


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _kill(process: psutil.Process) -> None:
    try:
        process.kill()
    except psutil.Error:
        return  # it was faster
