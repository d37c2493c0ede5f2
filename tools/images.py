"""generate_image: a picture from words, checked, kept, and shown to the person.

Knows what makes a picture safe to keep: it is decoded within bounds and written anew as PNG, with its prompt inside.
Refuses to know any image service: a client is passed in.
"""

from __future__ import annotations

import asyncio
import io
import re
import secrets
from pathlib import Path
from typing import Annotated, Any, Protocol

from PIL import Image, UnidentifiedImageError
from PIL.PngImagePlugin import PngInfo
from pydantic import Field

from agent.errors import ToolError
from agent.tool import Effect, Tool, ToolContext, ToolResult, tool
from tools.entries import size_text
from tools.handing import card, new_outbox_folder
from tools.workspace import Workspace

MAX_PIXELS = 40_000_000
"""Above 8K (7680 x 4320), below what would hurt: 160 MB once decoded."""
MAX_PROMPT_CHARS = 8_000
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

    async def generate(self, prompt: str, size: str | None = None, quality: str | None = None) -> Drawing:
        """One picture. None: as the operator has set it. Raises ToolError in words for the model."""


def generate_image_tool(client: ImageClient, images_dir: Path) -> Tool:
    """The tool for this service; every picture is also kept in `images_dir`."""

    @tool(Effect.SPEND)
    async def generate_image(
        context: ToolContext,
        prompt: Annotated[
            str,
            Field(description="What to draw, in detail, in any language.", min_length=1, max_length=MAX_PROMPT_CHARS),
        ],
        size: Annotated[
            str, Field(description="Width x height in pixels such as 1024x1536, or auto.", pattern=r"^(auto|\d+x\d+)$")
        ] = "auto",
        quality: Annotated[str, Field(description="low, medium, high or auto.", max_length=20)] = "auto",
    ) -> ToolResult:
        """Draw a picture from a description. The user sees it at once; it is also saved in the workspace, in images/.

        One picture a call. It takes up to a few minutes and costs money, so make only what was asked for.
        """
        context.stop_note = "The picture was given up; the image service may charge for it all the same."
        drawing = await client.generate(
            prompt, size if size != "auto" else None, quality if quality not in ("", "auto") else None
        )
        return await asyncio.to_thread(_keep, context, drawing, prompt, images_dir)

    return generate_image


def _keep(context: ToolContext, drawing: Drawing, prompt: str, images_dir: Path) -> ToolResult:
    """Check the picture, put a copy each into the app's images, the outbox and the workspace."""
    png, size = checked_png(drawing.data, {"prompt": prompt, "revised_prompt": drawing.revised_prompt})
    name = _file_name(prompt)
    outbox = new_outbox_folder(context.outbox)
    outbox.mkdir(parents=True, mode=0o700)
    images_dir.mkdir(parents=True, exist_ok=True)
    for folder in (images_dir, outbox):
        with (folder / name).open("xb") as file:
            file.write(png)
    path = f"images/{name}"
    details: dict[str, Any] = {"size": size, "bytes": len(png), "prompt": drawing.revised_prompt or prompt}
    try:
        Workspace(context.workspace).write_bytes(path, png)
    except ToolError as error:  # the picture is paid for and the user has it: no reason to fail
        text = f"Drew a picture of {size} pixels; the user sees it. No copy is in the workspace: {error}."
    else:
        text = f"Drew {path}, {size} pixels, {size_text(len(png))}; the user sees it."
        details = {"path": path} | details
    if drawing.revised_prompt:
        text += f" The service drew this: {drawing.revised_prompt[:1000]}"
    return ToolResult(text, (card(outbox / name),), details)


def checked_png(data: bytes, texts: dict[str, str]) -> tuple[bytes, str]:
    """The picture as a new PNG with `texts` in its metadata, and its size as "1024x768".

    Raises ToolError for what is no picture, is broken, or would be too large once decoded.
    """
    try:
        with Image.open(io.BytesIO(data), formats=_FORMATS) as image:
            if image.width * image.height > MAX_PIXELS:
                raise ToolError(f"the image service sent a picture of {image.width}x{image.height} pixels: too large")
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
        raise ToolError("the image service sent a picture with too many pixels") from None
    except UnidentifiedImageError:
        raise ToolError("what the image service sent is not a picture (PNG, JPEG, WebP or GIF)") from None
    except (OSError, SyntaxError, ValueError) as error:  # Pillow's ways to say that a file is broken
        raise ToolError(f"the picture that the image service sent is broken: {error}") from None


def _file_name(prompt: str) -> str:
    """The prompt's first words, and something that makes the name new."""
    words = re.findall(r"\w+", prompt)
    slug = ""
    for word in words[:8]:
        longer = f"{slug}-{word}" if slug else word
        if len(longer.encode()) > 60:
            break
        slug = longer
    return f"{slug.lower() or 'picture'}-{secrets.token_hex(3)}.png"
