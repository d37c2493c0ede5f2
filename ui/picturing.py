"""What a click below a picture does: it writes a sentence into the message box, and the person sends it or does not.

Knows the sentences' parts. Refuses to know gradio, and to send anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.errors import Refused
from ui.history import Action
from ui.pictures import WAYS
from ui.visits import Visit


async def _begin(visit: Visit, data: dict[str, Any]) -> None:
    """A sentence in the message box, before what is in it."""
    way, _, file_id = str(data.get("value", "")).partition(".")
    drawing = next((item.drawing for item in visit.view.files if item.id == file_id), None)
    if drawing is None or way not in WAYS:
        raise Refused("there is no such file")
    visit.box.put(visit.words[f"picture_{way}_say"].format(prompt=drawing.prompt, path=drawing.path))
    visit.panel_bell.set()


ACTIONS: Mapping[str, Action] = {"picture": _begin}
