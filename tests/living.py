"""Eyes on this machine's processes, and patience: for tests that assert that something runs, or nothing is left."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path

PATIENCE_S = 30.0


def new_marker() -> str:
    """A duration for `sleep` that no other process has on its command line."""
    return f"300.{secrets.randbelow(10**12):012d}"


def processes_with(marker: str) -> list[int]:
    """The processes other than this one that have this on their command line."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                words = Path(f"/proc/{name}/cmdline").read_bytes()
            except OSError:  # gone in the meantime
                continue
            if marker.encode() in words:
                found.append(int(name))
    return found


def sleepers(marker: str) -> int:
    """How many `sleep` of this marker run: by then whoever starts them has started them."""
    return sum(1 for pid in processes_with(marker) if _program(pid) == "sleep")


def _program(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


async def until(condition: Callable[[], object], patience_s: float = PATIENCE_S) -> None:
    """Wait for a condition. Fails when patience is over."""
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        await asyncio.sleep(0.02)


def wait_until(condition: Callable[[], object], patience_s: float = PATIENCE_S) -> None:
    """The same without an event loop."""
    asyncio.run(until(condition, patience_s))
