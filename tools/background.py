"""start_process, read_process, stop_process: what goes on while the agent does something else.

Knows how a process in the background is told to a model. Refuses to know whose processes there are and when they end
(`processes.py`), and what holds them (the fence).
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field

from agent.errors import ToolError
from agent.tool import Effect, Tool, ToolContext, ToolResult, tool
from tools import commands
from tools.command_line import atoms
from tools.guards import without
from tools.names import shown
from tools.processes import Processes, Started
from tools.sandbox import CommandLimits, Outcome, Scrubber

LOOK_S = 1.0
"""After a start: what is wrong with a command mostly shows at once."""
MAX_WAIT_S = 60
TAIL_CHARS = 4_000
MAX_NAME_CHARS = 60

_START = """\
Start a command in {shell} that goes on in the background: a long build, a watcher, a server.

It is held like run_command, without terminal and input, and goes on after the turn. It ends by itself, with
stop_process, with the session, or after {minutes:g} minutes. At most {most} run at a time. {server}
{boundary}"""

_WITH_NETWORK = "A server needs network=true, for which the user is asked; without it no port can be opened."
_WITHOUT_NETWORK = "There is no network, not even on this machine: a server cannot listen on any port."

ProcessId = Annotated[str, Field(description="As start_process gave it.")]


def background_tools(
    processes: Processes,
    limits: CommandLimits,
    scrubber: Scrubber | None = None,
    network: bool = False,
    look_s: float = LOOK_S,
) -> list[Tool]:
    """The three tools. `limits` hold for every process, but for the time; `network`: whether one may ask for it.

    `look_s`: seconds that a start waits, to tell what becomes of it.
    """

    @tool(Effect.EXECUTE, reach=commands.reach, atoms=atoms)
    async def start_process(
        context: ToolContext,
        command: commands.Script,
        name: Annotated[
            str, Field(description="A short name for the user, such as dev server.", max_length=MAX_NAME_CHARS)
        ] = "",
        cwd: commands.StartFolder = ".",
        network: commands.Network = False,
    ) -> ToolResult:
        """Start."""
        planned = commands.plan(context, command, cwd, limits, network, scrubber)
        scrub = scrubber.scrub if scrubber else str  # the page is shown both
        started = await processes.start(context.session_id, planned, _name(scrub(name or command)), scrub(command))
        try:
            await started.process.wait(look_s)
        except asyncio.CancelledError:
            commands.note_stop(context, await started.process.stop())
            raise
        outcome = started.process.outcome
        if outcome is not None and outcome.reason == "refused":
            processes.forget(started)
            raise ToolError(f"the process did not start: {outcome.error}")
        return _report(started, 0)

    @tool(Effect.READ)
    async def read_process(
        context: ToolContext,
        id: ProcessId,
        since: Annotated[
            int | None, Field(description="Only what it said after this position; else the last of all.", ge=0)
        ] = None,
        wait_s: Annotated[
            float, Field(description="Seconds to wait for its end, if it still runs.", ge=0, le=MAX_WAIT_S)
        ] = 0,
    ) -> ToolResult:
        """Read what a process in the background has said, and whether it still runs.

        The result names the position it reaches to: give it as `since` the next time to read only what is new. Use
        wait_s instead of asking again and again.
        """
        started = _known(processes, context, id)
        await started.process.wait(wait_s)
        return _report(started, since)

    @tool(Effect.WRITE)
    async def stop_process(context: ToolContext, id: ProcessId) -> ToolResult:
        """End a process in the background, with everything it started."""
        started = _known(processes, context, id)
        ended_before = not started.process.running
        outcome = await started.process.stop()
        if ended_before:
            return _report(started, None)
        text = f"[{id} ({started.name}) is stopped: {commands.count_of(outcome.killed)} killed"
        text += f"; {outcome.error}]" if outcome.error else ", none is left]"
        return ToolResult(f"{text}\n{_said(started, None)}", details=commands.facts(outcome), ok=not outcome.error)

    boundary = f"What holds it: {processes.fence.boundary.line}"
    description = _START.format(
        shell=commands.SHELL,
        minutes=processes.max_life_s / 60,
        most=processes.max_of_session,
        server=_WITH_NETWORK if network else _WITHOUT_NETWORK,
        boundary=boundary,
    )
    start = replace(start_process, description=description)
    return [start if network else without(start, "network"), read_process, stop_process]


def _known(processes: Processes, context: ToolContext, process_id: str) -> Started:
    started = processes.get(context.session_id, process_id)
    if started is None:
        there = ", ".join(f"{one.id} ({one.name})" for one in processes.of(context.session_id)) or "none"
        raise ToolError(f"there is no process {shown(process_id)!r} in this session. There are: {there}")
    return started


def _report(started: Started, since: int | None) -> ToolResult:
    """How it stands, and what it said after `since` bytes; the last of it for None."""
    outcome = started.process.outcome  # before the output is read: an end that is told has all its output below it
    details: dict[str, Any] = {"process": started.id}
    if outcome is None:
        so_far = f"is running, {time.time() - started.started_at:.1f} s so far"
        return ToolResult(f"[{started.id} ({started.name}) {so_far}]\n{_said(started, since)}", details=details)
    ended = commands.how_it_ended(outcome, "it has run as long as one may", "it was stopped")
    return ToolResult(
        f"[{started.id} ({started.name}) has ended: {ended}]\n{_said(started, since)}",
        details=details | commands.facts(outcome),
        ok=_is_well(outcome),
    )


def _is_well(outcome: Outcome) -> bool:
    return outcome.exit_code == 0 or (outcome.reason == "stopped" and not outcome.error)


def _said(started: Started, since: int | None) -> str:
    excerpt = started.process.excerpt(since or 0)
    text = excerpt.text.rstrip()
    if since is None and len(text) > TAIL_CHARS:
        text = f"[... earlier output is left out ...]\n{text[-TAIL_CHARS:]}"
    elif since is not None and excerpt.missing:
        text = f"[... {excerpt.missing} bytes are not kept any more ...]\n{text}"
    what = "nothing new" if since else "no output yet"
    return f"{text or f'[{what}]'}\n[output up to position {excerpt.end}]"


def _name(text: str) -> str:
    """One line without anything that could be taken for more than a name."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line if len(line) <= MAX_NAME_CHARS else line[: MAX_NAME_CHARS - 1] + "…"
