"""current_time."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from agent.errors import ToolError
from tests.tools.calling import call
from tools.clock import current_time


@pytest.mark.parametrize("zone", ["Asia/Shanghai", "asia/shanghai", " Asia/Shanghai "])
def test_a_zone_by_its_name(tmp_path: Path, zone: str) -> None:
    before = datetime.now(timezone.utc)
    result = call(current_time, tmp_path, zone=zone)
    told = datetime.fromisoformat(result.details["time"])
    assert told.utcoffset() == timedelta(hours=8)
    assert before - timedelta(seconds=1) <= told <= datetime.now(timezone.utc)
    assert told.strftime("%Y-%m-%d %H:%M:%S UTC+08:00") in result.text and "(Asia/Shanghai)" in result.text


def test_here_and_utc(tmp_path: Path) -> None:
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC[+-]\d\d:\d\d, \w+day \(.+\)", call(current_time, tmp_path).text
    )
    assert "UTC+00:00" in call(current_time, tmp_path, zone="UTC").text


@pytest.mark.parametrize(
    ("zone", "offered"),
    [
        ("Shanghai", "Asia/Shanghai"),
        ("new york", "America/New_York"),
        ("Asia/Shangai", "Asia/Shanghai"),
        ("Berln", "Europe/Berlin"),
        ("Beijing", "Asia/Shanghai"),
        ("../../etc/passwd", "IANA"),
        ("a\0b", "IANA"),
        ("x" * 5000, "100 characters"),
    ],
)
def test_an_unknown_zone_is_answered_with_the_nearest(tmp_path: Path, zone: str, offered: str) -> None:
    with pytest.raises(ToolError, match=offered):
        call(current_time, tmp_path, zone=zone)
