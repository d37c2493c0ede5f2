"""The filter, for both architectures, without running on them: the numbers against the kernel's headers, and
the program through a small interpreter of classic BPF."""

import re
import subprocess
from pathlib import Path

import pytest

from tools.sandbox.inside import seccomp

HEADERS = {"x86_64": "/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "aarch64": "/usr/include/asm-generic/unistd.h"}
AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOW, KILL = "allow", "kill"


@pytest.mark.parametrize(("machine", "column"), [("x86_64", 0), ("aarch64", 1)])
def test_numbers_are_the_kernels(machine: str, column: int) -> None:
    header = Path(HEADERS[machine])
    if not header.exists():
        pytest.skip("the kernel's headers are not installed")
    text = subprocess.run(["cat", header], capture_output=True, text=True, check=True).stdout
    known = {name: int(number) for name, number in re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", text)}
    known.update({name: known[f"{name}"] for name in known})
    for name, numbers in seccomp.NUMBERS.items():
        if name in ("process_mrelease", "quotactl_fd", "mount_setattr") and name not in known:
            continue  # older headers
        assert known.get(name) == numbers[column], name


def judged(
    machine: str, name: str | int, *arguments: int, network: bool = False, protected: tuple[int, ...] = ()
) -> str | int:
    """Run the filter on one call: give ALLOW, KILL or the error number."""
    column = ("x86_64", "aarch64").index(machine)
    number = name if isinstance(name, int) else seccomp.NUMBERS[name][column]
    assert number is not None
    words = [0] * 16
    words[0], words[1] = number, AUDIT[machine]
    for place, value in enumerate(arguments):
        words[4 + 2 * place], words[5 + 2 * place] = value & 0xFFFFFFFF, value >> 32 & 0xFFFFFFFF
    return interpreted(seccomp.program(machine, network, protected), words)


def interpreted(program: list[seccomp.Instruction], words: list[int]) -> str | int:
    accumulator, place = 0, 0
    while True:
        code, if_true, if_false, value = program[place]
        place += 1
        if code == 0x20:
            accumulator = words[value // 4]
        elif code == 0x54:
            accumulator &= value
        elif code == 0x05:
            place += value
        elif code in (0x15, 0x35):
            place += if_true if (accumulator == value if code == 0x15 else accumulator >= value) else if_false
        else:
            assert code == 0x06
            return {0x7FFF0000: ALLOW, 0x80000000: KILL}.get(value, value & 0xFFFF)


MACHINES = pytest.mark.parametrize("machine", ["x86_64", "aarch64"])


@MACHINES
def test_sockets(machine: str) -> None:
    for family in (0, 1, 2, 10, 16, 17, 40, 1 << 32 | 2):
        assert judged(machine, "socket", family, 1, 0) == 13
    assert judged(machine, "socketpair", 1, 1, 0) == ALLOW
    assert judged(machine, "socketpair", 1, 1 | 0o2000000 | 0o4000, 0) == ALLOW  # CLOEXEC, NONBLOCK
    assert judged(machine, "socketpair", 1, 5, 0) == ALLOW
    assert judged(machine, "socketpair", 1, 2, 0) == 13
    assert judged(machine, "socketpair", 2, 1, 0) == 13
    for name in ("connect", "bind", "listen"):
        assert judged(machine, name) == 13


@MACHINES
def test_sockets_with_the_network_on(machine: str) -> None:
    assert judged(machine, "socket", 2, 1, 0, network=True) == ALLOW
    assert judged(machine, "socket", 10, 2, 0, network=True) == ALLOW
    for family in (1, 16, 17, 40):
        assert judged(machine, "socket", family, 1, 0, network=True) == 13
    assert judged(machine, "connect", network=True) == ALLOW
    assert judged(machine, "socketpair", 1, 2, 0, network=True) == 13


@MACHINES
def test_processes(machine: str) -> None:
    assert judged(machine, "clone", 17) == ALLOW
    assert judged(machine, "clone", 0x3D0F00) == ALLOW  # pthread_create
    for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        assert judged(machine, "clone", flag | 17) == 1
        assert judged(machine, "clone", flag | 1 << 40) == 1
    assert judged(machine, "clone3") == 38
    assert judged(machine, "io_uring_setup") == 38
    assert judged(machine, "prlimit64", 0, 7) == ALLOW
    assert judged(machine, "prlimit64", 1234, 7) == 1
    assert judged(machine, "setpriority", 0, 0, 19) == ALLOW
    assert judged(machine, "setpriority", 0, 77, 19) == 1
    assert judged(machine, "setpriority", 2, 0, 19) == 1
    assert judged(machine, "ioctl", 0, 0x5412) == 1
    assert judged(machine, "ioctl", 0, 0x5401) == ALLOW
    for name in ("unshare", "mount", "ptrace", "keyctl", "bpf", "shmget", "chroot", "pidfd_getfd", "open_by_handle_at"):
        assert judged(machine, name) == 1


@MACHINES
def test_signals_are_left_alone_unless_someone_is_protected(machine: str) -> None:
    assert judged(machine, "kill", 1234, 9) == ALLOW
    protected = (1234, -1200, 77, -77, -1)
    for pid in protected:
        assert judged(machine, "kill", pid & (1 << 64) - 1, 9, protected=protected) == 1
        assert judged(machine, "kill", pid & 0xFFFFFFFF, 9, protected=protected) == 1
    assert judged(machine, "tgkill", 1234, 1234, 9, protected=protected) == 1
    assert judged(machine, "pidfd_open", 1234, 0, protected=protected) == 1
    for pid in (0, 1235, -1235):
        assert judged(machine, "kill", pid & (1 << 64) - 1, 9, protected=protected) == ALLOW


@MACHINES
def test_everything_else_is_allowed(machine: str) -> None:
    restricted = {numbers[("x86_64", "aarch64").index(machine)] for numbers in seccomp.NUMBERS.values()}
    for number in set(range(450)) - restricted:
        assert judged(machine, number) == ALLOW


def test_other_architectures_and_numbers() -> None:
    assert interpreted(seccomp.program("x86_64", False, ()), [41, 0x40000003, *[0] * 14]) == KILL  # i386
    assert interpreted(seccomp.program("aarch64", False, ()), [198, AUDIT["x86_64"], *[0] * 14]) == KILL
    assert judged("x86_64", 0x40000000 + 41) == 38  # x32
    with pytest.raises(KeyError):
        seccomp.program("riscv64", False, ())


@MACHINES
def test_the_program_is_one_the_kernel_takes(machine: str) -> None:
    program = seccomp.program(machine, False, tuple(range(20)))
    assert len(program) < 4096
    assert all(0 <= if_true < 256 and 0 <= if_false < 256 for _, if_true, if_false, _ in program)
