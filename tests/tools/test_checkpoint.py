"""Checkpoints with real files: what a snapshot sees, and that going back gives the same bytes."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import socket
import stat
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from agent.errors import Refused
from agent.tool import ToolContext
from tools.checkpoint import Bounds, Checkpoints
from tools.checkpoint.objects import KEEP_DAYS
from tools.checkpoint.plan import Span

T = TypeVar("T")
Facts = dict[str, Any]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.fixture
def checkpoints(tmp_path: Path) -> Iterator[Checkpoints]:
    made = Checkpoints(tmp_path / "data" / "checkpoints")
    yield made
    made.close()


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Checkpoints]:
    """With room for files of 1,000 bytes, and 5,000 in all."""
    made = Checkpoints(tmp_path / "data" / "small", Bounds(file_bytes=1000, total_bytes=5000))
    yield made
    made.close()


def run(work: Awaitable[T]) -> T:
    async def with_a_deadline() -> T:
        return await asyncio.wait_for(work, 60)

    return asyncio.run(with_a_deadline())


def context_of(root: Path) -> ToolContext:
    return ToolContext("s", "c", root, root)


def call(checkpoints: Checkpoints, root: Path, change: Callable[[], object]) -> Facts:
    """A tool call that does `change`, as the toolbox runs it; its facts."""

    async def body() -> Facts:
        context = context_of(root)
        async with checkpoints.around(context):
            await asyncio.to_thread(change)
        return context.facts

    return run(body())


def span(facts: Facts) -> Span:
    return facts["before"], facts["checkpoint"], facts.get("shared", False)


def restore(checkpoints: Checkpoints, root: Path, *calls: Facts, **options: Any) -> Facts:
    return dict(run(checkpoints.restore(root, [span(facts) for facts in calls], **options)))


def tree(root: Path) -> dict[str, tuple[str, object]]:
    """Everything below the root: kinds, contents, targets and permissions."""
    found: dict[str, tuple[str, object]] = {}
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            path = os.path.join(folder, name)
            about = os.lstat(path)
            key = os.path.relpath(path, root)
            if stat.S_ISLNK(about.st_mode):
                found[key] = ("link", os.readlink(path))
            elif stat.S_ISDIR(about.st_mode):
                found[key] = ("folder", None)
            elif stat.S_ISREG(about.st_mode):
                found[key] = ("file", (about.st_mode & 0o777, Path(path).read_bytes()))
            else:
                found[key] = ("other", None)
    return found


def write(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def both(*actions: Callable[[], object]) -> Callable[[], None]:
    def do() -> None:
        for action in actions:
            action()

    return do


def changes(facts: Facts) -> dict[str, str]:
    return {fact["path"]: fact["change"] for fact in facts.get("changed", [])}


# ---------------------------------------------------------------------- what a call is told to have changed


def test_a_call_that_changes_nothing_has_no_facts(checkpoints: Checkpoints, root: Path) -> None:
    write(root / "a", "1")
    assert call(checkpoints, root, lambda: None) == {}


def test_what_a_call_changed_is_told_with_lines_and_bytes(checkpoints: Checkpoints, root: Path) -> None:
    write(root / "edited", "one\ntwo\nthree\n")
    write(root / "gone", "x\n")

    def change() -> None:
        write(root / "edited", "one\n2\nthree\nfour\n")
        (root / "gone").unlink()
        write(root / "sub/new.bin", b"\0\1\2")

    facts = call(checkpoints, root, change)
    assert facts["changed"] == [
        {"path": "edited", "change": "modified", "bytes": 17, "added": 2, "removed": 1},
        {"path": "gone", "change": "deleted", "bytes": 0, "added": 0, "removed": 1},
        {"path": "sub/new.bin", "change": "added", "bytes": 3},
    ]
    assert facts["changed_total"] == 3


def test_a_change_of_the_same_size_in_the_same_instant_is_seen(checkpoints: Checkpoints, root: Path) -> None:
    file = write(root / "a", "1111")
    call(checkpoints, root, lambda: None)
    about = file.stat()

    def change() -> None:
        with file.open("r+b") as opened:
            opened.write(b"2222")
        os.utime(file, ns=(about.st_atime_ns, about.st_mtime_ns))

    assert changes(call(checkpoints, root, change)) == {"a": "modified"}


def test_a_call_that_fails_or_is_stopped_has_its_facts(checkpoints: Checkpoints, root: Path) -> None:
    async def failing(context: ToolContext) -> None:
        async with checkpoints.around(context):
            write(root / "a", "1")
            raise ValueError

    async def stopped(context: ToolContext) -> None:
        began = asyncio.Event()

        async def body() -> None:
            async with checkpoints.around(context):
                write(root / "b", "1")
                began.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(body())
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    context = context_of(root)
    with pytest.raises(ValueError):
        run(failing(context))
    assert changes(context.facts) == {"a": "added"}
    context = context_of(root)
    run(stopped(context))
    assert changes(context.facts) == {"b": "added"}


def test_a_stop_during_the_snapshot_after_a_call_loses_nothing(checkpoints: Checkpoints, root: Path) -> None:
    async def scenario() -> Facts:
        context = context_of(root)
        leaving = asyncio.Event()

        async def body() -> None:
            async with checkpoints.around(context):
                for number in range(300):
                    write(root / f"{number}", str(number))
                leaving.set()

        task = asyncio.create_task(body())
        await leaving.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return context.facts

    assert run(scenario())["changed_total"] == 300


def test_what_the_person_changed_between_calls_is_theirs(checkpoints: Checkpoints, root: Path) -> None:
    call(checkpoints, root, lambda: write(root / "tool", "1"))
    write(root / "mine", "1")
    facts = call(checkpoints, root, lambda: write(root / "tool", "2"))
    assert changes(facts) == {"tool": "modified"} and changes(facts["yours"]) == {"mine": "added"}
    write(root / "mine", "2")
    facts = call(checkpoints, root, lambda: None)
    assert facts["changed"] == [] and changes(facts["yours"]) == {"mine": "modified"}


def test_calls_side_by_side_say_so(checkpoints: Checkpoints, root: Path) -> None:
    async def scenario() -> tuple[Facts, Facts, Facts]:
        one, other, alone = context_of(root), context_of(root), context_of(root)
        async with checkpoints.around(one):
            async with checkpoints.around(other):
                write(root / "b", "2")
            write(root / "a", "1")
        async with checkpoints.around(alone):
            write(root / "c", "3")
        return one.facts, other.facts, alone.facts

    one, other, alone = run(scenario())
    assert one["shared"] and other["shared"] and "shared" not in alone
    assert changes(one) == {"a": "added", "b": "added"} and changes(other) == {"b": "added"}
    with pytest.raises(Refused, match="another session"):
        restore(checkpoints, root, one)
    assert changes(restore(checkpoints, root, alone)) == {"c": "deleted"}


def test_many_sessions_at_once_leave_a_sound_store(checkpoints: Checkpoints, root: Path) -> None:
    @asynccontextmanager
    async def session(number: int) -> Any:
        context = context_of(root)
        async with checkpoints.around(context):
            await asyncio.to_thread(write, root / f"{number}/file", str(number))
        yield context.facts

    async def one(number: int) -> Facts:
        async with session(number) as facts:
            return dict(facts)

    async def scenario() -> list[Facts]:
        return await asyncio.gather(*(one(number) for number in range(12)))

    everything = run(scenario())
    assert all("no_checkpoint" not in facts and f"{n}/file" in changes(facts) for n, facts in enumerate(everything))
    assert run(checkpoints.restore(root, [span(facts) for facts in everything], on_conflict="overwrite"))
    assert tree(root) == {}


# ---------------------------------------------------------------------- what is not in a checkpoint


def test_the_person_s_own_repository_is_not_touched(checkpoints: Checkpoints, root: Path) -> None:
    write(root / ".git/HEAD", "ref: refs/heads/main\n")
    write(root / ".git/objects/aa/bb", b"\0")
    before = tree(root / ".git")

    def change() -> None:
        write(root / "a", "1")
        write(root / "sub/node_modules/x.js", "1")
        write(root / ".glassloop/results/1.txt", "1")

    facts = call(checkpoints, root, change)
    assert changes(facts) == {"a": "added"}
    write(root / ".git/HEAD", "ref: refs/heads/other\n")
    restore(checkpoints, root, facts)
    assert (root / ".git/HEAD").read_text() == "ref: refs/heads/other\n" and len(tree(root / ".git")) == len(before)
    assert not (root / "a").exists() and (root / "sub/node_modules/x.js").exists()


def test_pipes_sockets_and_what_links_lead_to_are_left_alone(
    checkpoints: Checkpoints, root: Path, tmp_path: Path
) -> None:
    outside = write(tmp_path / "outside/secret", "mine")

    def change() -> None:
        os.mkfifo(root / "pipe")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(root / "socket"))
        (root / "door").symlink_to(tmp_path / "outside")
        (root / "loop").symlink_to("loop")
        write(root / "a", "1")

    facts = call(checkpoints, root, change)
    assert changes(facts) == {"a": "added", "door": "added", "loop": "added"}
    assert facts["changed"][1]["bytes"] == len(str(tmp_path / "outside"))
    restore(checkpoints, root, facts)
    assert sorted(tree(root)) == ["pipe", "socket"] and outside.read_text() == "mine"


def test_a_hard_link_is_read_as_a_file_and_never_written_through(
    checkpoints: Checkpoints, root: Path, tmp_path: Path
) -> None:
    outside = write(tmp_path / "outside", "original")
    os.link(outside, root / "inside")
    facts = call(checkpoints, root, lambda: write(root / "inside", "changed"))
    assert changes(facts) == {"inside": "modified"} and outside.read_text() == "changed"
    restore(checkpoints, root, facts)
    assert (root / "inside").read_text() == "original" and outside.read_text() == "changed"


def test_the_store_must_lie_outside_the_workspace(root: Path) -> None:
    with pytest.raises(ValueError, match="outside"):
        call(Checkpoints(root / "data"), root, lambda: None)


def test_too_many_files_mean_no_checkpoint_and_the_call_still_runs(root: Path, tmp_path: Path) -> None:
    few = Checkpoints(tmp_path / "data", Bounds(entries=10))

    def fill(count: int) -> None:
        for number in range(count):
            write(root / "sub" / f"{number}", "1")

    assert changes(call(few, root, lambda: fill(9)))
    facts = call(few, root, lambda: fill(10))
    assert "too many" in facts["no_checkpoint"] and len(tree(root)) == 11
    assert "too many" in call(few, root, lambda: None)["no_checkpoint"]
    with pytest.raises(Refused, match="too many"):
        run(few.restore(root, []))
    shutil.rmtree(root / "sub")
    assert changes(call(few, root, lambda: fill(2))) == {"sub/0": "added", "sub/1": "added"}
    few.close()


def test_without_a_workspace_the_call_runs_and_says_that_it_has_no_checkpoint(
    checkpoints: Checkpoints, root: Path
) -> None:
    root.rmdir()
    assert "no_checkpoint" in call(checkpoints, root, lambda: None)


# ---------------------------------------------------------------------- going back


def everything(root: Path) -> None:
    write(root / "plain.txt", "plain\n")
    write(root / "run.sh", "#!/bin/sh\n").chmod(0o755)
    write(root / "private", "key").chmod(0o600)
    write(root / "文件/资料.txt", "你好\n")
    write(root / "with\nnewline", "n")
    write(root / " spaces and 'quotes\" ", "s")
    write(Path(os.fsdecode(os.fsencode(root) + b"/not-\xff-utf8")), "raw")
    write(root / "deep/er/and/deeper", "d")
    (root / "empty/folder").mkdir(parents=True)
    (root / "link").symlink_to("plain.txt")
    (root / "dangling").symlink_to("nowhere/at all")


def test_everything_deleted_comes_back_as_it_was(checkpoints: Checkpoints, root: Path) -> None:
    everything(root)
    before = tree(root)

    def delete() -> None:
        for path in root.iterdir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()

    facts = call(checkpoints, root, delete)
    assert tree(root) == {} and "not-\\xff-utf8" in changes(facts) and "with\nnewline" in changes(facts)
    done = restore(checkpoints, root, facts)
    assert tree(root) == before and done["checkpoint"] == facts["before"]


def test_everything_made_goes_again_and_redo_brings_it_back(checkpoints: Checkpoints, root: Path) -> None:
    facts = call(checkpoints, root, lambda: everything(root))
    made = tree(root)
    undone = restore(checkpoints, root, facts)
    assert tree(root) == {}
    redone = restore(checkpoints, root, undone)
    assert tree(root) == made
    restore(checkpoints, root, redone)
    assert tree(root) == {}


def test_renames_modes_and_kinds_are_undone(checkpoints: Checkpoints, root: Path) -> None:
    everything(root)
    before = tree(root)

    def change() -> None:
        (root / "deep").rename(root / "moved")
        (root / "run.sh").chmod(0o644)
        (root / "plain.txt").unlink()
        write(root / "plain.txt/now a folder", "x")
        shutil.rmtree(root / "文件")
        write(root / "文件", "now a file")
        (root / "link").unlink()
        (root / "link").symlink_to("run.sh")

    facts = call(checkpoints, root, change)
    assert {fact["path"]: fact.get("added") for fact in facts["changed"]}["run.sh"] == 0
    restore(checkpoints, root, facts)
    assert tree(root) == before


def test_one_file_of_a_call_can_be_undone(checkpoints: Checkpoints, root: Path) -> None:
    def change() -> None:
        write(root / "new/a", "1")
        write(root / "new/b", "2")
        write(root / "other/c", "3")

    facts = call(checkpoints, root, change)
    assert changes(restore(checkpoints, root, facts, paths={"new/a"})) == {"new/a": "deleted"}
    assert changes(restore(checkpoints, root, facts, paths={"other/c"})) == {"other/c": "deleted"}
    assert list(tree(root)) == ["new", "new/b"]


def test_a_name_that_is_no_text_can_be_chosen_by_how_it_is_told(checkpoints: Checkpoints, root: Path) -> None:
    raw = Path(os.fsdecode(os.fsencode(root) + b"/\xff"))
    facts = call(checkpoints, root, both(lambda: write(raw, "1\n"), lambda: write(root / "b", "2")))
    assert "+1" in run(checkpoints.diff(root, facts["before"], facts["checkpoint"], "\\xff"))
    restore(checkpoints, root, facts, paths={"\\xff"})
    assert list(tree(root)) == ["b"]


def test_a_folder_with_something_of_the_person_s_stays(checkpoints: Checkpoints, root: Path) -> None:
    facts = call(checkpoints, root, lambda: write(root / "new/made", "1"))
    write(root / "new/mine", "2")
    assert "kept" not in restore(checkpoints, root, facts)
    assert list(tree(root)) == ["new", "new/mine"]


def test_later_edits_to_other_files_are_kept(checkpoints: Checkpoints, root: Path) -> None:
    write(root / "mine", "1")
    facts = call(checkpoints, root, lambda: write(root / "tool", "1"))
    write(root / "mine", "2")
    write(root / "also mine", "3")
    restore(checkpoints, root, facts)
    assert {name: (root / name).read_text() for name in tree(root)} == {"mine": "2", "also mine": "3"}


# Each: what a call did to f, what somebody did to it afterwards, what f is after keep_mine and after overwrite.
BASE, TOOL, MINE = "base", "tool", "mine"
CONFLICTS = [
    (BASE, TOOL, MINE, "edited"),
    (BASE, TOOL, None, "edited"),
    (BASE, None, MINE, "edited"),
    (None, TOOL, MINE, "edited"),
]


@pytest.mark.parametrize("choice", ["refuse", "keep_mine", "overwrite"])
@pytest.mark.parametrize(("base", "tool", "mine", "reason"), CONFLICTS)
def test_where_edits_meet_a_person_decides(
    checkpoints: Checkpoints,
    root: Path,
    base: str | None,
    tool: str | None,
    mine: str | None,
    reason: str,
    choice: str,
) -> None:
    def put(text: str | None) -> None:
        write(root / "f", text) if text is not None else (root / "f").unlink(missing_ok=True)

    def now() -> str | None:
        return (root / "f").read_text() if (root / "f").exists() else None

    put(base)
    facts = call(checkpoints, root, both(lambda: put(tool), lambda: write(root / "free", "1")))
    put(mine)
    plan = run(checkpoints.restore_preview(root, [span(facts)]))
    assert [(c["path"], c["reason"]) for c in plan.conflicts] == [("f", reason)]
    assert {c["path"] for c in plan.changes} == {"f", "free"}
    if choice == "refuse":
        with pytest.raises(Refused, match=r"changed since.*: f"):
            restore(checkpoints, root, facts)
        assert now() == mine and (root / "free").exists()
        return
    done = restore(checkpoints, root, facts, on_conflict=choice)
    assert not (root / "free").exists()
    assert now() == (mine if choice == "keep_mine" else base)
    assert [kept["path"] for kept in done.get("kept", [])] == (["f"] if choice == "keep_mine" else [])
    restore(checkpoints, root, done)
    assert now() == mine and (root / "free").exists()


def test_an_edit_between_two_calls_is_a_conflict_too(checkpoints: Checkpoints, root: Path) -> None:
    one = call(checkpoints, root, lambda: write(root / "f", "tool\n"))
    write(root / "f", "tool\nmine\n")
    two = call(checkpoints, root, lambda: write(root / "f", "tool\nmine\ntool\n"))
    with pytest.raises(Refused, match="changed since"):
        restore(checkpoints, root, one, two)
    restore(checkpoints, root, two)
    assert (root / "f").read_text() == "tool\nmine\n"


def test_what_calls_did_and_took_back_themselves_is_no_conflict(checkpoints: Checkpoints, root: Path) -> None:
    write(root / "f", "1")
    one = call(checkpoints, root, lambda: write(root / "f", "2"))
    two = call(checkpoints, root, lambda: write(root / "f", "1"))
    write(root / "f", "mine")
    assert restore(checkpoints, root, one, two)["changed"] == []
    assert (root / "f").read_text() == "mine"


def test_an_edit_that_is_already_what_undo_would_do_is_no_conflict(checkpoints: Checkpoints, root: Path) -> None:
    write(root / "f", "1")
    facts = call(checkpoints, root, lambda: write(root / "f", "2"))
    write(root / "f", "1")
    assert restore(checkpoints, root, facts)["changed"] == []


@pytest.mark.parametrize("choice", ["keep_mine", "overwrite"])
def test_something_else_in_the_place_is_a_conflict(checkpoints: Checkpoints, root: Path, choice: str) -> None:
    write(root / "a/f", "1")
    write(root / "b", "2")

    facts = call(checkpoints, root, both(lambda: shutil.rmtree(root / "a"), (root / "b").unlink))
    write(root / "a", "mine, a file now")
    write(root / "b/mine", "a folder now")
    with pytest.raises(Refused, match="stands in their place"):
        restore(checkpoints, root, facts)
    mine = tree(root)
    done = restore(checkpoints, root, facts, on_conflict=choice)
    if choice == "keep_mine":
        assert tree(root) == mine and {c["reason"] for c in done["kept"]} == {"in_the_way"}
    else:
        assert (root / "a/f").read_text() == "1" and (root / "b").read_text() == "2"
        restore(checkpoints, root, done)
        assert tree(root) == mine


def test_no_link_is_written_through(checkpoints: Checkpoints, root: Path, tmp_path: Path) -> None:
    write(root / "sub/f", "1")
    write(root / "g", "1")
    outside = write(tmp_path / "outside/f", "precious")

    facts = call(checkpoints, root, both(lambda: write(root / "sub/f", "2"), lambda: write(root / "g", "2")))
    shutil.rmtree(root / "sub")
    (root / "sub").symlink_to(tmp_path / "outside")
    (root / "g").unlink()
    (root / "g").symlink_to(outside)
    with pytest.raises(Refused):
        restore(checkpoints, root, facts)
    restore(checkpoints, root, facts, on_conflict="overwrite")
    assert outside.read_text() == "precious" and list(outside.parent.iterdir()) == [outside]
    assert not (root / "sub").is_symlink() and (root / "sub/f").read_text() == "1"
    assert not (root / "g").is_symlink() and (root / "g").read_text() == "1"


def test_a_pipe_in_the_place_is_told_and_the_rest_is_done(checkpoints: Checkpoints, root: Path) -> None:
    write(root / "f", "1")
    write(root / "g", "1")
    facts = call(checkpoints, root, both((root / "f").unlink, (root / "g").unlink))
    os.mkfifo(root / "f")
    done = restore(checkpoints, root, facts)
    assert [failed["path"] for failed in done["failed"]] == ["f"] and (root / "g").read_text() == "1"
    assert stat.S_ISFIFO((root / "f").lstat().st_mode)


def test_no_restore_while_a_call_runs_in_the_workspace(checkpoints: Checkpoints, root: Path) -> None:
    async def scenario() -> None:
        async with checkpoints.around(context_of(root)):
            with pytest.raises(Refused, match="at work"):
                await checkpoints.restore(root, [])

    run(scenario())


# ---------------------------------------------------------------------- large files


def test_large_files_are_noted_and_undo_says_what_it_cannot_do(small: Checkpoints, root: Path) -> None:
    write(root / "old", b"\0" * 1001)
    facts = call(small, root, both((root / "old").unlink, lambda: write(root / "small", "1")))
    assert facts["changed"][0] == {"path": "old", "change": "deleted", "bytes": 0}
    assert run(small.restore_preview(root, [span(facts)])).cannot == ["old"]
    done = restore(small, root, facts)
    assert done["cannot"] == ["old"] and tree(root) == {}

    facts = call(small, root, lambda: write(root / "new", b"\1" * 1001))
    assert facts["changed"] == [{"path": "new", "change": "added", "bytes": 1001}]
    with pytest.raises(Refused, match="gone for good"):
        restore(small, root, facts)
    restore(small, root, facts, on_conflict="overwrite")
    assert tree(root) == {}


def test_a_large_file_that_changes_is_seen_and_one_that_does_not_is_not(small: Checkpoints, root: Path) -> None:
    file = write(root / "large", b"\0" * 1001)
    assert call(small, root, lambda: None) == {}

    def change() -> None:
        with file.open("r+b") as opened:
            opened.write(b"1")

    facts = call(small, root, change)
    assert changes(facts) == {"large": "modified"}
    assert "too large" in run(small.diff(root, facts["before"], facts["checkpoint"], "large"))


def test_beyond_the_total_files_are_noted_and_stay_what_they_are(small: Checkpoints, root: Path) -> None:
    for number in range(5):
        write(root / f"{number}", bytes(1000))
    assert call(small, root, lambda: None) == {}
    facts = call(small, root, lambda: write(root / "one more", "1"))
    assert changes(facts) == {"one more": "added"}
    assert "more than" in run(small.diff(root, facts["before"], facts["checkpoint"], "one more"))
    (root / "0").unlink()
    assert changes(call(small, root, lambda: write(root / "fits", "1"))["yours"]) == {"0": "deleted"}
    facts = call(small, root, lambda: write(root / "fits", "2"))
    assert changes(facts) == {"fits": "modified"}
    restore(small, root, facts)
    assert (root / "fits").read_text() == "1"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_noted(checkpoints: Checkpoints, root: Path) -> None:
    write(root / "closed", "1").chmod(0)
    write(root / "locked/f", "1")
    (root / "locked").chmod(0)
    try:
        assert call(checkpoints, root, lambda: None) == {}
    finally:
        (root / "locked").chmod(0o755)


# ---------------------------------------------------------------------- differences


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("a\nb\n", "a\nc\n", "-b\n+c\n"),
        (None, "a\n", "+a\n"),
        ("a\n", None, "-a\n"),
        ("你\n".encode("gb18030") * 5, "好\n".encode("gb18030") * 5, "+好\n"),
        ("a\r\nb\r\n", "a\nb\n", "[only the encoding or the line ends changed]\n"),
        (b"\0\1", b"\0\2\3", "[binary, 2 bytes became binary, 3 bytes]\n"),
        (b"\0\1", "text", "[binary, 2 bytes became text, 4 bytes]\n"),
    ],
)
def test_diffs(
    checkpoints: Checkpoints, root: Path, old: str | bytes | None, new: str | bytes | None, expected: str
) -> None:
    if old is not None:
        write(root / "f", old)
    facts = call(checkpoints, root, lambda: write(root / "f", new) if new is not None else (root / "f").unlink())
    assert run(checkpoints.diff(root, facts["before"], facts["checkpoint"], "f")).endswith(expected)


def test_a_diff_tells_of_permissions_and_kinds(checkpoints: Checkpoints, root: Path) -> None:
    file = write(root / "f", "1\n")
    file.chmod(0o644)
    facts = call(checkpoints, root, lambda: file.chmod(0o755))
    assert run(checkpoints.diff(root, facts["before"], facts["checkpoint"], "f")) == "[permissions 644 became 755]\n"
    facts = call(checkpoints, root, both(file.unlink, lambda: file.symlink_to("target")))
    text = run(checkpoints.diff(root, facts["before"], facts["checkpoint"], "f"))
    assert text.startswith("[a file became a link]\n") and "+target\n" in text
    with pytest.raises(Refused, match="did not change"):
        run(checkpoints.diff(root, facts["before"], facts["checkpoint"], "g"))


@pytest.mark.parametrize("id", ["0" * 40, "../../etc/passwd", ""])
def test_an_unknown_checkpoint_is_refused(checkpoints: Checkpoints, root: Path, id: str) -> None:
    facts = call(checkpoints, root, lambda: write(root / "f", "1"))
    with pytest.raises(Refused, match="not kept"):
        run(checkpoints.diff(root, id, facts["checkpoint"], "f"))
    with pytest.raises(Refused, match="not kept"):
        run(checkpoints.restore(root, [(id, facts["checkpoint"], False)]))


# ---------------------------------------------------------------------- crashes, restarts, age


def test_a_crash_in_mid_restore_is_repaired_by_the_same_undo(
    checkpoints: Checkpoints, root: Path, tmp_path: Path
) -> None:
    """The process is killed at each possible moment: before each change that a restore makes on the disk."""
    everything(root)
    before = tree(root)

    def change() -> None:
        for number in range(3):
            write(root / f"made/{number}", "x")
        write(root / "plain.txt", "changed")
        shutil.rmtree(root / "deep")
        (root / "run.sh").unlink()
        (root / "link").unlink()

    facts = call(checkpoints, root, change)
    shutil.copytree(root, tmp_path / "copy", symlinks=True)
    halves: list[dict[str, tuple[str, object]]] = []
    while _killed_in_mid_restore(len(halves), tmp_path / "data" / "checkpoints", root, facts):
        halves.append(tree(root))
        restore(checkpoints, root, facts)
        assert tree(root) == before
        shutil.rmtree(root)
        shutil.copytree(tmp_path / "copy", root, symlinks=True)
    assert len(halves) > 10 and any(".glassloop-undo-" in path for half in halves for path in half)
    assert tree(root) == before


def _killed_in_mid_restore(moment: int, store: Path, root: Path, facts: Facts) -> bool:
    child = os.fork()
    if child == 0:
        _die_at(moment)
        try:
            restore(Checkpoints(store), root, facts)
        finally:  # the child of a fork must not come back into the tests
            os._exit(0)
    status = os.waitpid(child, 0)[1]
    return os.WIFSIGNALED(status)


def _die_at(moment: int) -> None:
    """Let the kernel kill this process at its n-th renaming, unlinking or making of something in the workspace."""
    count = 0
    watched = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.symlink"}

    def hook(event: str, args: tuple[Any, ...]) -> None:
        nonlocal count
        if event in watched and isinstance(args[-1], int) and args[-1] != -1:
            count += 1
            if count > moment:
                os.kill(os.getpid(), 9)

    sys.addaudithook(hook)


def test_a_new_process_goes_on_where_the_last_one_was(checkpoints: Checkpoints, root: Path, tmp_path: Path) -> None:
    facts = call(checkpoints, root, lambda: write(root / "tool", "1"))
    checkpoints.close()
    write(root / "mine", "1")
    again = Checkpoints(tmp_path / "data" / "checkpoints")
    later = call(again, root, lambda: write(root / "tool", "2"))
    assert changes(later["yours"]) == {"mine": "added"}
    restore(again, root, facts, later)
    assert list(tree(root)) == ["mine"]
    again.close()


def test_what_a_killed_process_was_writing_can_be_written_again(
    checkpoints: Checkpoints, root: Path, tmp_path: Path
) -> None:
    facts = call(checkpoints, root, lambda: write(root / "f", "1"))
    store = next((tmp_path / "data" / "checkpoints").iterdir())
    for path in list((store / "objects").glob("??/*")):
        path.rename(f"{path}.lock")
    checkpoints.close()
    assert call(Checkpoints(tmp_path / "data" / "checkpoints"), root, lambda: (root / "f").unlink()) != {}
    assert facts["checkpoint"]


def test_old_checkpoints_are_let_go_and_the_rest_stays(checkpoints: Checkpoints, root: Path, tmp_path: Path) -> None:
    old = call(checkpoints, root, lambda: write(root / "f", "old"))
    new = call(checkpoints, root, lambda: write(root / "f", "new"))
    store = next((tmp_path / "data" / "checkpoints").iterdir())
    days = store / "refs" / "checkpoints"
    today = next(days.iterdir())
    (days / "2001-01-01").mkdir()
    for id in (old["before"], old["checkpoint"]):
        (today / id).rename(days / "2001-01-01" / id)
    for path in (store / "objects").glob("??/*"):
        os.utime(path, (0, 0))
    assert KEEP_DAYS < 365 and checkpoints.prune() > 0
    assert not (days / "2001-01-01").exists()
    with pytest.raises(Refused, match="not kept"):
        restore(checkpoints, root, old)
    assert changes(call(checkpoints, root, lambda: write(root / "g", "1"))) == {"g": "added"}
    with pytest.raises(Refused, match="not kept"):
        restore(checkpoints, root, new)
    assert (root / "f").read_text() == "new"


def test_the_store_of_a_workspace_that_nobody_uses_goes_and_can_be_made_again(
    checkpoints: Checkpoints, root: Path, tmp_path: Path
) -> None:
    call(checkpoints, root, lambda: write(root / "f", "1"))
    store = next((tmp_path / "data" / "checkpoints").iterdir())
    assert checkpoints.prune() == 0 and store.exists()
    (next((store / "refs" / "checkpoints").iterdir())).rename(store / "refs" / "checkpoints" / "2001-01-01")
    checkpoints.prune()
    assert not store.exists()
    assert "no_checkpoint" in call(checkpoints, root, lambda: write(root / "f", "2"))
    facts = call(checkpoints, root, lambda: write(root / "f", "3"))
    restore(checkpoints, root, facts)
    assert (root / "f").read_text() == "2"


def test_nobody_else_can_read_the_store(checkpoints: Checkpoints, root: Path, tmp_path: Path) -> None:
    call(checkpoints, root, lambda: write(root / "secret", "1"))
    assert stat.S_IMODE(next((tmp_path / "data" / "checkpoints").iterdir()).stat().st_mode) == 0o700


# ---------------------------------------------------------------------- against plain copies


class Wild:
    """Random things that people and programs do to a folder."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root = root
        self.random = random.Random(seed)

    def do(self) -> None:
        for _ in range(self.random.randint(1, 6)):
            self.random.choice([self.put, self.put, self.delete, self.move, self.mode, self.link, self.folder])()

    def some_path(self) -> Path:
        depth = self.random.randint(1, 3)
        return self.root.joinpath(*(self.random.choice(["a", "b", "ü", "c\nd"]) for _ in range(depth)))

    def there(self) -> Path | None:
        paths = sorted(self.root.rglob("*"))
        return self.random.choice(paths) if paths else None

    def make_room(self, path: Path) -> Path:
        for parent in [*reversed(path.relative_to(self.root).parents)][1:]:
            if (self.root / parent).is_symlink() or (self.root / parent).is_file():
                (self.root / parent).unlink()
        path.parent.mkdir(parents=True, exist_ok=True)
        self.clear(path)
        return path

    def clear(self, path: Path) -> None:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def put(self) -> None:
        self.make_room(self.some_path()).write_bytes(self.random.randbytes(self.random.choice([0, 1, 3, 500])))

    def delete(self) -> None:
        if path := self.there():
            self.clear(path)

    def move(self) -> None:
        if path := self.there():
            target = self.some_path()
            if not target.is_relative_to(path) and not path.is_relative_to(target):
                self.make_room(target)
                if os.path.lexists(path):
                    path.rename(target)

    def mode(self) -> None:
        path = self.there()
        if path and path.is_file() and not path.is_symlink():
            path.chmod(self.random.choice([0o600, 0o644, 0o755]))

    def link(self) -> None:
        self.make_room(self.some_path()).symlink_to(self.random.choice(["a", "../b", "nowhere"]))

    def folder(self) -> None:
        path = self.make_room(self.some_path())
        path.mkdir()


@pytest.mark.parametrize("seed", range(200))
def test_random_histories_go_back_to_each_state_and_forth(checkpoints: Checkpoints, root: Path, seed: int) -> None:
    wild = Wild(root, seed)
    wild.do()
    states, calls = [tree(root)], []
    for _ in range(4):
        calls.append(call(checkpoints, root, wild.do))
        states.append(tree(root))
    happened = [facts for facts in calls if facts]
    back_to = wild.random.randrange(4)
    undone = restore(checkpoints, root, *[facts for facts in calls[back_to:] if facts])
    assert tree(root) == states[back_to]
    restore(checkpoints, root, undone)
    assert tree(root) == states[-1]
    if happened:
        restore(checkpoints, root, *happened)
    assert tree(root) == states[0]


@pytest.mark.parametrize("seed", range(60))
def test_random_edits_of_a_person_are_never_lost(checkpoints: Checkpoints, root: Path, seed: int) -> None:
    """Whatever they did between and after the calls: keep_mine keeps it, and redo brings the state before back."""
    wild = Wild(root, 1000 + seed)
    wild.do()
    calls, by_calls = [], []
    for _ in range(2):
        calls.append(call(checkpoints, root, wild.do))
        by_calls.append(tree(root))
        wild.do()
    mine = tree(root)
    only_mine = [path for path in mine if all(mine[path] != left.get(path) for left in by_calls)]
    undone = restore(checkpoints, root, *[facts for facts in calls if facts], on_conflict="keep_mine")
    now = tree(root)
    for path in only_mine:
        if mine[path][0] != "folder":
            assert now.get(path) == mine[path], path
    restore(checkpoints, root, undone, on_conflict="overwrite")
    assert {k: v for k, v in tree(root).items() if v[0] != "folder"} == {
        k: v for k, v in mine.items() if v[0] != "folder"
    }
