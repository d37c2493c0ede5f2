"""Time zones of places the demo model knows, in English and Chinese."""

from __future__ import annotations

import re

_PLACES = {
    "UTC": "utc|gmt|世界时|格林尼治",
    "Asia/Shanghai": "beijing|shanghai|china|北京|上海|中国|深圳|广州|杭州",
    "Asia/Hong_Kong": "hong kong|香港",
    "Asia/Taipei": "taipei|台北",
    "Asia/Tokyo": "tokyo|japan|东京|日本",
    "Asia/Seoul": "seoul|korea|首尔|韩国",
    "Asia/Singapore": "singapore|新加坡",
    "Asia/Kolkata": "delhi|mumbai|india|德里|孟买|印度",
    "Asia/Dubai": "dubai|迪拜",
    "Europe/London": "london|伦敦|英国",
    "Europe/Paris": "paris|france|巴黎|法国",
    "Europe/Berlin": "berlin|germany|柏林|德国",
    "Europe/Moscow": "moscow|莫斯科",
    "Africa/Cairo": "cairo|开罗",
    "America/New_York": "new york|boston|washington|纽约|波士顿|华盛顿",
    "America/Chicago": "chicago|芝加哥",
    "America/Los_Angeles": "los angeles|san francisco|seattle|洛杉矶|旧金山|西雅图",
    "America/Sao_Paulo": "s[aã]o paulo|圣保罗",
    "Australia/Sydney": "sydney|悉尼",
}


def zones_in(text: str) -> list[str]:
    """The zones a text asks for, in the order it names them; `[""]` (the local one) where it names none.

    `Asia/Tokyo` is taken as it stands, and so is an unknown place after "in": the tool knows better what it knows.
    """
    found = [(m.start(), m[0]) for m in re.finditer(r"\b[A-Z][A-Za-z]+/[A-Z][A-Za-z_]+", text)]
    for zone, names in _PLACES.items():
        found += [
            (m.start(), zone) for m in re.finditer(rf"(?<![A-Za-z/_])(?:{names})(?![A-Za-z_])", text, re.IGNORECASE)
        ]
    if not found:
        found = [(m.start(), m[1]) for m in re.finditer(r"\bin ([A-Z][A-Za-z]+)", text)]
    return list(dict.fromkeys(zone for _, zone in sorted(found))) or [""]
