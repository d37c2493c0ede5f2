"""run_command behind the real fence of this machine."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from agent.errors import ToolError
from agent.tool import Effect, Tool
from tests.tools.calling import call, context
from tools import standard_tools
from tools.sandbox import Command, CommandLimits, Fence, Outcome, Scrubber, probe
from tools.shell import run_command_tool

if sys.platform != "linux":
    pytest.skip("the commands are those of Linux", allow_module_level=True)

KEY = "sk-a-secret-key-0815"


@pytest.fixture(scope="module")
def run_command() -> Tool:
    return run_command_tool(probe(), CommandLimits(), Scrubber([KEY]))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "files" / "sub").mkdir(parents=True)
    return tmp_path / "files"


def test_exit_code_and_both_streams_are_kept_apart(run_command: Tool, root: Path) -> None:
    result = call(run_command, root, command="echo out; echo err >&2; exit 3")
    assert result.text == "[exit code 3]\n[stdout]\nout\n[stderr]\nerr"
    assert not result.ok and result.details == {"exit_code": 3, "bytes": 8}
    silent = call(run_command, root, command="true")
    assert silent.text == "[exit code 0]\n[no output]" and silent.ok


def test_it_works_in_the_workspace_and_its_folders(run_command: Tool, root: Path) -> None:
    call(run_command, root, command="echo made > here.txt", cwd="sub")
    assert (root / "sub" / "here.txt").read_text() == "made\n"
    assert str(root / "sub") in call(run_command, root, command="pwd", cwd="./sub/").text


@pytest.mark.parametrize("cwd", ["..", "/etc", "nowhere", "file", "link", "~"])
def test_it_starts_nowhere_else(run_command: Tool, root: Path, cwd: str) -> None:
    (root / "file").touch()
    (root / "link").symlink_to("/")
    with pytest.raises(ToolError):
        call(run_command, root, command="touch /proc/self/cwd/started", cwd=cwd)
    assert not list(root.rglob("started"))


def test_output_is_shown_while_it_runs(run_command: Tool, root: Path) -> None:
    said: list[str] = []
    call(run_command, context(root, said.append), command="for i in 1 2 3; do echo step $i; sleep 0.15; done")
    assert "".join(said) == "step 1\nstep 2\nstep 3\n" and len(said) > 1


def test_a_timeout_keeps_what_was_said(run_command: Tool, root: Path) -> None:
    result = call(run_command, root, command="echo begun; sleep 300", timeout_s=0.5)
    assert not result.ok and "begun" in result.text and "not done after 0.5 s" in result.text
    assert result.details["timeout_s"] == 0.5 and result.details["exit_code"] is None
    for timeout_s in (0, -1, 601):
        with pytest.raises(ToolError):
            call(run_command, root, command="true", timeout_s=timeout_s)


def test_what_is_left_running_is_killed_and_told(run_command: Tool, root: Path) -> None:
    result = call(run_command, root, command="sleep 300 & setsid sleep 300 & echo done")
    assert result.ok and result.details["killed"] >= 2 and "left running were killed" in result.text


def test_of_long_output_head_and_tail_are_kept(run_command: Tool, root: Path) -> None:
    result = call(run_command, root, command="seq 1 100000")
    assert result.ok and "[stdout]\n1\n2\n" in result.text and result.text.endswith("99999\n100000")
    assert result.details["truncated"] is True and len(result.text) < 40_000


def test_limits_of_the_house_hold(root: Path) -> None:
    flood = run_command_tool(probe(), CommandLimits(output_bytes=1 << 20))
    result = call(flood, root, command="yes")
    assert not result.ok and "too much output" in result.text


def test_a_known_secret_never_comes_out(run_command: Tool, root: Path) -> None:
    (root / "config").write_text(KEY)
    said: list[str] = []
    result = call(run_command, context(root, said.append), command="cat config; base64 config; cat config >&2")
    assert KEY not in result.text + "".join(said) and "[secret removed]" in result.text


@pytest.mark.parametrize("command", ["a\0b", "x" * 200_000])
def test_what_cannot_be_run_is_an_error(run_command: Tool, root: Path, command: str) -> None:
    with pytest.raises(ToolError):
        call(run_command, root, command=command)


def test_the_description_carries_the_boundary(run_command: Tool) -> None:
    line = probe().boundary.line
    assert run_command.effect is Effect.EXECUTE and line and line in run_command.description
    assert "600" in str(run_command.parameters["properties"]["timeout_s"])
    assert run_command.name == "run_command" and run_command.atoms is not None
    listed = {tool.name: tool for tool in standard_tools(probe(), None, Path("/nowhere"))}
    assert listed["run_command"].description == run_command.description


class Ended:
    """A fence whose every command has ended like this."""

    def __init__(self, outcome: Outcome, real: Fence) -> None:
        self.boundary = real.boundary
        self.start = real.start
        self.outcome = outcome

    async def run(self, command: Command, on_output: object = None, on_end: object = None) -> Outcome:
        return self.outcome


PLAIN = Outcome("exit", 0, None, 1.0, 0, "", "", "", 0, 0)


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (replace(PLAIN, exit_code=None, signal=11), "killed by signal 11"),
        (replace(PLAIN, reason="memory_limit", exit_code=None), "too much memory"),
        (replace(PLAIN, reason="process_limit", exit_code=None), "too many processes"),
        (replace(PLAIN, reason="quota", exit_code=None), "workspace is full"),
        (replace(PLAIN, reason="stopped", exit_code=None), "shutting down"),
        (replace(PLAIN, error="2 processes could not be killed"), "2 processes could not be killed"),
    ],
)
def test_every_end_has_words(root: Path, outcome: Outcome, words: str) -> None:
    ended = call(run_command_tool(Ended(outcome, probe()), CommandLimits()), root, command="x")
    assert words in ended.text and ended.ok == (outcome.exit_code == 0)


def test_a_command_that_was_refused_is_an_error(root: Path) -> None:
    refused = Outcome("refused", 126, None, 0, 0, "", "", "", 0, 0, "the fence could not be set up")
    with pytest.raises(ToolError, match="could not be set up"):
        call(run_command_tool(Ended(refused, probe()), CommandLimits()), root, command="x")
