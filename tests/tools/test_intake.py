"""What a person hands in: names, counts, pictures, and the way into the workspace."""

from __future__ import annotations

import io
import struct
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from PIL import Image

from agent.errors import NotTaken
from tools.intake import IntakeLimits, Upload, Uploads, safe_name
from tools.pictures import LONGEST_SIDE, NotSeen, for_looking
from tools.workspace import Workspace


class Place:
    def __init__(self, folder: Path, limits: IntakeLimits | None = None) -> None:
        self.workspace, self.outbox = folder / "workspace", folder / "outbox"
        self.workspace.mkdir()
        self.uploads = Uploads(limits)

    def hand_in(self, name: str, data: bytes, announced: int | None = None) -> Upload:
        incoming = self.uploads.begin("s", self.outbox, name, announced)
        try:
            for start in range(0, len(data), 1000):
                incoming.write(data[start : start + 1000])
            return incoming.finish()
        except NotTaken:
            incoming.abandon()
            raise

    def kept(self) -> list[str]:
        return sorted(path.name for path in self.outbox.rglob("*") if path.is_file())


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def photo(width: int = 3000, height: int = 1000) -> bytes:
    """On its side, with a place in it."""
    exif = Image.Exif()
    exif[0x0112] = 6  # turn it right
    exif.get_ifd(0x8825)[1] = "N"
    written = io.BytesIO()
    Image.linear_gradient("L").resize((width, height)).convert("RGB").save(
        written, "JPEG", exif=exif, comment=b"at home"
    )
    return written.getvalue()


def bomb(side: int = 60_000) -> bytes:
    """A PNG of a few hundred bytes that says it has 3.6 billion pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    )


def test_what_waits_goes_into_the_workspace_with_the_message(place: Place) -> None:
    (place.workspace / "uploads").mkdir()
    (place.workspace / "uploads" / "plan.csv").write_text("older")
    place.hand_in("plan.csv", b"a,b\n1,2\n")
    place.hand_in("photo.jpg", photo())
    assert not (place.workspace / "uploads" / "photo.jpg").exists()  # nothing before it is sent
    taken = place.uploads.take("s", place.workspace, place.outbox)
    assert taken.lines[0] == "uploads/plan-2.csv (text/csv, 8 bytes)"
    assert taken.lines[1].startswith("uploads/photo.jpg (image/jpeg, ")
    assert (place.workspace / "uploads" / "plan-2.csv").read_bytes() == b"a,b\n1,2\n"
    assert (place.workspace / "uploads" / "plan.csv").read_text() == "older"
    assert [file.name for file in taken.files] == ["plan-2.csv", "photo.jpg"]
    [image] = taken.images
    assert image.name == "photo.jpg" and Path(image.path).parent == place.outbox
    assert place.uploads.waiting("s") == () and place.uploads.take("s", place.workspace, place.outbox).files == ()


def test_a_picture_is_drawn_anew_upright_and_small(place: Place) -> None:
    picture = place.hand_in("photo.jpg", photo()).picture
    assert picture is not None
    data = Path(picture.path).read_bytes()
    with Image.open(io.BytesIO(data)) as seen:
        assert seen.size == (LONGEST_SIDE // 3, LONGEST_SIDE) or seen.size[1] == LONGEST_SIDE
        assert not seen.getexif() and "comment" not in seen.info
    assert b"at home" not in data


def test_an_animation_is_its_first_frame_and_transparency_stays(tmp_path: Path) -> None:
    frames = [Image.new("RGBA", (40, 30), colour) for colour in ("red", "blue")]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    data, mime = for_looking(tmp_path / "a.gif")
    with Image.open(io.BytesIO(data)) as seen:
        assert mime == "image/png" and getattr(seen, "n_frames", 1) == 1
        assert seen.convert("RGB").getpixel((5, 5)) == (255, 0, 0)
    Image.new("RGBA", (10, 10), (0, 0, 0, 0)).save(tmp_path / "b.png")
    with Image.open(io.BytesIO(for_looking(tmp_path / "b.png")[0])) as seen:
        assert seen.mode == "RGBA"


@pytest.mark.parametrize(
    ("name", "data", "note", "mime"),
    [
        ("bomb.png", bomb(), "too_many_pixels", "application/octet-stream"),
        ("cut.png", photo()[:2000], "broken_picture", "image/jpeg"),
        ("page.png", b"<script>alert(1)</script>", "", "text/plain"),
        ("polyglot.gif", b"GIF89a/*<script>*/=1;alert(1)", "broken_picture", "application/octet-stream"),
        ("program.pdf", b"MZ\x00\x01", "", "application/octet-stream"),
    ],
)
def test_a_hostile_picture_is_a_plain_file(place: Place, name: str, data: bytes, note: str, mime: str) -> None:
    upload = place.hand_in(name, data)
    assert (upload.picture, upload.note) == (None, note)
    assert upload.mime in (mime, "text/plain") if name == "polyglot.gif" else upload.mime == mime
    assert place.uploads.take("s", place.workspace, place.outbox).images == ()
    assert (place.workspace / "uploads" / name).read_bytes() == data


def test_what_is_too_large_is_refused_before_and_while_it_comes(tmp_path: Path) -> None:
    place = Place(tmp_path, IntakeLimits(picture_bytes=5_000, file_bytes=20_000, waiting_files=2))
    for announced, data, code in (
        (2 << 30, b"", "too_large"),
        (None, bytes(20_001), "too_large"),
        (10, bytes(20_001), "too_large"),  # it lied
        (None, b"\x89PNG\r\n\x1a\n" + bytes(5_000), "picture_too_large"),
    ):
        with pytest.raises(NotTaken) as refused:
            place.hand_in("a", data, announced)
        assert refused.value.code == code and place.kept() == []
    place.hand_in("a", b"1")
    place.hand_in("a", b"2")
    with pytest.raises(NotTaken, match="too_many"):
        place.hand_in("a", b"3")
    assert len(place.kept()) == 2


def test_a_full_workspace_takes_nothing_and_all_of_it_still_waits(tmp_path: Path) -> None:
    place = Place(tmp_path, IntakeLimits(quota_bytes=1_000))
    (place.workspace / "big").write_bytes(bytes(999))
    upload = place.hand_in("a", b"12")
    with pytest.raises(NotTaken, match="full"):
        place.uploads.take("s", place.workspace, place.outbox)
    assert place.uploads.waiting("s") == (upload,) and not (place.workspace / "uploads").exists()
    place.uploads.drop("s", upload.id)
    assert place.kept() == [] and place.uploads.waiting("s") == ()


def test_no_link_in_the_workspace_leads_an_upload_astray(place: Place, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (place.workspace / "uploads").symlink_to(tmp_path / "outside")
    upload = place.hand_in("a.txt", b"1")
    with pytest.raises(NotTaken):
        place.uploads.take("s", place.workspace, place.outbox)
    assert list((tmp_path / "outside").iterdir()) == [] and place.uploads.waiting("s") == (upload,)
    (place.workspace / "uploads").unlink()
    (place.workspace / "uploads").mkdir()
    (place.workspace / "uploads" / "a.txt").symlink_to(tmp_path / "outside" / "victim")
    assert place.uploads.take("s", place.workspace, place.outbox).files[0].name == "a-2.txt"
    assert not (tmp_path / "outside" / "victim").exists()


def test_files_of_a_message_that_was_taken_back_wait_where_they_are(place: Place) -> None:
    place.hand_in("a.txt", b"1")
    first = place.uploads.take("s", place.workspace, place.outbox)
    place.uploads.give_back("s", first.files, first.images)
    again = place.uploads.take("s", place.workspace, place.outbox)
    assert again == first and [p.name for p in (place.workspace / "uploads").iterdir()] == ["a.txt"]


def test_what_a_dead_process_left_half_sent_is_cleared_away(place: Place) -> None:
    place.hand_in("a.txt", b"1")
    assert place.kept()
    other = Uploads()
    other.begin("s", place.outbox, "b.txt", None).abandon()
    assert place.kept() == []


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("report.pdf", "report.pdf"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\me\\plan.xlsx", "plan.xlsx"),
        ("evil\u202egnp.exe", "evilgnp.exe"),
        ("two\nlines\r.txt", "twolines.txt"),
        ("a\x00b.txt", "ab.txt"),
        ("CON", "CON_"),
        ("aux.txt", "aux_.txt"),
        ("..", "file"),
        ("", "file"),
        ("   ", "file"),
        (".env", ".env"),
        ("a:b?.txt", "a_b_.txt"),
        ("报告 最终版.docx", "报告 最终版.docx"),
        ("half\ud800.txt", "half_.txt"),
    ],
)
def test_names_become_plain(name: str, safe: str) -> None:
    assert safe_name(name) == safe


@pytest.mark.parametrize("name", ["x" * 3000 + ".pdf", "图" * 500 + ".png", "a." + "b" * 400, "." * 300 + "x"])
def test_long_names_are_cut_and_the_workspace_takes_them(name: str, place: Place) -> None:
    safe = safe_name(name)
    assert len(safe.encode()) <= 130
    assert Workspace(place.workspace).names(f"uploads/{safe}")[-1] == safe


def test_a_picture_that_is_none_says_so(tmp_path: Path) -> None:
    (tmp_path / "bomb.png").write_bytes(bomb(9_000))  # below Pillow's own limit, above ours
    with pytest.raises(NotSeen, match="too_many_pixels"):
        for_looking(tmp_path / "bomb.png")


def test_what_waits_goes_with_one_of_two_messages_that_are_sent_at_once(place: Place) -> None:
    for number in range(8):
        place.hand_in(f"{number}.bin", bytes([number]) * 200_000)
    start = threading.Barrier(2)

    def send() -> int:
        start.wait(10)
        return len(place.uploads.take("s", place.workspace, place.outbox).files)

    with ThreadPoolExecutor(2) as senders:
        taken = [sender.result(10) for sender in [senders.submit(send) for _ in range(2)]]
    assert sorted(taken) == [0, 8]
    assert len(list((place.workspace / "uploads").iterdir())) == 8
