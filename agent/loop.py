"""The loop. Read this first: everything else is a room that keeps one concern out of these lines.

    think   one model call, streamed into the log        agent/llm/     servers, retries, broken streams
    act     judge the calls, run them, append results    agent/policy.py, agent/approval.py, agent/tool.py
    verify  is "done" true?                               agent/verify.py, agent/proof.py

Knows the order of things. Refuses to know any provider, any tool, any screen. What is unusual is an exception of
`agent/errors.py`, caught in one place: `Session`, which turns it into the turn's one `TurnEnded`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Iterable, Iterator
from contextlib import aclosing
from itertools import count, groupby
from typing import TYPE_CHECKING, Any

from agent.approval import judge
from agent.compaction import make_more_room, make_room
from agent.context import fit
from agent.errors import ApprovalNeeded, ContextOverflow, StepLimitReached
from agent.events import CallAwaiting, CallFinished, CallStarted, CallStatus, Replied, StepStarted
from agent.limits import last_words, steps_left, watch
from agent.llm.model import ModelEvent
from agent.messages import ToolCall
from agent.outbox import name_by_content
from agent.plan import plan_first
from agent.policy import arguments_hash
from agent.tool import Effect, Toolbox
from agent.verify import verify

if TYPE_CHECKING:
    from agent.agent import Agent
    from agent.session import Session


async def run_turn(session: Session, agent: Agent) -> None:
    """Think and act until the model has answered. Raises a `TurnStop` where it ends otherwise."""
    await act(session, agent)  # answer calls left open by an approval
    plan_first(session, agent)
    for _ in range(steps_left(session, agent)):
        reply = await think(session, agent)
        if not reply.message.tool_calls:
            if not session.steering and await verify(session, agent, reply):
                return
        else:
            await act(session, agent)
    session.append(last_words(session))
    await think(session, agent, may_call=False)
    if not session.turn.finishing:
        raise StepLimitReached


async def think(session: Session, agent: Agent, may_call: bool = True) -> Replied:
    """Stream one model call into the log and return the reply."""
    session.take_steering()  # what the person says in the middle of a turn enters here
    if may_call:
        watch(session, agent)  # is anything used up, or nearly?
    session.append(StepStarted(session.turn.steps + 1))
    await make_room(session, agent)  # where the context is nearly full
    for attempt in count(2):
        request = fit(session, agent, may_call)
        try:
            return await listen(session, agent.model.stream(request))
        except ContextOverflow as overflow:
            await make_more_room(session, agent, overflow, attempt)
    raise AssertionError("make_more_room ends this")


async def listen(session: Session, stream: AsyncGenerator[ModelEvent, None]) -> Replied:
    """Put what the model says into the log; return its last event, the reply."""
    async with aclosing(stream) as events:
        async for event in events:
            session.append(event)
            if isinstance(event, Replied):
                return event
    raise TypeError("a model's stream must end with Replied")


async def act(session: Session, agent: Agent) -> None:
    """Answer the open calls: run what is allowed, refuse what is not, and pause for what a person must decide."""
    for batch in batches(session.open_calls(), agent.toolbox):
        await together(answer(session, agent, call) for call in batch)
    if session.open_calls():
        raise ApprovalNeeded


async def answer(session: Session, agent: Agent, call: ToolCall) -> None:
    """Judge a call at the moment it would start, and do what the verdict says. A question leaves the call open."""
    verdict = judge(session, agent, call)
    if verdict.answer == "deny":
        session.append(CallFinished(call.id, call.name, "denied", f"Not allowed. {verdict.why}".strip()))
    elif verdict.answer == "ask":
        session.append(CallAwaiting(call.id, arguments_hash(call), verdict.why))
    elif only_reads(call, agent.toolbox) or not session.waiting_calls():  # no change overtakes a call that waits
        await run_call(session, agent, call, verdict.rules)


def only_reads(call: ToolCall, toolbox: Toolbox) -> bool:
    """Does it change nothing, whatever its arguments are?"""
    tool = toolbox.get(call.name)
    return tool is None or (tool.effect is Effect.READ and tool.reach is None)


def batches(calls: Iterable[ToolCall], toolbox: Toolbox) -> Iterator[list[ToolCall]]:
    """Calls that only read run side by side; the others one after another, in the order the model gave."""
    for reading, group in groupby(calls, key=lambda call: only_reads(call, toolbox)):
        if reading:
            yield list(group)
        else:
            yield from ([call] for call in group)


async def together(calls: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Wait for all. When one fails or we are cancelled, none goes on behind our back."""
    tasks = [asyncio.create_task(call) for call in calls]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def run_call(session: Session, agent: Agent, call: ToolCall, rules: tuple[str, ...]) -> None:
    """Run one call and append its one result, also when it is stopped in the middle."""
    context = session.tool_context(call)
    session.append(CallStarted(call.id, rules))
    try:
        result = await name_by_content(await agent.toolbox.run(call, context), context.outbox)
    except asyncio.CancelledError:
        text = f"Stopped by the user. {context.stop_note}".strip()
        session.append(CallFinished(call.id, call.name, "stopped", text, details=context.facts))
        raise
    status: CallStatus = "done" if result.ok else "failed"
    session.append(
        CallFinished(call.id, call.name, status, result.text, result.files, result.details, images=result.images)
    )
