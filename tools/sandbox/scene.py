"""What a command sees: its environment, its PATH, and which parts of the disk exist for it.

Knows where an interpreter and a system keep their files. Knows no mechanism: Landlock, bubblewrap and
Seatbelt each translate a `View` into their own words. Everything is an allow-list built from nothing.
"""

import os
import stat
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tools.sandbox.command import SYSTEM_PATH

if sys.platform != "win32":
    import pwd

APP = Path(__file__).resolve().parents[2]
"""The app's source, which no command may read."""

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt")
_MAC_SYSTEM = ("/usr", "/bin", "/sbin", "/System", "/Library", "/private/etc", "/private/var/db/timezone", "/opt")


@dataclass(frozen=True)
class View:
    """The readable disk: `roots` without `hidden`, and on top of that `own`."""

    roots: tuple[Path, ...]
    hidden: tuple[Path, ...]
    """Parts of the roots that are not shown."""
    own: tuple[Path, ...]
    """The app's Python: shown even where something hidden lies around it."""

    def shown(self) -> list[Path]:
        """List the same as an allow-list that needs no subtraction."""
        hidden = {str(path) for path in self.hidden}
        around = {str(ancestor) for path in self.hidden for ancestor in path.parents}
        return [Path(path) for root in self.roots for path in _without(str(root), hidden, around)] + list(self.own)


def view(workspace: Path) -> View:
    """Look at this machine, for a command in `workspace`."""
    roots = tuple(Path(root) for root in (_MAC_SYSTEM if sys.platform == "darwin" else _SYSTEM) if os.path.exists(root))
    secret = {APP, _home(), workspace.parent, *_private("/etc")}
    within = sorted(path for path in secret if path.exists() and any(_below(path, root) for root in roots))
    hidden = tuple(path for path in within if not any(_below(path, other) for other in within if other != path))
    own = {Path(prefix) for prefix in (sys.prefix, sys.base_prefix)}
    around = {APP, workspace, _home(), Path("/")}
    # A prefix that is an ancestor of a secret would show it; the interpreter is then found in the roots, or
    # not at all.
    return View(roots, hidden, tuple(sorted(p for p in own if not any(_below(secret, p) for secret in around))))


def clean_environment(workspace: Path, cwd: Path, scratch: Path) -> dict[str, str]:
    """Build a command's whole environment. Nothing of the app's own environment is copied."""
    own = [os.path.join(prefix, "bin") for prefix in dict.fromkeys((sys.prefix, sys.base_prefix))]
    return {
        "PATH": ":".join(dict.fromkeys([*own, *SYSTEM_PATH])),
        "HOME": str(workspace),
        "PWD": str(cwd),
        "TMPDIR": str(scratch),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "TZ": "UTC",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PIP_NO_INPUT": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_CONFIG_NOSYSTEM": "1",
        "MPLBACKEND": "Agg",
        "TAR_OPTIONS": "--no-same-owner",  # root has no right to give files away in here
    }


def _home() -> Path:
    if sys.platform != "win32":
        try:
            return Path(pwd.getpwuid(os.getuid()).pw_dir)
        except KeyError:  # a container's numeric user
            return Path("/nonexistent")
    return Path.home()


def _below(path: Path, root: Path) -> bool:
    return path == root or root in path.parents


@lru_cache
def _private(folder: str) -> list[Path]:
    """List what not everybody may read. It matters to root, who may read all of it: /etc/shadow, the host's
    keys."""
    found: list[Path] = []
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return [Path(folder)]
    for entry in entries:
        try:
            mode = entry.stat(follow_symlinks=False).st_mode
        except OSError:
            continue
        if not stat.S_ISLNK(mode) and not mode & stat.S_IROTH:
            found.append(Path(entry.path))
        elif stat.S_ISDIR(mode):
            found += _private(entry.path)
    return found


def _without(root: str, hidden: set[str], around: set[str]) -> list[str]:
    """List `root`, or in its place so many of its parts that nothing hidden is among them.

    `around` holds every ancestor of what is hidden. Links are left out: following one needs no right of its
    own, and it may lead to what is hidden.
    """
    if root in hidden or os.path.islink(root):
        return []
    if root not in around:
        return [root]
    try:
        with os.scandir(root) as entries:
            return [part for entry in entries for part in _without(entry.path, hidden, around)]
    except OSError:
        return []
