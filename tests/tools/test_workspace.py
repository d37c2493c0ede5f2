"""Paths that cannot escape: every attack is a real file system, and what counts is what stays untouched."""

from __future__ import annotations

import ctypes
import os
import socket
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.errors import ToolError
from tools.entries import Entry, size_text
from tools.names import MAX_DEPTH
from tools.workspace import MAX_FILE_BYTES, Workspace

if os.name == "nt":
    pytest.skip("the attacks are those of POSIX file systems", allow_module_level=True)

SECRET = b"the secret outside"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder beside the workspace, with a secret in it."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_bytes(SECRET)
    return tmp_path / "outside"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "files").mkdir()
    return tmp_path / "files"


@pytest.fixture
def files(root: Path) -> Workspace:
    return Workspace(root)


def test_reads_and_writes_plain_files(files: Workspace, root: Path) -> None:
    files.write_bytes("a/b/c.txt", b"hello")
    assert (root / "a/b/c.txt").read_bytes() == b"hello"
    for path in ("a/b/c.txt", "./a/./b//c.txt", str(root / "a/b/c.txt"), "/workspace/a/b/c.txt"):
        assert files.read_bytes(path) == b"hello"
    assert files.stat("a/b/c.txt").size == 5 and files.stat("a").kind == "folder" and files.stat(".").kind == "folder"


# ---------------------------------------------------------------------- what is not a plain file inside


def link_to_the_secret(root: Path, outside: Path) -> str:
    (root / "x").symlink_to(outside / "secret")
    return "x"


def link_to_the_folder(root: Path, outside: Path) -> str:
    (root / "x").symlink_to(outside)
    return "x/secret"


def link_through_proc(root: Path, outside: Path) -> str:
    (root / "x").symlink_to(f"/proc/self/root{outside}/secret")
    return "x"


def link_within(root: Path, outside: Path) -> str:
    (root / "plain").write_bytes(b"inside")
    (root / "x").symlink_to("plain")
    return "x"


def link_to_itself(root: Path, outside: Path) -> str:
    (root / "x").symlink_to("x")
    return "x"


def hard_link(root: Path, outside: Path) -> str:
    os.link(outside / "secret", root / "x")
    return "x"


def folder(root: Path, outside: Path) -> str:
    (root / "x").mkdir()
    return "x"


def pipe(root: Path, outside: Path) -> str:
    os.mkfifo(root / "x")
    return "x"


def unix_socket(root: Path, outside: Path) -> str:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(root / "x"))
    return "x"


def link_to_dev_zero(root: Path, outside: Path) -> str:
    (root / "x").symlink_to("/dev/zero")
    return "x"


def file_as_folder(root: Path, outside: Path) -> str:
    (root / "x").write_bytes(b"")
    return "x/y"


def missing(root: Path, outside: Path) -> str:
    return "x"


Trap = Callable[[Path, Path], str]
NOT_PLAIN: list[Trap] = [
    link_to_the_secret, link_to_the_folder, link_through_proc, link_within, link_to_itself, hard_link, folder, pipe,
    unix_socket, link_to_dev_zero, file_as_folder,
]  # fmt: skip


@pytest.mark.parametrize("trap", [*NOT_PLAIN, missing])
def test_only_plain_files_are_read_or_handed_over(trap: Trap, files: Workspace, root: Path, outside: Path) -> None:
    path = trap(root, outside)
    outbox = root.parent / "outbox"
    with pytest.raises(ToolError, match="'x"):
        files.read_bytes(path)
    with pytest.raises(ToolError, match="'x"):
        files.copy_out(path, outbox)
    assert not outbox.exists()


@pytest.mark.parametrize("trap", NOT_PLAIN)
def test_only_plain_files_are_written(trap: Trap, files: Workspace, root: Path, outside: Path) -> None:
    path = trap(root, outside)
    before = sorted(os.listdir(outside))
    if trap is hard_link:  # the new file takes the name, the other name keeps the old bytes
        files.write_bytes(path, b"new")
        assert (root / "x").read_bytes() == b"new"
    else:
        with pytest.raises(ToolError):
            files.write_bytes(path, b"new")
        with pytest.raises(ToolError):
            files.append(path, b"more")
    assert (outside / "secret").read_bytes() == SECRET
    assert sorted(os.listdir(outside)) == before
    assert not [name for name in os.listdir(root) if name.startswith(".tmp-")]


def test_appending_never_reaches_through_a_hard_link(files: Workspace, root: Path, outside: Path) -> None:
    os.link(outside / "secret", root / "x")
    with pytest.raises(ToolError, match="hard link"):
        files.append("x", b"more")
    assert (outside / "secret").read_bytes() == SECRET


def test_new_folders_are_not_made_through_a_link(files: Workspace, root: Path, outside: Path) -> None:
    (root / "x").symlink_to(outside)
    with pytest.raises(ToolError):
        files.write_bytes("x/new/deep/file", b"")
    with pytest.raises(ToolError):
        files.append("x/new/file", b"")
    assert os.listdir(outside) == ["secret"]


@pytest.mark.parametrize("path", ["../outside/secret", "a/../../outside/secret", "~/x", "a\0b", "n" * 300, "d/" * 2000])
def test_names_that_lead_out_are_refused(path: str, files: Workspace, outside: Path) -> None:
    for attempt in (files.read_bytes, files.stat, files.remove, lambda p: files.write_bytes(p, b""), files.walk):
        with pytest.raises(ToolError):
            attempt(path)
    with pytest.raises(ToolError):
        files.read_bytes(str(outside / "secret"))
    assert (outside / "secret").read_bytes() == SECRET


# ---------------------------------------------------------------------- races


AT_FDCWD, RENAME_EXCHANGE = -100, 2


@pytest.fixture
def swapping(root: Path, outside: Path) -> Iterator[None]:
    """`root/x` is a folder and a link to the folder outside in turn, exchanged in one step as fast as it goes."""
    if sys.platform != "linux":
        pytest.skip("exchanging two names in one step is a call of Linux")
    (root / "x").mkdir()
    (root / "x" / "secret").write_bytes(b"inside")
    (root / "y").symlink_to(outside)
    exchange = ctypes.CDLL(None, use_errno=True).renameat2
    one, other = os.fsencode(root / "x"), os.fsencode(root / "y")
    enough, results = threading.Event(), set()

    def swap() -> None:
        while not enough.is_set():
            results.add(exchange(AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE))

    thread = threading.Thread(target=swap)
    thread.start()
    yield
    enough.set()
    thread.join()
    assert results == {0}


def test_a_race_of_renames_leaks_nothing(files: Workspace, swapping: None) -> None:
    seen: dict[bytes, int] = {}
    for attempt in range(200_000):
        try:
            data = files.read_bytes("x/secret")
        except ToolError:
            data = b"refused"
        seen[data] = seen.get(data, 0) + 1
        if attempt > 3_000 and len(seen) == 2:
            break
    assert set(seen) == {b"inside", b"refused"}  # both faces were met, and never what is outside


def test_a_race_of_renames_writes_nothing_outside(files: Workspace, outside: Path, swapping: None) -> None:
    for attempt in range(500):
        try:
            files.write_bytes("x/new/file", str(attempt).encode())
            files.append("x/secret", b"!")
        except ToolError:
            continue
    assert os.listdir(outside) == ["secret"] and (outside / "secret").read_bytes() == SECRET


def test_what_was_checked_is_what_is_copied(files: Workspace, root: Path, tmp_path: Path) -> None:
    (root / "a").write_bytes(b"checked")
    with files.open_read("a") as file:
        os.rename(root / "a", root / "b")
        (root / "a").symlink_to("/etc/passwd")
        assert file.read() == b"checked"


# ---------------------------------------------------------------------- writing well


def test_a_write_is_all_or_nothing_and_keeps_the_permissions(files: Workspace, root: Path) -> None:
    files.write_bytes("run.sh", b"one")
    (root / "run.sh").chmod(0o750)
    with files.open_read("run.sh") as old:
        files.write_bytes("run.sh", b"two")
        assert old.read() == b"one"  # a reader in mid-file sees the old one to its end
    assert (root / "run.sh").read_bytes() == b"two"
    assert stat.S_IMODE((root / "run.sh").stat().st_mode) == 0o750
    assert os.listdir(root) == ["run.sh"]


def test_a_write_never_brings_privileges_back(files: Workspace, root: Path) -> None:
    files.write_bytes("x", b"one")
    (root / "x").chmod(0o6755)
    files.write_bytes("x", b"two")
    assert stat.S_IMODE((root / "x").stat().st_mode) == 0o755


def test_a_failed_write_leaves_the_old_file(files: Workspace, root: Path) -> None:
    files.write_bytes("a", b"old")
    with pytest.raises(ToolError):
        files.write_bytes("a", bytes(MAX_FILE_BYTES + 1))
    assert (root / "a").read_bytes() == b"old" and os.listdir(root) == ["a"]


def test_append_makes_and_grows(files: Workspace, root: Path) -> None:
    files.append("logs/day", b"one")
    files.append("logs/day", b"two")
    assert (root / "logs/day").read_bytes() == b"onetwo"
    with pytest.raises(ToolError, match="grow"):
        files.append("logs/day", bytes(MAX_FILE_BYTES))
    assert (root / "logs/day").read_bytes() == b"onetwo"


def test_a_file_over_the_limit_is_not_read(files: Workspace) -> None:
    files.write_bytes("a", b"12345")
    assert files.read_bytes("a", limit=5) == b"12345"
    with pytest.raises(ToolError, match="larger"):
        files.read_bytes("a", limit=4)


def test_remove_and_rename(files: Workspace, root: Path, outside: Path) -> None:
    files.write_bytes("a", b"1")
    files.write_bytes("d/b", b"2")
    (root / "link").symlink_to(outside)
    with pytest.raises(ToolError, match="exists already"):
        files.rename("a", "d/b")
    files.rename("a", "new/c")
    assert (root / "new/c").read_bytes() == b"1" and (root / "d/b").read_bytes() == b"2"
    with pytest.raises(ToolError, match="not empty"):
        files.remove("d")
    for path in ("d/b", "d", "link"):
        files.remove(path)
    assert sorted(os.listdir(root)) == ["new"] and (outside / "secret").exists()
    for missing_path in ("a", "nothing"):
        with pytest.raises(ToolError, match="does not exist"):
            files.rename(missing_path, "b")
        with pytest.raises(ToolError, match="does not exist"):
            files.remove(missing_path)


# ---------------------------------------------------------------------- looking around


def test_a_walk_lists_links_and_does_not_follow_them(files: Workspace, root: Path, outside: Path) -> None:
    files.write_bytes("d/e/f.txt", b"123")
    (root / "out").symlink_to(outside)
    os.mkfifo(root / "pipe")
    found = {entry.path: entry.kind for entry in files.walk(depth=5).entries}
    assert found == {
        "d": "folder", "d/e": "folder", "d/e/f.txt": "file", "out": "link", "pipe": "other",
    }  # fmt: skip
    assert [entry.path for entry in files.walk("d").entries] == ["d/e"]
    assert [entry.path for entry in files.walk(depth=5, skip=frozenset({"e"})).entries] == ["d", "d/e", "out", "pipe"]
    with pytest.raises(ToolError):
        files.walk("out")
    with pytest.raises(ToolError):
        files.walk("d/e/f.txt")


def test_a_walk_is_bounded_and_says_so(files: Workspace, root: Path) -> None:
    for number in range(20):
        files.write_bytes(f"d/{number:02}", b"x")
    files.write_bytes("top", b"x")
    listing = files.walk(depth=2, limit=5)
    assert listing.truncated and len(listing.entries) == 5
    assert {"d", "top"} <= {entry.path for entry in listing.entries}  # the nearest come first
    assert not files.walk(depth=1, limit=5).truncated


def test_folders_deeper_than_a_path_may_be_are_not_entered(files: Workspace, root: Path) -> None:
    deep = root
    for _ in range(60):
        deep = deep / "d"
        deep.mkdir()
    listing = files.walk(depth=100)
    assert listing.truncated and len(listing.entries) == MAX_DEPTH


def test_usage_counts_everything(files: Workspace) -> None:
    files.write_bytes("a/b", b"12345")
    files.write_bytes(".glassloop/results/c", b"123")
    usage = files.usage()
    assert (usage.bytes, usage.files) == (8, 5)


def test_a_missing_file_is_answered_with_the_nearest_names(files: Workspace) -> None:
    files.write_bytes("notes.txt", b"")
    files.write_bytes("data/numbers.csv", b"")
    with pytest.raises(ToolError, match=r"In the workspace there is: notes\.txt"):
        files.read_bytes("note.txt")
    with pytest.raises(ToolError, match=r"In data there is: numbers\.csv"):
        files.read_bytes("data/number.csv")
    with pytest.raises(ToolError, match="there is: data, notes"):
        files.read_bytes("nowhere/a/b")


def test_copy_out_gives_the_bytes_to_a_new_folder(files: Workspace, tmp_path: Path) -> None:
    files.write_bytes("d/a.bin", bytes(range(256)))
    copy = files.copy_out("d/a.bin", tmp_path / "out" / "1")
    assert copy == tmp_path / "out" / "1" / "a.bin" and copy.read_bytes() == bytes(range(256))
    with pytest.raises(ToolError, match="larger"):
        files.copy_out("d/a.bin", tmp_path / "out" / "2", limit=255)
    assert not (tmp_path / "out" / "2").exists()


def test_a_workspace_that_is_gone_is_an_error_for_the_model(tmp_path: Path) -> None:
    with pytest.raises(ToolError):
        Workspace(tmp_path / "gone").read_bytes("a")


def test_entries_are_values() -> None:
    assert Entry("a", "file", 1, 0) == Entry("a", "file", 1, 0)
    assert [size_text(n) for n in (0, 1023, 1024, 1536, 5 << 30)] == [
        "0 bytes",
        "1023 bytes",
        "1 KiB",
        "1.5 KiB",
        "5 GiB",
    ]
