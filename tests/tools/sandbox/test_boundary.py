"""What is said about the fence: the exposure table, the matrix of canaries, and that a broken promise runs
nothing."""

import asyncio
import dataclasses
import itertools
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from tests.tools.sandbox.conftest import CANARY, fence_named
from tools.sandbox import (
    Boundary,
    Command,
    CommandLimits,
    Exposure,
    LocalFence,
    Outcome,
    linux,
    probe,
    scene,
    shell_argv,
    shell_rule,
)
from tools.sandbox.boundary import Layer, judge
from tools.sandbox.canary import attacked
from tools.sandbox.inside import landlock
from tools.sandbox.linux import Means, available
from tools.sandbox.probing import linux_fence
from tools.sandbox.scene import APP

PILLARS = ("files-read", "files-write", "files-truncate", "network", "kernel", "signals", "secrets", "kill")


@pytest.mark.parametrize(
    ("exposure", "strength", "rule"),
    [
        ("local", "strong", "on"),
        ("local", "partial", "on"),
        ("local", "none", "click"),
        ("share", "strong", "on"),
        ("share", "partial", "owner_click"),
        ("share", "none", "off"),
        ("space", "strong", "on"),
        ("space", "partial", "owner_click"),
        ("space", "none", "off"),
    ],
)
def test_the_exposure_table(exposure: str, strength: str, rule: str) -> None:
    assert shell_rule(Exposure(exposure), strength) == rule  # type: ignore[arg-type]


def test_strength_from_layers() -> None:
    """Without files held there is none; with any other pillar missing it is partial; metadata does not
    weigh."""
    for missing in itertools.chain(((name,) for name in PILLARS), [()]):
        layers = tuple(Layer(name, name not in missing, "") for name in (*PILLARS, "metadata"))
        expected = "none" if {"files-read", "files-write"} & set(missing) else "partial" if missing else "strong"
        assert judge(layers) == expected
    assert judge(tuple(Layer(name, True, "") for name in PILLARS)) == "strong"
    assert judge(()) == "none"


@pytest.mark.everywhere
@pytest.mark.parametrize("bwrap", [True, False])
@pytest.mark.parametrize("with_landlock", [True, False])
@pytest.mark.parametrize("seccomp", [True, False])
def test_the_line_says_what_holds(bwrap: bool, with_landlock: bool, seccomp: bool) -> None:
    """The matrix: each combination that this machine has is attacked, and the line must fit what came of
    it."""
    most = available()
    means = Means(most.landlock_abi if with_landlock else 0, seccomp, most.bwrap if bwrap else None)
    fence = linux_fence(means)
    boundary, active = fence.boundary, {layer.name for layer in fence.boundary.layers if layer.active}
    assert boundary.strength == judge(boundary.layers)
    assert ("network off" in boundary.line) == ("network" in active and boundary.strength != "none")
    assert ("metadata: covered" in boundary.line) == ("metadata" in active and boundary.strength != "none")
    assert ("[partial]" in boundary.line) == (boundary.strength == "partial")
    assert boundary.line.startswith("sandbox: NONE") == (boundary.strength == "none")
    assert f"landlock(abi {means.landlock_abi})" in boundary.line or not means.landlock_abi
    if not means.landlock_abi and not means.bwrap:
        assert boundary.strength == "none"
        assert "signals" not in active or seccomp
    if means.landlock_abi >= landlock.SCOPE_ABI and seccomp and "did not run" not in str(boundary.layers):
        assert boundary.strength == "strong"
    for layer in boundary.layers:
        assert layer.active == (layer.why_not == "")


def test_the_probe_takes_the_best_that_works() -> None:
    fence = probe()
    assert fence is probe()
    for name in ("no-bwrap", "no-landlock", "bare"):
        assert active_count(fence.boundary) >= active_count(fence_named(name).boundary)


def active_count(boundary: Boundary) -> int:
    return sum(layer.active for layer in boundary.layers)


async def test_the_probe_may_be_called_while_a_loop_runs() -> None:
    assert await asyncio.to_thread(probe) is probe()
    assert attacked_in_thread().strength == probe().boundary.strength


def attacked_in_thread() -> Boundary:
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: probe.__wrapped__().boundary).result()


async def ran(means: Means, workspace: Path, script: str = "echo ran") -> Outcome:
    fence = LocalFence(Boundary("none", "", ()), partial(linux.spawn, means))
    return await fence.run(Command(shell_argv(script), workspace, workspace, CommandLimits(timeout_s=10)))


@pytest.mark.parametrize(
    "text", ["#!/bin/sh\necho no namespaces >&2; exit 1\n", "#!/bin/sh\nexit 0\n", "not a program", None]
)
async def test_a_bwrap_that_fails_runs_nothing(tmp_path: Path, text: str | None) -> None:
    """A probe that passed at start and fails later also fails the call."""
    fake = tmp_path / "bwrap"
    if text is not None:
        fake.write_text(text)
        fake.chmod(0o755)
    (tmp_path / "w").mkdir()
    outcome = await ran(Means(0, False, str(fake)), tmp_path / "w", "touch ran; echo ran")
    assert (outcome.reason, outcome.exit_code) == ("refused", 126)
    assert outcome.error
    assert "ran" not in outcome.output
    assert list((tmp_path / "w").iterdir()) == []
    assert not any(layer.active for layer in attacked_sync(Means(0, False, str(fake))))


def attacked_sync(means: Means) -> tuple[Layer, ...]:
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(attacked, partial(linux.spawn, means)).result()


@pytest.mark.everywhere
async def test_a_landlock_that_is_promised_and_absent_runs_nothing(tmp_path: Path) -> None:
    """More nested domains than the kernel allows (16), or Landlock hidden: the command must not run
    without."""
    if landlock.abi() == 0:
        outcome = await ran(Means(1, available().seccomp, None), tmp_path, "echo ran")
        assert (outcome.reason, outcome.exit_code, outcome.output) == ("refused", 126, "")
        return
    source = f"""
import asyncio
from functools import partial
from pathlib import Path
from tools.sandbox import Boundary, Command, LocalFence, linux, shell_argv
from tools.sandbox.inside import landlock
abi, folder = landlock.abi(), Path({str(tmp_path)!r})
for _ in range(15):
    landlock.restrict(None, abi, False, landlock.SCOPE_ABSTRACT_SOCKETS)
fence = LocalFence(Boundary("none", "", ()), partial(linux.spawn, linux.Means(abi, False, None)))
outcome = asyncio.run(fence.run(Command(shell_argv("echo ran"), folder, folder)))
print(outcome.reason, outcome.exit_code, repr(outcome.output), outcome.error)
"""
    environment = {**os.environ, "PYTHONPATH": ":".join([str(APP), *sys.path])}
    said = subprocess.run([sys.executable, "-c", source], env=environment, capture_output=True, text=True, check=True)
    assert said.stdout.startswith("refused 126 '' ")
    assert "Argument list too long" in said.stdout  # E2BIG: so the kernel tells of too many layers


@pytest.mark.parametrize("abi", [1, 2, 3, 4, 5])
def test_an_older_landlock_is_partial_and_says_why(abi: int) -> None:
    """The rights and scopes of an older kernel, asked of this one."""
    if landlock.abi() < landlock.SCOPE_ABI:
        pytest.skip("this kernel is the older one itself: the matrix above has judged it")
    boundary = linux_fence(Means(abi, True, None)).boundary
    assert boundary.strength == "partial"
    assert boundary.line.startswith(f"sandbox: landlock(abi {abi})+seccomp, network off, kill: best effort")
    assert boundary.line.endswith("[partial]")
    assert boundary.layer("files-read").active and boundary.layer("files-write").active
    assert boundary.layer("files-truncate").active == (abi >= landlock.TRUNCATE_ABI)
    assert not boundary.layer("kill").active


@pytest.mark.parametrize(
    ("argv", "workspace", "cwd"),
    [
        ((), "/tmp/w", "/tmp/w"),
        (("a\0b",), "/tmp/w", "/tmp/w"),
        (("a",), "w", "w"),
        (("a",), "/", "/"),
        (("a",), "/tmp/w", "/tmp"),
        (("a",), "/tmp/w", "/tmp/w/../x"),
        (("a",), "/tmp/w/../x", "/tmp/w/../x"),
        (("a",), "/tmp/w", "/tmp/wide"),
    ],
)
def test_commands_that_make_no_sense(argv: tuple[str, ...], workspace: str, cwd: str) -> None:
    with pytest.raises(ValueError, match=r"command|workspace"):
        Command(argv, Path(workspace), Path(cwd))


def test_the_source_is_hidden_wherever_it_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An app, a home and sessions below a readable root: all of the root is shown but these, links to them
    included."""
    root = tmp_path / "opt"
    for folder in ("app/.venv/bin", "other", "home/user", "sessions/mine", "sessions/theirs"):
        (root / folder).mkdir(parents=True)
    (root / "current").symlink_to(root / "app")
    monkeypatch.setattr(scene, "APP", root / "app")
    monkeypatch.setattr(scene, "_SYSTEM", (str(root),))
    monkeypatch.setattr(scene, "_home", lambda: root / "home")
    monkeypatch.setattr("sys.prefix", str(root / "app/.venv"))
    monkeypatch.setattr("sys.base_prefix", "/")
    seen = scene.view(root / "sessions" / "mine")
    assert set(seen.shown()) == {root / "other", root / "app/.venv"}
    assert set(seen.hidden) == {root / "app", root / "home", root / "sessions"}


async def test_a_virtual_environment_within_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole of it, behind real fences: ./.venv is readable, its neighbours are not."""
    root = tmp_path / "opt"
    app = root / "app"
    (app / ".venv").mkdir(parents=True)
    (root / "other").write_text("neighbour")
    (app / ".env").write_text(CANARY)
    (app / ".venv" / "file").write_text("library")
    workspace = app / "workspace" / "mine"
    workspace.mkdir(parents=True)
    monkeypatch.setattr(scene, "APP", app)
    prefixes = scene.view(workspace).own
    monkeypatch.setattr(scene, "_SYSTEM", (*scene._SYSTEM, *map(str, prefixes), str(root)))
    monkeypatch.setattr("sys.prefix", str(app / ".venv"))
    for means in (available(), dataclasses.replace(available(), bwrap=None)):
        outcome = await ran(
            means, workspace, f"cat {app}/.env {app}/.venv/file {root}/other; ls -A {app} {app}/workspace | grep -v :$"
        )
        assert "library" in outcome.stdout
        assert "neighbour" in outcome.stdout
        assert CANARY not in outcome.output
        assert ".env" not in outcome.stdout.replace(".venv", "").split()


def test_only_the_supervisor_is_spawned_without_preexec() -> None:
    folder = Path(linux.__file__).parent
    for file in folder.rglob("*.py"):
        text = file.read_text()
        assert "preexec_fn" not in text
        assert "os.environ[" not in text and "getenv" not in text
    for file in (folder / "inside").glob("*.py"):
        for line in file.read_text().splitlines():
            if line.startswith(("import ", "from ")):
                assert line.split()[1].lstrip(".") in {
                    "", "ctypes", "os", "marshal", "resource", "select", "stat", "struct", "sys", "time", "policy",
                }, line  # fmt: skip


def test_the_workspace_is_not_made_by_the_fence(tmp_path: Path) -> None:
    outcome = asyncio.run(ran(available(), tmp_path / "missing"))
    assert outcome.reason == "refused"
    assert not (tmp_path / "missing").exists()
    assert stat.S_ISDIR(os.stat(tmp_path).st_mode)
