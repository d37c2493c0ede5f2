"""Pictures that a person hands over: to a model that can see, to one that cannot, and as JSON actions."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from agent.attached import announced, own_words, reworded
from agent.events import Replied, Retrying
from agent.llm.demo import reply_to
from agent.llm.model import Request, ToolSpec
from agent.llm.wire import NOT_SHOWN
from agent.messages import File, UserMessage
from tests.agent.llm.serving import TOOLS, refuses, says, serving


def asked(folder: Path) -> Request:
    picture = folder / "seen"
    picture.write_bytes(b"\x89PNG and so on")
    file = File(str(picture), "cat.png", "image/png", 15)
    text = announced("What is this?", ["uploads/cat.png (image/png, 15 bytes)"])
    return Request("", (UserMessage(text, images=(file,), files=(file,)),), TOOLS)


async def test_a_model_that_sees_is_shown_the_picture_beside_its_name(tmp_path: Path) -> None:
    async with serving(tmp_path, says("A cat.")) as served:
        await served.ask(asked(tmp_path))
        [message] = [m for m in served.bodies[0]["messages"] if m["role"] == "user"]
        words, name, picture = message["content"]
        assert words["text"] == "What is this?\n\n[Attached: uploads/cat.png (image/png, 15 bytes)]"
        assert name == {"type": "text", "text": "cat.png:"}
        sent = base64.b64encode(b"\x89PNG and so on").decode()
        assert picture == {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{sent}"}}


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "This model does not support image input."),
        (400, "messages[0].content: unknown variant `image_url`, expected `text`"),
        (404, "No endpoints found that support image input"),
        (500, "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj"),
        (400, "At most 0 image(s) may be provided in one prompt."),
        (400, "messages.content must be a string"),
        (422, "该模型不支持图片输入"),
    ],
)
async def test_one_that_does_not_is_told_in_words_and_asked_once_only(
    tmp_path: Path, status: int, message: str
) -> None:
    async with serving(tmp_path, refuses(status, message), says("I cannot see."), says("Still not.")) as served:
        events = await served.ask(asked(tmp_path))
        assert [e.code for e in events if isinstance(e, Retrying)] == ["adapting"]
        assert isinstance(events[-1], Replied) and events[-1].message.text == "I cannot see."
        await served.ask(asked(tmp_path))  # learnt
        assert len(served.bodies) == 3
        for body in served.bodies[1:]:
            said = body["messages"][-1]["content"]
            assert isinstance(said, str) and "uploads/cat.png" in said and said.endswith(NOT_SHOWN)


async def test_json_actions_know_the_path_only(tmp_path: Path) -> None:
    answer = '{"tool": "none"}'
    async with serving(tmp_path, says(answer), says("Done."), protocol="json") as served:
        await served.ask(asked(tmp_path))
        texts: list[Any] = [m["content"] for body in served.bodies for m in body["messages"]]
        assert len(served.bodies) == 2 and all(isinstance(text, str) for text in texts)
        assert all(any("uploads/cat.png" in m["content"] for m in body["messages"]) for body in served.bodies)


@pytest.mark.parametrize(
    ("words", "calls"),
    [
        ("", ["uploads/a.pdf", "uploads/b, c.docx"]),
        ("这是什么？", ["uploads/a.pdf", "uploads/b, c.docx"]),
        ("Sum up these files", ["uploads/a.pdf", "uploads/b, c.docx"]),
        ("Hello", []),
    ],
)
def test_the_demo_reads_the_documents_that_come_with_a_message(words: str, calls: list[str]) -> None:
    lines = [
        "uploads/a.pdf (application/pdf, 2 MiB)",
        "uploads/b, c.docx (x, 1 KiB)",
        "uploads/p.png (image/png, 1 KiB)",
    ]
    files = tuple(File("/o", name, "x", 1) for name in ("a.pdf", "b, c.docx", "p.png"))
    request = Request("", (UserMessage(announced(words, lines), files=files),), (ToolSpec("read_document", "", {}),))
    message = reply_to(request)
    assert [json.loads(call.arguments)["path"] for call in message.tool_calls] == calls
    assert "[Attached" not in message.text


def test_what_is_attached_stays_attached_when_the_words_change() -> None:
    text = announced("two\n\nparagraphs", ["uploads/a ]x[.txt (text/plain, 1 byte)"])
    assert own_words(text) == "two\n\nparagraphs"
    assert own_words(reworded(text, "other")) == "other" and reworded(text, "other").endswith("1 byte)]")
    alone = announced("", ["uploads/a"])
    assert own_words(alone) == "" and alone == reworded(text.replace(text, alone), "")
    assert own_words("I wrote [Attached: x] myself") == "I wrote [Attached: x] myself"
