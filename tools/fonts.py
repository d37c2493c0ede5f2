"""Which font can write a text: found on this machine, by looking into the fonts.

Pictures with Chinese in them need a font that has its signs, and none comes with Python. So the machine's fonts are
looked through, those first that are known to be good; what none can write is told by name, not drawn as empty boxes.
Knows font files. Refuses to know what is drawn.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from agent.errors import ToolError

GOOD_FONTS = (
    "NotoSansCJK-Regular.ttc",
    "NotoSansCJKsc-Regular.otf",
    "NotoSansSC-Regular.otf",
    "NotoSansSC-Regular.ttf",
    "SourceHanSansSC-Regular.otf",
    "wqy-microhei.ttc",
    "wqy-zenhei.ttc",
    "DroidSansFallbackFull.ttf",
    "PingFang.ttc",
    "Hiragino Sans GB.ttc",
    "STHeiti Light.ttc",
    "Arial Unicode.ttf",
    "msyh.ttc",
    "Deng.ttf",
    "simhei.ttf",
    "simsun.ttc",
    "DejaVuSans.ttf",
    "LiberationSans-Regular.ttf",
    "Arial.ttf",
    "arial.ttf",
)
"""Files in the order in which they are tried: upright, regular, made for screens; the first ones have Latin as well as
Chinese. The names are those of Debian, Fedora, macOS and Windows."""

_SIMPLIFIED = " SC"
"""In a collection of several languages: how the family for simplified Chinese ends."""


@dataclass(frozen=True)
class Font:
    path: Path
    index: int = 0
    """Which font of a collection (.ttc)."""


def font_for(text: str, folders: Iterable[Path] | None = None) -> Font:
    """A font that has all signs of the text. `folders`: where to look; None: where this system keeps its fonts.

    Raises ToolError, naming the signs, where there is none.
    """
    needed = frozenset(ord(sign) for sign in text if sign.isprintable() and not sign.isspace())
    missing = needed
    for path in _candidates(tuple(font_folders() if folders is None else folders)):
        font, signs = _signs_of(path)
        if needed <= signs:
            return font
        missing = min(missing, needed - signs, key=len)
    shown = "".join(map(chr, sorted(missing)[:12]))
    raise ToolError(
        f"no font on this machine can write {shown!r}. Install one (on Debian and Ubuntu: apt install fonts-noto-cjk), "
        "or use other words"
    )


def font_folders() -> list[Path]:
    """Where this system keeps fonts, and the font that comes with matplotlib."""
    import matplotlib  # noqa: PLC0415 (heavy, and only pictures need it)

    home = Path.home()
    if sys.platform == "win32":
        system = [Path(os.path.expandvars(r"%WINDIR%\Fonts")), home / "AppData/Local/Microsoft/Windows/Fonts"]
    elif sys.platform == "darwin":
        system = [Path("/System/Library/Fonts"), Path("/Library/Fonts"), home / "Library/Fonts"]
    else:
        system = [
            Path("/usr/share/fonts"),
            Path("/usr/local/share/fonts"),
            home / ".local/share/fonts",
            home / ".fonts",
        ]
    return [*system, Path(matplotlib.get_data_path()) / "fonts" / "ttf"]


@lru_cache(maxsize=8)
def _candidates(folders: tuple[Path, ...]) -> tuple[Path, ...]:
    """The good ones in their order, then whatever else there is."""
    found = {path.name: path for path in _font_files(folders)}
    good = [found.pop(name) for name in GOOD_FONTS if name in found]
    plain = sorted(path for path in found.values() if "Regular" in path.stem and "LastResort" not in path.stem)
    return (*good, *plain)


def _font_files(folders: Iterable[Path]) -> Iterator[Path]:
    for folder in folders:
        for parent, _, names in os.walk(folder):
            yield from (Path(parent) / name for name in names if name.lower().endswith((".ttf", ".otf", ".ttc")))


@lru_cache(maxsize=256)
def _signs_of(path: Path) -> tuple[Font, frozenset[int]]:
    """The font in the file, and the code points it can write; none where the file cannot be read."""
    from fontTools.ttLib import TTCollection, TTFont, TTLibError  # noqa: PLC0415 (heavy, and only pictures need it)

    try:
        if path.suffix.lower() != ".ttc":
            with TTFont(path, lazy=True) as font:
                return Font(path), frozenset(font.getBestCmap() or ())
        with TTCollection(path, lazy=True) as collection:
            families = [str(font["name"].getDebugName(1)) for font in collection.fonts]
            index = next((i for i, family in enumerate(families) if family.endswith(_SIMPLIFIED)), 0)
            return Font(path, index), frozenset(collection.fonts[index].getBestCmap() or ())
    except (OSError, TTLibError, KeyError, ValueError, AssertionError):
        return Font(path), frozenset()
