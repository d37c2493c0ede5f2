"""What holds and what does not, in words; and what a shell may do where so much holds.

Knows the layers by name, the one line that page, log and model are told, and the exposure table. Knows no
mechanism: the canaries say which layers are active. This is the one place that decides whether a shell runs.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Literal

Strength = Literal["strong", "partial", "none"]
ShellRule = Literal["on", "click", "owner_click", "off"]


@dataclass(frozen=True)
class Layer:
    """One thing that a command might do, and whether it is kept from it."""

    name: str
    active: bool
    """True only when each attack of this layer's canary failed."""
    covers: str
    """What it keeps from happening, in one sentence."""
    why_not: str = ""
    """Empty when active: else which attack succeeded, or what is missing here."""


@dataclass(frozen=True)
class Boundary:
    """What is known about a fence, from attacks that it has withstood."""

    strength: Strength
    line: str
    """One line for the start-up output, the page and the tool's description."""
    layers: tuple[Layer, ...]

    def layer(self, name: str) -> Layer:
        """Give the layer of that name. Raises `KeyError`."""
        for layer in self.layers:
            if layer.name == name:
                return layer
        raise KeyError(name)


class Exposure(Enum):
    """Who can reach the app."""

    LOCAL = "local"
    """Only this machine."""
    SHARE = "share"
    """Anybody with the link; also what is assumed when it is not known."""
    SPACE = "space"
    """Anybody, on a hosting platform."""


_RULES: dict[tuple[bool, Strength], ShellRule] = {
    (True, "strong"): "on",
    (True, "partial"): "on",
    (True, "none"): "click",
    (False, "strong"): "on",
    (False, "partial"): "owner_click",
    (False, "none"): "off",
}


def shell_rule(exposure: Exposure, strength: Strength) -> ShellRule:
    """Say whether a shell may run: at once, after a click, after a click by the owner, or not at all.

    The person in front of a local app may risk their own machine; a visitor may not risk somebody else's.
    """
    return _RULES[exposure is Exposure.LOCAL, strength]


def judge(layers: tuple[Layer, ...]) -> Strength:
    """Weigh the layers: without files held there is no boundary; with one of the other pillars missing a
    partial one.

    Metadata and memory do not weigh: the line says what they are.
    """
    active = {layer.name for layer in layers if layer.active}
    if not {"files-read", "files-write"} <= active:
        return "none"
    return "strong" if {"files-truncate", "network", "signals", "kill", "secrets", "kernel"} <= active else "partial"
