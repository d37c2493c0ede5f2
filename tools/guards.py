"""What is put around tools when the list of them is built: secrets taken out, the workspace kept within its size, and
arguments taken away that may not be used here.

Knows tools only as things that run. Refuses to know any by name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from agent.errors import ToolError
from agent.tool import Tool, ToolContext, ToolResult
from tools.entries import size_text
from tools.workspace import Workspace

Scrub = Callable[[str], str]


def scrubbed(tool: Tool, scrub: Scrub) -> Tool:
    """The tool with known secrets taken out of all that it shows: result, details, errors and running output.

    Running output is scrubbed piece by piece; a tool whose pieces may cut a secret in two has to scrub its own stream.
    """

    async def run(context: ToolContext, **arguments: Any) -> ToolResult:
        emit = context.emit
        context.emit = lambda text: emit(scrub(text))
        try:
            result = await tool.run(context, **arguments)
        except ToolError as error:
            raise ToolError(scrub(str(error))) from None
        if isinstance(result, str):
            return ToolResult(scrub(result))
        return replace(result, text=scrub(result.text), details=_each_text(result.details, scrub))

    return replace(tool, run=run)


def _each_text(value: Any, change: Scrub) -> Any:
    """JSON data with every text in it changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, (list, tuple)):
        return [_each_text(item, change) for item in value]
    return {key: _each_text(item, change) for key, item in value.items()} if isinstance(value, Mapping) else value


def without(tool: Tool, argument: str) -> Tool:
    """The tool as if it had no such argument: it runs with the default."""
    properties = {name: schema for name, schema in tool.parameters["properties"].items() if name != argument}

    def check(arguments: dict[str, Any]) -> dict[str, Any]:
        if argument in arguments:
            raise ToolError(f"bad arguments: {argument} cannot be given here")
        return tool.check(arguments)

    return replace(tool, parameters={**tool.parameters, "properties": properties}, check=check)


def within_quota(tool: Tool, max_bytes: int, max_files: int) -> Tool:
    """The tool, refused while the workspace holds more than this. One call may pass the line; the next is refused."""

    async def run(context: ToolContext, **arguments: Any) -> ToolResult | str:
        held = await asyncio.to_thread(Workspace(context.workspace).usage)
        if held.bytes > max_bytes or held.files > max_files:
            raise ToolError(
                f"the workspace is full: it holds {size_text(held.bytes)} in {held.files} files and folders, and "
                f"{size_text(max_bytes)} in {max_files} are allowed. Something has to be removed first"
            )
        return await tool.run(context, **arguments)

    return replace(tool, run=run)
