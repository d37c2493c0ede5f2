"""Ending a command: by itself, by the clock, by Stop, by the death of the app; and everything that tries to
survive."""

import asyncio
import dataclasses
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tools.sandbox.conftest import Shell
from tools.sandbox import Outcome
from tools.sandbox.scene import APP

Left = Callable[[], list[int]]

# Each starts something with the marker {m} on its command line, and shows "ready" when that lives.
ESCAPEES = {
    "background": "sleep {m} & echo ready",
    "nohup": "nohup sleep {m} >/dev/null 2>&1 & echo ready",
    "setsid": "setsid sleep {m} & echo ready",
    "disowned": "sleep {m} & disown -a; echo ready",
    "double fork": "(setsid sh -c 'sleep {m} & exec sleep {m}' </dev/null >/dev/null 2>&1 &); echo ready",
    "no environment": "(setsid env -i sleep {m} >/dev/null 2>&1 &); echo ready",
    "deaf": "(trap '' TERM INT HUP QUIT; setsid sleep {m} & ) ; echo ready",
    "stopped": "sleep {m} & kill -STOP $!; echo ready",
    "pipeline": "yes {m} | cat > /dev/null & echo ready",
    "holds the output": "setsid sh -c 'sleep {m}; echo late' & echo ready",
    "own subreaper": (
        "python3 -c 'import ctypes, os, time; ctypes.CDLL(None).prctl(36, 1, 0, 0, 0);"
        " os.fork() or os.setsid(); time.sleep(300)' {m}"
        " >/dev/null 2>&1 & echo ready"
    ),
    "threads": (
        "python3 -c 'import threading, time;"
        " [threading.Thread(target=time.sleep, args=(300,)).start() for _ in range(9)]' {m} & echo ready"
    ),
    "another name": (
        'python3 -c \'import ctypes, time; ctypes.CDLL(None).prctl(15, b"kworker/0:1", 0, 0, 0);'
        " time.sleep(300)' {m} & echo ready"
    ),
    "many": "for i in $(seq 40); do setsid sleep {m} & done; echo ready",
    "cloned parent": (
        'python3 -c \'import ctypes, os, time; arm = os.uname().machine == "aarch64";'
        " ctypes.CDLL(None).syscall(220 if arm else 56, 0x8000 | 17, 0, 0, 0, 0); time.sleep(300)' {m}"
        " >/dev/null 2>&1 & echo ready"
    ),
    "at exit": "trap 'setsid sleep {m} &' EXIT; echo ready",
}
STORM = """
import os, sys, time
# Each process forks one that follows it, and ends: there is never one to find.
print("ready", flush=True)
os.environ.clear()
for _ in range(4):
    if os.fork() == 0:
        while True:
            if os.fork():
                os._exit(0)
            os.setsid()
"""


@pytest.mark.everywhere
async def test_nothing_outlives_a_command_that_ends(shell: Shell, marker: str, left: Left) -> None:
    outcomes = await asyncio.gather(*(shell.run(text.format(m=marker)) for text in ESCAPEES.values()))
    assert left() == []
    for kind, outcome in zip(ESCAPEES, outcomes, strict=True):
        assert (outcome.reason, outcome.error) == ("exit", None), kind
        assert "ready" in outcome.stdout, kind
        assert outcome.killed >= 1, kind


@pytest.mark.everywhere
async def test_nothing_outlives_a_command_that_is_stopped(shell: Shell, marker: str, left: Left) -> None:
    """All escapees at once, then Stop while the command itself goes on."""
    script = "\n".join(text.format(m=marker) for text in ESCAPEES.values()) + "\nsleep " + marker
    outcome = await stopped_when(shell, script, lambda: len(left()) > 50)
    assert left() == []
    assert outcome.reason == "stopped"
    assert outcome.killed > 45
    assert outcome.error is None


@pytest.mark.everywhere
async def test_a_storm_of_forks_is_ended(shell: Shell, marker: str, left: Left) -> None:
    (shell.workspace / "storm.py").write_text(STORM)
    if shell.must_hold("kill"):  # where it does not hold, the storm would go on for ever
        outcome = await shell.run(f"python3 storm.py {marker}; sleep 0.3")
        assert left() == []
        assert outcome.error is None


@pytest.mark.everywhere
async def test_a_fork_bomb_is_bounded_and_the_app_lives(shell: Shell, marker: str, left: Left) -> None:
    """The event loop answers while the bomb burns; nothing is left after it. As root the count, not the
    kernel, ends it."""
    if not shell.must_hold("kill"):
        return  # a bomb that nobody can be sure to end is not set off
    ticks = 0

    async def health() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    checking = asyncio.create_task(health())
    try:
        outcome = await shell.run(f"b(){{ b | b & }}; b; : {marker}; sleep 300", timeout_s=1, processes=64)
    finally:
        checking.cancel()
    assert outcome.reason in ("timeout", "process_limit")
    assert ticks >= 3
    assert left() == []
    assert (await shell.run("echo fine")).stdout == "fine\n"


async def stopped_when(shell: Shell, script: str, condition: Callable[[], bool]) -> Outcome:
    """Run, press Stop when the condition holds, and give the outcome that `on_end` was handed."""
    ends: list[Outcome] = []
    task = asyncio.create_task(shell.fence.run(shell.command(script), on_end=ends.append))
    await until(condition)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(ends) == 1
    return ends[0]


async def until(condition: Callable[[], object], seconds: float = 15) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition never held"
        await asyncio.sleep(0.01)


@pytest.mark.everywhere
async def test_timeout_keeps_what_was_said(shell: Shell, marker: str, left: Left) -> None:
    outcome = await shell.run(f"echo begun; trap '' TERM INT HUP; sleep {marker}; sleep {marker}", timeout_s=2)
    assert outcome.reason == "timeout"
    assert outcome.stdout == "begun\n"
    assert outcome.signal == 9
    assert outcome.exit_code is None
    assert outcome.killed >= 1
    assert outcome.seconds < 20
    assert left() == []


async def test_busy_loop_ends_by_the_clock_and_by_cpu(shell: Shell) -> None:
    assert (await shell.run("while :; do :; done", timeout_s=0.5)).reason == "timeout"
    outcome = await shell.run("exec python3 -c 'while True: pass'", cpu_s=1, timeout_s=30)
    assert (outcome.reason, outcome.exit_code) == ("exit", None)
    assert outcome.signal in (9, 24)


@pytest.mark.parametrize("delay", [0, 0.005, 0.02, 0.04, 0.08])
async def test_stop_at_any_moment(shell: Shell, marker: str, left: Left, delay: float) -> None:
    """During the start of the supervisor, of the sandbox, of the command: no half-started tree stays."""
    ends: list[Outcome] = []
    task = asyncio.create_task(shell.fence.run(shell.command(f"sleep {marker}"), on_end=ends.append))
    await asyncio.sleep(delay)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    if delay:
        assert [end.reason for end in ends] == ["stopped"]
    assert left() == []


@pytest.mark.everywhere
async def test_stop_pressed_again_and_again(shell: Shell, marker: str, left: Left) -> None:
    ends: list[Outcome] = []
    task = asyncio.create_task(shell.fence.run(shell.command(f"sleep {marker}"), on_end=ends.append))
    await until(left)
    for _ in range(5):
        task.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert left() == []
    assert len(ends) == 1


async def test_stop_says_what_was_said_until_then(shell: Shell, marker: str, left: Left) -> None:
    heard: list[str] = []
    ends: list[Outcome] = []
    task = asyncio.create_task(shell.fence.run(shell.command(f"echo begun; sleep {marker}"), heard.append, ends.append))
    await until(lambda: "".join(heard) == "begun\n" and left())
    task.cancel()
    await asyncio.wait([task])
    assert ends[0].stdout == "begun\n"
    assert (await shell.run("echo next")).stdout == "next\n"


async def test_wait_for_with_a_deadline_of_the_caller(shell: Shell, marker: str, left: Left) -> None:
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(shell.run(f"setsid sleep {marker}; sleep {marker}"), 0.4)
    assert left() == []


def test_a_loop_that_ends_takes_its_commands_along(shell: Shell, marker: str, left: Left) -> None:
    """`asyncio.run` cancels what still runs when its main function returns."""
    ends: list[Outcome] = []

    async def main() -> None:
        task = asyncio.create_task(
            shell.fence.run(shell.command(f"sleep {marker} & sleep {marker}"), on_end=ends.append)
        )
        await until(lambda: len(left()) >= 2)
        assert not task.done()

    asyncio.run(main())
    assert left() == []
    assert [end.reason for end in ends] == ["stopped"]


def test_a_loop_in_another_thread(shell: Shell, marker: str, left: Left) -> None:
    outcomes: list[Outcome] = []

    async def main() -> None:
        heard: list[str] = []
        outcome = await shell.fence.run(shell.command(f"echo hi; sleep {marker} & true"), heard.append)
        assert "".join(heard) == "hi\n"
        outcomes.append(outcome)

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    thread.join(20)
    assert outcomes[0].stdout == "hi\n"
    assert left() == []


@pytest.mark.everywhere
async def test_the_command_cannot_end_its_keepers(shell: Shell, marker: str) -> None:
    """Case 27: another command, a bystander and this very process live on."""
    bystander = subprocess.Popen(["sleep", marker])
    other = asyncio.create_task(shell.run("sleep 1.5; echo other lived"))
    try:
        attack = f"""
import os, signal
for pid in ({os.getpid()}, {os.getppid()}, {bystander.pid}, os.getppid(), -{os.getpgrp()}):
    for number in (signal.SIGTERM, signal.SIGSTOP, signal.SIGINT):
        try:
            os.kill(pid, number)
        except OSError:
            pass
try:
    os.kill(-1, signal.SIGTERM)
except OSError:
    pass
"""
        if shell.must_hold("signals"):
            outcome = await shell.python(attack)
        else:
            outcome = await shell.run("kill -9 $PPID; kill -TERM $PPID; kill -9 -1; echo alive")
        assert outcome.error is None
        assert outcome.reason == "exit"
        assert bystander.poll() is None
        assert "State:\tS" in Path(f"/proc/{bystander.pid}/status").read_text()
        assert (await other).stdout == "other lived\n"
    finally:
        bystander.kill()
        bystander.wait()


@pytest.mark.everywhere
async def test_the_command_cannot_throttle_others(shell: Shell, marker: str) -> None:
    """A process of the same user could lower the app's limits and its priority: no signal needed."""
    bystander = subprocess.Popen(["sleep", marker])
    source = f"""
import os, resource
pid = {bystander.pid}
def attempt(deed):
    try:
        deed()
    except OSError:
        pass
attempt(lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE, (0, 0)))
attempt(lambda: os.setpriority(os.PRIO_PROCESS, pid, 19))
attempt(lambda: os.setpriority(os.PRIO_USER, os.getuid(), 19))
attempt(lambda: os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0)))
attempt(lambda: os.sched_setaffinity(pid, {{min(os.sched_getaffinity(0))}}))
"""
    try:
        await shell.python(source)
        limits = Path(f"/proc/{bystander.pid}/limits").read_text()
        assert os.getpriority(os.PRIO_PROCESS, bystander.pid) == os.getpriority(os.PRIO_PROCESS, 0) < 19
        assert os.sched_getscheduler(bystander.pid) == os.SCHED_OTHER
        assert "Max open files            0" not in limits
        assert os.sched_getaffinity(bystander.pid) == os.sched_getaffinity(0)
    finally:
        bystander.kill()
        bystander.wait()


@pytest.mark.everywhere
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_the_tree_dies_with_the_app(shell: Shell, marker: str, left: Left, number: int) -> None:
    """An app that is killed cannot clean up: the supervisor notices. The app is a process of this test's
    own."""
    source = f"""
import asyncio, sys
sys.path.insert(0, {str(APP)!r})
from pathlib import Path
from functools import partial
from tools.sandbox import Command, CommandLimits, LocalFence, Boundary, shell_argv
from tools.sandbox import linux
means = linux.Means(**{means_of(shell)!r})
fence = LocalFence(Boundary("none", "", ()), partial(linux.spawn, means))
workspace = Path({str(shell.workspace)!r})
script = "setsid sleep {marker} & (setsid env -i sleep {marker} &); sleep {marker}"
asyncio.run(fence.run(Command(shell_argv(script), workspace, workspace, CommandLimits())))
"""
    app = subprocess.Popen([sys.executable, "-c", source], env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
    try:
        await until(lambda: len([pid for pid in left() if is_sleep(pid)]) >= 3)
    finally:
        app.send_signal(number)
        app.wait()
    await until(lambda: not left())


def means_of(shell: Shell) -> dict[str, object]:
    return dataclasses.asdict(shell.fence._spawn.args[0])  # type: ignore[attr-defined]


def is_sleep(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == "sleep"
    except OSError:
        return False


async def test_a_supervisor_that_is_killed_is_told_and_leaves_little(shell: Shell, marker: str, left: Left) -> None:
    """Nothing inside can do it; an administrator or the kernel out of memory can."""
    task = asyncio.create_task(shell.run(f"sleep {marker}; true"))
    await until(lambda: any(is_sleep(pid) for pid in left()))
    for child in supervisors():
        os.kill(child, signal.SIGKILL)
    outcome = await task
    assert outcome.error is not None
    assert outcome.reason != "exit"
    await until(lambda: not left())


def supervisors() -> list[int]:
    """List the processes that this one started: supervisors, or what stands around them."""
    children = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    return [int(pid) for file in children for pid in file.read_text().split()]


async def test_nothing_stays_of_finished_commands(shell: Shell) -> None:
    """No descriptor, no thread, no zombie, after fifteen commands of which some were stopped."""
    await shell.run("true")
    gc.collect()
    descriptors, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
    for turn in range(15):
        task = asyncio.create_task(shell.run("sleep 0.02" if turn % 3 else "sleep 300"))
        if not turn % 3:
            await asyncio.sleep(0.03)
            task.cancel()
        await asyncio.wait([task])
    await until(lambda: threading.active_count() == threads)
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == descriptors
    assert supervisors() == []


async def test_several_commands_at_once(shell: Shell) -> None:
    outcomes = await asyncio.gather(*(shell.run(f"sleep 0.1; echo {number}") for number in range(6)))
    assert [outcome.stdout for outcome in outcomes] == [f"{number}\n" for number in range(6)]


async def test_a_background_process(shell: Shell, marker: str, left: Left) -> None:
    process = await shell.fence.start(
        shell.command(f"echo up; setsid sleep {marker} & read -t 300 <> <(:); sleep {marker}", timeout_s=300)
    )
    await until(lambda: process.read() == "up\n" and left())
    position = process.position
    assert process.running
    assert process.outcome is None
    assert process.read(position) == ""
    assert (await shell.run("echo meanwhile")).stdout == "meanwhile\n"
    assert process.running
    outcome = await process.stop()
    assert (outcome.reason, outcome.stdout) == ("stopped", "up\n")
    assert not process.running
    assert process.outcome == outcome
    assert await process.stop() == outcome
    assert left() == []


async def test_a_background_process_is_read_on(shell: Shell) -> None:
    script = "for i in 1 2 3; do echo $i; while [ ! -e go$i ]; do sleep 0.01; done; done"
    process = await shell.fence.start(shell.command(script))
    position = 0
    for number in ("1", "2", "3"):
        await until(lambda: process.position > position)  # noqa: B023  it is awaited before the next turn
        assert process.read(position) == f"{number}\n"
        position = process.position
        (shell.workspace / f"go{number}").touch()
    await until(lambda: not process.running)
    assert process.outcome is not None
    assert process.outcome.exit_code == 0


async def test_a_forgotten_background_process_ends(shell: Shell, marker: str, left: Left) -> None:
    process = await shell.fence.start(shell.command(f"sleep {marker}"))
    await until(lambda: any(is_sleep(pid) for pid in left()))
    del process
    gc.collect()
    await until(lambda: not left())


@pytest.mark.parametrize(
    ("words", "code"), [(("/nonexistent/program",), 127), (("no-such-program",), 127), (("/etc/passwd",), 127)]
)
async def test_what_cannot_be_started(shell: Shell, words: tuple[str, ...], code: int) -> None:
    outcome = await shell.fence.run(dataclasses.replace(shell.command("true"), argv=words))
    assert (outcome.reason, outcome.exit_code) == ("refused", code)
    assert outcome.error
    assert outcome.output == ""


async def test_a_script_longer_than_the_kernel_takes(shell: Shell) -> None:
    outcome = await shell.run("#" * 200_000)
    assert (outcome.reason, outcome.exit_code) == ("refused", 127)
    assert "Argument list too long" in (outcome.error or "")


async def test_a_workspace_that_is_gone(shell: Shell) -> None:
    shell.workspace.rmdir()
    outcome = await shell.run("echo ran")
    assert outcome.reason == "refused"
    assert outcome.output.count("ran\n") == 0


@pytest.mark.parametrize(
    ("script", "code"), [("exit 3", 3), ("true", 0), ("kill -TERM $$", None), ("kill -SEGV $$", None)]
)
async def test_exit_codes_and_signals(shell: Shell, script: str, code: int | None) -> None:
    outcome = await shell.run(script)
    assert outcome.exit_code == code
    assert (outcome.signal is None) == (code is not None)
    assert outcome.killed == 0
