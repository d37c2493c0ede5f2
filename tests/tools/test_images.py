"""generate_image with an image service that sends what the test wants."""

from __future__ import annotations

import asyncio
import io
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from agent.errors import ToolError
from agent.events import File
from agent.tool import Tool
from tests.tools.calling import acall, call, context
from tools.images import MAX_PIXELS, checked_png, image_tools


@dataclass(frozen=True)
class Sent:
    data: bytes
    revised_prompt: str = ""


class Service:
    """Sends its drawings, again and again, and remembers what it was asked for."""

    def __init__(
        self,
        *sent: Sent | ToolError | None,
        partials: Sequence[bytes] = (),
        seen: Callable[[], bool] = lambda: True,
    ) -> None:
        """`seen`: what it waits for after its unfinished pictures."""
        self.sent = sent
        self.partials = partials
        self.seen = seen
        self.asked: list[dict[str, Any]] = []

    async def draw(self, prompt: str, *, on_partial: Any = None, **wishes: Any) -> list[Sent]:
        self.asked.append({"prompt": prompt} | {name: value for name, value in wishes.items() if value})
        for partial in self.partials:
            on_partial(partial)
        while not self.seen():
            await asyncio.sleep(0.01)
        if self.sent == (None,):
            await asyncio.Event().wait()
        if isinstance(self.sent[0], ToolError):
            raise self.sent[0]
        return [sent for sent in self.sent if isinstance(sent, Sent)]


def picture(kind: str = "PNG", mode: str = "RGB", size: tuple[int, int] = (8, 6)) -> bytes:
    written = io.BytesIO()
    Image.new(mode, size).save(written, kind)
    return written.getvalue()


def png_header(width: int, height: int) -> bytes:
    """A PNG that says it is this large and holds nothing."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    head = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([8, 2, 0, 0, 0])
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "files").mkdir()
    return tmp_path / "files"


def drawing(service: Service, root: Path) -> Tool:
    return image_tools(service, root.parent / "data" / "images")[0]


def editing(service: Service, root: Path) -> Tool:
    return image_tools(service, root.parent / "data" / "images")[1]


def test_a_picture_goes_to_the_person_the_workspace_and_the_apps_images(root: Path, tmp_path: Path) -> None:
    service = Service(Sent(picture(), "a lighthouse, oil on canvas"))
    result = call(drawing(service, root), root, prompt="A lighthouse in snow. 灯塔")
    [file] = result.files
    path = result.details["path"]
    copies = [Path(file.path), root / path, tmp_path / "data" / "images" / file.name]
    assert len({copy.read_bytes() for copy in copies}) == 1
    assert (file.mime, file.size) == ("image/png", copies[0].stat().st_size)
    assert Path(file.path).is_relative_to(context(root).outbox)
    with Image.open(copies[1]) as image:
        assert image.size == (8, 6)
        assert image.info["prompt"] == "A lighthouse in snow. 灯塔"
        assert image.info["revised_prompt"] == "a lighthouse, oil on canvas"
    assert path.startswith("images/a-lighthouse-in-snow-灯塔-") and path.endswith(".png")
    assert result.details["size"] == "8x6" and result.details["prompt"] == "A lighthouse in snow. 灯塔"
    assert result.details["revised"] == "a lighthouse, oil on canvas"
    assert path in result.text and "oil on canvas" in result.text


def test_auto_means_the_operators_choice_and_anything_else_is_passed_on(root: Path) -> None:
    service = Service(Sent(picture()))
    call(drawing(service, root), root, prompt="one")
    call(drawing(service, root), root, prompt="two", size="1024x1536", quality="high")
    assert service.asked == [
        {"prompt": "one", "count": 1},
        {"prompt": "two", "size": "1024x1536", "quality": "high", "count": 1},
    ]
    for bad in ({"size": "big"}, {"size": "10x"}, {"prompt": ""}, {"prompt": "x" * 9000}, {"count": 5}):
        with pytest.raises(ToolError):
            call(drawing(service, root), root, **{"prompt": "x"} | bad)
    assert len(service.asked) == 2


@pytest.mark.parametrize(
    ("kind", "mode"),
    [("JPEG", "RGB"), ("JPEG", "CMYK"), ("WEBP", "RGBA"), ("GIF", "P"), ("PNG", "I;16"), ("PNG", "LA"), ("PNG", "1")],
)
def test_every_common_format_becomes_png(root: Path, kind: str, mode: str) -> None:
    result = call(drawing(Service(Sent(picture(kind, mode))), root), root, prompt="x")
    data = (root / result.details["path"]).read_bytes()
    assert data.startswith(b"\x89PNG")
    with Image.open(io.BytesIO(data)) as image:
        image.load()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not a picture"),
        (b"<html>rate limited</html>", "not a picture"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'><script>1</script></svg>", "not a picture"),
        (b"%PDF-1.4", "not a picture"),
        (picture("BMP"), "not a picture"),
        (picture("PNG", size=(300, 300))[:200], "broken"),
        (picture("JPEG", size=(300, 300))[:400], "broken"),
        (png_header(100, 100), "broken"),
        (png_header(6_400, MAX_PIXELS // 6_400 + 1), "too large"),
        (png_header(60_000, 60_000), "too many pixels"),
        (png_header(0, 0), "broken|not a picture"),
    ],
)
def test_what_is_no_sound_picture_is_refused_and_kept_nowhere(root: Path, data: bytes, words: str) -> None:
    with pytest.raises(ToolError, match=words):
        call(drawing(Service(Sent(data)), root), root, prompt="x")
    assert list(root.iterdir()) == [] and not (root.parent / "data").exists() and not context(root).outbox.exists()


def test_what_was_hidden_in_the_file_is_not_kept() -> None:
    written = io.BytesIO()
    image = Image.new("RGB", (4, 4))
    exif = image.getexif()
    exif[0x010E] = "where it was taken"
    image.save(written, "JPEG", exif=exif, comment=b"a comment")
    png, _ = checked_png(written.getvalue() + b"<script>alert(1)</script>", {"prompt": "x"})
    assert not any(hidden in png for hidden in (b"where it was", b"a comment", b"<script>"))


@pytest.mark.parametrize(
    "prompt", ["../../etc/passwd", "CON", "???", "a" * 500, "很长的提示词" * 100, ". . .", "nul\0"]
)
def test_any_prompt_makes_a_sound_name(root: Path, prompt: str) -> None:
    result = call(drawing(Service(Sent(picture())), root), root, prompt=prompt)
    [kept] = (root / "images").iterdir()
    assert result.details["path"] == f"images/{kept.name}" and len(kept.name.encode()) < 90


def test_a_paid_picture_is_not_lost_when_the_workspace_cannot_take_it(root: Path) -> None:
    (root / "images").write_text("a file in the way")
    result = call(drawing(Service(Sent(picture())), root), root, prompt="x")
    assert result.ok and Path(result.files[0].path).exists() and "path" not in result.details
    assert "No copy is in the workspace" in result.text


def test_the_services_refusal_reaches_the_model(root: Path) -> None:
    with pytest.raises(ToolError, match="no money"):
        call(drawing(Service(ToolError("no money")), root), root, prompt="x")


def test_stopping_says_that_it_may_have_cost_something(root: Path) -> None:
    given = context(root)

    async def stop_at_once() -> None:
        task = asyncio.create_task(acall(drawing(Service(None), root), given, prompt="x"))
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(stop_at_once())
    assert "charge" in given.stop_note


# ---------------------------------------------------------------------- several, on their way, from others


def test_several_pictures_are_several_cards_and_files(root: Path) -> None:
    service = Service(Sent(picture(size=(4, 4))), Sent(picture(size=(5, 5)), "revised"))
    result = call(drawing(service, root), root, prompt="two cats", count=2, background="transparent")
    assert service.asked == [{"prompt": "two cats", "background": "transparent", "count": 2}]
    assert [Path(file.path).read_bytes() for file in result.files] == [
        (root / path).read_bytes() for path in result.details["paths"]
    ]
    assert len(set(result.details["paths"])) == 2


def test_pictures_on_their_way_are_shown_small_and_broken_ones_left_out(root: Path) -> None:
    given = context(root)
    seen: list[File] = []
    given.show = seen.append
    partials = [b"broken", png_header(60_000, 60_000), picture(size=(1200, 600))]
    service = Service(Sent(picture()), partials=partials, seen=lambda: bool(seen))
    result = call(drawing(service, root), given, prompt="x")
    [file] = seen
    with Image.open(file.path) as preview:
        assert preview.format == "WEBP" and preview.size == (512, 256)
    assert Path(file.path).is_relative_to(given.outbox) and len(result.files) == 1


def test_an_edit_sends_the_pictures_as_png_and_a_mask_of_their_size(root: Path) -> None:
    (root / "cat.jpg").write_bytes(picture("JPEG", size=(40, 30)))
    (root / "hat.png").write_bytes(picture("PNG", "RGBA", size=(10, 10)))
    white_left = Image.new("L", (20, 15), 0)
    white_left.paste(255, (0, 0, 10, 15))
    white_left.save(root / "mask.png")
    service = Service(Sent(picture()))
    result = call(editing(service, root), root, prompt="a hat", images=["cat.jpg", "hat.png"], mask="mask.png")
    [asked] = service.asked
    sizes = []
    for data in (*asked["images"], asked["mask"]):
        with Image.open(io.BytesIO(data)) as image:
            assert image.format == "PNG"
            sizes.append(image.size)
    assert sizes == [(40, 30), (10, 10), (40, 30)]
    with Image.open(io.BytesIO(asked["mask"])) as mask:
        assert mask.getpixel((2, 2)) == (0, 0, 0, 0) and mask.getpixel((38, 2)) == (0, 0, 0, 255)
    assert result.details["prompt"] == "a hat"
    assert (root / "cat.jpg").read_bytes() == picture("JPEG", size=(40, 30))


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("none.png", "does not exist"),
        ("page.png", "not a picture"),
        ("bomb.png", "too many pixels"),
        ("../x", "not allowed"),
    ],
)
def test_only_sound_pictures_of_the_workspace_can_be_edited(root: Path, path: str, words: str) -> None:
    (root / "page.png").write_text("<script>")
    (root / "bomb.png").write_bytes(png_header(60_000, 60_000))
    service = Service(Sent(picture()))
    with pytest.raises(ToolError, match=words):
        call(editing(service, root), root, prompt="x", images=[path])
    assert service.asked == []
