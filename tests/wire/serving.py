"""The replay server, as typed code sees it: its file is kept as it came, without types."""

from __future__ import annotations

from typing import Any

from tests.wire import replay

Replay: Any = replay.Replay
