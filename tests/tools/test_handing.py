"""send_file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent.errors import ToolError
from tests.tools.calling import call, context
from tools.handing import send_file


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "files").mkdir()
    return tmp_path / "files"


def test_the_person_gets_a_copy_of_the_bytes(root: Path) -> None:
    (root / "d").mkdir()
    (root / "d" / "demo.txt").write_bytes(bytes(range(256)))
    result = call(send_file, root, path="d/demo.txt")
    [file] = result.files
    assert (file.name, file.mime, file.size) == ("demo.txt", "text/plain", 256)
    copy = Path(file.path)
    assert copy.read_bytes() == bytes(range(256))
    assert copy.is_relative_to(context(root).outbox) and not copy.is_relative_to(root)
    assert result.details == {"path": "d/demo.txt", "bytes": 256}
    (root / "d" / "demo.txt").write_bytes(b"changed since")
    assert copy.read_bytes() == bytes(range(256))


def test_two_copies_of_one_name_stand_side_by_side(root: Path) -> None:
    (root / "a").write_bytes(b"1")
    first = call(send_file, root, path="a").files[0].path
    (root / "a").write_bytes(b"2")
    second = call(send_file, root, path="a").files[0].path
    assert Path(first).read_bytes() == b"1" and Path(second).read_bytes() == b"2"
    assert len(Path(first).parent.name) >= 20  # nobody guesses it


@pytest.mark.parametrize(
    ("name", "mime"),
    [
        ("a.html", "text/html"),
        ("a.svg", "image/svg+xml"),
        ("图.png", "image/png"),
        ("a.csv", "text/csv"),
        ("a.md", "text/markdown"),
        ("a", "application/octet-stream"),
        ("a.xyz-unknown", "application/octet-stream"),
    ],
)
def test_the_kind_is_told_by_the_name(root: Path, name: str, mime: str) -> None:
    (root / name).touch()
    file = call(send_file, root, path=name).files[0]
    assert (file.name, file.mime) == (name, mime)


def test_only_plain_files_of_the_workspace_are_sent(root: Path, tmp_path: Path) -> None:
    secret = tmp_path / ".env"
    secret.write_text("KEY=secret")
    (root / "link").symlink_to(secret)
    os.link(secret, root / "hard")
    os.mkfifo(root / "pipe")
    (root / "folder").mkdir()
    for path in ("link", "hard", "pipe", "folder", "../.env", str(secret), "~/.env", "nothing", ".", ""):
        with pytest.raises(ToolError):
            call(send_file, root, path=path)
    assert not context(root).outbox.exists()
