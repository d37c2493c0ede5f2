"""What the sandbox's tests share: a shell behind each fence that this machine can build, and eyes on its
effects.

Every test asserts on effects: a canary untouched, no connection accepted, no process left. Where a layer is
absent, a test asserts that the boundary says so and that the exposure table draws the consequence
(`Shell.must_hold`).
"""

import itertools
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pytest

from tools.sandbox import (
    Command,
    CommandLimits,
    Exposure,
    Fence,
    Outcome,
    Scrubber,
    probe,
    shell_argv,
    shell_rule,
)

if sys.platform == "linux":
    from tools.sandbox.linux import Means, available
    from tools.sandbox.probing import linux_fence
else:
    collect_ignore_glob = ["test_*.py"]

MIB = 1 << 20
CANARY = "canary-sings-4711"
_numbers = itertools.count(1)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "everywhere: also run with Landlock hidden and without namespaces")


@lru_cache
def fence_named(name: str) -> Fence:
    """Give the fence of that name: the best one, or one with less."""
    most = available()
    if name == "best":
        return probe()
    if name == "no-bwrap":
        return linux_fence(Means(most.landlock_abi, most.seccomp, None))
    if name == "no-landlock":
        return linux_fence(Means(0, most.seccomp, None))
    return linux_fence(Means(0, False, None))  # "bare"


@dataclass
class Shell:
    """A shell in a workspace of its own behind one fence, with a canary outside."""

    fence: Fence
    workspace: Path
    outside: Path
    canary: Path

    def command(self, script: str, network: bool = False, scrubber: Scrubber | None = None, **limits: float) -> Command:
        bounds = CommandLimits(**{"timeout_s": 30, **limits})  # type: ignore[arg-type]
        return Command(shell_argv(script), self.workspace, self.workspace, bounds, network, scrubber)

    async def run(self, script: str, **limits: float) -> Outcome:
        return await self.fence.run(self.command(script, False, None, **limits))

    async def python(self, source: str, *words: str, **limits: float) -> Outcome:
        """Run a Python program; it is written into the workspace, so it may be of any length."""
        name = f"program{next(_numbers)}.py"
        (self.workspace / name).write_text(source)
        return await self.run(f"python3 {name} {' '.join(words)}", **limits)

    def must_hold(self, layer: str) -> bool:
        """Tell whether the fence promises this layer. If it does not, its strength must say so, and a share
        link suffer."""
        boundary = self.fence.boundary
        if boundary.layer(layer).active:
            return True
        assert boundary.layer(layer).why_not
        if layer != "metadata":
            assert boundary.strength != "strong"
            assert shell_rule(Exposure.SHARE, boundary.strength) in ("owner_click", "off")
        return False


@pytest.fixture(params=["best", "no-bwrap"])
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Shell:
    workspace, outside = tmp_path / "sessions" / "mine", tmp_path / "outside"
    workspace.mkdir(parents=True)
    outside.mkdir()
    canary = outside / "canary.txt"
    canary.write_text(CANARY)
    return Shell(fence_named(request.param), workspace, outside, canary)


@pytest.fixture
def marker() -> Iterator[str]:
    """A number no other process has on its command line; `sleep` takes it as a duration."""
    number = f"300.{os.getpid():07d}{next(_numbers):04d}"
    yield number
    for pid in processes_with(number):  # a failed test must not disturb the next
        os.kill(pid, 9)


@pytest.fixture
def left(marker: str) -> Callable[[], list[int]]:
    """Look for processes of this test that live."""
    return lambda: processes_with(marker)


def processes_with(marker: str) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                words = Path(f"/proc/{name}/cmdline").read_bytes()
            except OSError:
                continue
            if marker.encode() in words:
                found.append(int(name))
    return found
