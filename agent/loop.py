"""The loop. Read this first: everything else is a room that keeps one concern out of these lines.

    think   one model call, streamed into the log        agent/llm/     servers, retries, broken streams
    act     judge the calls, run them, append results    agent/policy.py, agent/tool.py
    verify  is "done" true?                               agent/verify.py

Knows the order of things. Refuses to know any provider, any tool, any screen. What is unusual is an exception of
`agent/errors.py`, caught in one place: `Session`, which turns it into the turn's one `TurnEnded`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import aclosing
from itertools import groupby
from typing import TYPE_CHECKING

from agent.context import fit
from agent.errors import ApprovalNeeded, StepLimitReached
from agent.events import CallAwaiting, CallFinished, CallStarted, Nudged, Replied, StepStarted
from agent.messages import ToolCall
from agent.policy import Verdict, arguments_hash
from agent.tool import Effect, Toolbox
from agent.verify import verify

if TYPE_CHECKING:
    from agent.agent import Agent
    from agent.session import Session


async def run_turn(session: Session, agent: Agent) -> None:
    """Think and act until the model has answered. Raises a `TurnStop` where it ends otherwise."""
    await act(session, agent)  # answer calls left open by an approval
    for _ in range(session.turn.steps, agent.limits.max_steps):
        reply = await think(session, agent)
        if not reply.message.tool_calls:
            if await verify(session, agent, reply):
                return
        else:
            await act(session, agent)
    session.append(Nudged("step_limit", "No steps are left. Without tools: say what is done and what is still open."))
    await think(session, agent, may_call=False)
    raise StepLimitReached


async def think(session: Session, agent: Agent, may_call: bool = True) -> Replied:
    """Stream one model call into the log and return the reply."""
    if warning := agent.limits.watch_for_loops(session.transcript.messages):
        session.append(warning)
    session.append(StepStarted(session.turn.steps + 1))
    async with aclosing(agent.model.stream(fit(session, agent, may_call))) as events:
        async for event in events:
            session.append(event)
            if isinstance(event, Replied):
                return event
    raise TypeError("a model's stream must end with Replied")


async def act(session: Session, agent: Agent) -> None:
    """Answer the open calls: run what is allowed, refuse what is not, and pause for what a person must decide."""
    allowed = [call for call in session.open_calls() if judge(session, agent, call)]
    for batch in batches(allowed, agent.toolbox):
        await asyncio.gather(*(run_call(session, agent, call) for call in batch))
    if session.open_calls():
        raise ApprovalNeeded


def judge(session: Session, agent: Agent, call: ToolCall) -> bool:
    """May this call run now? A refusal is answered here; a question stays open."""
    verdict = session.decision(call) or verdict_of(agent, call)
    if verdict.answer == "deny":
        session.append(CallFinished(call.id, call.name, "denied", f"Not allowed. {verdict.why}".strip()))
    elif verdict.answer == "ask":
        session.append(CallAwaiting(call.id, arguments_hash(call), verdict.why))
    return verdict.answer == "allow"


def verdict_of(agent: Agent, call: ToolCall) -> Verdict:
    """What policy says. A call that cannot run is allowed: the toolbox answers it with what is wrong."""
    tool = agent.toolbox.get(call.name)
    return agent.policy.judge(call, tool) if tool and not call.fault else Verdict("allow")


def batches(calls: Iterable[ToolCall], toolbox: Toolbox) -> Iterator[list[ToolCall]]:
    """Calls that only read run side by side; the others one after another, in the order the model gave."""

    def only_reads(call: ToolCall) -> bool:
        tool = toolbox.get(call.name)
        return tool is None or tool.effect is Effect.READ

    for reading, group in groupby(calls, key=only_reads):
        if reading:
            yield list(group)
        else:
            yield from ([call] for call in group)


async def run_call(session: Session, agent: Agent, call: ToolCall) -> None:
    """Run one call and append its one result, also when it is stopped in the middle."""
    context = session.tool_context(call)
    session.append(CallStarted(call.id))
    try:
        result = await agent.toolbox.run(call, context)
    except asyncio.CancelledError:
        text = f"Stopped by the user. {context.stop_note}".strip()
        session.append(CallFinished(call.id, call.name, "stopped", text))
        raise
    finished = CallFinished(
        call.id, call.name, "done" if result.ok else "failed", result.text, result.files, result.details
    )
    session.append(finished)
