"""Attacks a fence and tells which layers withstood: nothing is believed because it was switched on.

Knows the stage of the attack (files, listeners and a victim outside the fence) and which attack speaks about
which layer. Judges by effects on the stage wherever there are any; by the attacker's word only where its
success leaves no trace.
"""

import asyncio
import os
import secrets
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil

from tools.sandbox.attack import COMPLETE
from tools.sandbox.boundary import Boundary, Layer
from tools.sandbox.command import Command, CommandLimits, Outcome
from tools.sandbox.fence import LocalFence
from tools.sandbox.running import Spawn

_LIMITS = CommandLimits(timeout_s=20)
# Attacks whose effect the stage shows. The attacker may believe in a success that was none: in a network
# namespace of its own every datagram can be sent.
_VISIBLE = {"write", "create", "remove", "truncate", "chmod", "tcp", "udp", "unix", "abstract", "victim", "daemon"}

_LAYERS = {
    "files-read": ({"read", "list", "link", "root"}, "files outside workspace and system cannot be read"),
    "files-write": ({"write", "create", "remove"}, "files outside the workspace cannot be changed"),
    "files-truncate": ({"truncate"}, "files outside the workspace cannot be emptied"),
    "metadata": ({"chmod"}, "permissions and times of files outside the workspace cannot be changed"),
    "network": ({"tcp", "udp", "unix", "abstract"}, "no connection leaves, none to this machine's own services"),
    "kernel": ({"netlink", "vsock", "highbits", "io_uring", "keyring"}, "rare kernel interfaces are closed"),
    "signals": ({"app", "victim"}, "processes outside the command cannot be signalled"),
    "secrets": ({"environ", "memory"}, "the app's environment and memory cannot be read"),
    "kill": ({"daemon"}, "no process outlives the command, however it hides"),
}


def attacked(spawn: Spawn) -> tuple[Layer, ...]:
    """Attack what `spawn` starts, and give each layer with what became of it. Takes a few tenths of a second.

    Must not be called from a running event loop's thread.
    """
    with tempfile.TemporaryDirectory(prefix="canary-") as folder:
        return Stage(Path(folder).resolve()).attack(spawn)


class Stage:
    """What stands outside the fence and must be found untouched."""

    def __init__(self, folder: Path) -> None:
        self._workspace, self._outside = folder / "workspace", folder / "outside"
        self._marker = f"canary-{secrets.token_hex(8)}"
        self._workspace.mkdir(mode=0o700)
        self._outside.mkdir(mode=0o700)
        for name in ("read", "write", "truncate", "remove", "chmod"):
            (self._outside / name).write_text(self._marker)

    def attack(self, spawn: Spawn) -> tuple[Layer, ...]:
        """Put up the listeners and the victim, let the attack run, look what happened."""
        listeners = self._listeners()
        victim = subprocess.Popen([sys.executable, "-I", "-S", "-c", "input()"], stdin=subprocess.PIPE)
        try:
            words = [str(self._outside), *(str(listeners[name].getsockname()[1]) for name in ("tcp", "udp"))]
            outcome = asyncio.run(self._run(spawn, [*words, str(victim.pid), str(os.getpid())]))
            succeeded = (set(outcome.stdout.split()) - _VISIBLE) | self._seen(listeners, victim)
        finally:
            victim.kill()
            victim.communicate()
            for listener in listeners.values():
                listener.close()
        if COMPLETE in outcome.stdout:
            return _judged(succeeded)
        failure = outcome.error or outcome.stderr.strip()[-300:] or outcome.reason
        why = f"the canary did not run: {failure}"
        return tuple(Layer(name, False, covers, why) for name, (_, covers) in _LAYERS.items())

    async def _run(self, spawn: Spawn, words: list[str]) -> Outcome:
        source = Path(__file__).with_name("attack.py").read_text(encoding="utf-8")
        argv = (os.path.realpath(sys.executable), "-I", "-S", "-c", source, *words, self._marker)
        unknown = Boundary("none", "sandbox: not known yet", ())
        return await LocalFence(unknown, spawn).run(Command(argv, self._workspace, self._workspace, _LIMITS))

    def _listeners(self) -> dict[str, socket.socket]:
        kinds: dict[str, tuple[socket.socket, object]] = {
            "tcp": (socket.socket(socket.AF_INET, socket.SOCK_STREAM), ("127.0.0.1", 0)),
            "udp": (socket.socket(socket.AF_INET, socket.SOCK_DGRAM), ("127.0.0.1", 0)),
        }
        if sys.platform != "win32":
            kinds["unix"] = (socket.socket(socket.AF_UNIX, socket.SOCK_STREAM), f"{self._outside}/unix")
        if sys.platform == "linux":
            kinds["abstract"] = (socket.socket(socket.AF_UNIX, socket.SOCK_STREAM), f"\0{self._outside}/unix")
        for name, (listener, address) in kinds.items():
            listener.bind(address)  # type: ignore[arg-type]
            listener.setblocking(False)
            if name != "udp":
                listener.listen()
        return {name: listener for name, (listener, _) in kinds.items()}

    def _seen(self, listeners: dict[str, socket.socket], victim: "subprocess.Popen[bytes]") -> set[str]:
        """Name the attacks whose effects stand on the stage."""
        seen = {name for name, listener in listeners.items() if _was_reached(listener)}
        for name in ("write", "truncate"):
            if (self._outside / name).read_text() != self._marker:
                seen.add(name)
        if not (self._outside / "remove").exists():
            seen.add("remove")
        if (self._outside / "created").exists():
            seen.add("create")
        if (self._outside / "chmod").stat().st_mode & 0o777 == 0:
            seen.add("chmod")
        if victim.poll() is not None:
            seen.add("victim")
        if self._end_leftovers():
            seen.add("daemon")
        return seen

    def _end_leftovers(self) -> bool:
        """Tell whether the attack's daemon lives, and end it: the marker is in its command line."""
        everybody = psutil.process_iter(["cmdline"])
        left = [process for process in everybody if self._marker in (process.info["cmdline"] or ())]
        for process in left:
            process.kill()
        return bool(left)


def _judged(succeeded: set[str]) -> tuple[Layer, ...]:
    layers = []
    for name, (attacks, covers) in _LAYERS.items():
        holes = ", ".join(sorted(attacks & succeeded))
        layers.append(Layer(name, not holes, covers, f"succeeded: {holes}" if holes else ""))
    return tuple(layers)


def _was_reached(listener: socket.socket) -> bool:
    try:
        if listener.type == socket.SOCK_DGRAM:
            listener.recv(64)
        else:
            listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True
