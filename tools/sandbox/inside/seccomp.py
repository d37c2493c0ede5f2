"""seccomp: which system calls a command may make. Closes what Landlock leaves open (UDP, unix sockets,
ptrace...).

Knows the numbers of x86_64 and aarch64 and writes the filter as classic BPF by itself; on any other machine
`supported()` is false and nothing is claimed. Knows no path and no policy but the two questions asked: may
the command use the network, and which process ids must it not signal. Source of the rules: the attempts that
got through in the measurements (see the table in the package's docstring); numbers: asm/unistd_64.h and
asm-generic/unistd.h, compared with the installed kernel headers by a test.
"""

import ctypes
import os
import struct

from . import kernel

EPERM, EACCES, ENOSYS = 1, 13, 38

# fmt: off
# name -> (x86_64, aarch64); None: the architecture has no such call.
NUMBERS: dict[str, tuple[int | None, int | None]] = {
    # sockets
    "socket": (41, 198), "socketpair": (53, 199), "connect": (42, 203), "bind": (49, 200), "listen": (50, 201),
    # namespaces and mounts
    "clone": (56, 220), "clone3": (435, 435), "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40),
    "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "open_tree": (428, 428),
    "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432),
    "fspick": (433, 433), "mount_setattr": (442, 442), "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    # other processes
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_getfd": (438, 438), "process_madvise": (440, 440), "process_mrelease": (448, 448),
    "migrate_pages": (256, 238), "move_pages": (279, 239), "prlimit64": (302, 261),
    "sched_setaffinity": (203, 122), "sched_setparam": (142, 118), "sched_setscheduler": (144, 119),
    "sched_setattr": (314, 274), "setpriority": (141, 140), "ioprio_set": (251, 30),
    "kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "pidfd_open": (434, 434),
    # memory and messages that outlive the command, or are shared with other sessions
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "msgget": (68, 186), "semget": (64, 190),
    "mq_open": (240, 180), "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218),
    # the kernel itself
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "init_module": (175, 105),
    "finit_module": (313, 273), "delete_module": (176, 106), "kexec_load": (246, 104),
    "kexec_file_load": (320, 294), "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168, 225),
    "acct": (163, 89), "quotactl": (179, 60), "quotactl_fd": (443, 443), "settimeofday": (164, 170),
    "clock_settime": (227, 112), "clock_adjtime": (305, 266), "adjtimex": (159, 171), "sethostname": (170, 161),
    "setdomainname": (171, 162), "syslog": (103, 116), "vhangup": (153, 58), "ioctl": (16, 29),
    "iopl": (172, None), "ioperm": (173, None), "modify_ldt": (154, None),
}
# fmt: on

_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column above, AUDIT_ARCH_
_X32_BIT = 0x40000000  # x86_64 only: the same calls under other numbers

_ABSENT = ("clone3", "io_uring_setup", "io_uring_enter", "io_uring_register")  # programs then use the older call
_ON_SELF_ONLY = ("prlimit64", "sched_setaffinity", "sched_setparam", "sched_setscheduler", "sched_setattr")
_SIGNALLING = ("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_open")
_WITH_TESTS = {"socket", "socketpair", "connect", "bind", "listen", "clone", "setpriority", "ioprio_set", "ioctl"}

_CLONE_NEW = 0x7E020000  # every CLONE_NEW flag that clone(2) takes
_AF_UNIX, _AF_INET, _AF_INET6 = 1, 2, 10
_SOCK_KIND, _SOCK_STREAM, _SOCK_SEQPACKET = 0xF, 1, 5
_TERMINAL_INJECTION = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX
_PRIO_PROCESS, _IOPRIO_WHO_PROCESS = 0, 1
_WORD = 0xFFFFFFFF

# Classic BPF, linux/bpf_common.h and linux/seccomp.h
_LOAD, _AND, _JUMP, _IF_EQUAL, _IF_AT_LEAST, _RETURN = 0x20, 0x54, 0x05, 0x15, 0x35, 0x06
_ALLOW, _KILL_PROCESS, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16
_MODE_FILTER = 2

Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, value
# (argument, mask, values, wanted): the masked low word must be one of the values, or must not. Arguments that
# are ints to the kernel are compared on their low 32 bits only, else 1 << 32 | AF_INET slips through a 64-bit
# comparison.
Test = tuple[int, int, tuple[int, ...], bool]


def supported() -> bool:
    """Tell whether this machine is one whose call numbers are known here."""
    return os.uname().machine in _ARCHITECTURES and struct.calcsize("P") == 8


def install(network: bool, protected: tuple[int, ...]) -> None:
    """Put the filter on this process and all it will start, for ever.

    `network` opens IPv4 and IPv6 sockets (never unix sockets). `protected` are arguments of kill(2) that are
    refused: process ids, negative group ids, -1; empty where Landlock scopes signals. Raises `OSError`, or
    `KeyError` on a machine that is not `supported()`.
    """
    load(program(os.uname().machine, network, protected))


def load(instructions: list[Instruction]) -> None:
    """Hand a filter to the kernel. Raises `OSError`."""
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *one) for one in instructions))
    header = struct.pack("@HP", len(instructions), ctypes.addressof(code))
    kernel.prctl("no_new_privs", kernel.PR_SET_NO_NEW_PRIVS, 1)
    kernel.prctl("seccomp filter", kernel.PR_SET_SECCOMP, _MODE_FILTER, header)


def program(machine: str, network: bool, protected: tuple[int, ...]) -> list[Instruction]:
    """Write the filter."""
    column, audit = _ARCHITECTURES[machine]
    lines = [(_LOAD, 0, 0, _ARCHITECTURE_AT), (_IF_EQUAL, 1, 0, audit), (_RETURN, 0, 0, _KILL_PROCESS)]
    lines.append((_LOAD, 0, 0, _NUMBER_AT))
    if machine == "x86_64":
        lines += [(_IF_AT_LEAST, 0, 1, _X32_BIT), (_RETURN, 0, 0, _ERRNO | ENOSYS)]
    for name, (error, tests) in _rules(network, protected).items():
        number = NUMBERS[name][column]
        if number is not None:
            block = _block(error, tests)
            lines += [(_IF_EQUAL, 0, len(block), number), *block]
    lines.append((_RETURN, 0, 0, _ALLOW))
    return lines


def _rules(network: bool, protected: tuple[int, ...]) -> dict[str, tuple[int, list[Test]]]:
    """For each restricted call: the error it gets, and the tests under which it is allowed after all."""
    rules: dict[str, tuple[int, list[Test]]] = {
        name: (EPERM, []) for name in NUMBERS if name not in _WITH_TESTS and name not in _SIGNALLING
    }
    rules.update({name: (ENOSYS, []) for name in _ABSENT})
    rules.update({name: (EPERM, [(0, _WORD, (0,), True)]) for name in _ON_SELF_ONLY})
    rules["clone"] = (EPERM, [(0, _CLONE_NEW, (0,), True)])
    rules["setpriority"] = (EPERM, [(0, _WORD, (_PRIO_PROCESS,), True), (1, _WORD, (0,), True)])
    rules["ioprio_set"] = (EPERM, [(0, _WORD, (_IOPRIO_WHO_PROCESS,), True), (1, _WORD, (0,), True)])
    rules["ioctl"] = (EPERM, [(1, _WORD, _TERMINAL_INJECTION, False)])
    pair = [(0, _WORD, (_AF_UNIX,), True), (1, _SOCK_KIND, (_SOCK_STREAM, _SOCK_SEQPACKET), True)]
    rules["socketpair"] = (EACCES, pair)  # a datagram pair could be connected anew, to a path
    if network:
        rules["socket"] = (EACCES, [(0, _WORD, (_AF_INET, _AF_INET6), True)])
    else:
        rules.update({name: (EACCES, []) for name in ("socket", "connect", "bind", "listen")})
    if protected:
        words = tuple(pid & _WORD for pid in protected)
        rules.update({name: (EPERM, [(0, _WORD, words, False)]) for name in _SIGNALLING})
    return rules


def _block(error: int, tests: list[Test]) -> list[Instruction]:
    """What follows once the number matched: allow when every test holds, the error otherwise."""
    refuse = (_RETURN, 0, 0, _ERRNO | error)
    if not tests:
        return [refuse]
    lines: list[Instruction] = []
    for argument, mask, values, wanted in tests:
        lines += [(_LOAD, 0, 0, _ARGUMENTS_AT + 8 * argument), (_AND, 0, 0, mask)]
        # Behind the comparisons stands one instruction for a miss; a hit jumps over it.
        lines += [(_IF_EQUAL, len(values) - place, 0, value) for place, value in enumerate(values)]
        lines += [refuse] if wanted else [(_JUMP, 0, 0, 1), refuse]
    return [*lines, (_RETURN, 0, 0, _ALLOW)]
