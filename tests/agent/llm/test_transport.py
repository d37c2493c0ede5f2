"""Bytes as networks deliver them: compressed, cut anywhere, over the wrong protocol, redirected."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent.errors import ModelError
from agent.events import Replied, Retrying
from agent.llm.client import ChatServer, OpenAIModel
from agent.llm.model import Request
from agent.messages import UserMessage
from tests.agent.llm.serving import DONE, KEY, refuses, says, serving

WORDS = "The bell 钟 rings 🔔 at noon."
STREAM = "".join(says(*WORDS)["stream"]).encode()


@asynccontextmanager
async def sending(*answers: tuple[str, list[bytes]]) -> AsyncIterator[OpenAIModel]:
    """A server that writes these bytes behind these header lines, an answer a connection."""
    left = list(answers)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(int(line.split(b":")[1]) for line in head.lower().splitlines() if b"content-length" in line)
        await reader.readexactly(length)
        headers, pieces = left.pop(0)
        writer.write(f"HTTP/1.1 200 OK\r\n{headers}connection: close\r\n\r\n".encode())
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    model = OpenAIModel(ChatServer(f"http://127.0.0.1:{port}/v1", KEY, "m"))
    try:
        async with server:
            yield model
    finally:
        await model.close()


async def said(model: OpenAIModel) -> tuple[str, list[str]]:
    """The text of one reply, and why it was asked for again."""
    events = [e async for e in model.stream(Request("", (UserMessage("hi"),)))]
    assert isinstance(events[-1], Replied)
    return events[-1].message.text, [e.code for e in events if isinstance(e, Retrying)]


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


@pytest.mark.parametrize("size", [1, 2, 3, 64])
async def test_bytes_may_be_cut_anywhere(size: int) -> None:
    raw = "".join(f'data: {{"choices":[{{"delta":{{"content":"{sign}"}}}}]}}\n\n' for sign in WORDS) + DONE
    async with sending(("content-type: text/event-stream\r\n", cut(raw.encode(), size))) as model:
        assert await said(model) == (WORDS, [])


async def test_a_compressed_stream_is_read_as_it_comes() -> None:
    squeeze = zlib.compressobj(wbits=31)
    pieces = [squeeze.compress(part) + squeeze.flush(zlib.Z_SYNC_FLUSH) for part in cut(STREAM, 50)] + [squeeze.flush()]
    async with sending(("content-type: text/event-stream\r\ncontent-encoding: gzip\r\n", pieces)) as model:
        assert await said(model) == (WORDS, [])


async def test_a_compressed_stream_that_breaks_off_is_asked_for_again() -> None:
    headers = "content-type: text/event-stream\r\ncontent-encoding: gzip\r\n"
    whole = gzip.compress(STREAM)
    broken = [whole[:30], b"\x00" * 40]
    async with sending((headers, broken), (headers, [whole])) as model:
        text, retries = await said(model)
        assert text == WORDS and len(retries) == 1


async def test_https_where_the_server_speaks_http_is_explained(tmp_path: Path) -> None:
    async with serving(tmp_path, says("x")) as served:
        address = served.model.server.base_url.replace("http:", "https:")
        model = OpenAIModel(ChatServer(address, KEY, "m"))
        with pytest.raises(ModelError) as stop:
            await said(model)
        await model.close()
        assert stop.value.fault is not None and stop.value.fault.code == "tls"
        assert KEY not in repr(stop.value.fault)
        assert served.requests == []


async def test_a_redirect_to_a_page_is_explained(tmp_path: Path) -> None:
    moved = {"status": 302, "headers": {"location": "/login"}, "body": ""}
    async with serving(tmp_path, moved, repeat=True) as served:
        with pytest.raises(ModelError) as stop:
            await served.ask()
        assert stop.value.fault is not None and stop.value.fault.code == "malformed_response"
        assert "OPENAI_BASE_URL" in str(stop.value)


async def test_a_pinned_provider_counts_from_the_first_request(tmp_path: Path) -> None:
    async with serving(tmp_path, says("x"), provider="openai", max_output_tokens=300) as served:
        await served.ask()
        assert served.bodies[0]["max_completion_tokens"] == 300 and "max_tokens" not in served.bodies[0]


async def test_what_a_422_taught_is_remembered_too(tmp_path: Path) -> None:
    refusal = refuses(422, {"detail": [{"loc": ["body", "stream_options"], "msg": "Extra inputs are not permitted"}]})
    strict = {**says("ok"), "require": [{"path": "stream_options", "absent": True}], "else": refusal}
    async with serving(tmp_path, strict, repeat=True) as served:
        for _ in range(2):
            await served.ask()
        assert ["stream_options" in body for body in served.bodies] == [True, False, False]
        assert len(served.requests) == 3
