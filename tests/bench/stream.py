"""What the loop costs on top of a stream. Run by hand: `python -m tests.bench.stream`.

The same 2,000 deltas from a stand-in server in a process of its own, read by the openai SDK itself (`stream=True`) and
by a whole turn: assembly, events, log, transcript. Rounds alternate; medians of wall clock and CPU time are compared.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from openai import AsyncOpenAI

from agent.agent import Agent
from agent.llm.client import ChatServer, OpenAIModel
from agent.session import Session
from agent.tool import Toolbox

DELTAS, ROUNDS = 2_000, 9


def chunk(delta: dict[str, str], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    body = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


class StandIn(BaseHTTPRequestHandler):
    """Answers every request with the same stream."""

    answer = b"".join(chunk({"content": f"word{n} "}) for n in range(DELTAS)) + chunk({}, "stop") + b"data: [DONE]\n\n"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(self.answer)))
        self.end_headers()
        self.wfile.write(self.answer)

    def log_message(self, *_: object) -> None:
        pass


def serve() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), StandIn)
    print(server.server_address[1], flush=True)
    server.serve_forever()


async def raw(client: AsyncOpenAI) -> None:
    said = []
    stream = await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "go"}], stream=True)
    async for piece in stream:
        if piece.choices and piece.choices[0].delta.content:
            said.append(piece.choices[0].delta.content)
    assert len(said) == DELTAS


async def turn(model: OpenAIModel, folder: Path) -> None:
    session = Session(Agent(model, Toolbox([])), folder, folder)
    session.send("go")
    assert await session.wait() == "answered"


async def timed(work: Callable[[], Awaitable[None]]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    await work()
    return time.perf_counter() - wall, time.process_time() - cpu


async def compare(url: str, folder: Path) -> None:
    client, model = AsyncOpenAI(base_url=url, api_key="none"), OpenAIModel(ChatServer(url, "none", "m"))
    theirs, ours = [], []
    for _ in range(ROUNDS + 1):
        theirs.append(await timed(lambda: raw(client)))
        ours.append(await timed(lambda: turn(model, folder)))
    await client.close()
    await model.close()
    for at, what in enumerate(("wall", "CPU")):
        base, own = (statistics.median(times[at] for times in rounds[1:]) for rounds in (theirs, ours))
        print(f"{what}: raw SDK {base * 1000:.0f} ms, whole turn {own * 1000:.0f} ms, {own / base:.2f}x")


def main() -> None:
    print(f"{DELTAS} deltas, medians of {ROUNDS} rounds; load average {os.getloadavg()[0]:.1f}")
    command = [sys.executable, "-m", "tests.bench.stream", "serve"]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process,
        tempfile.TemporaryDirectory() as folder,
    ):
        assert process.stdout is not None
        port = int(process.stdout.readline())
        asyncio.run(compare(f"http://127.0.0.1:{port}/v1", Path(folder)))
        process.terminate()


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["serve"] else main()
