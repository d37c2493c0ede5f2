"""generate_image and edit_image: pictures from words, and from other pictures; checked, kept, and shown to the person.

Knows what makes a picture safe to keep: it is decoded within bounds and written anew as PNG, with its prompt inside.
Refuses to know any image service: a client is passed in.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

from PIL import Image, UnidentifiedImageError
from PIL.PngImagePlugin import PngInfo
from pydantic import Field

from agent.errors import ToolError
from agent.events import File
from agent.tool import Effect, Tool, ToolContext, ToolResult, tool
from tools.entries import size_text
from tools.handing import card, new_outbox_folder
from tools.names import shown
from tools.showing import PICTURES, picture_name
from tools.workspace import Workspace

MAX_PIXELS = 40_000_000
"""Above 8K (7680 x 4320), below what would hurt: 160 MB once decoded."""
MAX_PROMPT_CHARS = 8_000
MAX_COUNT = 4
MAX_REFERENCES = 8
PREVIEW_SIDE = 512
"""Pixels of a picture on its way."""
_FORMATS = ("PNG", "JPEG", "WEBP", "GIF")
_MODES = frozenset({"1", "L", "LA", "P", "RGB", "RGBA"})
"""What a PNG can hold as it is; everything else becomes RGB."""


class Drawing(Protocol):
    """What an image service gave."""

    @property
    def data(self) -> bytes:
        """An encoded picture, unchecked."""

    @property
    def revised_prompt(self) -> str:
        """What the service made of the prompt; empty where it does not say."""


class ImageClient(Protocol):
    """An image service."""

    async def draw(
        self,
        prompt: str,
        *,
        size: str | None = None,
        quality: str | None = None,
        background: str | None = None,
        count: int = 1,
        images: Sequence[bytes] = (),
        mask: bytes | None = None,
        on_partial: Callable[[bytes], None] | None = None,
    ) -> Sequence[Drawing]:
        """Pictures; with `images` (PNG) made from those, where `mask` (PNG) is transparent. None: as the operator has
        set it. `on_partial` gets unfinished ones. Raises ToolError in words for the model."""


_Prompt = Annotated[
    str, Field(description="What to draw, in detail, in any language.", min_length=1, max_length=MAX_PROMPT_CHARS)
]
_Size = Annotated[
    str, Field(description="Width x height in pixels such as 1024x1536, or auto.", pattern=r"^(auto|\d+x\d+)$")
]
_Quality = Annotated[str, Field(description="low, medium, high or auto.", max_length=20)]
_Background = Annotated[
    Literal["auto", "transparent", "opaque"], Field(description="transparent for logos and cut-outs.")
]
_Count = Annotated[int, Field(description="How many different pictures.", ge=1, le=MAX_COUNT)]


def image_tools(client: ImageClient, images_dir: Path) -> list[Tool]:
    """The tools for this service; every picture is also kept in `images_dir`."""

    @tool(Effect.SPEND)
    async def generate_image(
        context: ToolContext,
        prompt: _Prompt,
        size: _Size = "auto",
        quality: _Quality = "auto",
        background: _Background = "auto",
        count: _Count = 1,
    ) -> ToolResult:
        """Draw a picture from a description. The user sees it at once; it is also saved in the workspace, in images/.

        It takes up to a few minutes and costs money, so make only what was asked for.
        """
        wish = _Wish(prompt, size, quality, background, count)
        return await _draw(context, client, images_dir, wish)

    @tool(Effect.SPEND)
    async def edit_image(
        context: ToolContext,
        prompt: Annotated[
            str,
            Field(
                description="What the new picture shows, or what to change.", min_length=1, max_length=MAX_PROMPT_CHARS
            ),
        ],
        images: Annotated[
            list[str],
            Field(
                description="Pictures in the workspace to start from; the first is the one that is changed, the others "
                "are references for style, people or things.",
                min_length=1,
                max_length=MAX_REFERENCES,
            ),
        ],
        mask: Annotated[
            str,
            Field(
                description="A picture in the workspace: where it is transparent (or, if nothing in it is, white) the "
                "first picture is drawn anew; the rest stays."
            ),
        ] = "",
        size: _Size = "auto",
        quality: _Quality = "auto",
        background: _Background = "auto",
        count: _Count = 1,
    ) -> ToolResult:
        """Change a picture of the workspace, or make a new one from several. The originals stay as they are.

        The user sees the result at once; it is also saved in images/. It takes up to a few minutes and costs money.
        """
        wish = _Wish(prompt, size, quality, background, count)
        sources, hole = await asyncio.to_thread(_sources, Workspace(context.workspace), images, mask)
        return await _draw(context, client, images_dir, wish, sources, hole)

    return [generate_image, edit_image]


class _Wish:
    """What was asked for, beside the pictures to start from."""

    def __init__(self, prompt: str, size: str, quality: str, background: str, count: int) -> None:
        self.prompt, self.count = prompt, count
        self.options = {
            name: None if value in ("", "auto") else value
            for name, value in (("size", size), ("quality", quality), ("background", background))
        }


async def _draw(
    context: ToolContext,
    client: ImageClient,
    images_dir: Path,
    wish: _Wish,
    sources: Sequence[bytes] = (),
    mask: bytes | None = None,
) -> ToolResult:
    context.stop_note = "The picture was given up; the image service may charge for it all the same."
    previews = _Previews(context)
    try:
        drawings = await client.draw(
            wish.prompt, **wish.options, count=wish.count, images=sources, mask=mask, on_partial=previews.add
        )
    finally:
        await previews.end()
    return await asyncio.to_thread(_keep, context, drawings, wish.prompt, images_dir)


# ---------------------------------------------------------------------- pictures that come


def _keep(context: ToolContext, drawings: Sequence[Drawing], prompt: str, images_dir: Path) -> ToolResult:
    """Check the pictures, put a copy each into the app's images, the outbox and the workspace."""
    checked = [
        (
            checked_png(drawing.data, {"prompt": prompt, "revised_prompt": drawing.revised_prompt}),
            drawing.revised_prompt,
        )
        for drawing in drawings
    ]
    cards, paths, said = [], [], []
    for (png, size), revised in checked:
        name = picture_name(prompt, "picture")
        outbox = new_outbox_folder(context.outbox)
        outbox.mkdir(parents=True, mode=0o700)
        images_dir.mkdir(parents=True, exist_ok=True)
        for folder in (images_dir, outbox):
            with (folder / name).open("xb") as file:
                file.write(png)
        path = f"{PICTURES}/{name}"
        try:
            Workspace(context.workspace).write_bytes(path, png)
        except ToolError as error:  # the picture is paid for and the user has it: no reason to fail
            path = ""
            said.append(f"Drew a picture of {size} pixels; the user sees it. No copy is in the workspace: {error}.")
        else:
            said.append(f"Drew {path}, {size} pixels, {size_text(len(png))}; the user sees it.")
        if revised:
            said.append(f"The service drew this: {revised[:1000]}")
        cards.append(card(outbox / name))
        paths.append(path)
    (_, size), revised = checked[0]
    details: dict[str, Any] = {"path": paths[0]} if paths[0] else {}
    details |= {"size": size, "bytes": sum(len(png) for (png, _), _ in checked), "prompt": prompt}
    details |= {"revised": revised} if revised else {}
    details |= {"paths": paths} if len(paths) > 1 else {}
    return ToolResult(" ".join(said), tuple(cards), details)


def checked_png(data: bytes, texts: dict[str, str], whose: str = "the image service sent") -> tuple[bytes, str]:
    """The picture as a new PNG with `texts` in its metadata, and its size as "1024x768".

    Raises ToolError for what is no picture, is broken, or would be too large once decoded.
    """
    try:
        with Image.open(io.BytesIO(data), formats=_FORMATS) as image:
            if image.width * image.height > MAX_PIXELS:
                raise ToolError(f"{whose} a picture of {image.width}x{image.height} pixels: too large")
            image.load()
            picture = image if image.mode in _MODES else image.convert("RGB")
            about = PngInfo()
            for key, value in texts.items():
                if value:
                    about.add_itxt(key, value)
            written = io.BytesIO()
            picture.save(written, "PNG", pnginfo=about)
            return written.getvalue(), f"{image.width}x{image.height}"
    except Image.DecompressionBombError:
        raise ToolError(f"{whose} a picture with too many pixels") from None
    except UnidentifiedImageError:
        raise ToolError(f"{whose} what is not a picture (PNG, JPEG, WebP or GIF)") from None
    except (OSError, SyntaxError, ValueError) as error:  # Pillow's ways to say that a file is broken
        raise ToolError(f"{whose} a picture that is broken: {error}") from None


# ---------------------------------------------------------------------- pictures to start from


def _sources(workspace: Workspace, images: Sequence[str], mask: str) -> tuple[list[bytes], bytes | None]:
    """The workspace's pictures as PNG, and the mask as large as the first of them."""
    sources = [checked_png(workspace.read_bytes(path), {}, f"{shown(path)!r} is")[0] for path in images]
    if not mask:
        return sources, None
    hole, _ = checked_png(workspace.read_bytes(mask), {}, f"{shown(mask)!r} is")
    with Image.open(io.BytesIO(sources[0])) as first, Image.open(io.BytesIO(hole)) as drawn:
        return sources, _as_mask(drawn, first.size)


def _as_mask(drawn: Image.Image, size: tuple[int, int]) -> bytes:
    """Transparent where the picture is to be drawn anew."""
    alpha = drawn.convert("RGBA").getchannel("A")
    if alpha.getextrema() == (255, 255):  # nothing is transparent: white counts as open
        alpha = drawn.convert("L").point(lambda value: 0 if value > 127 else 255)
    alpha = alpha.resize(size, Image.Resampling.NEAREST)
    written = io.BytesIO()
    Image.merge("RGBA", [Image.new("L", size, 0)] * 3 + [alpha]).save(written, "PNG")
    return written.getvalue()


# ---------------------------------------------------------------------- pictures on their way


class _Previews:
    """Shows unfinished pictures, small, each in the place of the one before; one that is broken is left out."""

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._folder = new_outbox_folder(context.outbox)
        self._tasks: list[asyncio.Task[None]] = []

    def add(self, data: bytes) -> None:
        number = len(self._tasks) + 1
        self._tasks.append(asyncio.create_task(self._show(data, self._folder / f"preview-{number}.webp")))

    async def end(self) -> None:
        """No more is shown."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _show(self, data: bytes, path: Path) -> None:
        with suppress(ToolError, OSError):
            await asyncio.to_thread(_write_preview, data, path)
            self._context.show(File(str(path), path.name, "image/webp", path.stat().st_size))


def _write_preview(data: bytes, path: Path) -> None:
    png, _ = checked_png(data, {})
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with Image.open(io.BytesIO(png)) as picture:
        picture.thumbnail((PREVIEW_SIDE, PREVIEW_SIDE))
        picture.convert("RGBA").save(path, "WEBP", quality=80)
