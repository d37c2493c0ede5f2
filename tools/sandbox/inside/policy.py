"""What the app asks of the supervisor for one command, and how that crosses the pipe between them.

Knows the fields and their units. Knows nothing of how they are enforced. `marshal` because both ends run the
same interpreter and importing `json` takes longer than starting Python.
"""

import marshal

Rule = tuple[str, int]  # a path, and the Landlock rights on it and below it


class Policy:
    """One command and everything that shall hold it. All fields are plain values; sizes in bytes, times in
    seconds."""

    def __init__(
        self,
        *,
        argv: list[str],
        environment: dict[str, str],
        cwd: str,
        workspace: str,
        scratch: str,
        landlock_abi: int,
        rules: list[Rule],
        seccomp: bool,
        network: bool,
        app: int,
        app_group: int,
        outer_namespace: int,
        private_mounts: list[str],
        timeout_s: float,
        memory_bytes: int,
        file_bytes: int,
        processes: int,
        cpu_s: int,
        quota_bytes: int,
        quota_files: int,
    ) -> None:
        self.argv = argv
        self.environment = environment  # all of it: nothing is inherited
        self.cwd = cwd
        self.workspace = workspace
        self.scratch = scratch  # made if missing; the command's TMPDIR
        self.landlock_abi = landlock_abi  # 0: without Landlock
        self.rules = rules
        self.seccomp = seccomp
        self.network = network  # True: IPv4 and IPv6 are open
        self.app = app  # process id and process group of the app, which the command must not reach
        self.app_group = app_group
        self.outer_namespace = outer_namespace  # inode of the app's pid namespace: in another one kill(-1) is safe
        self.private_mounts = private_mounts  # tmpfs mounts of this command alone: they count as memory
        self.timeout_s = timeout_s
        self.memory_bytes = memory_bytes
        self.file_bytes = file_bytes
        self.processes = processes
        self.cpu_s = cpu_s
        self.quota_bytes = quota_bytes
        self.quota_files = quota_files

    def dump(self) -> bytes:
        return marshal.dumps(vars(self))

    @classmethod
    def load(cls, data: bytes) -> "Policy":
        return cls(**marshal.loads(data))


class Report:
    """What became of the command, written once, when no process of it is left (or `error` says why none was
    run)."""

    def __init__(self, reason: str, status: int | None, killed: int, error: str | None) -> None:
        self.reason = reason  # one of `command.Reason`
        self.status = status  # as waitpid gives it; None when nothing was run
        self.killed = killed  # processes that the supervisor had to kill
        self.error = error

    def dump(self) -> bytes:
        return marshal.dumps(vars(self))

    @classmethod
    def load(cls, data: bytes) -> "Report":
        return cls(**marshal.loads(data))
