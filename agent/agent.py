"""The agent: what is the same for every visitor. Nothing of a conversation lives here."""

from __future__ import annotations

from dataclasses import dataclass, field

from agent.background import Background
from agent.limits import Limits
from agent.llm.model import Model
from agent.policy import Policy
from agent.prices import Prices
from agent.proof import Prover
from agent.tool import Toolbox
from agent.undo import Checkpoints


@dataclass(frozen=True)
class Agent:
    model: Model
    toolbox: Toolbox
    system_prompt: str = ""
    policy: Policy = field(default_factory=Policy)
    limits: Limits = field(default_factory=Limits)
    prices: Prices = field(default_factory=Prices)
    checkpoints: Checkpoints | None = None
    """Where changes to files can be taken back; the toolbox is given the same one, to notice them."""
    plan_first: bool = False
    """Does every task begin with its plan?"""
    prover: Prover | None = None
    """Looks whether what must be true at the end is; None where nothing can look."""
    background: Background | None = None
    """What tools have left running on purpose: it ends with its session."""
