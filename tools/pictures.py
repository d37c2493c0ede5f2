"""Pictures for a model to look at: upright, small enough, and nothing in them but pixels.

What comes in is somebody's file: its head is read first, and what would be too large once decoded is not decoded. What
goes out is drawn anew, so no place, camera, comment or second file travels along. Refuses to know where files are.
"""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Literal

from PIL import Image, ImageOps

from tools.kinds import PICTURES

LONGEST_SIDE = 1568
"""Pixels. Larger ones are made smaller by the providers themselves, after they were paid for."""
MAX_PIXELS = 64_000_000
"""What is decoded at most: about 200 MB in memory."""
_MAX_PNG_BYTES = 1_500_000
"""A lossless picture that is larger becomes a JPEG: photographs, mostly."""

Unseen = Literal["too_many_pixels", "broken_picture"]


class NotSeen(Exception):
    """This picture cannot be looked at; `why` says so."""

    def __init__(self, why: Unseen) -> None:
        super().__init__(why)
        self.why = why


def for_looking(path: Path) -> tuple[bytes, str]:
    """The picture as new bytes and their type. Raises NotSeen."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # the line below is stricter
            with Image.open(path, formats=list(PICTURES)) as image:
                if image.width * image.height > MAX_PIXELS:
                    raise NotSeen("too_many_pixels")
                lossless = image.format in ("PNG", "GIF")
                image.draft("RGB", (LONGEST_SIDE, LONGEST_SIDE))  # a JPEG is decoded no larger than needed
                image.seek(0)
                return _encoded(_drawn_anew(image), lossless)
    except Image.DecompressionBombError:
        raise NotSeen("too_many_pixels") from None
    except (OSError, SyntaxError, ValueError, KeyError, EOFError, MemoryError):  # Pillow's ways to say broken
        raise NotSeen("broken_picture") from None


def _drawn_anew(image: Image.Image) -> Image.Image:
    has_alpha = image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info
    drawn = image.convert("RGBA" if has_alpha else "RGB")
    drawn.thumbnail((LONGEST_SIDE, LONGEST_SIDE), Image.Resampling.LANCZOS)
    drawn = ImageOps.exif_transpose(drawn)
    bare = Image.new(drawn.mode, drawn.size)
    bare.paste(drawn)
    return bare


def _encoded(image: Image.Image, lossless: bool) -> tuple[bytes, str]:
    if lossless or image.mode == "RGBA":
        png = io.BytesIO()
        image.save(png, "PNG")
        if png.tell() <= _MAX_PNG_BYTES:
            return png.getvalue(), "image/png"
    if image.mode == "RGBA":
        ground = Image.new("RGB", image.size, "white")
        ground.paste(image, mask=image.getchannel("A"))
        image = ground
    jpeg = io.BytesIO()
    image.save(jpeg, "JPEG", quality=85)
    return jpeg.getvalue(), "image/jpeg"
