"""send_file: the copy, what is seen of it, and folders."""

from __future__ import annotations

import asyncio
import base64
import io
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from agent.errors import ToolError
from agent.tool import ToolResult
from tests.tools.calling import acall, call, context
from tests.tools.test_documents import pdf
from tools.documents import Reader
from tools.handing import send_file_tool
from tools.sandbox import probe

send_file = send_file_tool()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "files").mkdir()
    return tmp_path / "files"


def test_the_person_gets_a_copy_of_the_bytes(root: Path) -> None:
    (root / "d").mkdir()
    (root / "d" / "demo.txt").write_bytes(bytes(range(256)))
    result = call(send_file, root, path="d/demo.txt")
    [file] = result.files
    assert (file.name, file.mime, file.size) == ("demo.txt", "application/octet-stream", 256)
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
    assert not list(context(root).outbox.glob("*"))


# ---------------------------------------------------------------------- what is seen of it


def seen(root: Path, name: str, data: bytes) -> Any:
    (root / name).write_bytes(data)
    return call(send_file, root, path=name).details.get("preview")


def test_text_is_seen_as_text_whatever_it_would_do(root: Path) -> None:
    assert seen(root, "a.py", b"import os\n") == {"kind": "text", "text": "import os\n", "language": "python"}
    page = b"<script>alert(1)</script>"
    assert seen(root, "a.html", page) == {"kind": "text", "text": page.decode(), "language": "html"}
    assert seen(root, "a.svg", b"<svg onload=x>")["language"] == "html"
    assert seen(root, "a.json", b'{"a":[1]}') == {
        "kind": "text",
        "text": '{\n  "a": [\n    1\n  ]\n}',
        "language": "json",
    }
    long = seen(root, "a.txt", "字 line\n".encode() * 50_000)
    assert long["cut"] and len(long["text"]) <= 4_000 and "�" not in long["text"]
    assert seen(root, "deep.json", b"[" * 100_000)["kind"] == "text"


def test_csv_is_seen_as_rows(root: Path) -> None:
    table = seen(root, "a.csv", b"a;b\n" + b"".join(b'%d;"x;y"\n' % n for n in range(100)))
    assert table["kind"] == "table" and table["cut"] and len(table["rows"]) == 20
    assert table["rows"][:2] == [["a", "b"], ["0", "x;y"]]
    wide = seen(root, "b.csv", b",".join(b"c" * 500 for _ in range(300)) + b"\n")
    assert len(wide["rows"][0]) == 12 and len(wide["rows"][0][0]) == 60
    assert len(str(seen(root, "c.csv", b'a,"' + b"x" * 200_000))) < 500  # a quote that nobody closes


@pytest.mark.parametrize(
    ("name", "data", "mime"),
    [
        ("html.png", b"<html><script>", "text/plain"),
        ("zip.png", b"PK\x03\x04\x00\x00", "application/octet-stream"),
        ("gif.html", b"GIF89a\x00\x01<script>", "application/octet-stream"),
        ("exe.mp3", b"MZ\x90\x00", "application/octet-stream"),
        ("text.pdf", b"no PDF", "application/octet-stream"),
        ("zero.txt", b"a\x00b", "application/octet-stream"),
    ],
)
def test_a_name_that_lies_is_not_believed(root: Path, name: str, data: bytes, mime: str) -> None:
    (root / name).write_bytes(data)
    assert call(send_file, root, path=name).files[0].mime == mime


def test_a_file_with_a_strange_name_or_a_boundless_size_is_defused(root: Path) -> None:
    (root / "a\u202egnp.exe").write_bytes(b"x")
    assert "\u202e" not in call(send_file, root, path="a\u202egnp.exe").files[0].name
    (root / "two\nlines").write_bytes(b"x")
    with pytest.raises(ToolError):
        call(send_file, root, path="two\nlines")
    with (root / "huge").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ToolError, match="too large"):
        call(send_file, root, path="huge")
    with pytest.raises(ToolError, match="too much"):
        call(send_file, root, path=".")
    assert sum(p.stat().st_size for p in context(root).outbox.rglob("*") if p.is_file()) == 1


def test_a_folder_comes_as_a_zip_file_that_is_the_same_each_time(root: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (root / "d" / "sub").mkdir(parents=True)
    for name, text in (("d/b.txt", "b"), ("d/a\u202e.txt", "a"), ("d/sub/c.txt", "c"), ("d/two\nlines", "x")):
        (root / name).write_text(text)
    (root / "d" / "link").symlink_to(tmp_path / "secret")
    (root / "d" / "loop").symlink_to(root / "d")
    os.link(tmp_path / "secret", root / "d" / "hard")
    first = call(send_file, root, path="d")
    os.utime(root / "d" / "b.txt", (1, 1))
    again = call(send_file, root, path="d/")
    [file] = first.files
    assert file.name == "d.zip" and file.mime == "application/zip"
    assert Path(file.path).read_bytes() == Path(again.files[0].path).read_bytes()
    with zipfile.ZipFile(file.path) as package:
        assert package.namelist() == ["a_u202e.txt", "b.txt", "sub/c.txt"]
        assert package.read("sub/c.txt") == b"c"
    assert first.details["preview"]["files"] == 3 and "4 links" in first.text
    (root / ".glassloop").mkdir()
    (root / ".glassloop" / "own").write_text("x")
    with zipfile.ZipFile(call(send_file, root, path=".").files[0].path) as package:
        assert all(name.startswith("d/") for name in package.namelist())


def test_the_first_page_of_a_pdf_is_drawn_behind_the_fence(root: Path) -> None:
    pdf(root / "a.pdf", ["Hello", "again"])
    (root / "broken.pdf").write_bytes(b"%PDF-1.4 nothing")

    async def send() -> tuple[ToolResult, ToolResult]:
        tool = send_file_tool(Reader(probe()))
        return await acall(tool, root, path="a.pdf"), await acall(tool, root, path="broken.pdf")

    drawn, broken = asyncio.run(send())
    preview = drawn.details["preview"]
    assert (preview["kind"], preview["pages"]) == ("pdf", 2)
    with Image.open(io.BytesIO(base64.b64decode(preview["picture"].partition(",")[2]))) as page:
        assert page.width == 640 and sum(page.convert("L").histogram()[:80]) > 0  # there is ink on it
    assert "preview" not in broken.details and broken.files[0].name == "broken.pdf"
