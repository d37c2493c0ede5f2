"""What can be said here about systems that this machine is not, and the process without a supervisor that
they use."""

import ctypes
import subprocess
from functools import partial
from pathlib import Path

import pytest

from tests.tools.sandbox.conftest import processes_with
from tools.sandbox import (
    Boundary,
    Command,
    CommandLimits,
    LocalFence,
    Outcome,
    job_object,
    plain,
    scene,
    seatbelt,
    shell_argv,
)
from tools.sandbox.inside import usage


def test_a_seatbelt_profile(tmp_path: Path) -> None:
    workspace = tmp_path / 'we "quote"'
    workspace.mkdir()
    command = Command(("ls", "-l"), workspace, workspace, CommandLimits(cpu_s=7, file_bytes=1024))
    profile = seatbelt.profile(command)
    assert profile.startswith("(version 1)\n(deny default)\n")
    quoted = str(workspace.resolve()).replace('"', '\\"')
    assert f'(allow file-read* file-write* (subpath "{quoted}"))' in profile
    assert "network" not in profile
    assert "(allow network-outbound" in seatbelt.profile(Command(("ls",), workspace, workspace, network=True))
    assert profile.count("(") == profile.count(")")
    words = seatbelt.words(command)
    assert words[:2] == ["/usr/bin/sandbox-exec", "-p"]
    assert words[-5:] == ["sh", "7", "2", "ls", "-l"]


def test_limits_before_the_program(tmp_path: Path) -> None:
    """The words behind the profile are a POSIX shell's, so they can be run here."""
    command = Command(
        ("sh", "-c", "ulimit -t; ulimit -f; ulimit -c; echo $1", "x", "a b"),
        tmp_path,
        tmp_path,
        CommandLimits(cpu_s=7, file_bytes=1024),
    )
    output = subprocess.run(seatbelt.words(command)[3:], capture_output=True, text=True, check=True).stdout
    assert output.split("\n")[:4] == ["7", "2", "0", "a b"]


def test_the_layout_of_a_job() -> None:
    limits = job_object.limits_of(
        Command(("x",), Path("/w"), Path("/w"), CommandLimits(processes=5, memory_bytes=1 << 33))
    )
    assert ctypes.sizeof(job_object.ExtendedLimits) == 144
    assert job_object.ExtendedLimits.process_memory.offset == 112
    assert job_object.ExtendedLimits.job_memory.offset == 120
    assert (limits.basic.active_processes, limits.job_memory) == (5, 1 << 33)


def spawn(command: Command) -> plain.PlainProcess:
    """Start a process with no boundary at all, as the other systems do around theirs."""
    environment = scene.clean_environment(command.workspace, command.cwd, command.workspace)
    program = subprocess.Popen(
        command.argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=environment, cwd=command.cwd, start_new_session=True,
    )  # fmt: skip
    return plain.PlainProcess(program, command, plain.end_group(program), partial(usage.folder))


@pytest.fixture
def fence() -> LocalFence:
    return LocalFence(Boundary("none", "sandbox: NONE", ()), spawn)


def command(workspace: Path, script: str, **limits: float) -> Command:
    bounds = CommandLimits(**{"timeout_s": 10, **limits})  # type: ignore[arg-type]
    return Command(shell_argv(script), workspace, workspace, bounds)


async def test_a_plain_process(fence: LocalFence, tmp_path: Path) -> None:
    outcome = await fence.run(command(tmp_path, "echo out; echo err >&2; exit 3"))
    assert (outcome.reason, outcome.exit_code, outcome.stdout, outcome.stderr) == ("exit", 3, "out\n", "err\n")


@pytest.mark.parametrize(
    ("script", "limits", "reason"),
    [
        ("sleep {m} & setsid sleep {m} & sleep {m}", {"timeout_s": 0.6}, "timeout"),
        ("setsid sleep {m} & sleep 0.4", {}, "exit"),
        ("sleep {m} & yes", {"output_bytes": 1 << 20}, "output_limit"),
        ("sleep {m} & head -c 9M /dev/urandom > f; sleep {m}", {"quota_bytes": 1 << 20}, "quota"),
        ("for i in 1 2 3 4 5 6; do sleep {m} & done; wait", {"processes": 3}, "process_limit"),
    ],
)
async def test_a_plain_tree_ends(
    fence: LocalFence, tmp_path: Path, marker: str, script: str, limits: dict[str, float], reason: str
) -> None:
    outcome: Outcome = await fence.run(command(tmp_path, script.format(m=marker), **limits))
    assert outcome.reason == reason
    assert processes_with(marker) == []
