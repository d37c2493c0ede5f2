"""What all tools that start commands have in common: arguments become a `Command`, an outcome becomes words and facts.

Knows how a command's end is told to a model and to a person. Refuses to know what holds a command, and how long it
lasts: `shell.py` waits for one, `background.py` does not.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from agent.errors import ToolError
from agent.tool import Effect, ToolContext, cut_middle
from tools.entries import size_text
from tools.names import shown
from tools.sandbox import Command, CommandLimits, Outcome, Scrubber, shell_argv
from tools.workspace import Workspace

SHELL = "PowerShell" if sys.platform == "win32" else "bash (sh where there is no bash)"

Script = Annotated[str, Field(description="One command or a short script.", min_length=1)]
StartFolder = Annotated[str, Field(description="The folder to start in, relative to the workspace.")]
Network = Annotated[
    bool, Field(description="Opens the network: the user is asked first. Without it no socket can be opened at all.")
]

_MAX_STOPPED_CHARS = 2_000
"""Of the output of a command that the user stopped: enough to see how far it came."""


def reach(arguments: Mapping[str, Any]) -> Effect:
    """How far a call that starts a command reaches."""
    return Effect.NETWORK if arguments.get("network") else Effect.EXECUTE


def plan(
    context: ToolContext, script: str, cwd: str, limits: CommandLimits, network: bool, scrubber: Scrubber | None
) -> Command:
    """The command that a call asks for. Raises ToolError for a folder or a script that cannot be."""
    workspace = Workspace(context.workspace)
    if workspace.stat(cwd).kind != "folder":
        raise ToolError(f"{shown(cwd)!r} is not a folder")
    if "\0" in script:
        raise ToolError("a command cannot hold a zero character")
    folder = workspace.root.joinpath(*workspace.names(cwd))
    return Command(shell_argv(script), workspace.root, folder, limits, network, scrubber)


def how_it_ended(outcome: Outcome, time_is_up: str, stopped: str = "the app is shutting down") -> str:
    """One line for the model: what happened, and what it can do where that was not an exit."""
    words = {
        "exit": f"exit code {outcome.exit_code}" if outcome.signal is None else f"killed by signal {outcome.signal}",
        "timeout": f"killed: {time_is_up}",
        "output_limit": f"killed: too much output ({size_text(outcome.total_bytes)}). Write it to a file instead",
        "memory_limit": "killed: it used too much memory",
        "process_limit": "killed: it started too many processes",
        "quota": "killed: the workspace is full",
        "stopped": f"killed: {stopped}",
    }
    ended = words.get(outcome.reason, outcome.reason)
    if outcome.killed:
        which = " it had left running" if outcome.reason == "exit" else ""
        ended += f"; {count_of(outcome.killed)}{which} {'was' if outcome.killed == 1 else 'were'} killed"
    return ended + (f"; {outcome.error}" if outcome.error else "")


def streams(outcome: Outcome) -> list[str]:
    """What it said, as one part for each stream that said anything."""
    said = (("stdout", outcome.stdout), ("stderr", outcome.stderr))
    return [f"[{name}]\n{text.rstrip()}" for name, text in said if text.strip()]


def facts(outcome: Outcome) -> dict[str, Any]:
    """The details that every end of a command has."""
    found: dict[str, Any] = {"exit_code": outcome.exit_code, "bytes": outcome.total_bytes}
    if outcome.killed:
        found["killed"] = outcome.killed
    if outcome.omitted_bytes:
        found["truncated"] = True
    return found


def note_stop(context: ToolContext, outcome: Outcome) -> None:
    """The user stopped the call: what is dead, and what was said until then, for its result."""
    note = f"{count_of(outcome.killed)} killed after {outcome.seconds:.1f} s, none is left." if outcome.killed else ""
    note = f"{outcome.error} {note}".strip() if outcome.error else note
    said = "\n".join(streams(outcome))
    heard = f"Until then it said:\n{cut_middle(said, _MAX_STOPPED_CHARS)}" if said else "It had said nothing."
    context.stop_note = f"{note} {heard}".strip()
    context.facts.update(facts(outcome), seconds=round(outcome.seconds, 2))


def count_of(processes: int) -> str:
    return "1 process" if processes == 1 else f"{processes} processes"
