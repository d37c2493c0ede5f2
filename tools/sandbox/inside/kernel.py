"""The few Linux calls for which Python has no name: raw system calls, prctl, giving up capabilities.

Knows how to call the C library and turn a failure into `OSError`. Knows no rule of the sandbox. The
supervisor loads this file by itself, so it imports nothing of the house and nothing slow.
"""

import ctypes
import os

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38

_CAPABILITY_VERSION_3 = 0x20080522  # linux/capability.h: two 32-bit words for each set
_SIG_IGN = 1
_POLITE = (1, 2, 15)
_IGNORED_BY_PYTHON = (13, 25)  # SIGPIPE, SIGXFSZ
_LIBC = ctypes.CDLL(None, use_errno=True)


def checked(result: int, what: str) -> int:
    """Give back `result`, or raise the `OSError` that errno names when the C library answered -1."""
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def syscall(what: str, number: int, *arguments: object) -> int:
    """Call a system call by its number; integers go as 64-bit words, buffers as they are.

    Raises `OSError` with `what` in its text.
    """
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
    return checked(_LIBC.syscall(ctypes.c_long(number), *words), what)


def prctl(what: str, option: int, *arguments: object) -> int:
    """Call prctl(2), padding the arguments to the four that the kernel insists on. Raises `OSError`."""
    words = [ctypes.c_ulong(word) if isinstance(word, int) else word for word in arguments]
    words += [ctypes.c_ulong(0)] * (4 - len(words))
    return checked(_LIBC.prctl(option, *words), what)


def ignore_signals() -> None:
    """Let a polite word to end (SIGHUP, SIGINT, SIGTERM) pass by: the supervisor ends when its work is
    done."""
    for number in _POLITE:
        _LIBC.signal(number, ctypes.c_void_p(_SIG_IGN))


def default_signals() -> None:
    """Undo the above, and what the Python interpreter ignores: `yes | head` would print an error instead of
    ending."""
    for number in (*_POLITE, *_IGNORED_BY_PYTHON):
        _LIBC.signal(number, None)


def drop_capabilities() -> None:
    """Empty the effective, permitted and inheritable sets of this thread. Raises `OSError`.

    With no_new_privs set, an exec cannot bring them back, not even for uid 0 (capabilities(7)).
    """
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    checked(_LIBC.capset(header, (ctypes.c_uint32 * 6)()), "capset")
