"""What was said: pure values, equal when their content is equal.

Knows the four things a conversation is made of. Refuses to know how any of them looks on a wire
(`agent/llm/` does), on a screen (`ui/render.py` does) or in a database (`agent/store.py` does).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Union


@dataclass(frozen=True)
class File:
    """A file handed to the person: bytes copied out of the workspace, so nothing a command does can swap them."""

    path: str
    """Absolute, in the session's outbox."""
    name: str
    """As the person should see it."""
    mime: str
    size: int
    """Bytes."""


@dataclass(frozen=True)
class ToolCall:
    """One request by the model to run a tool."""

    id: str
    """Unique within the session; what a result refers to."""

    name: str
    """The tool's real name where exactly one tool was meant, else the name as the model wrote it."""

    arguments: str
    """JSON text of one object, always sound: re-serialised after parsing, `{}` where nothing could be parsed."""

    repairs: tuple[str, ...] = ()
    """What had to be repaired to read the call, in words a person can follow; empty for a sound call."""

    fault: str | None = None
    """Why the call must not run (cut off, unreadable), worded for the model; None for a call that may."""

    extra: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the wire that we do not know, such as a thought signature. They go back as they came."""


@dataclass(frozen=True)
class UserMessage:
    """What the person said, or (`source="glassloop"`) what the loop itself tells the model."""

    text: str
    source: Literal["person", "glassloop", "steering"] = "person"
    """`steering`: the person, in the middle of a turn."""
    images: tuple[File, ...] = ()
    """Pictures the person handed over, for a model that can see."""
    files: tuple[File, ...] = ()
    """Everything the person handed over, as they gave it; the text tells where it lies in the workspace."""
    expects: tuple[str, ...] = ()
    """What has to be true at the end, one line each, as the person wrote it."""


@dataclass(frozen=True)
class AssistantMessage:
    """One reply of the model: text, or calls, or both."""

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Facts only the wire understands (such as which field the reasoning came in); opaque elsewhere."""


@dataclass(frozen=True)
class ToolMessage:
    """The one answer to one call."""

    call_id: str
    name: str
    text: str
    ok: bool = True
    images: tuple[File, ...] = ()
    """Pictures the model should look at."""


Message = Union[UserMessage, AssistantMessage, ToolMessage]
