"""Runs a program on a machine with less: `python hide.py landlock|namespaces program...`.

A filter makes the kernel answer as one without Landlock does, or as a container that forbids namespaces.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tools.sandbox.inside import seccomp

LANDLOCK = ((444, 38), (445, 38), (446, 38))
CONTAINER = (
    "unshare",
    "setns",
    "mount",
    "umount2",
    "pivot_root",
    "keyctl",
    "add_key",
    "bpf",
    "perf_event_open",
    "userfaultfd",
)


def filter_for(what: str) -> list[seccomp.Instruction]:
    machine = os.uname().machine
    column = ("x86_64", "aarch64").index(machine)
    denied = LANDLOCK if what == "landlock" else tuple((seccomp.NUMBERS[name][column], 1) for name in CONTAINER)
    lines: list[seccomp.Instruction] = [(0x20, 0, 0, 0)]
    for number, error in denied:
        assert number is not None
        lines += [(0x15, 0, 1, number), (0x06, 0, 0, 0x00050000 | error)]
    if what == "namespaces":
        clone, clone3 = seccomp.NUMBERS["clone"][column], seccomp.NUMBERS["clone3"][column]
        assert clone and clone3
        lines += [(0x15, 0, 1, clone3), (0x06, 0, 0, 0x00050000 | 38)]
        lines += [
            (0x15, 0, 4, clone),
            (0x20, 0, 0, 16),
            (0x54, 0, 0, 0x7E020000),
            (0x15, 1, 0, 0),
            (0x06, 0, 0, 0x00050001),
        ]
    return [*lines, (0x06, 0, 0, 0x7FFF0000)]


if __name__ == "__main__":
    for name in sys.argv[1].split("+"):
        seccomp.load(filter_for(name))
    os.execvp(sys.argv[2], sys.argv[2:])
