"""The supervisor of one command: starts it, watches it, kills all that came of it, and reports once.

Knows the life of one process tree. Knows nothing of the house: it reads a policy from a descriptor, is told
to stop by the end of file on descriptor 0 (which also comes when the app dies), and answers there.
Descriptors 1 and 2 are the command's output; the supervisor itself never writes to them.

Why the kill is sound. The supervisor is a subreaper: each orphan of the tree becomes its child, so "no child
left" means "no process left". It sits in a Landlock domain of its own that scopes signals, so `kill(-1)`
reaches exactly the processes of the tree, which live in a domain below; or in a pid namespace of its own,
where the same is true. The kernel holds the list of processes while it serves `kill(-1)`: no fork slips
through. Without either, `kill(-1)` would reach the whole machine, so it is used only after a look that proves
the scope (`_prove_scope`), and a walk over the tree is used otherwise, which a storm of forks can outrun.
"""

import os
import select
import sys
import time

from . import confine, kernel, landlock, usage
from .policy import Policy, Report

_CHANNEL = 0
_KILL, _STOP = 9, 19
_LOOK_S = 0.1  # between two looks at what the tree uses
_SHARE = 10  # a look may cost one part in this many of the time
_FIRST = -10  # of a priority
_ROUNDS = 20  # of looks at a tree that grows, before what was found is killed
_EMPTY_WITHIN_S = 8.0  # then the report says that something is left


class Refused(Exception):
    """The command was not run."""


def main() -> None:
    """Run the policy that stands at the descriptor named on the command line, and report to the app."""
    try:
        with open(int(sys.argv[2]), "rb") as file:
            policy = Policy.load(file.read())
        report = Supervisor(policy).run()
    except OSError as error:
        report = Report("refused", None, 0, f"the sandbox could not be set up: {type(error).__name__}: {error}")
    os.write(_CHANNEL, report.dump())


class Supervisor:
    """One command from its fork to the proof that nothing of it is left."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.main = 0  # the command's process
        self.status: int | None = None  # of the command's process
        self.killed = 0
        self.killing = False
        self.scoped = False
        self.begun_with = (0, 0)  # bytes and files in the workspace

    def run(self) -> Report:
        """Give the report of the finished command. `OSError` and `RuntimeError` only before anything was
        started."""
        self._prepare()
        try:
            self._count_workspace()
            self._start()
        except Refused as error:
            self._empty()
            return Report("refused", self.status, self.killed, str(error))
        try:
            reason = self._watch()
        finally:
            left = self._empty()
        if reason == "exit" and self._over_quota(0):
            reason = "quota"
        return Report(reason, self.status, self.killed, left)

    def _prepare(self) -> None:
        kernel.ignore_signals()
        kernel.prctl("subreaper", kernel.PR_SET_CHILD_SUBREAPER, 1)
        kernel.prctl("no_new_privs", kernel.PR_SET_NO_NEW_PRIVS, 1)
        self._go_first()
        kernel.drop_capabilities()
        if self.policy.landlock_abi >= landlock.SCOPE_ABI:
            landlock.restrict(None, self.policy.landlock_abi, tcp=False, scope=landlock.SCOPE_SIGNALS)
        self.scoped = self._prove_scope()

    def _go_first(self) -> None:
        """As root, whose number of processes the kernel does not hold, be quicker than a storm of them."""
        try:
            os.setpriority(os.PRIO_PROCESS, 0, _FIRST)
        except PermissionError:
            return  # an ordinary user, or a container that keeps this right back

    def _prove_scope(self) -> bool:
        """Tell whether kill(-1) stays within the tree. A wrong True would kill everything the user runs."""
        if self._in_own_namespace():
            return True
        if self.policy.landlock_abi < landlock.SCOPE_ABI:
            return False
        try:
            os.kill(self.policy.app, 0)
        except PermissionError:  # same user, so only the domain can have said no
            return True
        return False

    def _in_own_namespace(self) -> bool:
        return os.stat("/proc/self/ns/pid").st_ino != self.policy.outer_namespace

    def _count_workspace(self) -> None:
        self.begun_with = usage.folder(self.policy.workspace, usage.UNCOUNTABLE)
        if self.begun_with[0] >= usage.UNCOUNTABLE:
            raise Refused("the workspace holds folders nested too deep to be counted against its quota")

    def _start(self) -> None:
        errors, child_errors = os.pipe2(os.O_CLOEXEC)
        supervisor = os.getpid()
        # With Landlock's scope no signal leaves the command's own domain, so nobody has to be named.
        protected = () if self.policy.landlock_abi >= landlock.SCOPE_ABI else self._protected()
        self.main = os.fork()
        if self.main == 0:
            confine.become_command(self.policy, child_errors, supervisor, protected)
        os.close(child_errors)
        nothing = os.open("/dev/null", os.O_RDWR)
        os.dup2(nothing, 1)  # the output ends when the tree ends
        os.dup2(nothing, 2)
        with open(errors, "rb") as file:
            error = file.read()  # until exec closes it, or the child ends
        if error:
            raise Refused(error.decode(errors="replace"))
        os.write(_CHANNEL, b"%d\n" % self.main)  # the app may need it when this process is killed

    def _protected(self) -> tuple[int, ...]:
        """List whom the command must not signal, as arguments of kill(2)."""
        keepers = [os.getpid(), -os.getpgrp(), -1]
        if not self._in_own_namespace():
            keepers += [self.policy.app, -self.policy.app_group]
        return tuple(keeper for keeper in keepers if keeper)  # 0, a group outside the namespace, would mean its own

    def _watch(self) -> str:
        """Wait for the first end: the command's own, the app's word, the clock, or a limit."""
        ended = os.pidfd_open(self.main)
        poller = select.poll()
        poller.register(ended, select.POLLIN)
        poller.register(_CHANNEL, select.POLLIN | select.POLLHUP)
        parent = os.getppid()
        now = time.monotonic()
        deadline, next_look = now + self.policy.timeout_s, now + _LOOK_S
        while True:
            ready = {fd for fd, _ in poller.poll(max(0.0, min(deadline, next_look) - now) * 1000 + 1)}
            now = time.monotonic()
            if ended in ready:
                return "exit"
            if _CHANNEL in ready or os.getppid() != parent:
                return "stopped"
            if now >= deadline:
                return "timeout"
            if now >= next_look:
                self._reap()
                reason = self._limit_reached()
                if reason:
                    return reason
                cost = time.monotonic() - now
                now += cost
                next_look = now + max(_LOOK_S, _SHARE * cost)

    def _limit_reached(self) -> str | None:
        tree = usage.descendants(os.getpid())
        if (
            len(tree) > 2 * self.policy.processes
        ):  # root is not held by RLIMIT_NPROC, and a bomb leaves no time to count
            return "process_limit"
        memory, deleted = usage.memory(tree, self.policy.private_mounts)
        if memory > self.policy.memory_bytes:
            return "memory_limit"
        return "quota" if self._over_quota(deleted) else None

    def _over_quota(self, deleted: int) -> bool:
        """Compare with the quota, or with what was there before: a full workspace must still let `rm` run."""
        most_bytes = max(self.policy.quota_bytes, self.begun_with[0])
        most_files = max(self.policy.quota_files, self.begun_with[1])
        size, files = usage.folder(self.policy.workspace, most_files)
        return size + deleted > most_bytes or files > most_files

    def _empty(self) -> str | None:
        """Kill until no child is left. Gives a text when something would not die in time."""
        self.killing = True
        deadline = time.monotonic() + _EMPTY_WITHIN_S
        while time.monotonic() < deadline:
            self._kill_all()
            if not self._reap():
                return None
            time.sleep(0.001)
        return "not every process of the command could be ended"

    def _kill_all(self) -> None:
        if self.scoped:
            _signal_each([-1], _KILL)
            return
        _signal_each([-self.main] if self.main else [], _KILL)  # its group in one stroke: most trees are just that
        tree: list[int] = []
        # Stop all first: a stopped process cannot fork.
        for _ in range(_ROUNDS):
            before, tree = tree, usage.descendants(os.getpid())
            if tree == before:
                break
            _signal_each(tree, _STOP)
        _signal_each(tree, _KILL)

    def _reap(self) -> bool:
        """Take in all that have ended; tell whether any child is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.main:
                self.status = status
            if self.killing and os.WIFSIGNALED(status) and os.WTERMSIG(status) == _KILL:
                self.killed += 1


def _signal_each(pids: list[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue
