"""bubblewrap: a mount, pid, ipc and network namespace around the supervisor, where the system allows
namespaces.

Knows bwrap's words. Adds to Landlock and seccomp what they cannot do: the metadata of outside files
(read-only mounts), a private /tmp and /dev/shm, a /proc without other processes, and the death of the whole
tree with its first process. Whether it works here is found out by the canaries, never assumed: containers and
some distributions forbid it.
"""

import os
import shutil
from pathlib import Path

from tools.sandbox.command import SYSTEM_PATH
from tools.sandbox.scene import View

PRIVATE_MOUNTS = ("/tmp", "/dev/shm")
"""tmpfs of one command alone; what lies there is memory."""


def find() -> str | None:
    """Look for the system's bwrap: /usr/bin/bwrap is the one that AppArmor profiles know."""
    return shutil.which("bwrap", path=":".join(SYSTEM_PATH))


def wrap(bwrap: str, view: View, writable: Path, readable: list[Path], network: bool, memory_bytes: int) -> list[str]:
    """Give the words to put before a program. Start them with a clean environment: bwrap keeps its own in
    /proc/1.

    `readable` are further paths to show; `memory_bytes` bounds each private tmpfs. The user namespace is
    always asked for: without it, bwrap fails for root in a container.
    """
    words = [bwrap, "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    words += [] if network else ["--unshare-net"]
    words += ["--die-with-parent", "--cap-drop", "ALL"]
    words += ["--proc", "/proc", "--dev", "/dev"]
    for mount in PRIVATE_MOUNTS:
        words += ["--size", str(memory_bytes), "--tmpfs", mount]
    for root in view.roots:  # a later mount covers an earlier one
        words += ["--symlink", os.readlink(root), str(root)] if root.is_symlink() else _show(root)
    for path in view.hidden:
        words += ["--tmpfs", str(path)] if path.is_dir() else ["--ro-bind", "/dev/null", str(path)]
    for path in [*view.own, *readable]:
        words += _show(path)
    words += ["--bind", str(writable), str(writable)]
    for path in [*(path for path in view.hidden if path.is_dir()), Path("/dev"), Path("/")]:
        words += ["--remount-ro", str(path)]  # else the command could fill memory there, out of the watch's sight
    return [*words, "--chdir", "/", "--"]


def _show(path: Path) -> list[str]:
    return ["--ro-bind", str(path), str(path)]
