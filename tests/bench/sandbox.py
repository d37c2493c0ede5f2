"""What the fence costs and how fast Stop is. Run by hand: python -m tests.bench.sandbox [runs of each
escapee]

Ratios are to a plain `bash -c true` of the same run, so they can be compared between machines. Milliseconds,
median and worst.
"""

import asyncio
import dataclasses
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tools.sandbox import Boundary, Command, CommandLimits, LocalFence, linux, probe, shell_argv

COMMANDS = 40
ESCAPEES = {
    "plain": "exec sleep 300",
    "background": "sleep 300 & sleep 300",
    "setsid": "setsid sleep 300 & sleep 300",
    "double fork": "(setsid sh -c 'sleep 300 & exec sleep 300' </dev/null >/dev/null 2>&1 &); sleep 300",
    "no environment": "(setsid env -i sleep 300 >/dev/null 2>&1 &); sleep 300",
    "deaf": "trap '' TERM INT HUP; sleep 300; sleep 300",
    "stopped": "sleep 300 & kill -STOP $!; sleep 300",
    "forty sessions": "for i in $(seq 40); do setsid sleep 300 & done; sleep 300",
    "busy": "while :; do :; done",
}


def timed(deed: Callable[[], object]) -> float:
    begun = time.perf_counter()
    deed()
    return (time.perf_counter() - begun) * 1000


def fence_of(means: linux.Means) -> LocalFence:
    return LocalFence(Boundary("none", "", ()), partial(linux.spawn, means))


async def one(fence: LocalFence, workspace: Path) -> float:
    command = Command(("bash", "-c", "true"), workspace, workspace)
    begun = time.perf_counter()
    outcome = await fence.run(command)
    assert outcome.exit_code == 0, outcome
    return (time.perf_counter() - begun) * 1000


async def costs(workspace: Path) -> None:
    most = linux.available()
    fences = {
        "supervisor only": linux.Means(0, False, None),
        "+ seccomp": linux.Means(0, most.seccomp, None),
        "+ Landlock": linux.Means(most.landlock_abi, False, None),
        "+ Landlock + seccomp": dataclasses.replace(most, bwrap=None),
        "+ Landlock + seccomp + bwrap": most,
    }
    samples: dict[str, list[float]] = {"plain bash -c true": [], **{name: [] for name in fences}}
    for _ in range(COMMANDS):  # in turn, so that a busy moment meets all of them
        samples["plain bash -c true"].append(timed(lambda: subprocess.run(["bash", "-c", "true"], check=True)))
        for name, means in fences.items():
            samples[name].append(await one(fence_of(means), workspace))
    plain = statistics.median(samples["plain bash -c true"])
    print(f"{'cost of one command':32} {'ms':>8} {'ratio':>8}")
    for name, values in samples.items():
        median = statistics.median(values)
        print(f"{name:32} {median:8.1f} {median / plain:8.1f}")


async def stop(fence: LocalFence, script: str, workspace: Path, settle_s: float) -> float:
    """Give the milliseconds from Stop to the proof that the tree is empty."""
    task = asyncio.create_task(
        fence.run(Command(shell_argv(script), workspace, workspace, CommandLimits(processes=512)))
    )
    await asyncio.sleep(settle_s)
    begun = time.perf_counter()
    task.cancel()
    await asyncio.wait([task])
    return (time.perf_counter() - begun) * 1000


async def stops(workspace: Path, runs: int) -> None:
    most = linux.available()
    for title, means in (("with bwrap", most), ("without bwrap", dataclasses.replace(most, bwrap=None))):
        print(f"\n{'Stop to empty tree, ' + title:32} {'median':>8} {'worst':>8}   ({runs} runs)")
        for name, script in ESCAPEES.items():
            values = [await stop(fence_of(means), script, workspace, 0.25) for _ in range(runs)]
            print(f"{name:32} {statistics.median(values):8.1f} {max(values):8.1f}")


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    begun = time.perf_counter()
    print(probe().boundary.line)
    print(f"probe: {(time.perf_counter() - begun) * 1000:.0f} ms\n")
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder).resolve()
        asyncio.run(costs(workspace))
        asyncio.run(stops(workspace, runs))


if __name__ == "__main__":
    main()
