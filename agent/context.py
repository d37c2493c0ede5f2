"""The context: what the model is shown at this step, a view of the transcript.

Knows how to put a request together. Refuses to edit the transcript, and to know how a request looks on the wire.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.llm.model import Request, ToolSpec

if TYPE_CHECKING:
    from agent.agent import Agent
    from agent.session import Session


def fit(session: Session, agent: Agent, may_call: bool = True) -> Request:
    """Everything said so far, and the tools. `may_call=False` asks for an answer in words."""
    return Request(
        system=agent.system_prompt,
        messages=tuple(session.transcript.messages),
        tools=tuple(ToolSpec(tool.name, tool.description, tool.parameters) for tool in agent.toolbox),
        tool_choice="auto" if may_call else "none",
    )
