"""The child's way from the fork to the command: every layer is put on here, in this order, or nothing is run.

Knows the order and why it matters. Knows no default: each value comes from the policy. A step that fails is
written to the supervisor as text and the child ends with 126; there is no way on from there.
"""

import os
import resource

from . import kernel, landlock, seccomp, usage
from .policy import Policy

_KILL = 9
_OPEN_FILES = 1024  # per process; what a login shell gets
_NICER = 5  # a fork bomb must not starve the supervisor and the app
_FIRST_TO_DIE = "900"  # of 1000: when the machine runs out of memory, the command goes and not the app


def become_command(policy: Policy, errors: int, supervisor: int, protected: tuple[int, ...]) -> None:
    """Turn this freshly forked process into the command. Never returns.

    `errors` is a descriptor that closes on exec: the supervisor reads there why nothing was run. `protected`
    are arguments of kill(2) that seccomp must refuse (see `seccomp.install`).
    """
    failure = 126
    try:
        _leave_the_supervisor(errors, supervisor)
        _take_limits(policy)
        if policy.landlock_abi:
            scope = landlock.SCOPE_SIGNALS | landlock.SCOPE_ABSTRACT_SOCKETS
            landlock.restrict(policy.rules, policy.landlock_abi, tcp=not policy.network, scope=scope)
        _enter_workspace(policy)  # only now: a link planted there can lead to nothing that is not allowed
        if policy.seccomp:
            seccomp.install(policy.network, protected)
        failure = 127
        os.execvpe(policy.argv[0], policy.argv, policy.environment)
    except BaseException as error:  # noqa: BLE001  whatever it is, the command must not run
        what = "cannot start the command" if failure == 127 else "the sandbox could not be set up"
        os.write(errors, f"{what}: {type(error).__name__}: {error}".encode()[:4096])
    finally:
        os._exit(failure)


def _leave_the_supervisor(errors: int, supervisor: int) -> None:
    os.setsid()
    kernel.prctl("parent death signal", kernel.PR_SET_PDEATHSIG, _KILL)
    if os.getppid() != supervisor:
        raise RuntimeError("the supervisor has ended")
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) != errors:
            try:
                os.close(int(name))
            except OSError:
                continue  # the descriptor with which the folder was listed
    kernel.default_signals()


def _take_limits(policy: Policy) -> None:
    os.setpriority(os.PRIO_PROCESS, 0, max(_NICER, os.getpriority(os.PRIO_PROCESS, os.getppid())))
    with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write(_FIRST_TO_DIE)
    everybody = usage.threads_of(os.getuid())
    for kind, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, policy.cpu_s),
        (resource.RLIMIT_DATA, policy.memory_bytes),  # not AS: node and numpy reserve far more than they use
        (resource.RLIMIT_FSIZE, policy.file_bytes),
        (resource.RLIMIT_NOFILE, _OPEN_FILES),
        (resource.RLIMIT_NPROC, everybody + policy.processes),  # counts all of the user's threads, the app's too
    ):
        allowed = resource.getrlimit(kind)[1]
        most = most if allowed == resource.RLIM_INFINITY else min(most, allowed)
        resource.setrlimit(kind, (most, most))


def _enter_workspace(policy: Policy) -> None:
    try:  # noqa: SIM105 (every command would pay for the import of contextlib)
        os.mkdir(policy.scratch, 0o700)
    except FileExistsError:
        pass  # an earlier command's, or of one that starts now; whatever it is, this one can only harm itself with it
    os.chdir(policy.cwd)
