"""The seam between the loop and any model: a neutral request in, a stream of events out.

Knows what every model must do. Refuses to know servers, keys and wire formats: the files beside this one do.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Union, runtime_checkable

from agent.events import CallDelta, ReasoningDelta, Replied, RequestSent, Retrying, TextDelta
from agent.messages import Message

ModelEvent = Union[RequestSent, Retrying, TextDelta, ReasoningDelta, CallDelta, Replied]


@dataclass(frozen=True)
class ToolSpec:
    """What the model is told of one tool."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON schema of one object."""


@dataclass(frozen=True)
class Request:
    """One model call, in neutral words."""

    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: Literal["auto", "none"] = "auto"
    """`none`: the tools stay in sight (earlier calls refer to them), but the model must answer in words."""


@dataclass(frozen=True)
class Window:
    """How much a model can read and write at once."""

    tokens: int
    source: Literal["setting", "server", "table", "default"]
    """Who says so: the operator, the model's server, a table of known models, or nobody."""


@runtime_checkable
class KnowsWindow(Protocol):
    """A model that can say how much it reads. Others are looked up by their name."""

    @property
    def window(self) -> Window:
        """As far as it is known by now."""
        ...

    async def ask_window(self) -> None:
        """Find out what the server says of it, unless that was tried before. Raises nothing."""
        ...


class Model(Protocol):
    """Any model. One object serves all sessions, so nothing of a conversation may live in it."""

    name: str
    """What the page shows."""

    def stream(self, request: Request) -> AsyncGenerator[ModelEvent, None]:
        """One reply. The last event is `Replied`, unless `ModelError` is raised.

        Call ids in the reply are unique among themselves and among those in `request.messages`.
        Cancelling the task that iterates ends the request; nothing is left open.
        """
        ...
