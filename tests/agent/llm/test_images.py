"""The Images API against a real server on this machine that says what the test tells it to."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import Callable, Iterator
from email.parser import BytesParser
from email.policy import default
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from agent.errors import ToolError
from agent.llm.images import MAX_ANSWER_BYTES, GeneratedImage, ImageServer, OpenAIImages
from agent.llm.pictures import MAX_IMAGE_BYTES, fetch_picture

KEY = "sk-image-key-0815"
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
GOOD = {"created": 1790000000, "data": [{"b64_json": base64.b64encode(PIXEL).decode()}], "usage": {"total_tokens": 20}}

Answer = tuple[int, Any]
"""Status, and the body: an object (sent as JSON), or bytes."""


class StandIn:
    """A server: POST is the Images API, GET is where pictures lie."""

    def __init__(self, answer: Callable[[dict[str, Any]], Answer]) -> None:
        self.answer = answer
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.fetched: list[tuple[str, str | None]] = []
        self.files: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.hold = threading.Event()
        self.hold.set()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers["content-length"]))
                multipart = self.headers["content-type"].startswith("multipart/")
                body = parts(self.headers["content-type"], raw) if multipart else json.loads(raw)
                server.bodies.append(body | {"path": self.path})
                server.keys.append(self.headers["authorization"])
                status, answer = server.answer(body)
                server.hold.wait(20)
                data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                kind = "text/event-stream" if data.startswith(b"event:") else "application/json"
                self.reply(status, {"content-type": kind}, data)

            def do_GET(self) -> None:
                server.fetched.append((self.path, self.headers["authorization"]))
                self.reply(*server.files.get(self.path, (404, {}, b"")))

            def reply(self, status: int, headers: dict[str, str], data: bytes) -> None:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                """Not on the test's output."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self.hold.set()
        self._http.shutdown()
        self._http.server_close()


def parts(content_type: str, raw: bytes) -> dict[str, Any]:
    """The fields of a form; of files their bytes, in a list where there are several of a name."""
    message = BytesParser(policy=default).parsebytes(f"Content-Type: {content_type}\r\n\r\n".encode() + raw)
    found: dict[str, Any] = {}
    for part in message.iter_parts():
        name, data = str(part.get_param("name", header="content-disposition")), part.get_payload(decode=True)
        assert isinstance(data, bytes)
        value = data if part.get_filename() else data.decode()
        found[name] = [*found[name], value] if name in found else [value] if name.endswith("[]") else value
    return found


def events(*payloads: dict[str, Any]) -> bytes:
    return b"".join(f"event: {p['type']}\ndata: {json.dumps(p)}\n\n".encode() for p in payloads)


@pytest.fixture
def server() -> Iterator[StandIn]:
    stand_in = StandIn(lambda body: (200, GOOD))
    yield stand_in
    stand_in.close()


def client(server: StandIn, **settings: Any) -> OpenAIImages:
    given = {"base_url": f"{server.url}/v1", "api_key": KEY, "model": "gpt-image-2"} | settings
    return OpenAIImages(ImageServer(**given))


def generate(drawer: OpenAIImages, prompt: str = "a lighthouse", **options: Any) -> GeneratedImage:
    [drawn] = draw(drawer, prompt, **options)
    return drawn


def draw(drawer: OpenAIImages, prompt: str = "a lighthouse", **options: Any) -> list[GeneratedImage]:
    return asyncio.run(asyncio.wait_for(drawer.draw(prompt, **options), 30))


def refusal(param: str | None, message: str, code: str | None = None, status: int = 400) -> Answer:
    return status, {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


# ---------------------------------------------------------------------- asking


def test_the_request_holds_what_was_asked_for_and_nothing_else(server: StandIn) -> None:
    drawer = client(server)
    assert generate(drawer).data == PIXEL
    generate(drawer, size="1024x1536", quality="high")
    generate(client(server, size="512x512", quality="low", api_key=""))
    path = {"path": "/v1/images/generations"}
    asked = {"model": "gpt-image-2", "prompt": "a lighthouse"} | path
    assert server.bodies == [
        asked,
        asked | {"size": "1024x1536", "quality": "high"},
        asked | {"size": "512x512", "quality": "low"},
    ]
    assert server.keys[:2] == [f"Bearer {KEY}"] * 2 and KEY not in str(server.keys[2])


def test_a_server_that_knows_no_response_format_is_content(server: StandIn) -> None:
    """The wire case: such a server refuses the parameter, and answers in base64 whatever was asked for."""

    def answer(body: dict[str, Any]) -> Answer:
        if "response_format" in body:
            return refusal("response_format", "Unknown parameter: 'response_format'.", "unknown_parameter")
        return 200, GOOD

    server.answer = answer
    assert generate(client(server), "A lighthouse in snow.").data == PIXEL
    assert len(server.bodies) == 1


@pytest.mark.parametrize(
    "refused",
    [
        refusal("quality", "Unknown parameter: 'quality'.", "unknown_parameter"),
        refusal(None, "Unrecognized request argument supplied: quality"),
        refusal(None, "body.quality: Extra inputs are not permitted", status=422),
        (422, {"detail": [{"loc": ["body", "quality"], "msg": "Extra inputs are not permitted"}]}),
    ],
)
def test_a_parameter_the_server_does_not_know_is_dropped_once_and_learnt(server: StandIn, refused: Answer) -> None:
    server.answer = lambda body: refused if "quality" in body else (200, GOOD)
    drawer = client(server, size="512x512", quality="high")
    assert generate(drawer).data == PIXEL
    assert generate(drawer, quality="low").data == PIXEL
    assert ["quality" in body for body in server.bodies] == [True, False, False]
    assert all(body["size"] == "512x512" for body in server.bodies)


def test_a_value_that_is_not_liked_is_dropped_from_settings_and_told_to_the_model(server: StandIn) -> None:
    message = "Invalid value: '64x64'. Supported values are: '1024x1024'."
    server.answer = lambda body: (
        refusal("size", message, "invalid_value") if body.get("size") == "64x64" else (200, GOOD)
    )
    with pytest.raises(ToolError, match="Supported values are: '1024x1024'"):
        generate(client(server), size="64x64")
    assert generate(client(server, size="64x64")).data == PIXEL
    drawer = client(server)
    with pytest.raises(ToolError):
        generate(drawer, size="64x64")
    generate(drawer, size="1024x1024")  # nothing was learnt from the model's slip
    assert server.bodies[-1]["size"] == "1024x1024"


def test_a_server_that_refuses_everything_is_not_asked_for_ever(server: StandIn) -> None:
    server.answer = lambda body: refusal(None, "size, quality, prompt, model: all wrong")
    with pytest.raises(ToolError, match="all wrong"):
        generate(client(server, size="1x1", quality="low"))
    assert len(server.bodies) == 3


# ---------------------------------------------------------------------- saying no


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (refusal(None, f"Incorrect API key provided: {KEY}.", "invalid_api_key", 401), "refused the key"),
        (refusal(None, "not verified", None, 403), "OPENAI_IMAGE_API_KEY"),
        (refusal(None, "no such model", "model_not_found", 404), "OPENAI_IMAGE_MODEL"),
        (refusal(None, "Your request was rejected by the safety system.", "moderation_blocked"), "safety reasons"),
        (refusal(None, "Blocked.", "content_policy_violation"), "the same words will be refused"),
        (refusal(None, "quota", "insufficient_quota", 429), "rate limit or quota"),
        (refusal(None, "try later", None, 503), "failed .status 503."),
        (refusal(None, "prompt too long"), "prompt too long"),
        ((500, b"<html>oops</html>"), "status 500"),
        ((200, b"not json"), "not JSON"),
        ((200, [1]), "no picture"),
        ((200, {"data": []}), "no picture"),
        ((200, {"error": {"message": f"overloaded {KEY}"}}), "overloaded"),
        ((200, {"data": [{"b64_json": ""}]}), "without a picture"),
        ((200, {"data": [{"b64_json": "x"}]}), "broken"),
        ((200, {"data": ["x"]}), "without a picture"),
    ],
)
def test_every_no_is_told_in_plain_words_without_the_key(server: StandIn, answer: Answer, words: str) -> None:
    server.answer = lambda body: answer
    with pytest.raises(ToolError, match=words) as error:
        generate(client(server))
    assert KEY not in str(error.value)
    assert len(server.bodies) == 1  # a picture costs money: nothing is tried twice behind anybody's back


def test_a_server_that_is_not_there_or_too_slow(server: StandIn) -> None:
    server.hold.clear()
    with pytest.raises(ToolError, match="took longer than"):
        generate(client(server, timeout_s=0.2))
    server.close()
    with pytest.raises(ToolError, match="cannot be reached"):
        generate(client(server))


def test_a_key_is_not_in_the_settings_text() -> None:
    assert KEY not in repr(ImageServer(api_key=KEY))


# ---------------------------------------------------------------------- where the picture comes from


def entry(**fields: Any) -> Answer:
    return 200, {"data": [fields]}


def test_base64_and_data_urls_and_the_revised_prompt(server: StandIn) -> None:
    encoded = base64.b64encode(PIXEL).decode()
    for fields in (
        {"b64_json": encoded},
        {"b64_json": f"data:image/png;base64,{encoded}"},
        {"url": f"data:image/png;base64,{encoded}"},
        {"b64_json": encoded, "url": None, "revised_prompt": "an old lighthouse"},
    ):
        server.answer = lambda body, fields=fields: entry(**fields)  # type: ignore[misc]
        image = generate(client(server))
        assert (image.data, image.revised_prompt) == (PIXEL, fields.get("revised_prompt", ""))
    server.answer = lambda body: (200, {"images": [{"b64_json": encoded}]})
    assert generate(client(server)).data == PIXEL


def test_a_url_of_the_server_itself_is_fetched_without_the_key(server: StandIn) -> None:
    server.files["/out/1.png"] = 200, {}, PIXEL
    server.answer = lambda body: entry(url=f"{server.url}/out/1.png")
    assert generate(client(server)).data == PIXEL
    assert server.fetched == [("/out/1.png", None)]


def test_a_server_on_this_machine_may_name_another_port_of_it(server: StandIn) -> None:
    files = StandIn(lambda body: (404, {}))
    files.files["/1.png"] = 200, {}, PIXEL
    server.answer = lambda body: entry(url=f"{files.url}/1.png".replace("127.0.0.1", "localhost"))
    try:
        assert generate(client(server)).data == PIXEL
    finally:
        files.close()


def addresses_that_are_not_public(port: int) -> list[str]:
    hosts = ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "2130706433", "127.1", "0x7f.1"]
    hosts += ["10.0.0.1", "192.168.0.1", "169.254.169.254", "100.64.0.1", "[fd00::1]"]
    return [f"http://{host}:{port}/1.png" for host in hosts]


def test_a_remote_server_cannot_make_us_fetch_from_inside(server: StandIn) -> None:
    """The address of the image server is a public one here, so nothing on this machine or its network is fetched."""
    server.files["/1.png"] = 200, {}, PIXEL

    async def attempt(url: str) -> None:
        with pytest.raises(ToolError, match=r"not a public one|could not be fetched"):
            await fetch_picture(url, "https://images.example/v1")

    port = int(server.url.rpartition(":")[2])
    for url in addresses_that_are_not_public(port):
        asyncio.run(attempt(url))
    assert server.fetched == []


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "file://127.0.0.1/etc/passwd", "ftp://x/y", "http://", "http://[", "x"]
)
def test_only_web_addresses_are_fetched(server: StandIn, url: str) -> None:
    server.answer = lambda body: entry(url=url)
    with pytest.raises(ToolError, match="not a web address"):
        generate(client(server))


def test_redirects_are_followed_a_little_and_checked_each_time(server: StandIn) -> None:
    server.files["/a"] = 302, {"location": "/b"}, b""
    server.files["/b"] = 200, {}, PIXEL
    server.answer = lambda body: entry(url=f"{server.url}/a")
    assert generate(client(server)).data == PIXEL
    server.files["/a"] = 302, {"location": "http://169.254.169.254/latest"}, b""
    with pytest.raises(ToolError, match="not a public one"):
        generate(client(server))
    server.files["/a"] = 302, {"location": "/a"}, b""
    with pytest.raises(ToolError, match="one to the next"):
        generate(client(server))


def test_a_picture_that_is_gone_or_too_large(server: StandIn) -> None:
    server.answer = lambda body: entry(url=f"{server.url}/gone.png")
    with pytest.raises(ToolError, match="status 404"):
        generate(client(server))
    server.files["/large.png"] = 200, {}, bytes(MAX_IMAGE_BYTES + 1)
    server.answer = lambda body: entry(url=f"{server.url}/large.png")
    with pytest.raises(ToolError, match="more than 40 MiB"):
        generate(client(server))


def test_an_answer_that_is_too_large_is_not_read_to_its_end(server: StandIn) -> None:
    server.answer = lambda body: (200, bytes(MAX_ANSWER_BYTES + 1))
    with pytest.raises(ToolError, match="more than 64 MiB"):
        generate(client(server))


def test_stopping_ends_the_request(server: StandIn) -> None:
    server.hold.clear()

    async def stop_it() -> None:
        task = asyncio.create_task(client(server).draw("x"))
        while not server.bodies:
            await asyncio.sleep(0.01)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(asyncio.wait_for(stop_it(), 20))


# ---------------------------------------------------------------------- several, on their way, from others

B64 = base64.b64encode(PIXEL).decode()


def test_several_pictures_are_asked_for_by_their_number(server: StandIn) -> None:
    server.answer = lambda body: (200, {"data": [{"b64_json": B64}] * int(body.get("n", 1))})
    assert [image.data for image in draw(client(server), count=3, background="transparent")] == [PIXEL] * 3
    assert server.bodies[0]["n"] == 3 and server.bodies[0]["background"] == "transparent"


def test_unfinished_pictures_come_before_the_finished_one(server: StandIn) -> None:
    server.answer = lambda body: (
        200,
        events(
            {"type": "image_generation.partial_image", "b64_json": B64, "partial_image_index": 0},
            {"type": "image_generation.partial_image", "b64_json": B64, "partial_image_index": 1},
            {"type": "image_generation.completed", "b64_json": B64, "usage": {"total_tokens": 9}},
        ),
    )
    seen: list[bytes] = []
    assert generate(client(server), on_partial=seen.append).data == PIXEL
    assert seen == [PIXEL, PIXEL]
    assert server.bodies[0]["stream"] is True and server.bodies[0]["partial_images"] == 2


@pytest.mark.parametrize("refused", ["stream", "partial_images"])
def test_a_server_that_cannot_stream_is_asked_without_and_not_tried_again(server: StandIn, refused: str) -> None:
    def answer(body: dict[str, Any]) -> Answer:
        if refused in body:
            return refusal(refused, f"Unknown parameter: '{refused}'.", "unknown_parameter")
        return 200, GOOD

    server.answer = answer
    drawer = client(server)
    for _ in range(2):
        assert generate(drawer, on_partial=lambda data: None).data == PIXEL
    assert [("stream" in body, "partial_images" in body) for body in server.bodies] == [(True, True)] + [
        (False, False)
    ] * 2


def test_a_server_that_takes_no_notice_of_stream_is_read_all_the_same(server: StandIn) -> None:
    assert generate(client(server), on_partial=lambda data: None).data == PIXEL


@pytest.mark.parametrize(
    ("stream", "words"),
    [
        (events({"type": "error", "error": {"code": "moderation_blocked", "message": f"no {KEY}"}}), "safety reasons"),
        (events({"type": "error", "error": {"message": "the GPU fell over"}}), "GPU fell over"),
        (events({"type": "image_generation.partial_image", "b64_json": B64}), "broke off"),
        (b"event: x\ndata: {broken\n\n", "broken JSON"),
    ],
)
def test_a_stream_that_ends_in_a_no_says_why_without_the_key(server: StandIn, stream: bytes, words: str) -> None:
    server.answer = lambda body: (200, stream)
    with pytest.raises(ToolError, match=words) as error:
        generate(client(server), on_partial=lambda data: None)
    assert KEY not in str(error.value)


def test_an_edit_sends_pictures_and_mask_as_files(server: StandIn) -> None:
    drawer = client(server)
    assert generate(drawer, images=[PIXEL], size="512x512").data == PIXEL
    assert generate(drawer, images=[PIXEL, b"other"], mask=b"mask").data == PIXEL
    one, two = server.bodies
    assert one == {
        "path": "/v1/images/edits", "model": "gpt-image-2", "prompt": "a lighthouse", "size": "512x512", "image": PIXEL,
    }  # fmt: skip
    assert two["image[]"] == [PIXEL, b"other"] and two["mask"] == b"mask"
