"""How the page looks: gradio's theme and our style sheet, light and dark, with the fonts the machine has.

The colours are defined once, at the top of `style.css`; the theme takes them from there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gradio as gr


def style_sheet() -> str:
    """The page's styles, for the page's head: gradio's own `css=` would rewrite every selector."""
    return f"<style>\n{(Path(__file__).parent / 'style.css').read_text(encoding='utf-8')}</style>"


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
