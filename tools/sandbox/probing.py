"""Finds the best fence that works on this machine, by attacking each until one withstands.

Knows which backends exist and how the one line about the result is worded. Knows no mechanism.
"""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache, partial

from tools.sandbox.boundary import Boundary, Layer, Strength, judge
from tools.sandbox.canary import attacked
from tools.sandbox.fence import Fence, LocalFence
from tools.sandbox.running import Spawn

if sys.platform == "linux":
    from tools.sandbox import linux
elif sys.platform == "darwin":
    from tools.sandbox import seatbelt as backend
else:
    from tools.sandbox import job_object as backend

_RANK: dict[Strength, int] = {"strong": 2, "partial": 1, "none": 0}


@lru_cache
def probe() -> Fence:
    """Give the best fence that works here. Attacks it the first time (under a second as a rule), then
    remembers.

    Blocks: call it at start-up, before any visitor waits. Safe to call from a thread that runs an event loop.
    """
    with ThreadPoolExecutor(1, "probe") as thread:  # the canary needs an event loop of its own
        return thread.submit(_best).result()


def _best() -> Fence:
    best: Fence | None = None
    for fence in _candidates():
        if best is None or _weight(fence.boundary) > _weight(best.boundary):
            best = fence
        if best.boundary.strength == "strong":
            break
    assert best is not None
    return best


def _weight(boundary: Boundary) -> tuple[int, int]:
    return _RANK[boundary.strength], sum(layer.active for layer in boundary.layers)


if sys.platform == "linux":

    def _candidates() -> Iterator[Fence]:
        """Attack what this machine has, from the most to the least."""
        most = linux.available()
        for bwrap in dict.fromkeys((most.bwrap, None)):
            for abi in dict.fromkeys((most.landlock_abi, 0)):
                for seccomp in dict.fromkeys((most.seccomp, False)):
                    yield linux_fence(linux.Means(abi, seccomp, bwrap))

    def linux_fence(means: "linux.Means") -> Fence:
        """Attack one combination of mechanisms and give the fence with what is known about it then."""
        spawn = partial(linux.spawn, means)
        layers = tuple(_honest(layer, means) for layer in attacked(spawn))
        return LocalFence(_boundary(means.names(), means.kill(), layers), spawn)

    def _honest(layer: Layer, means: "linux.Means") -> Layer:
        """A canary that was killed by a walk over the tree proves nothing about a storm of forks."""
        if layer.name == "kill" and layer.active and means.kill() == "best effort":
            return replace(layer, active=False, why_not="best effort: a storm of forks may outrun it")
        return layer

else:

    def _candidates() -> Iterator[Fence]:
        spawn: Spawn = backend.spawn
        yield LocalFence(_boundary(backend.NAME, "best effort", attacked(spawn)), spawn)


def _boundary(names: str, kill: str, layers: tuple[Layer, ...]) -> Boundary:
    strength = judge(layers)
    active = {layer.name for layer in layers if layer.active}
    if strength == "none":
        return Boundary(strength, f"sandbox: NONE ({names})", layers)
    words = [
        names,
        "network off" if "network" in active else "network: NOT covered",
        f"kill: {kill}" if "kill" in active or kill == "best effort" else "kill: NOT covered",
        "metadata: covered" if "metadata" in active else "metadata: NOT covered",
        "memory: watched",
    ]
    return Boundary(strength, f"sandbox: {', '.join(words)}" + ("  [partial]" if strength == "partial" else ""), layers)
