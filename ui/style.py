"""How the page looks: gradio's theme and our style sheet, light and dark, with the fonts the machine has.

The colours are defined once, in `styles/colours.css`; the theme takes them from there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gradio as gr

_SHEETS = (
    "colours",
    "frame",
    "conversations",
    "chat",
    "steps",
    "delegation",
    "files",
    "replays",
    "dock",
    "attaching",
    "approvals",
    "compare",
    "connecting",
    "panel",
    "memory",
    "browser",
    "pictures",
    "meter",
    "proof",
    "small",
)
"""In the order in which they count: what a small window changes comes last."""


def style_sheet() -> str:
    """The page's styles, for the page's head: gradio's own `css=` would rewrite every selector."""
    sheets = (Path(__file__).parent / "styles" / f"{name}.css" for name in _SHEETS)
    return "<style>\n" + "".join(sheet.read_text(encoding="utf-8") for sheet in sheets) + "</style>"


_TEXT = ("system-ui", "-apple-system", "Segoe UI", "PingFang SC", "Microsoft YaHei", "Noto Sans CJK SC", "sans-serif")
_CODE = ("ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "DejaVu Sans Mono", "monospace")


def theme() -> Any:
    """gradio's plainest theme in our colours."""
    both = {
        "body_background_fill": "var(--gl-paper)",
        "body_text_color": "var(--gl-ink)",
        "body_text_color_subdued": "var(--gl-soft)",
        "background_fill_primary": "var(--gl-paper)",
        "background_fill_secondary": "var(--gl-raised)",
        "border_color_primary": "var(--gl-line)",
        "block_background_fill": "transparent",
        "input_background_fill": "var(--gl-raised)",
        "link_text_color": "var(--gl-accent)",
        "color_accent_soft": "var(--gl-mine)",
        "code_background_fill": "var(--gl-code)",
    }
    dark = {f"{name}_dark": value for name, value in both.items()}
    return gr.themes.Base(font=_TEXT, font_mono=_CODE).set(**both, **dark)
