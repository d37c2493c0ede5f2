"""What the agent can do: one subject a file, and one list.

    clock arithmetic                current_time, calculator
    reading searching               list_files, read_file, search_files
    writing                         write_file, append_file, edit_file
    shell                           run_command
    background                      start_process, read_process, stop_process
    handing images                  send_file, generate_image
    documents                       read_document (reader: the program that reads them)
    intake kinds pictures           what a person hands in; bundle preview: what send_file hands out
    diagrams charts                 draw_diagram, draw_chart (diagram_spec, diagram_layout; fonts, showing)
    commands processes              what these have in common; whose processes go on in the background
    workspace                       paths that cannot escape: names, folder, entries
    text_files glob                 encodings and diffs, patterns of names
    sandbox/                        processes that cannot escape
    guards results                  what is put around tools, and what becomes of long results

Knows which tools there are. Refuses to know who may call them (`agent/policy.py`) and who shows them (`ui/`). From
`agent` the tools know only the tool interface, `File` and `ToolError`.

`ToolResult.details` are facts for people, and these are all the keys:

    path        in the workspace, as shown             exit_code   of a command; None where a signal ended it
    lines       read, written or added                 killed      processes that had to be killed
    bytes       written, sent, or printed              timeout_s   seconds; only where the time was up
    entries     files and folders listed               size        of a picture, "1024x768"
    matches     places found                           prompt      what was drawn
    replaced    places changed                         value       of a calculation
    diff        unified, of the file before and after  time        ISO 8601 with its offset
    truncated   true where there was more              process     the id of one in the background
    seconds     of a command that the user stopped     pages       read, of how many: "2-4/12"
    preview     of a file handed over: see preview.py

A call that the user stopped has `exit_code`, `bytes`, `killed`, `truncated` and `seconds` of what it had started.
"""

from __future__ import annotations

from pathlib import Path

from agent.tool import Effect, Tool
from tools.arithmetic import calculator
from tools.background import background_tools
from tools.charts import draw_chart
from tools.clock import current_time
from tools.desk import Desk
from tools.diagrams import draw_diagram
from tools.documents import Reader, read_document_tool
from tools.guards import scrubbed, within_quota
from tools.handing import send_file_tool
from tools.images import ImageClient, image_tools
from tools.intake import Uploads
from tools.processes import Processes
from tools.reading import list_files, read_file
from tools.results import keep_whole
from tools.sandbox import CommandLimits, Fence, Scrubber
from tools.searching import search_files
from tools.shell import run_command_tool
from tools.workspace import Workspace
from tools.writing import append_file, edit_file, write_file

__all__ = ["Desk", "Processes", "Reader", "Uploads", "Workspace", "keep_whole", "standard_tools"]


def standard_tools(
    fence: Fence | None,
    image_client: ImageClient | None,
    images_dir: Path,
    limits: CommandLimits | None = None,
    scrubber: Scrubber | None = None,
    processes: Processes | None = None,
    network: bool = False,
    reader: Reader | None = None,
) -> list[Tool]:
    """All tools, in the order the model is told of them.

    `fence`: None where policy says that there is no shell. `image_client`: None where there is no image service; its
    pictures are also kept in `images_dir`. `limits` hold for commands, and their quota for what files are written.
    `processes`: None where nothing may go on in the background. `network`: whether a command may ask for it, which
    opens the app's own ports, too: not where strangers are at the page. `reader`: reads documents; None: text only.
    """
    limits = limits or CommandLimits()
    tools = [
        current_time,
        calculator,
        list_files,
        read_file,
        search_files,
        write_file,
        append_file,
        edit_file,
        send_file_tool(reader),
        draw_diagram,
        draw_chart,
    ]
    if reader is not None:
        tools.insert(4, read_document_tool(reader))
    if fence is not None:
        tools.append(run_command_tool(fence, limits, scrubber, network))
    if image_client is not None:
        tools += image_tools(image_client, images_dir)
    tools = [_within_quota(tool, limits) for tool in tools]
    if processes is not None:
        # Outside the quota: a full workspace must not keep a process from being ended.
        tools += background_tools(processes, limits, scrubber, network)
    return [scrubbed(tool, scrubber.scrub) for tool in tools] if scrubber else tools


def _within_quota(tool: Tool, limits: CommandLimits) -> Tool:
    if tool.effect in (Effect.WRITE, Effect.SPEND):
        return within_quota(tool, limits.quota_bytes, limits.quota_files)
    return tool
