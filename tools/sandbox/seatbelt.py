"""macOS: a Seatbelt profile around the command, by the system's sandbox-exec.

UNTESTED: written from public sources, never run; the canaries decide what is claimed. Covers by design: files
(reads and writes are allow-listed) and the network. Does not cover: a process that leaves its group and its
parents (nothing on macOS ties a tree to its first process), the sum of memory between two looks, reading
other processes' arguments. The profile language is the one of `man sandbox-exec`, which Apple calls
deprecated and uses itself.
"""

import subprocess
from functools import partial
from pathlib import Path

from tools.sandbox import plain, scene
from tools.sandbox.command import Command
from tools.sandbox.inside import usage

NAME = "seatbelt"
_PROGRAM = "/usr/bin/sandbox-exec"
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
_BLOCK = 512  # of `ulimit -f`
_LIMITED = 'ulimit -c 0 && ulimit -t "$1" && ulimit -f "$2" && shift 2 && exec "$@"'
_BASE = """\
(version 1)
(deny default)
(allow process-fork)
(allow process-exec)
(allow signal (target same-sandbox))
(allow sysctl-read)
(allow file-read-metadata)
(allow mach-lookup (global-name "com.apple.system.opendirectoryd.libinfo"))
(allow file-read* (literal "/"))
"""


def spawn(command: Command) -> plain.PlainProcess:
    """Start a command under its profile. Raises `OSError` when sandbox-exec is missing: nothing is run
    without it."""
    scratch = command.workspace / ".tmp"
    scratch.mkdir(mode=0o700, exist_ok=True)
    program = subprocess.Popen(
        words(command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=scene.clean_environment(command.workspace, command.cwd, scratch),
        cwd=command.cwd,
        start_new_session=True,
    )
    return plain.PlainProcess(program, command, plain.end_group(program), partial(usage.folder))


def words(command: Command) -> list[str]:
    """Give the whole command line: profile, then limits, then the command."""
    limits = [str(command.limits.cpu_s), str(command.limits.file_bytes // _BLOCK)]
    return [_PROGRAM, "-p", profile(command), "/bin/sh", "-c", _LIMITED, "sh", *limits, *command.argv]


def profile(command: Command) -> str:
    """Write the profile. A later rule wins over an earlier one."""
    seen = scene.view(command.workspace)
    lines = [_allow("file-read*", "subpath", root) for root in seen.roots]
    lines += [f"(deny file-read* (subpath {_quoted(path)}))" for path in seen.hidden]
    lines += [_allow("file-read*", "subpath", path) for path in seen.own]
    lines += [_allow("file-read* file-write*", "literal", Path(device)) for device in _DEVICES]
    lines.append(_allow("file-read* file-write*", "subpath", command.workspace.resolve()))
    if command.network:
        lines += ["(allow system-socket)", '(allow network-outbound (remote ip "*:*"))']
    return _BASE + "\n".join(lines) + "\n"


def _allow(what: str, kind: str, path: Path) -> str:
    return f"(allow {what} ({kind} {_quoted(path)}))"


def _quoted(path: Path) -> str:
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
