"""The values that cross the fence: what shall be run, within which limits, and what came of it.

Knows shapes, units and defaults. Knows no mechanism.
"""

import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tools.sandbox.scrub import Scrubber

MIB = 1 << 20

Reason = Literal[
    "exit",  # it ended by itself
    "timeout",
    "output_limit",
    "memory_limit",
    "process_limit",
    "quota",  # the workspace outgrew its bytes or its files
    "stopped",  # by the person, a cancelled task, or the end of the app
    "refused",  # it never ran: `Outcome.error` says why
]

# Where programs are looked for, behind the folders of the app's own Python.
SYSTEM_PATH = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin")


@dataclass(frozen=True)
class CommandLimits:
    """What one command may use. Reaching a limit of the tree ends the command; a limit of one process fails
    its call."""

    timeout_s: float = 60
    """Seconds of wall clock until the whole tree is killed; `math.inf` for a background process."""
    output_bytes: int = 64 * MIB
    """stdout and stderr together: a flood costs the app CPU for as long as it lasts."""
    memory_bytes: int = 2048 * MIB
    """Of the whole tree, looked at ten times a second; also the data segment of each single process."""
    file_bytes: int = 1024 * MIB
    """Of each single file (RLIMIT_FSIZE)."""
    processes: int = 256
    """Processes and threads of the tree. As root the kernel holds none of this: the tree is killed at twice
    as many."""
    cpu_s: int = 600
    """Seconds of CPU of each single process (RLIMIT_CPU)."""
    quota_bytes: int = 2048 * MIB
    """Of the whole workspace on disk. One that is over it already may not grow, but may be cleaned."""
    quota_files: int = 100_000
    """Files and folders in the whole workspace."""


@dataclass(frozen=True)
class Command:
    """One program to run in one workspace."""

    argv: tuple[str, ...]
    """The program, looked up on the fence's own PATH, and its arguments. `shell_argv` makes one for a
    script."""
    workspace: Path
    """The only writable place. Absolute, an existing folder, not a link."""
    cwd: Path
    """Where it starts: the workspace or a folder in it."""
    limits: CommandLimits = field(default_factory=CommandLimits)
    network: bool = False
    """True opens IPv4 and IPv6, the app's own ports included. Unix sockets stay closed."""
    scrubber: Scrubber | None = None
    """Takes known secrets out of all output before anything keeps or shows it."""

    def __post_init__(self) -> None:
        """Raises `ValueError` for a command that makes no sense; nothing is read from the disk."""
        if not self.argv or any("\0" in word for word in self.argv):
            raise ValueError("a command needs a program, and no NUL in its words")
        if not self.workspace.is_absolute() or self.workspace == Path(self.workspace.anchor):
            raise ValueError("the workspace must be an absolute path, and not a root folder")
        if ".." in self.workspace.parts or ".." in self.cwd.parts or not self.cwd.is_relative_to(self.workspace):
            raise ValueError("the working directory must lie in the workspace")


@dataclass(frozen=True)
class Outcome:
    """What became of a command. No process of it is left when this exists, unless `error` says otherwise."""

    reason: Reason
    exit_code: int | None
    """None when a signal ended it. 126 and 127, with reason "refused": it could not be confined, or not be
    started."""
    signal: int | None
    seconds: float
    killed: int
    """Processes seen to die of the kill that emptied the tree: 0 for a command that leaves nothing behind.
    One whose dying parent still took it in is not counted."""
    output: str
    """stdout and stderr as they came, cleaned; of a long output its head and its tail."""
    stdout: str
    stderr: str
    omitted_bytes: int
    """Missing in `output` between head and tail."""
    total_bytes: int
    error: str | None = None


def shell_argv(script: str) -> tuple[str, ...]:
    """Give the words that run a script in this system's shell, reading no start-up file of anybody.

    bash where there is one, sh otherwise, PowerShell on Windows. A script must stay below 128 KiB on Linux
    (MAX_ARG_STRLEN); a longer one is refused when it is run.
    """
    if sys.platform == "win32":
        return ("powershell.exe", "-NoLogo", "-NoProfile", "-NonInteractive", "-Command", script)
    if shutil.which("bash", path=":".join(SYSTEM_PATH)):
        return ("bash", "--noprofile", "--norc", "-c", script)
    return ("sh", "-c", script)
