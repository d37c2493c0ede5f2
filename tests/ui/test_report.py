"""The report: all of a session in one file that loads nothing, runs nothing and keeps no secret."""

from __future__ import annotations

import base64
import hashlib
import re
import string
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image

from agent.errors import Refused
from agent.events import (
    BranchSelected,
    CallAwaiting,
    CallDecided,
    CallFinished,
    CallStarted,
    Event,
    Fault,
    File,
    Nudged,
    Receipt,
    Replied,
    RequestSent,
    Retrying,
    Rule,
    RuleGranted,
    StepStarted,
    TextDelta,
    TurnEnded,
    TurnResumed,
    TurnStarted,
    Usage,
)
from agent.exchange import import_lines
from agent.log import Entry
from agent.messages import AssistantMessage, ToolCall, UserMessage
from tests.ui.stage import HOSTILE
from ui import report as report_file
from ui.report import render_report
from ui.report_markup import MAX_TEXT
from ui.report_pictures import MAX_PICTURE, Pictures
from ui.report_texts import REPORT_TEXTS
from ui.timeline import Timeline

if TYPE_CHECKING:
    from playwright.sync_api import Browser

UI = Path(report_file.__file__).parent
CALL = ToolCall("c1", "run_command", '{"command": "make test"}')


def entries(*timed: tuple[float, Event]) -> list[Entry]:
    at, made = 1_700_000_000.0, []
    for seq, (seconds, event) in enumerate(timed):
        at += seconds
        made.append(Entry(seq, at, event))
    return made


def request(*texts: str, kept: int = 0, **body: Any) -> RequestSent:
    return RequestSent(
        "the-model", {"model": "the-model", **body}, kept, tuple({"role": "user", "content": t} for t in texts)
    )


def session(*files: File) -> list[Entry]:
    """One turn with nearly everything in it, and one that failed."""
    return entries(
        (0, TurnStarted(1, UserMessage("Test it"))),
        (0, StepStarted(1)),
        (0, request("first of all", temperature=0.5)),
        (1, Retrying("rate_limited", "429", 1.0, 2)),
        (1, Replied(AssistantMessage("I **test**.", "Hmm.", (CALL,)), "tool_calls", Usage(1200, 30, 1000), "served")),
        (0, CallAwaiting("c1", "0" * 64, "it runs a command")),
        (0, TurnEnded(1, "awaiting_approval")),
        (5, RuleGranted(Rule("r", "session", "run_command", ("execute",), text="make"), "c1")),
        (0, CallDecided("c1", "0" * 64, True, arguments='{"command": "make check"}')),
        (0, TurnResumed(1)),
        (0, CallStarted("c1")),
        (3, CallFinished("c1", "run_command", "failed", "2 failed", files, {"exit_code": 2, "diff": "-a\n+b\n"})),
        (0, Nudged("repeating", "You repeat yourself.")),
        (0, StepStarted(2)),
        (0, request("then that", kept=1, temperature=0.5)),
        (1, Replied(AssistantMessage("Two fail."), "stop", Usage(1300, 10))),
        (0, TurnEnded(1, "answered")),
        (0, TurnStarted(2, UserMessage("And now?"), parent=1)),
        (0, StepStarted(1)),
        (0, TextDelta("Half an ans")),
        (1, TurnEnded(2, "error", Fault("connection_lost", "Lost.", "peer closed"))),
    )  # fmt: skip


def report(log: Sequence[Entry], language: Any = "en", title: str = "A title", **more: Any) -> str:
    return render_report(log, language, title, more.pop("scrub", str), **more)


class Reader(HTMLParser):
    """What a browser would load or run, and what a person would read."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self._silent = 0
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._silent += tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in ("script", "style")

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.words += data + "\n"


# ---------------------------------------------------------------------- what it says


def test_everything_that_happened_is_told() -> None:
    words = Reader(report(session(File("", "out.zip", "application/zip", 2_000)))).words
    for told in (
        "Test it", "rate limited", "Hmm.", "I \ntest", "make test", "it runs a command", "other arguments",
        "make check",
        "run_command make", "2 failed", "exit 2", "3.0 s", "+b", "out.zip", "2.0 kB", "You repeat yourself.",
        "Two fail.",
        "first of all", "then that", "first 1 messages", "as in the request before", "0.5", "And now?", "Half an ans",
        "cut off", "peer closed", "2,500 in (1,000 from the cache), 40 out", "served, the-model", "2 turns",
        "3 steps", "1 tool call", "2023-11-14", "A title",
    ):  # fmt: skip
        assert told in words, told


def test_chinese_is_told_in_chinese() -> None:
    page = report(session(), "zh")
    words = Reader(page).words
    assert 'lang="zh-CN"' in page
    for told in ("第 1 轮", "第 2 步", "完整的请求", "曾请求人来决定", "已回答", "连接中断"):
        assert told in words, told
    assert "Turn 1" not in words


def test_both_languages_say_the_same_things() -> None:
    english, chinese = REPORT_TEXTS["en"], REPORT_TEXTS["zh"]
    assert english.keys() == chinese.keys()
    for key, said in english.items():
        names = [{name for _, name, _, _ in string.Formatter().parse(text) if name} for text in (said, chinese[key])]
        assert names[0] == names[1] or "one" in key, key
        assert re.search(r"[\u4e00-\u9fff]", chinese[key]), key
    sources = [path.read_text(encoding="utf-8") for path in UI.glob("report*.py") if path.stem != "report_texts"]
    used = set(re.findall(r"[\"'](\w+)[\"']", "".join(sources))) | {"legend_model", "legend_tool"}
    assert [key for key in english if key.removesuffix("_one") not in used] == []


def test_a_branch_says_what_it_follows() -> None:
    log = entries(
        (0, TurnStarted(1, UserMessage("a"))), (0, TurnEnded(1, "answered")),
        (0, TurnStarted(2, UserMessage("b"), parent=1)), (0, TurnEnded(2, "answered")),
        (0, TurnStarted(3, UserMessage("c"), parent=1)), (0, TurnEnded(3, "answered")),
        (0, TurnStarted(4, UserMessage("d"))), (0, TurnEnded(4, "answered")),
        (0, BranchSelected(2)), (0, TurnStarted(5, UserMessage("e"), parent=2)),
    )  # fmt: skip
    assert [turn.grows for turn in Timeline(log).turns] == [True, True, False, False, True]
    words = Reader(report(log)).words
    assert "follows turn 1" in words and "Another beginning" in words and "had not ended" in words


def test_a_stopped_turn_says_what_it_had_done() -> None:
    receipt = Receipt(steps=2, calls=3, killed=1, changed={"a.txt": "modified"})
    log = entries((0, TurnStarted(1, UserMessage("a"))), (0, TurnEnded(1, "stopped", receipt=receipt)))
    words = Reader(report(log)).words
    assert "Stopped." in words and "3 tool calls ran, 1 process ended, changed: a.txt" in words


def test_an_empty_session_has_no_report() -> None:
    with pytest.raises(Refused):
        report([])


def test_a_long_text_is_cut_and_says_so() -> None:
    log = session()
    log[11] = replace(log[11], event=CallFinished("c1", "run_command", "done", "x" * (MAX_TEXT + 1_234)))
    page = report(log)
    shown, _, carried = page.partition('<script type="application/json"')
    assert (
        "1,234 more characters" in shown and "x" * (MAX_TEXT + 1) not in shown and "x" * (MAX_TEXT + 1_234) in carried
    )


# ---------------------------------------------------------------------- what it never does


def test_it_loads_nothing_and_runs_nothing() -> None:
    log = session(File("", HOSTILE, "image/svg+xml", 1))
    hostile_call = ToolCall("c1", HOSTILE, '{"a": "</script><script>"}', repairs=(HOSTILE,), fault=HOSTILE)
    hostile = AssistantMessage(HOSTILE, HOSTILE, (hostile_call,))
    log[0] = replace(log[0], event=TurnStarted(1, UserMessage(HOSTILE)))
    log[2] = replace(log[2], event=request(HOSTILE, x=HOSTILE))
    log[4] = replace(log[4], event=Replied(hostile, "tool_calls", None, HOSTILE))
    log[5] = replace(log[5], event=CallAwaiting("c1", HOSTILE, HOSTILE))
    log[12] = replace(log[12], event=Nudged(HOSTILE, HOSTILE))
    page = report(log, title=HOSTILE)
    tags = Reader(page).tags
    allowed = {
        "html", "head", "meta", "title", "style", "body", "header", "main", "section", "script", "p", "span", "svg",
        "circle",
        "h1", "h2", "h3", "h4", "small", "dl", "dt", "dd", "div", "details", "summary", "pre", "code", "em", "strong",
        "rect",
        "ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td", "blockquote", "br", "hr", "s",
    }  # fmt: skip
    assert {tag for tag, _ in tags} <= allowed
    names = {name for tag, attributes in tags if tag != "meta" for name in attributes}
    assert not {name for name in names if name.startswith("on")} and not names & {
        "src",
        "href",
        "style",
        "srcset",
        "action",
    }
    assert [attributes["type"] for tag, attributes in tags if tag == "script"] == ["application/json"]


def test_its_policy_lets_nothing_in_but_its_own_style() -> None:
    page = report(session())
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)
    assert policy and style
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert policy[1].split("; ") == [
        "default-src 'none'", f"style-src 'sha256-{digest}'", "img-src data:", "base-uri 'none'", "form-action 'none'",
    ]  # fmt: skip
    assert page.index("Content-Security-Policy") < page.index("<style>")


def test_secrets_are_out_of_all_of_it() -> None:
    log = session(File("/home/s3cret/x", "s3cret.txt", "text/plain", 1))
    call = replace(CALL, arguments='{"command": "echo s3cret"}')
    log[0] = replace(log[0], event=TurnStarted(1, UserMessage("s3cret")))
    log[2] = replace(log[2], event=request("s3cret", header={"s3cret": "s3cret"}))
    log[4] = replace(log[4], event=Replied(AssistantMessage("s3cret", "s3cret", (call,)), "tool_calls"))
    log[19:20] = [replace(log[19], event=TextDelta("s3")), replace(log[19], event=TextDelta("cret"))]
    log = [replace(entry, seq=seq) for seq, entry in enumerate(log)]
    page = report(log, title="about s3cret", scrub=lambda text: text.replace("s3cret", "***"))
    assert "s3cret" not in page and "/home" not in page and "***.txt" in page
    assert "taken out" in Reader(page).words


def test_what_repaints_a_page_or_fits_no_file_is_left_out() -> None:
    log = entries((0, TurnStarted(1, UserMessage("a\x00b\x1b[2J\u202ec\ud800d"))), (0, TurnEnded(1, "answered")))
    page = report(log, title="x\ud800\u202ey")
    page.encode()
    assert "ab[2Jcd" in page and "<title>xy" in page


def test_any_time_can_be_told() -> None:
    log = [replace(entry, at=1e300) for entry in session()]
    assert "2 turns" in Reader(report(log)).words


# ---------------------------------------------------------------------- pictures


def test_pictures_of_the_outbox_are_in_it_and_nothing_else(tmp_path: Path) -> None:
    outbox = tmp_path / "outbox"
    outbox.mkdir()
    Image.new("RGB", (40, 30), "teal").save(outbox / "good.png")
    Image.new("RGB", (40, 30), "teal").save(tmp_path / "outside.png")
    (outbox / "drawing.png").write_text("<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>")
    (outbox / "link.png").symlink_to(tmp_path / "outside.png")
    paths = [
        outbox / "good.png",
        tmp_path / "outside.png",
        outbox / "drawing.png",
        outbox / "link.png",
        outbox / "gone",
    ]
    pictures = Pictures(outbox)
    shown = [pictures.embed(File(str(path), "x", "image/png", 1)) for path in paths]
    assert shown[0] == "data:image/png;base64," + base64.b64encode(paths[0].read_bytes()).decode()
    assert shown[1:] == ["", "", "", ""] and pictures.embed(File("", "x", "image/png", 1)) == ""

    page = report(session(*(File(str(path), path.name, "image/png", 1) for path in paths[:2])), embed=pictures.embed)
    images = [attributes for tag, attributes in Reader(page).tags if tag == "img"]
    assert images == [{"src": shown[0], "alt": "good.png"}]
    assert "outside.png" in page and "not in this file" in page


def test_large_pictures_and_too_many_of_them_are_only_named(tmp_path: Path) -> None:
    Image.effect_noise((1_000, 900), 90).save(tmp_path / "a.bmp")
    noise = Image.open(tmp_path / "a.bmp")
    noise.save(tmp_path / "fits.png")
    large = (tmp_path / "fits.png").read_bytes()
    (tmp_path / "large.png").write_bytes(large + b"\0" * MAX_PICTURE)
    noise.close()
    pictures = Pictures(tmp_path)
    assert pictures.embed(File(str(tmp_path / "large.png"), "x", "image/png", 1)) == ""
    shown = [pictures.embed(File(str(tmp_path / "fits.png"), "x", "image/png", 1)) for _ in range(60)]
    assert shown[0] and not shown[-1] and sum(map(len, shown)) < 40 << 20


# ---------------------------------------------------------------------- and back


def test_the_log_in_it_can_be_imported() -> None:
    log = session(File("/x/out.zip", "out.zip", "application/zip", 2_000))
    page = report(log, title="<b>A title</b>").encode()
    imported = import_lines(page, 0, file_names=True)
    assert imported.title == "<b>A title</b>"
    history = [entry.event for entry in log if not isinstance(entry.event, RuleGranted)]
    again = [entry.event for entry in imported.entries]
    assert again[:10] == history[:10] and again[11:] == history[11:]
    assert isinstance(again[10], CallFinished) and again[10].files == (File("", "out.zip", "application/zip", 2_000),)


# ---------------------------------------------------------------------- in a browser


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_opens_it_from_the_disk(browser: Browser, tmp_path: Path, scheme: Any) -> None:
    Image.new("RGB", (40, 30), "teal").save(tmp_path / "p.png")
    log = session(File(str(tmp_path / "p.png"), "p.png", "image/png", 1))
    log[0] = replace(log[0], event=TurnStarted(1, UserMessage(HOSTILE)))
    log[15] = replace(log[15], event=Replied(AssistantMessage(HOSTILE + "\n\n| a | b |\n|:-|-:|\n| 1 | 2 |\n"), "stop"))
    (tmp_path / "report.html").write_text(report(log, embed=Pictures(tmp_path).embed), encoding="utf-8")
    context = browser.new_context(color_scheme=scheme, viewport={"width": 390, "height": 800})
    page = context.new_page()
    asked: list[str] = []
    said: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto((tmp_path / "report.html").as_uri())
    page.locator("summary", has_text="run_command").click()
    assert page.get_by_text("2 failed").is_visible()
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == [] and said == []
    assert page.evaluate("document.querySelector('img').naturalWidth") == 40
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == {"light": "rgb(251, 251, 249)", "dark": "rgb(22, 25, 27)"}[scheme]
    context.close()
