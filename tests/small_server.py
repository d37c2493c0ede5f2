"""A small model server on a free port: it lists models, streams one answer, calls a tool if it is given any.

For tests of who asks which server with which key. What servers really send is in `tests/wire`.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODELS = ("small-1", "small-2-chat", "text-embedding-3-small")


class SmallServer:
    """Takes one key only. `with SmallServer("the key") as server:`"""

    def __init__(self, key: str, answer: str = "The small model speaks.") -> None:
        self.key, self.answer = key, answer
        self.asked: list[tuple[str, str]] = []
        """Path and key of each request."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> SmallServer:
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def reply(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        """The chunks of an answer to this request."""
        last = body["messages"][-1]
        if body.get("tools") and "time" in str(last["content"]):
            name = body["tools"][0]["function"]["name"]
            function = {"name": name, "arguments": '{"zone": "x"}'}
            call = {"index": 0, "id": "c1", "type": "function", "function": function}
            return [_chunk(body, {"role": "assistant", "tool_calls": [call]}, None), _chunk(body, {}, "tool_calls")]
        pieces = [_chunk(body, {"content": f"{word} "}, None) for word in self.answer.split(" ")]
        return [*pieces, _chunk(body, {}, "stop")]


def _chunk(body: dict[str, Any], delta: dict[str, Any], finish: str | None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "r1", "object": "chat.completion.chunk", "created": 1, "model": body["model"], "choices": [choice]}


def _handler(server: SmallServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if self._allowed():
                self._send({"object": "list", "data": [{"id": name, "object": "model"} for name in MODELS]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if self._allowed():
                events = [f"data: {json.dumps(chunk)}\n\n" for chunk in server.reply(body)]
                self._send("".join([*events, "data: [DONE]\n\n"]), kind="text/event-stream")

        def _allowed(self) -> bool:
            key = self.headers.get("authorization", "").removeprefix("Bearer ")
            server.asked.append((self.path, key))
            if key != server.key:
                self._send({"error": {"message": f"Incorrect API key provided: {key}"}}, 401)
            return key == server.key

        def _send(self, value: Any, status: int = 200, kind: str = "application/json") -> None:
            data = (value if isinstance(value, str) else json.dumps(value)).encode()
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    return Handler
