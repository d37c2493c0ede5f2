"""The Linux backend: writes the policy of one command, starts the supervisor, and speaks with it.

Knows how View, Command and the means of this machine become a policy, and the channel to the supervisor.
Knows nothing of what happens inside; the supervisor enforces, this file asks.
"""

import os
import selectors
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tools.sandbox import bubblewrap, scene
from tools.sandbox.command import Command
from tools.sandbox.inside import landlock, seccomp
from tools.sandbox.inside.policy import Policy, Report, Rule
from tools.sandbox.running import Ending

_FOLDER = Path(__file__).resolve().parent
_BOOT = "import sys; sys.path.append(sys.argv[1]); from inside import supervisor; supervisor.main()"
_PIECE = 64 * 1024
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_SCRATCH = ".tmp"
_LAST_OUTPUT_S = 0.5  # after the report: the tree is empty, so both pipes must end by then
_LAST_MOMENT_S = 0.001
_REPORT_WITHIN_S = 12.0  # after the word to stop, more than the supervisor allows itself


@dataclass(frozen=True)
class Means:
    """What shall hold a command. Each part that is named is promised: if it cannot be put on, nothing
    runs."""

    landlock_abi: int
    """0: without."""
    seccomp: bool
    bwrap: str | None
    """Path of the program; None: without."""

    def names(self) -> str:
        parts = ["bwrap"] if self.bwrap else []
        parts += [f"landlock(abi {self.landlock_abi})"] if self.landlock_abi else []
        parts += ["seccomp"] if self.seccomp else []
        return "+".join(parts) or "supervisor only"

    def kill(self) -> str:
        """Say how far the death of the whole tree is sure."""
        if self.bwrap:
            return "pidns"
        return "scoped" if self.landlock_abi >= landlock.SCOPE_ABI else "best effort"


def available() -> Means:
    """Look what this machine has; whether it works is for the canaries to say."""
    return Means(landlock.abi(), seccomp.supported(), bubblewrap.find())


def spawn(means: Means, command: Command) -> "SupervisedProcess":
    """Start a command behind `means`. Raises `OSError`."""
    ours, theirs = socket.socketpair()
    policy = os.memfd_create("policy")
    try:
        os.write(policy, _policy(means, command).dump())
        os.lseek(policy, 0, os.SEEK_SET)
        program = subprocess.Popen(
            _words(means, command, policy),
            stdin=theirs.fileno(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[policy],
            env={},
            cwd="/",  # never the workspace: a json.py there would run before the sandbox
            start_new_session=True,  # Ctrl-C in the app's terminal is for the app
        )
    except BaseException:
        ours.close()
        raise
    finally:
        os.close(policy)
        theirs.close()
    return SupervisedProcess(program, ours, means.bwrap is not None)


def _words(means: Means, command: Command, policy: int) -> list[str]:
    python = os.path.realpath(sys.executable)
    words = [python, "-I", "-S", "-c", _BOOT, str(_FOLDER), str(policy)]
    if means.bwrap is None:
        return words
    view = scene.view(command.workspace)
    readable = [_FOLDER / "inside", *_resolver(command.network)]
    limit = command.limits.memory_bytes
    return bubblewrap.wrap(means.bwrap, view, command.workspace, readable, command.network, limit) + words


def _policy(means: Means, command: Command) -> Policy:
    limits, scratch = command.limits, command.workspace / _SCRATCH
    return Policy(
        argv=list(command.argv),
        environment=scene.clean_environment(command.workspace, command.cwd, scratch),
        cwd=str(command.cwd),
        workspace=str(command.workspace),
        scratch=str(scratch),
        landlock_abi=means.landlock_abi,
        rules=_rules(means, command) if means.landlock_abi else [],
        seccomp=means.seccomp,
        network=command.network,
        app=os.getpid(),
        app_group=os.getpgrp(),
        outer_namespace=os.stat("/proc/self/ns/pid").st_ino,
        private_mounts=list(bubblewrap.PRIVATE_MOUNTS) if means.bwrap else [],
        timeout_s=limits.timeout_s,
        memory_bytes=limits.memory_bytes,
        file_bytes=limits.file_bytes,
        processes=limits.processes,
        cpu_s=limits.cpu_s,
        quota_bytes=limits.quota_bytes,
        quota_files=limits.quota_files,
    )


def _rules(means: Means, command: Command) -> list[Rule]:
    rules = [(str(path), landlock.RUN) for path in scene.view(command.workspace).shown()]
    rules += [(str(path), landlock.LOOK) for path in [Path("/proc"), *_resolver(command.network)]]
    rules += [(device, landlock.DEVICE) for device in _DEVICES]
    rules += [(mount, landlock.OWN) for mount in bubblewrap.PRIVATE_MOUNTS if means.bwrap]
    return [*rules, (str(command.workspace), landlock.OWN)]


def _resolver(network: bool) -> list[Path]:
    """The name servers' file, which is often a link to a place that is not shown."""
    target = Path("/etc/resolv.conf").resolve()
    return [target] if network and target.is_file() else []


class SupervisedProcess:
    """The app's end of a supervisor: two pipes of output and the channel. Implements `running.Process`."""

    def __init__(self, program: "subprocess.Popen[bytes]", channel: socket.socket, own_namespace: bool) -> None:
        self.ending: Ending | None = None
        self._program, self._channel = program, channel
        self._own_namespace = own_namespace  # of process ids: all in it ends with its first process
        self._report = b""  # the id of the command's process and a line end, then the report itself
        self._complaint = b""  # the last of stderr, which is bwrap's or Python's word when no report comes
        self._asked_at: float | None = None
        self._reported_at: float | None = None
        self._selector = selectors.DefaultSelector()
        assert program.stdout and program.stderr
        for name, source in ((0, program.stdout), (1, program.stderr), (2, channel)):
            self._selector.register(source, selectors.EVENT_READ, name)

    def stop(self) -> None:
        self._asked_at = self._asked_at or time.monotonic()
        try:
            self._channel.shutdown(socket.SHUT_WR)
        except OSError:
            return  # it has ended already

    def read(self, timeout: float) -> list[tuple[int, bytes]]:
        pieces: list[tuple[int, bytes]] = []
        # After the report only the supervisor's own end is awaited, and of that no descriptor tells.
        for key, _ in self._selector.select(timeout if self._reported_at is None else _LAST_MOMENT_S):
            data = os.read(key.fd, _PIECE)
            if not data:
                self._selector.unregister(key.fileobj)
                if key.data == 2:
                    self._reported_at = time.monotonic()
            elif key.data == 2:
                self._report += data
            else:
                pieces.append((key.data, data))
                if key.data == 1:
                    self._complaint = (self._complaint + data)[-2000:]
        self._look_for_the_end()
        return pieces

    def _look_for_the_end(self) -> None:
        now = time.monotonic()
        if self._reported_at is None:
            if self._asked_at is not None and now - self._asked_at > _REPORT_WITHIN_S:
                self._program.kill()  # under bwrap this ends the namespace with all in it
            return
        if self._selector.get_map() and now - self._reported_at < _LAST_OUTPUT_S:
            return
        if self._program.poll() is not None:
            self._close()
            self.ending = self._read_report()

    def _close(self) -> None:
        self._selector.close()
        self._channel.close()
        for pipe in (self._program.stdout, self._program.stderr):
            if pipe:
                pipe.close()

    def _read_report(self) -> Ending:
        started, _, text = self._report.partition(b"\n") if self._report[:1].isdigit() else (b"", b"", self._report)
        if not text:
            return self._without_report(started)
        report = Report.load(text)
        code = None if report.status is None else os.waitstatus_to_exitcode(report.status)
        failed = 126 if report.reason == "refused" else None
        return Ending(
            report.reason,  # type: ignore[arg-type]  # the supervisor imports no Literal
            exit_code=failed if code is None else code if code >= 0 else None,
            signal=-code if code is not None and code < 0 else None,
            killed=report.killed,
            error=report.error,
        )

    def _without_report(self, started: bytes) -> Ending:
        """Tell of a supervisor that could not start, or was killed from outside, and end what can still be
        found."""
        said = self._complaint.decode("utf-8", "replace").strip()
        if not started:
            return Ending("refused", 126, error=f"the supervisor ended without a report. {said}".strip())
        if not self._own_namespace:
            end_session(int(started))
        return Ending("stopped", error="the supervisor was killed; what had left the command's session may still run")


def end_session(leader: int) -> None:
    """Kill every process of a session. Best effort: used only when there is no supervisor any more to do
    better."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.getsid(int(name)) == leader:
                os.kill(int(name), 9)
        except (ProcessLookupError, PermissionError):
            continue
