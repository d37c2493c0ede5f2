"""The canary's attack: a program that is run behind a fence and tries to get out. Everything it tries must
fail.

It is read as text and given to `python -I -S -c`, so it uses the standard library only. It tells what
succeeded where the app cannot see the effect itself, one word a line, and ends with `COMPLETE`: an attack
that broke off proves nothing.
"""

import ctypes
import os
import platform
import socket
import sys
import time
from collections.abc import Callable

COMPLETE = "all-attacks-were-tried"
IO_URING_SETUP = 425


def attempt(name: str, deed: Callable[[], object]) -> None:
    """Try one thing and tell its name when it succeeded and gave something."""
    try:
        if deed():
            os.write(1, f"{name}\n".encode())
    except (OSError, AttributeError):
        return  # held; AttributeError: this system has no such thing at all


def readable(path: str) -> bool:
    with open(path, "rb"):
        return True


def linked(path: str) -> str:
    os.link(path, "link")
    return read_text("link")


def signalled(pid: int, number: int) -> bool:
    os.kill(pid, number)
    return True


def wrote(path: str) -> bool:
    with open(path, "a") as file:
        return file.write("attacked") > 0


def read_text(path: str) -> str:
    with open(path, errors="replace") as file:
        return file.read()


def connected(kind: int, family: int, address: object) -> bool:
    with socket.socket(family, kind) as connection:
        connection.settimeout(2)
        connection.connect(address)  # type: ignore[arg-type]
        connection.send(b"attacked")
    return True


def opened(family: int, kind: int) -> bool:
    socket.socket(family, kind).close()
    return True


def called(number: int, *arguments: int) -> bool:
    """Tell whether the kernel did more than refuse or deny the call."""
    libc = ctypes.CDLL(None, use_errno=True)
    result = libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments))
    return result >= 0 or ctypes.get_errno() not in (1, 13, 38)  # EPERM, EACCES, ENOSYS


def left_a_daemon() -> bool:
    """Leave a process behind that has its own session, no output, no environment, and a dead parent."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for descriptor in range(3):
                os.close(descriptor)
            os.environ.clear()
            time.sleep(300)
        os._exit(0)
    os.wait()
    return False  # the app sees for itself


def main(stage: str, tcp: int, udp: int, victim: int, app: int) -> None:
    """Try everything. `stage` is a folder outside the workspace, `victim` a process outside the tree."""
    loopback = "127.0.0.1"
    attempt("read", lambda: read_text(f"{stage}/read"))
    attempt("list", lambda: os.listdir(stage))
    attempt("link", lambda: linked(f"{stage}/read"))
    attempt("environ", lambda: read_text(f"/proc/{app}/environ"))
    attempt("memory", lambda: readable(f"/proc/{app}/mem"))
    attempt("root", lambda: os.listdir(f"/proc/{app}/root/{stage}"))
    attempt("write", lambda: wrote(f"{stage}/write"))
    attempt("create", lambda: wrote(f"{stage}/created"))
    attempt("truncate", lambda: os.truncate(f"{stage}/truncate", 0))
    attempt("remove", lambda: os.remove(f"{stage}/remove"))
    attempt("chmod", lambda: os.chmod(f"{stage}/chmod", 0))
    attempt("tcp", lambda: connected(socket.SOCK_STREAM, socket.AF_INET, (loopback, tcp)))
    attempt("udp", lambda: connected(socket.SOCK_DGRAM, socket.AF_INET, (loopback, udp)))
    attempt("unix", lambda: connected(socket.SOCK_STREAM, socket.AF_UNIX, f"{stage}/unix"))
    attempt("abstract", lambda: connected(socket.SOCK_STREAM, socket.AF_UNIX, f"\0{stage}/unix"))
    if sys.platform == "linux":
        attempt("netlink", lambda: opened(socket.AF_NETLINK, socket.SOCK_RAW))
        attempt("vsock", lambda: opened(socket.AF_VSOCK, socket.SOCK_STREAM))
        arm = platform.machine() == "aarch64"
        attempt("highbits", lambda: called(198 if arm else 41, (1 << 32) | 2, 2, 0))
        attempt("io_uring", lambda: called(IO_URING_SETUP, 0, 0))
        attempt("keyring", lambda: called(217 if arm else 248, 0, 0, 0, 0, 0))
    attempt("app", lambda: signalled(app, 0))
    attempt("victim", lambda: signalled(victim, 9))
    attempt("daemon", left_a_daemon)
    os.write(1, f"{COMPLETE}\n".encode())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
