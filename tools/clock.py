"""current_time: the date and time, anywhere.

Knows time zones by their IANA names. Refuses to guess a place: where a name is unknown it offers the nearest ones.
"""

from __future__ import annotations

from datetime import datetime
from difflib import get_close_matches
from functools import lru_cache
from typing import Annotated
from zoneinfo import ZoneInfo, available_timezones

from pydantic import Field

from agent.errors import ToolError
from agent.tool import Effect, ToolContext, ToolResult, tool


@tool(Effect.READ, speaks="app")
def current_time(
    context: ToolContext,
    zone: Annotated[
        str, Field(description="IANA name such as Asia/Shanghai, Europe/Berlin or UTC; empty: here.", max_length=100)
    ] = "",
) -> ToolResult:
    """Tell the current date, weekday, time and offset from UTC, in any time zone."""
    now = datetime.now(ZoneInfo(_known(zone.strip()))) if zone.strip() else datetime.now().astimezone()
    offset = now.strftime("%z")
    text = f"{now:%Y-%m-%d %H:%M:%S} UTC{offset[:3]}:{offset[3:5]}, {_WEEKDAYS[now.weekday()]}"
    return ToolResult(f"{text} ({now.tzinfo})", details={"time": now.isoformat(timespec="seconds")})


_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
"""Not %A: that speaks the language of the server."""


@lru_cache(maxsize=1)
def _zones() -> dict[str, str]:
    """All zones by their names in lower case. Reading them takes a moment, so it is done once."""
    return {name.lower(): name for name in available_timezones()}


def _known(zone: str) -> str:
    """The zone's exact name. Raises ToolError with what may have been meant."""
    zones, asked = _zones(), zone.lower().replace(" ", "_")
    if asked in zones:
        return zones[asked]
    near = [name for name in zones if name.endswith(f"/{asked}")]
    near += get_close_matches(asked, zones, n=5, cutoff=0.5)
    near += [name for name in zones if get_close_matches(asked, [name.rpartition("/")[2]], cutoff=0.8)]
    offered = ", ".join(dict.fromkeys(zones[name] for name in near[:8])) or "Asia/Shanghai, Europe/Berlin, UTC"
    raise ToolError(
        f"there is no time zone {zone[:60]!r}. Use an IANA name; perhaps one of: {offered}. A city without a zone "
        "of its own has that of a larger one (Beijing: Asia/Shanghai)"
    )
