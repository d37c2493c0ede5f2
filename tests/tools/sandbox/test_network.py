"""Whom a command can reach: nobody, by no kind of socket; and the kernel's side doors."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.tools.sandbox.conftest import Shell

pytestmark = pytest.mark.everywhere


class Listeners:
    """One listener of each kind; tells who was reached."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.path = str(folder / "daemon.sock")
        self.tcp = self._open(stack, socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0))
        self.udp = self._open(stack, socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0))
        self.unix = self._open(stack, socket.AF_UNIX, socket.SOCK_STREAM, self.path)
        self.datagram = self._open(stack, socket.AF_UNIX, socket.SOCK_DGRAM, self.path + ".dgram")
        self.abstract = self._open(stack, socket.AF_UNIX, socket.SOCK_STREAM, f"\0{self.path}")

    def _open(self, stack: ExitStack, family: int, kind: int, address: object) -> socket.socket:
        listener = stack.enter_context(socket.socket(family, kind))
        listener.bind(address)  # type: ignore[arg-type]
        listener.setblocking(False)
        if kind == socket.SOCK_STREAM:
            listener.listen()
        return listener

    def reached(self) -> set[str]:
        found = set()
        for name in ("tcp", "udp", "unix", "datagram", "abstract"):
            listener: socket.socket = getattr(self, name)
            try:
                if listener.type == socket.SOCK_STREAM:
                    listener.accept()[0].close()
                else:
                    listener.recv(64)
                found.add(name)
            except BlockingIOError:
                continue
        return found


@pytest.fixture
def listeners(shell: Shell) -> Iterator[Listeners]:
    with ExitStack() as stack:
        yield Listeners(shell.outside, stack)


async def test_no_listener_is_reached(shell: Shell, listeners: Listeners) -> None:
    source = """
import socket, sys
tcp, udp, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
def reach(make):
    try:
        s = make()
        s.send(b"leak")
    except OSError as error:
        print(error.errno)
def connected(family, kind, address):
    s = socket.socket(family, kind)
    s.settimeout(2)
    s.connect(address)
    return s
reach(lambda: connected(2, 1, ("127.0.0.1", tcp)))
reach(lambda: connected(2, 2, ("127.0.0.1", udp)))
reach(lambda: connected(10, 1, ("::ffff:127.0.0.1", tcp)))
reach(lambda: connected(1, 1, path))
reach(lambda: connected(1, 2, path + ".dgram"))
reach(lambda: connected(1, 1, "\\0" + path))
def pair():
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    a.connect(path + ".dgram")
    return a
reach(pair)
def stream_pair():
    a, b = socket.socketpair()
    a.connect(path)
    return a
reach(stream_pair)
"""
    tcp, udp = listeners.tcp.getsockname()[1], listeners.udp.getsockname()[1]
    await shell.python(source, str(tcp), str(udp), listeners.path)
    await shell.run(
        f"exec 3<>/dev/tcp/127.0.0.1/{tcp}; echo x >&3; echo x > /dev/udp/127.0.0.1/{udp};"
        f"curl -sm2 http://127.0.0.1:{tcp}/; curl -sm2 --unix-socket {listeners.path} http://x/"
    )
    reached = listeners.reached()
    if shell.must_hold("network"):
        assert reached == set()


async def test_nobody_outside_can_be_asked(shell: Shell) -> None:
    """Case 17: the metadata service of a cloud, and the resolver."""
    outcome = await shell.run("curl -sm2 http://169.254.169.254/; echo $?; getent hosts example.com; echo $?")
    if shell.must_hold("network"):
        assert outcome.stdout.split() == ["7", "2"]
        assert outcome.seconds < 8


async def test_the_command_cannot_listen(shell: Shell) -> None:
    outcome = await shell.python(
        "import socket\ns = socket.socket()\ns.bind(('127.0.0.1', 0))\ns.listen()\nprint('listening')"
    )
    if shell.must_hold("network"):
        assert "listening" not in outcome.stdout


async def test_an_event_loop_works_without_a_network(shell: Shell) -> None:
    """Case 12: wake-ups go over a socket pair, which must not be refused with the rest."""
    source = """
import asyncio, threading
async def answer():
    return 42
loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()
print(asyncio.run_coroutine_threadsafe(answer(), loop).result(10))
async def child():
    p = await asyncio.create_subprocess_exec("echo", "child", stdout=-1)
    print((await p.communicate())[0].decode().strip())
asyncio.run(child())
"""
    outcome = await shell.python(source)
    assert outcome.stdout == "42\nchild\n"


async def test_the_kernels_side_doors(shell: Shell) -> None:
    """Calls that would open a socket or a namespace by another name; each must fail, whatever error it
    gives."""
    source = """
import ctypes, os, platform, socket
libc = ctypes.CDLL(None, use_errno=True)
arm = platform.machine() == "aarch64"
def call(name, number, *words):
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(w) for w in words])
    print(name, "open" if result >= 0 else ctypes.get_errno())
call("high bits", 198 if arm else 41, 1 << 32 | 2, 2, 0)
call("io_uring", 425, 0, 0)
call("userns", 97 if arm else 272, 0x10000000)
call("netns", 97 if arm else 272, 0x40000000)
call("clone", 220 if arm else 56, 0x10000000 | 17, 0, 0, 0, 0) or os._exit
call("keyctl", 219 if arm else 250, 0, -3, 0)
call("bpf", 280 if arm else 321, 0, 0, 0)
call("perf", 241 if arm else 298, 0, 0, -1, -1, 0)
call("userfaultfd", 282 if arm else 323, 0)
call("shmget", 194 if arm else 29, 77, 4096, 0o1600)
call("mq_open", 180 if arm else 240, 0, 0o102, 0o600, 0)
for family, kind in ((16, 3), (40, 1), (17, 3), (38, 5), (31, 3), (2, 3), (9, 5)):
    try:
        socket.socket(family, kind).close()
        print("family", family, "open")
    except OSError as error:
        print("family", family, error.errno)
"""
    outcome = await shell.python(source)
    if shell.must_hold("kernel"):
        assert outcome.stdout.count("\n") == 18, outcome.output
        assert "open" not in outcome.stdout.replace("mq_open", "mq")


@pytest.mark.skipif("__import__('os').uname().machine != 'x86_64'", reason="the other numbers exist on x86_64 only")
async def test_the_other_call_numbers_of_x86(shell: Shell) -> None:
    """i386 calls by `int 0x80` (the filter kills), and the x32 numbers."""
    i386 = """
import ctypes, mmap
code = bytes.fromhex("53b867010000bb02000000b901000000ba00000000cd805bc3")
page = mmap.mmap(-1, 4096, prot=7)
page.write(code)
print("i386", ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))(), flush=True)
"""
    x32 = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
print("x32", libc.syscall(ctypes.c_long(0x40000000 + 41), 2, 1, 0))
"""
    if shell.must_hold("kernel"):
        outcome = await shell.python(i386)
        assert outcome.stdout == ""
        assert outcome.signal == 31 or outcome.exit_code == 128 + 31  # SIGSYS, whether or not the shell stood between
        assert (await shell.python(x32)).stdout == "x32 -1\n"


async def test_namespaces_and_mounts_are_refused(shell: Shell) -> None:
    outcome = await shell.run("unshare -Urn true && echo in; unshare -m true && echo in; mount -t tmpfs t . && echo in")
    if shell.must_hold("kernel"):
        assert outcome.stdout == ""


async def test_network_on_request(shell: Shell) -> None:
    """With the network asked for, TCP works and unix sockets stay closed."""
    server = socket.create_server(("127.0.0.1", 0))
    unix = socket.socket(socket.AF_UNIX)
    unix.bind(str(shell.outside / "d.sock"))
    unix.listen()
    unix.setblocking(False)

    def answer() -> None:
        with server.accept()[0] as connection:
            connection.sendall(b"hello\n")

    answered = threading.Thread(target=answer, daemon=True)
    answered.start()
    try:
        port, path = server.getsockname()[1], shell.outside / "d.sock"
        script = f"exec 3<>/dev/tcp/127.0.0.1/{port}; cat <&3; curl -sm1 --unix-socket {path} http://x/"
        outcome = await shell.fence.run(shell.command(script, network=True))
        with pytest.raises(BlockingIOError):
            unix.accept()
    finally:
        unix.close()
        await asyncio.to_thread(answered.join, 5)
        server.close()
    assert outcome.stdout == "hello\n"
