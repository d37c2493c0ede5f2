#!/usr/bin/env python3
"""Replay chat-completions wire cases on 127.0.0.1. Standard library only.

    python replay.py                       serve the cases beside this file
    python replay.py --port 8089 DIR ...   serve other folders of cases
    python replay.py --check DIR ...       validate case files, serve nothing

In a test:

    from replay import Replay
    with Replay("path/to/cases") as server:
        client = Client(base_url=server.url, api_key="any", model="index-missing-single")
        ...
        assert server.problems("index-missing-single") == []

The model name picks the case. "case-id@anything" is the same case with a
state of its own, so tests can run side by side. README.md describes the files.
"""

# Kept as it came, so that it can be replaced by a newer one.
# mypy: ignore-errors
# ruff: noqa
# fmt: off
import argparse
import email.utils
import json
import re
import socket
import struct
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlparse

HERE = Path(__file__).resolve().parent
NAME = re.compile(r"^[A-Za-z0-9_-]{1,64}$")
SOURCE = re.compile(r"^[\w.-]+/[\w.-]+#\d+$")

CASE_KEYS = {"id", "title", "kind", "source", "provider", "note", "history", "prompt", "script", "tools",
             "tool_results", "settings", "request_expectation", "stream", "response", "then", "after",
             "endpoint", "expect"}
RESPONSE_KEYS = {"status", "headers", "body", "stream", "end", "hang_ms", "delay_ms", "first_delay_ms",
                 "chunk_bytes", "malformed", "require", "require_clean", "else"}
OPS = {"equals", "one_of", "none_equals", "matches", "contains", "some_equals", "some_contains", "some_matches",
       "absent", "present", "no_key", "type", "smaller_than", "min_gap_s", "same_as"}
FINISH = {"stop", "tool_calls", "length", "content_filter", "error", "none"}
ERRORS = {"incomplete_stream", "connection_lost", "timeout", "provider_error", "overloaded", "rate_limited",
          "quota_exhausted", "context_overflow", "bad_request", "malformed_response", "content_filtered",
          "output_truncated", "empty_answer"}
EXPECT_KEYS = {"text", "reasoning", "tool_calls", "finish", "error", "usage", "run"}
RUN_KEYS = {"text", "text_not_empty", "executed", "executed_max", "requests", "stop", "error", "any_of"}


# ------------------------------------------------------------------ strict JSON

class NotStrict(ValueError):
    pass


def _no_constant(name):
    raise NotStrict(f"{name} is not JSON")


def _no_duplicates(pairs):
    out = {}
    for key, value in pairs:
        if key in out:
            raise NotStrict(f"key {key!r} twice in one object")
        out[key] = value
    return out


def _no_surrogates(value):
    if isinstance(value, str):
        if any(0xD800 <= ord(c) <= 0xDFFF for c in value):
            raise NotStrict("half of a surrogate pair")
    elif isinstance(value, list):
        for item in value:
            _no_surrogates(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            _no_surrogates(key)
            _no_surrogates(item)


def strict_loads(data):
    """JSON as the standard has it: no NaN, no key twice, no half surrogates, UTF-8 only."""
    if isinstance(data, (bytes, bytearray)):
        data = bytes(data).decode("utf-8", "strict")
    value = json.loads(data, parse_constant=_no_constant, object_pairs_hook=_no_duplicates)
    _no_surrogates(value)
    return value


# ------------------------------------------------------------------ cases

def load_case(path):
    return strict_loads(Path(path).read_bytes())


def load_cases(*places):
    cases = {}
    for place in places:
        place = Path(place)
        for path in sorted(place.glob("*.json")) if place.is_dir() else [place]:
            case = load_case(path)
            if case["id"] in cases:
                raise ValueError(f"two cases are called {case['id']}")
            cases[case["id"]] = case
    return cases


def responses(case):
    """The answers of a case, in order, each as one dict."""
    first = dict(case.get("response") or {})
    if "stream" in case:
        first["stream"] = case["stream"]
    return [first] + [dict(r) for r in case.get("then") or []]


def event_payloads(stream):
    """The data of each event of a stream, parsed as an event-stream reader would."""
    text = "".join(stream).replace("\r\n", "\n").replace("\r", "\n")
    for block in text.split("\n\n"):
        data = [line[5:][1:] if line[5:6] == " " else line[5:] for line in block.split("\n") if line.startswith("data:")]
        if data:
            yield "\n".join(data)


def case_problems(case, name=None):
    """What is wrong with a case file; an empty list where nothing is."""
    bad = []
    for key in ("id", "title", "kind", "source", "expect"):
        if not case.get(key):
            bad.append(f"no {key}")
    bad += [f"unknown key {k}" for k in case.keys() - CASE_KEYS]
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", str(case.get("id", ""))):
        bad.append("id is not lower-case-with-dashes")
    if name and case.get("id") != name:
        bad.append(f"id {case.get('id')} in a file called {name}")
    if not isinstance(case.get("source"), list) or not all(SOURCE.match(s) for s in case["source"]):
        bad.append("source is not a list of owner/repo#number")
    if "stream" not in case and "response" not in case:
        bad.append("neither stream nor response")
    if case.get("after", "refuse") not in ("refuse", "repeat"):
        bad.append("after is neither refuse nor repeat")
    if case.get("endpoint", "chat") not in ("chat", "images"):
        bad.append("endpoint is neither chat nor images")
    todo = [(f"response {i}", r) for i, r in enumerate(responses(case))]
    while todo:
        where, r = todo.pop()
        bad += [f"{where}: unknown key {k}" for k in r.keys() - RESPONSE_KEYS]
        if ("stream" in r) == ("body" in r):
            bad.append(f"{where}: needs stream or body, one of the two")
        if r.get("end", "clean") not in ("clean", "abort", "hang"):
            bad.append(f"{where}: end is not clean, abort or hang")
        for check in r.get("require") or []:
            bad += check_shape(check, f"{where} require")
        if "else" in r:
            todo.append((where + " else", r["else"]))
        if "stream" in r:
            if not r["stream"] or not all(isinstance(e, str) and e for e in r["stream"]):
                bad.append(f"{where}: stream is not a list of texts")
                continue
            if not r.get("malformed"):
                for event in r["stream"]:
                    if not event.replace("\r\n", "\n").endswith("\n\n"):
                        bad.append(f"{where}: an event without its blank line: {event[-40:]!r}")
                for payload in event_payloads(r["stream"]):
                    if payload.strip() != "[DONE]":
                        try:
                            json.loads(payload, parse_constant=_no_constant)
                        except ValueError as err:
                            bad.append(f"{where}: {err} in {payload[:60]!r}")
    for check in case.get("request_expectation") or []:
        bad += check_shape(check, "request_expectation")
    names = []
    for tool in case.get("tools") or []:
        f = tool.get("function", {})
        names.append(f.get("name"))
        if tool.get("type") != "function" or f.get("parameters", {}).get("type") != "object":
            bad.append(f"tool {f.get('name')} is not a function with an object of parameters")
    bad += [f"tool_results for unknown tool {k}" for k in (case.get("tool_results") or {}) if k not in names]
    expect = case.get("expect") or {}
    bad += [f"expect: unknown key {k}" for k in expect.keys() - EXPECT_KEYS]
    if "finish" in expect and expect["finish"] not in FINISH:
        bad.append(f"expect.finish {expect['finish']}")
    for call in expect.get("tool_calls") or []:
        if set(call) - {"id", "name", "arguments", "invalid"} or "name" not in call:
            bad.append(f"expect.tool_calls entry {call}")
    runs = [expect.get("run") or {}]
    for run in runs:
        bad += [f"expect.run: unknown key {k}" for k in run.keys() - RUN_KEYS]
        runs += run.get("any_of") or []
    for err in [expect.get("error")] + [r.get("error") for r in runs]:
        if err is not None and err not in ERRORS:
            bad.append(f"unknown error class {err}")
    return bad


# ------------------------------------------------------------------ checks on requests

def check_shape(check, where):
    ops = check.keys() & OPS
    bad = [f"{where}: unknown key {k}" for k in check.keys() - OPS - {"request", "path", "why"}]
    if len(ops) != 1:
        bad.append(f"{where}: {check} has {len(ops)} operators")
    elif "path" not in check and not ops & {"smaller_than", "min_gap_s"}:
        bad.append(f"{where}: {check} has no path")
    return bad


def find(value, path):
    """All values at a path such as messages[-1].tool_calls[*].id or messages[1:][*].role."""
    found = [value]
    for key, index in re.findall(r"([A-Za-z_$][\w$-]*)|\[([^\]]+)\]", path):
        step = []
        for v in found:
            if key:
                if isinstance(v, dict) and key in v:
                    step.append(v[key])
            elif isinstance(v, list):
                if index == "*":
                    step += v
                elif ":" in index:
                    low, high = (int(x) if x else None for x in index.split(":"))
                    step.append(v[low:high])
                elif -len(v) <= int(index) < len(v):
                    step.append(v[int(index)])
        found = step
    return found


def _keys(value):
    if isinstance(value, dict):
        for k, v in value.items():
            yield k
            yield from _keys(v)
    elif isinstance(value, list):
        for v in value:
            yield from _keys(v)


def _flat(value):
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def failed(check, body, log=None, at=None):
    """None where the check holds on this request body, else a sentence."""
    op = next(iter(check.keys() & OPS))
    want = check[op]
    if op == "smaller_than":
        a, b = log[at]["size"], log[want]["size"]
        return None if a < b else f"request {at} has {a} bytes, request {want} had {b}"
    if op == "min_gap_s":
        gap = log[at]["t"] - log[at - 1].get("t_end", log[at - 1]["t"])
        return None if gap >= want else f"only {gap:.2f} s between requests, {want} asked for"
    got = find(body, check["path"])
    if op == "same_as":
        ok = got == find(log[want]["body"], check["path"])
    elif op == "absent":
        ok = not any(v is not None for v in got)
    elif op == "present":
        ok = any(v is not None for v in got)
    elif op == "equals":
        ok = bool(got) and all(v == want for v in got)
    elif op == "one_of":
        ok = bool(got) and all(v in want for v in got)
    elif op == "none_equals":
        ok = all(v != want for v in got)
    elif op == "matches":
        ok = bool(got) and all(isinstance(v, str) and re.search(want, v) for v in got)
    elif op == "contains":
        ok = bool(got) and all(want in _flat(v) for v in got)
    elif op == "some_equals":
        ok = want in got
    elif op == "some_contains":
        ok = any(want in _flat(v) for v in got)
    elif op == "some_matches":
        ok = any(re.search(want, _flat(v)) for v in got)
    elif op == "no_key":
        ok = not set(want) & set(_keys(got))
    elif op == "type":
        kinds = {"string": str, "list": list, "object": dict, "null": type(None)}
        ok = bool(got) and all(isinstance(v, kinds[want]) for v in got)
    return None if ok else f"{check.get('why') or check['path']}: wanted {op} {want!r}, found {_flat(got)[:200]}"


def request_problems(raw):
    """Breaches of the rules every chat-completions server may enforce, for one request body."""
    try:
        body = strict_loads(raw) if isinstance(raw, (bytes, bytearray, str)) else raw
    except ValueError as err:
        return [f"body is not strict JSON: {err}"]
    if not isinstance(body, dict) or not isinstance(body.get("messages"), list) or not body["messages"]:
        return ["messages is not a list with something in it"]
    bad, owed, owner = [], [], None
    for i, m in enumerate(body["messages"]):
        role, content = m.get("role"), m.get("content")
        where = f"messages[{i}] ({role})"
        if role not in ("system", "developer", "user", "assistant", "tool"):
            bad.append(f"{where}: unknown role")
        if role == "tool":
            call = m.get("tool_call_id")
            if call in owed:
                owed.remove(call)
            else:
                bad.append(f"{where}: answers call {call!r}, which is not open")
            if isinstance(content, list):
                if any(p.get("type") != "text" for p in content):
                    bad.append(f"{where}: a part that is not text")
            elif not isinstance(content, str):
                bad.append(f"{where}: content is {type(content).__name__}")
            continue
        if owed:
            bad.append(f"{where}: comes before the results of {owed} from messages[{owner}]")
            owed = []
        calls = m.get("tool_calls")
        if role == "assistant" and calls is not None:
            if not calls:
                bad.append(f"{where}: an empty list of tool_calls")
            for c in calls or []:
                f = c.get("function") or {}
                if not isinstance(c.get("id"), str) or not c["id"]:
                    bad.append(f"{where}: a call without an id")
                elif c["id"] in owed:
                    bad.append(f"{where}: call id {c['id']} twice in one message")
                owed.append(c.get("id"))
                if c.get("type") != "function":
                    bad.append(f"{where}: call type {c.get('type')!r}")
                if not NAME.match(str(f.get("name"))):
                    bad.append(f"{where}: call name {f.get('name')!r}")
                try:
                    args = strict_loads(f["arguments"]) if isinstance(f.get("arguments"), str) else None
                except ValueError:
                    args = None
                if not isinstance(args, dict):
                    bad.append(f"{where}: arguments are not text holding a JSON object: {_flat(f.get('arguments'))[:80]}")
            owner = i
        elif not content:
            bad.append(f"{where}: no content")
    if owed:
        bad.append(f"messages[{owner}]: no result for {owed}")
    seen = set()
    for t in body.get("tools") or []:
        f = t.get("function") or {}
        if not NAME.match(str(f.get("name"))):
            bad.append(f"tool name {f.get('name')!r}")
        if f.get("name") in seen:
            bad.append(f"tool name {f.get('name')!r} twice")
        seen.add(f.get("name"))
        if f.get("strict"):
            bad += [f"tool {f.get('name')}: {p}" for p in strict_schema_problems(f.get("parameters") or {})]
    return bad


def strict_schema_problems(schema, where="parameters"):
    """A schema sent with strict: true must close every object and require every property."""
    bad = []
    if isinstance(schema, dict):
        if schema.get("type") == "object" or "properties" in schema:
            if schema.get("additionalProperties") is not False:
                bad.append(f"{where}: strict, but additionalProperties is not false")
            missing = set(schema.get("properties") or {}) - set(schema.get("required") or [])
            if missing:
                bad.append(f"{where}: strict, but {sorted(missing)} not required")
        for k, v in schema.items():
            bad += strict_schema_problems(v, f"{where}.{k}")
    elif isinstance(schema, list):
        for i, v in enumerate(schema):
            bad += strict_schema_problems(v, f"{where}[{i}]")
    return bad


# ------------------------------------------------------------------ server

class Replay:
    """The server. Use as a context manager, or call start() and stop()."""

    def __init__(self, *places, port=0, delay_ms=0, chunk_bytes=0):
        self.cases = load_cases(*(places or (HERE,)))
        self.delay_ms, self.chunk_bytes = delay_ms, chunk_bytes
        self.lock = threading.Lock()
        self.step, self.log = {}, []
        handler = type("Handler", (_Handler,), {"replay": self})
        self.server = _Server(("127.0.0.1", port), handler)

    @property
    def root(self):
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    @property
    def url(self):
        return self.root + "/v1"

    def start(self):
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def stop(self):
        self.server.shutdown()
        self.server.server_close()

    __enter__ = start

    def __exit__(self, *_):
        self.stop()

    def reset(self, model=None):
        with self.lock:
            if model is None:
                self.step, self.log = {}, []
            else:
                self.step.pop(model, None)
                self.log = [e for e in self.log if e["model"] != model]

    def requests(self, model=None):
        with self.lock:
            return [dict(e) for e in self.log if model in (None, e["model"])]

    def problems(self, model):
        """Everything wrong with the requests this model name got: broken rules, overruns, failed checks."""
        log = self.requests(model)
        bad = [f"request {i}: {p}" for i, e in enumerate(log) for p in e["problems"] if not e["refused"]]
        bad += [f"request {i}: more requests than the case has answers" for i, e in enumerate(log) if e["overrun"]]
        for check in self.cases[model.split("@")[0]].get("request_expectation") or []:
            at = check.get("request", -1)
            at = at + len(log) if at < 0 else at
            if not 0 <= at < len(log):
                bad.append(f"request {at} was never sent")
                continue
            why = failed(check, log[at]["body"], log, at)
            if why:
                bad.append(f"request {at}: {why}")
        return bad

    def answer(self, raw, headers, path):
        """Record a request and choose the answer for it."""
        try:
            body = json.loads(raw.decode("utf-8", "replace"))
        except ValueError:
            body = None
        model = body.get("model") if isinstance(body, dict) else None
        images = path.endswith("/images/generations")
        entry = {"model": model, "path": path, "t": time.monotonic(), "size": len(raw), "body": body,
                 "problems": [] if images else request_problems(raw), "overrun": False, "refused": None,
                 "client_left": False,
                 "headers": {k.lower(): v for k, v in headers.items() if k.lower() != "authorization"}}
        case = self.cases.get(str(model).split("@")[0])
        with self.lock:
            self.log.append(entry)
            if case is None:
                return entry, _error(404, f"no case called {model}", "model_not_found")
            answers = responses(case)
            step = self.step.get(model, 0)
            if step >= len(answers):
                if case.get("after") != "repeat":
                    entry["overrun"] = True
                    return entry, _error(400, f"case {model} has no answer number {step + 1}", "replay_exhausted")
                step = len(answers) - 1
            chosen = answers[step]
            why = [p for p in (failed(c, body) for c in chosen.get("require") or []) if p]
            if chosen.get("require_clean"):
                why += entry["problems"]
            if why:
                entry["refused"] = why
                return entry, chosen.get("else") or _error(400, "; ".join(why), "invalid_request_error")
            self.step[model] = step + 1
        return entry, chosen


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)


def _error(status, message, kind):
    return {"status": status, "body": {"error": {"message": message, "type": kind, "code": kind}}}


def _fill(text, body):
    """@@TOOL0@@ is the name the request gave its first tool, and so on."""
    def name(match):
        tools = (body or {}).get("tools") or []
        at = int(match.group(1))
        return tools[at]["function"]["name"] if at < len(tools) else "missing"
    return re.sub(r"@@TOOL(\d+)@@", name, text)


def _fill_header(text):
    """@@DATE+3@@ is the HTTP date three seconds from now."""
    return re.sub(r"@@DATE\+(\d+)@@",
                  lambda m: email.utils.formatdate(time.time() + int(m.group(1)) + 1, usegmt=True), str(text))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    replay = None

    def log_message(self, *_):
        pass

    def _json(self, value, status=200, headers=None):
        data = value.encode() if isinstance(value, str) else json.dumps(value, ensure_ascii=False).encode()
        self.send_response(status)
        headers = {k.lower(): v for k, v in (headers or {}).items()}
        headers.setdefault("content-type", "application/json")
        for k, v in headers.items():
            self.send_header(k, _fill_header(v))
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        url = urlparse(self.path)
        if url.path == "/_requests":
            self._json(self.replay.requests(parse_qs(url.query).get("model", [None])[0]))
        elif url.path == "/_problems":
            self._json(self.replay.problems(parse_qs(url.query)["model"][0]))
        elif url.path == "/_cases":
            self._json(self.replay.cases)
        elif url.path.endswith("/models"):
            self._json({"object": "list", "data": [{"id": i, "object": "model"} for i in self.replay.cases]})
        else:
            self._json({"error": {"message": "no such page"}}, 404)

    def do_POST(self):
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        url = urlparse(self.path)
        if url.path == "/_reset":
            self.replay.reset(parse_qs(url.query).get("model", [None])[0])
            return self._json({"ok": True})
        if not url.path.endswith(("/chat/completions", "/images/generations")):
            return self._json({"error": {"message": "no such page"}}, 404)
        entry, answer = self.replay.answer(raw, self.headers, url.path)
        try:
            if "stream" in answer:
                self._stream(answer, entry)
            else:
                time.sleep(answer.get("first_delay_ms", 0) / 1000)
                self._json(answer["body"], answer.get("status", 200), answer.get("headers"))
        except (BrokenPipeError, ConnectionResetError):
            entry["client_left"] = True
            self.close_connection = True
        entry["t_end"] = time.monotonic()

    def _stream(self, answer, entry):
        def option(name, default):
            return int(self.headers.get("x-replay-" + name.replace("_", "-"), answer.get(name, default) or default))

        delay, size = option("delay_ms", self.replay.delay_ms), option("chunk_bytes", self.replay.chunk_bytes)
        cut = self.headers.get("x-replay-abort-after")
        time.sleep(option("first_delay_ms", 0) / 1000)
        self.send_response(answer.get("status", 200))
        headers = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
        headers.update({k.lower(): v for k, v in (answer.get("headers") or {}).items()})
        for k, v in headers.items():
            self.send_header(k, _fill_header(v))
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for n, event in enumerate(answer["stream"]):
            if cut is not None and n >= int(cut):
                return self._abort()
            data = _fill(event, entry["body"]).encode("utf-8")
            if delay and n:
                time.sleep(delay / 1000)
            for i in range(0, len(data), size or len(data)):
                part = data[i:i + (size or len(data))]
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
                self.wfile.flush()
        end = answer.get("end", "clean")
        if end == "hang":
            entry["client_left"] = not self._wait(answer.get("hang_ms", 10000) / 1000)
            return self._abort()
        if end == "abort":
            return self._abort()
        self.wfile.write(b"0\r\n\r\n")

    def _wait(self, seconds):
        """Hold the line open; False as soon as the client goes away."""
        until = time.monotonic() + seconds
        self.connection.settimeout(0.05)
        while time.monotonic() < until:
            try:
                if self.connection.recv(1, socket.MSG_PEEK) == b"":
                    return False
            except (socket.timeout, TimeoutError, BlockingIOError):
                continue
            except OSError:
                return False
            time.sleep(0.05)
        return True

    def _abort(self):
        """Cut the line without the closing chunk."""
        self.close_connection = True
        time.sleep(0.05)
        try:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 0, 0))
            self.connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def main():
    parser = argparse.ArgumentParser(description="Replay chat-completions wire cases on 127.0.0.1.")
    parser.add_argument("places", nargs="*", help="folders or files of cases (default: the folder of this file)")
    parser.add_argument("--port", type=int, default=8089)
    parser.add_argument("--delay-ms", type=int, default=0, help="wait between events")
    parser.add_argument("--chunk-bytes", type=int, default=0, help="write so many bytes at a time")
    parser.add_argument("--check", action="store_true", help="validate the case files and leave")
    args = parser.parse_args()
    places = args.places or [HERE]
    if args.check:
        count, wrong = 0, 0
        for place in map(Path, places):
            for path in sorted(place.glob("*.json")) if place.is_dir() else [place]:
                count += 1
                try:
                    bad = case_problems(load_case(path), path.stem)
                except (ValueError, UnicodeDecodeError) as err:
                    bad = [str(err)]
                wrong += bool(bad)
                for line in bad:
                    print(f"{path.name}: {line}")
        print(f"{count} cases, {wrong} with something wrong")
        return 1 if wrong or not count else 0
    server = Replay(*places, port=args.port, delay_ms=args.delay_ms, chunk_bytes=args.chunk_bytes)
    print(f"{len(server.cases)} cases at {server.url}", flush=True)
    try:
        server.server.serve_forever()
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
