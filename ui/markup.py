"""Small pieces of markup that several panels use. Every text from outside goes through `escape`.

A `data-do` button asks the server for something (`Handlers.act`), a `data-sheet` button only moves panels in the
browser (`page.js`). Knows HTML. Refuses to know what a panel is about.
"""

from __future__ import annotations

from html import escape

LOGO = (
    '<svg class="gl-logo" viewBox="0 0 24 24" aria-hidden="true"><circle cx="12" cy="12" r="8.2" fill="none" '
    'stroke="currentColor" stroke-width="2.2" stroke-dasharray="43 8.6" stroke-linecap="round" '
    'transform="rotate(-62 12 12)"/><circle cx="12" cy="12" r="2.6" fill="currentColor"/></svg>'
)
"""Our mark: a loop that is not quite closed, and what one sees through it."""

_ICONS = {
    "menu": '<path d="M4 7h16M4 12h16M4 17h16"/>',
    "panel": '<rect x="3.5" y="4.5" width="17" height="15" rx="2.5"/><path d="M14.5 4.5v15"/>',
    "theme": '<circle cx="12" cy="12" r="4"/><path d="M12 3v2M12 19v2M3 12h2M19 12h2M5.6 5.6 7 7M17 17l1.4 1.4M18.4 5.6'
    ' 17 7M7 17l-1.4 1.4"/>',
    "plus": '<path d="M12 5v14M5 12h14"/>',
    "more": '<circle cx="6" cy="12" r=".8"/><circle cx="12" cy="12" r=".8"/><circle cx="18" cy="12" r=".8"/>',
    "pin": '<path d="M9 4h6l-1 6 3 3v2H7v-2l3-3zM12 15v5"/>',
    "check": '<path d="M5 12.5l4.5 4.5L19 7.5"/>',
    "warn": '<path d="M12 4.5 3.5 19h17zM12 10.5v4M12 16.8v.2"/>',
    "close": '<path d="M6 6l12 12M18 6 6 18"/>',
    "folder": '<path d="M3.5 7.5a2 2 0 0 1 2-2h4l2 2.5h7a2 2 0 0 1 2 2v7a2 2 0 0 1-2 2h-13a2 2 0 0 1-2-2z"/>',
    "file": '<path d="M6.5 3.5h7l4 4v13h-11z"/><path d="M13.5 3.5v4h4"/>',
}


def icon(name: str) -> str:
    return f'<svg class="gl-icon" viewBox="0 0 24 24" aria-hidden="true">{_ICONS[name]}</svg>'


def button(label: str, *, icon_name: str = "", kind: str = "gl-flat", **data: str) -> str:
    """A button that says `label`, or shows an icon and says it to those who cannot see. `data` becomes `data-...`."""
    facts = "".join(f' data-{name}="{escape(value)}"' for name, value in data.items())
    if icon_name:
        named = f'aria-label="{escape(label)}" title="{escape(label)}"'
        return f'<button class="{kind}"{facts} {named}>{icon(icon_name)}</button>'
    return f'<button class="{kind}"{facts}>{escape(label)}</button>'


def none_yet(text: str) -> str:
    """What an empty list says."""
    return f'<p class="gl-small">{escape(text)}</p>'


def when(at: float) -> str:
    """A moment in seconds since the epoch; the browser writes it as a time of the person's day."""
    return f'<time data-at="{at:.0f}"></time>'
