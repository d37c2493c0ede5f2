"""run_command: one command in a shell, behind the fence.

Knows how many commands run at once in the whole app. Refuses to know what holds a command: the fence does, and its one
line about that is part of the tool's description.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from agent.errors import ToolError
from agent.tool import Effect, Tool, ToolContext, ToolResult, tool
from tools import commands
from tools.command_line import atoms
from tools.guards import without
from tools.sandbox import CommandLimits, Fence, Outcome, Scrubber

DEFAULT_TIMEOUT_S = 60
MAX_TIMEOUT_S = 600

MAX_COMMANDS = 8
"""Of all sessions together; further ones wait. A session's own run one after another, that is the loop's doing."""

_DESCRIPTION = """\
Run a command in {shell}; gives its exit code, stdout and stderr.

It starts in the workspace, which is the only place it can write to ($TMPDIR is inside it; /tmp is not writable). There
is no terminal and no input. It ends with everything it started when it returns, at the timeout, or when the user
stops it, so nothing can be left running. Of long output the first and last 16 KiB are kept: write more to a file.
{boundary}"""


def run_command_tool(
    fence: Fence,
    limits: CommandLimits,
    scrubber: Scrubber | None = None,
    network: bool = False,
    max_commands: int = MAX_COMMANDS,
) -> Tool:
    """The tool for this fence. `limits` hold for every command, but for the timeout, which each call may set.

    `network`: whether a call may ask for it.
    """
    slots = _Slots(max_commands)

    @tool(Effect.EXECUTE, reach=commands.reach, atoms=atoms)
    async def run_command(
        context: ToolContext,
        command: commands.Script,
        cwd: commands.StartFolder = ".",
        timeout_s: Annotated[
            float, Field(description="Seconds after which it is killed.", gt=0, le=MAX_TIMEOUT_S)
        ] = DEFAULT_TIMEOUT_S,
        network: commands.Network = False,
    ) -> ToolResult:
        """Run a command."""
        planned = commands.plan(context, command, cwd, replace(limits, timeout_s=timeout_s), network, scrubber)
        ended: list[Outcome] = []
        async with slots.one(context):
            try:
                outcome = await fence.run(planned, on_output=context.emit, on_end=ended.append)
            except asyncio.CancelledError:
                commands.note_stop(context, ended[0])
                raise
        return _result(outcome, timeout_s)

    boundary = f"What holds it: {fence.boundary.line}"
    described = replace(run_command, description=_DESCRIPTION.format(shell=commands.SHELL, boundary=boundary))
    return described if network else without(described, "network")


class _Slots:
    """Places for commands that run."""

    def __init__(self, count: int) -> None:
        self._free = asyncio.Semaphore(count)

    @asynccontextmanager
    async def one(self, context: ToolContext) -> AsyncIterator[None]:
        """Wait for a free one, and say so."""
        if self._free.locked():
            context.emit("[waiting for a free slot: as many commands run as may at once]\n")
            context.stop_note = "It had not begun: it waited for a free slot."
        async with self._free:
            context.stop_note = ""
            yield


def _result(outcome: Outcome, timeout_s: float) -> ToolResult:
    if outcome.reason == "refused":
        raise ToolError(f"the command did not run: {outcome.error}")
    time_is_up = f"not done after {timeout_s:g} s. timeout_s may be up to {MAX_TIMEOUT_S}"
    said = commands.streams(outcome) or ["[no output]"]
    text = "\n".join([f"[{commands.how_it_ended(outcome, time_is_up)}]", *said])
    details = commands.facts(outcome)
    if outcome.reason == "timeout":
        details["timeout_s"] = timeout_s
    return ToolResult(text, details=details, ok=outcome.exit_code == 0)
