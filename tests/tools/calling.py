"""Calls a tool as the toolbox does: arguments as JSON, checked against the schema, errors raised."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent.messages import ToolCall
from agent.tool import Tool, ToolContext, ToolResult


def context(workspace: Path, emit: Callable[[str], None] = lambda text: None) -> ToolContext:
    return ToolContext("session", "call_1", workspace, workspace.parent / "outbox", emit)


async def acall(tool: Tool, at: Path | ToolContext, **arguments: Any) -> ToolResult:
    given = at if isinstance(at, ToolContext) else context(at)
    result = await tool.run(given, **tool.parse(ToolCall("call_1", tool.name, json.dumps(arguments))))
    return ToolResult(result) if isinstance(result, str) else result


def call(tool: Tool, at: Path | ToolContext, **arguments: Any) -> ToolResult:
    return asyncio.run(asyncio.wait_for(acall(tool, at, **arguments), 30))
