"""Landlock: which files a process may touch, which TCP ports, whom it may signal.

Knows the kernel's structures and the rights of each ABI. Knows no path and no policy: the caller brings the
rules. Numbers and layouts: linux/landlock.h and Documentation/userspace-api/landlock.rst. What Landlock does
not cover, at any ABI used here: stat, chmod, chown, utime, xattr, chdir, UDP and every socket that is not
TCP.
"""

import os
import stat
import struct

from . import kernel

# One bit for each right, in the header's order.
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE_DIR, _REMOVE_FILE, _MAKE_DIR, _MAKE_REG = 1 << 4, 1 << 5, 1 << 7, 1 << 8
_MAKE_SOCK, _MAKE_FIFO, _MAKE_SYM, _REFER, _TRUNCATE = 1 << 9, 1 << 10, 1 << 12, 1 << 13, 1 << 14
_ALL_OF_ABI_1 = (1 << 13) - 1
_ADDED_BY_ABI = {2: _REFER, 3: _TRUNCATE, 5: 1 << 15}  # 5: ioctl on devices

LOOK = _READ_FILE | _READ_DIR
RUN = LOOK | _EXECUTE
DEVICE = _READ_FILE | _WRITE_FILE | _TRUNCATE
OWN = (
    RUN
    | _WRITE_FILE
    | _TRUNCATE
    | _REFER
    | _REMOVE_DIR
    | _REMOVE_FILE
    | _MAKE_DIR
    | _MAKE_REG
    | _MAKE_SOCK
    | _MAKE_FIFO
    | _MAKE_SYM
)  # everything but making device nodes
_ON_A_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE

_NET_ALL = 0b11  # bind and connect of TCP sockets, ABI 4
SCOPE_ABSTRACT_SOCKETS = 0b01  # ABI 6
SCOPE_SIGNALS = 0b10  # ABI 6
SCOPE_ABI = 6
TRUNCATE_ABI = 3

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_VERSION_FLAG = 1
_PATH_BENEATH = 1


def abi() -> int:
    """Give the kernel's Landlock ABI, 0 where there is none."""
    try:
        return kernel.syscall("landlock version", _CREATE_RULESET, None, 0, _VERSION_FLAG)
    except OSError:
        return 0


def restrict(rules: list[tuple[str, int]] | None, abi: int, tcp: bool, scope: int) -> None:
    """Put this process and all it will start into a new domain, for ever.

    `rules` pairs a path with the rights on it and below it; `None` leaves files alone. `tcp` forbids TCP bind
    and connect where the ABI can; `scope` is a set of SCOPE_ bits, applied from ABI 6 on. A path that does
    not exist is passed over (less is allowed, never more). Raises `OSError`; then nothing may be run.
    """
    handled = 0 if rules is None else _handled(abi)
    attributes = struct.pack("=QQQ", handled, _NET_ALL if tcp else 0, scope)[: _size(abi)]
    ruleset = kernel.syscall("landlock ruleset", _CREATE_RULESET, attributes, len(attributes), 0)
    try:
        for path, rights in rules or ():
            _allow(ruleset, path, rights & handled)
        kernel.prctl("no_new_privs", kernel.PR_SET_NO_NEW_PRIVS, 1)
        kernel.syscall("landlock restrict", _RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _handled(abi: int) -> int:
    return _ALL_OF_ABI_1 | sum(bit for since, bit in _ADDED_BY_ABI.items() if abi >= since)


def _size(abi: int) -> int:
    """How much of the attributes this kernel knows: it refuses longer ones."""
    return 24 if abi >= SCOPE_ABI else 16 if abi >= 4 else 8


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= _ON_A_FILE
        rule = struct.pack("=Qi", rights, place)
        kernel.syscall(f"landlock rule {path}", _ADD_RULE, ruleset, _PATH_BENEATH, rule, 0)
    finally:
        os.close(place)
