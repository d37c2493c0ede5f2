"""What the app puts into the message box of a page: messages that came back, and the one that is to be written anew.

The box itself is the browser's: what a person types is never overwritten by an answer that was on its way. So nothing
here is the box's content; it is a numbered list of what is to go in, and `page.js` puts each number in once, before
what stands there. Knows values and how they are told. Refuses to know gradio.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from html import escape
from typing import Any

_KEPT = 8
"""How many are told again and again: several may come before the page has looked."""


class MessageBox:
    """Of one visit."""

    def __init__(self) -> None:
        self.heard = 0
        """The page numbers what it sends from 1; this is the last one that came."""
        self._number = 0
        self._put: deque[dict[str, Any]] = deque(maxlen=_KEPT)

    def put(self, text: str, expects: Sequence[str] = ()) -> None:
        """A message comes back, with what must be true at its end, to be sent again or not."""
        if text.strip() or expects:
            self._add(text=text, must="\n".join(expects))

    def rewrite(self, text: str) -> None:
        """This message is to be written anew; what stood in the box stays aside until then."""
        self._add(text=text, aside=True)

    def _add(self, **fact: Any) -> None:
        self._number += 1
        self._put.append({"number": self._number, **fact})

    def facts(self) -> str:
        """For the page's script."""
        put = escape(json.dumps(list(self._put)))
        return f'<div id="gl-back-facts" data-heard="{self.heard}" data-put="{put}"></div>'
