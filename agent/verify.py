"""Is this reply an answer? "Done" is a fact about the log and the world, not a sentence.

Knows what a finished answer must be. Refuses to know how to get one: it tells the model the one pointed fact, or ends
the turn with the reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.errors import ContentFiltered, EmptyAnswer, OutputTruncated
from agent.events import Nudged, Replied
from agent.proof import prove

if TYPE_CHECKING:
    from agent.agent import Agent
    from agent.session import Session


async def verify(session: Session, agent: Agent, reply: Replied) -> bool:
    """True where the reply ends the turn as answered; False where the model was told why it does not.

    Raises EmptyAnswer, OutputTruncated or ContentFiltered where asking again would not help.
    """
    if reply.finish == "content_filter":
        raise ContentFiltered
    if reply.finish == "length":
        raise OutputTruncated
    if reply.message.text.strip():
        return await prove(session, agent, reply.message.text)
    if "empty_answer" in session.turn.nudges:
        raise EmptyAnswer
    session.append(Nudged("empty_answer", "Your last reply was empty. Please answer, or say what is missing."))
    return False
