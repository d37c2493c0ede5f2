"""What a command can learn of the app's secrets: environment, memory, descriptors, other processes."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools.sandbox.conftest import Shell
from tools.sandbox.scene import APP

pytestmark = pytest.mark.everywhere

KEY = "sk-test-0123456789abcdef"
ALLOWED = {
    "PATH", "HOME", "PWD", "OLDPWD", "TMPDIR", "LANG", "TERM", "TZ", "PYTHONDONTWRITEBYTECODE", "PIP_NO_INPUT",
    "PIP_DISABLE_PIP_VERSION_CHECK", "GIT_TERMINAL_PROMPT", "GIT_CONFIG_NOSYSTEM", "MPLBACKEND", "TAR_OPTIONS",
    "SHLVL", "_", "LC_CTYPE",
}  # fmt: skip


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    for name in ("OPENAI_API_KEY", "HF_TOKEN", "LD_PRELOAD_", "BASH_FUNC_x%%", "HTTPS_PROXY", "SSH_AUTH_SOCK"):
        monkeypatch.setenv(name, KEY)
    monkeypatch.setenv("BASH_ENV", "/nonexistent/bash-env")
    monkeypatch.setenv("PYTHONSTARTUP", "/nonexistent/start")
    return KEY


async def test_the_environment_is_built_from_nothing(shell: Shell, key: str) -> None:
    outcome = await shell.run("set; python3 -c 'import os; print(os.environ)'; export -p; cat /proc/self/environ; env")
    assert key not in outcome.output
    listed = await shell.run("env | cut -d= -f1")
    assert set(listed.stdout.split()) <= ALLOWED


async def test_the_apps_environment_and_memory_cannot_be_read(shell: Shell) -> None:
    """A process like the app, started with a key: /proc shows it for as long as it lives, whatever it deletes
    later."""
    app = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", "input()"], stdin=subprocess.PIPE, env={"OPENAI_API_KEY": KEY}
    )
    try:
        places = " ".join(f"/proc/{pid}/environ" for pid in (app.pid, os.getpid(), os.getppid(), 1, "$PPID"))
        outcome = await shell.run(
            f"cat {places} | tr '\\0' '\\n';"
            "for p in /proc/[0-9]*; do cat $p/environ $p/maps; ls -l $p/fd $p/cwd/ $p/root/; done;"
            f"head -c 10 /proc/{app.pid}/mem; cat /proc/{app.pid}/task/*/environ",
        )
    finally:
        app.communicate(b"\n")
    if shell.must_hold("secrets"):
        assert KEY not in outcome.output


@pytest.mark.skipif(os.getuid() == 0, reason="root is not kept out; this runs in the ordinary user's setting")
def test_a_sealed_process_keeps_its_environment(tmp_path: Path) -> None:
    """Without any fence: another process of the same user asks, and the sealed one can still run commands
    itself."""
    source = f"""
import asyncio, sys
from pathlib import Path
from tools.sandbox import Command, probe, seal_own_process, shell_argv
assert seal_own_process()
folder = Path({str(tmp_path)!r})
print(asyncio.run(probe().run(Command(shell_argv("echo works"), folder, folder))).stdout, end="", flush=True)
input()
"""
    app = subprocess.Popen(
        [sys.executable, "-c", source], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "OPENAI_API_KEY": KEY, "PYTHONPATH": ":".join([str(APP), *sys.path])},
    )  # fmt: skip
    assert app.stdout
    try:
        assert app.stdout.readline() == "works\n"
        seen = subprocess.run(["cat", f"/proc/{app.pid}/environ"], capture_output=True, text=True)
        assert KEY not in seen.stdout
        assert seen.returncode != 0
    finally:
        app.communicate("\n")


async def test_the_supervisor_and_its_parents_hold_nothing(shell: Shell, key: str) -> None:
    outcome = await shell.run("for p in /proc/[0-9]*; do tr '\\0' '\\n' < $p/environ; tr '\\0' ' ' < $p/cmdline; done")
    if shell.must_hold("secrets"):
        assert key not in outcome.output


async def test_no_descriptor_is_inherited(shell: Shell) -> None:
    secret = os.open(shell.canary, os.O_RDONLY)
    os.set_inheritable(secret, True)
    try:
        outcome = await shell.python("import os\nprint(sorted(os.listdir('/proc/self/fd'))[:-1])")
    finally:
        os.close(secret)
    assert outcome.stdout.startswith("['0', '1', '2']")


async def test_standard_input_is_empty(shell: Shell) -> None:
    outcome = await shell.run("cat; read -r x || echo none; readlink /proc/self/fd/0")
    assert outcome.stdout == "none\n/dev/null\n"


async def test_no_terminal(shell: Shell) -> None:
    outcome = await shell.run("echo x > /dev/tty; tty; python3 -c 'import os; os.ttyname(1)'; ps -o tty= -p $$")
    assert "not a tty" in outcome.stdout
    assert outcome.stdout.split()[-1] == "?"


async def test_startup_files_are_not_read(shell: Shell) -> None:
    for name in (".bashrc", ".bash_profile", ".profile", ".inputrc"):
        (shell.workspace / name).write_text("echo read\n")
    assert (await shell.run("echo fine")).stdout == "fine\n"


async def test_tracing_is_refused(shell: Shell, marker: str) -> None:
    victim = subprocess.Popen(["sleep", marker])
    source = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
pid = int(sys.argv[1])
print("attached" if libc.ptrace(16, pid, 0, 0) == 0 else ctypes.get_errno())
data = ctypes.create_string_buffer(8)
vector = (ctypes.c_size_t * 2)(ctypes.addressof(data), 8)
print("read" if libc.process_vm_readv(pid, vector, 1, vector, 1, 0) >= 0 else ctypes.get_errno())
"""
    try:
        outcome = await shell.python(source, str(victim.pid))
        status = Path(f"/proc/{victim.pid}/status").read_text()
    finally:
        victim.kill()
        victim.wait()
    assert "attached" not in outcome.stdout
    assert "read" not in outcome.stdout
    assert re.search(r"TracerPid:\s+0\b", status)
