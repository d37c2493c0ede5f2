"""What a command prints: bounded, cleaned, apart and interleaved, live and at the end."""

import itertools
import json
import os
import resource
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tools.sandbox.conftest import MIB, Shell
from tools.sandbox import HeadTail, Outcome, Scrubber, clean_text
from tools.sandbox.collector import LOG_BYTES, Collector, Log
from tools.sandbox.output import HEAD_BYTES, TAIL_BYTES, unfinished, whole_characters


async def test_a_flood_ends_at_the_cap(shell: Shell) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    outcome = await shell.run("yes", output_bytes=64 * MIB)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert outcome.reason == "output_limit"
    assert grown < 20 * 1024  # KiB
    assert outcome.stdout.startswith("y\ny\n")
    assert outcome.stdout.endswith("y\ny\n")
    assert outcome.omitted_bytes == outcome.total_bytes - HEAD_BYTES - TAIL_BYTES
    assert 64 * MIB < outcome.total_bytes < 80 * MIB


async def test_one_endless_line(shell: Shell) -> None:
    heard: list[str] = []
    outcome = await shell.fence.run(shell.command("head -c 50M /dev/zero | tr '\\0' x"), heard.append)
    assert outcome.total_bytes == 50 * MIB
    assert len(outcome.output) < 10_000
    assert max(map(len, heard)) < 10_000
    assert "bytes omitted" in outcome.output


async def test_what_is_no_text(shell: Shell) -> None:
    outcome = await shell.run("head -c 1M /dev/urandom; printf '\\377\\376\\303'")
    assert outcome.total_bytes == MIB + 3
    text = json.dumps(outcome.output, ensure_ascii=False).encode()  # no lone surrogates
    assert json.loads(text) == outcome.output
    assert "\ufffd" in outcome.output


async def test_the_two_streams(shell: Shell) -> None:
    outcome = await shell.run("echo out; sleep 0.2; echo err >&2; sleep 0.2; echo more; printf last >&2")
    assert (outcome.stdout, outcome.stderr) == ("out\nmore\n", "err\nlast")
    assert sorted(outcome.output.replace("last", "last\n").split()) == ["err", "last", "more", "out"]
    assert outcome.output.startswith("out\nerr\n")


async def test_live_text_is_rare_and_bounded(shell: Shell) -> None:
    heard: list[tuple[float, str]] = []
    script = "for i in $(seq 60); do echo line $i; sleep 0.01; done; seq 100000"
    outcome = await shell.fence.run(shell.command(script), lambda text: heard.append((time.monotonic(), text)))
    assert len(heard) <= 10 * outcome.seconds + 2
    assert heard[0][1].startswith("line 1\n")
    assert "".join(text for _, text in heard).endswith("99999\n100000\n")
    assert all(len(text) < 5000 for _, text in heard)


async def test_characters_cut_between_two_reads(shell: Shell) -> None:
    heard: list[str] = []
    source = (
        "import os, time\n"
        "for byte in 'grüße 漢字 🌍 '.encode() * 3:\n    os.write(1, bytes([byte]))\n    time.sleep(0.004)"
    )
    (shell.workspace / "p.py").write_text(source)
    outcome = await shell.fence.run(shell.command("python3 p.py"), heard.append)
    assert outcome.output == "grüße 漢字 🌍 " * 3
    assert "".join(heard) == outcome.output


async def test_secrets_never_arrive(shell: Shell) -> None:
    """Also when they are cut by reads, by the head and the tail, and by the two streams."""
    secret = "hunter2-hunter2-hunter2"
    heard: list[str] = []
    source = (
        f"import os, time, base64\nsecret = {secret!r}.encode()\n"
        "for byte in b'a ' + secret + b' b':\n"
        "    os.write(1, bytes([byte])); os.write(2, bytes([byte])); time.sleep(0.003)\n"
        "os.write(1, base64.b64encode(b'xy' + secret + b'z'))\n"
        "os.write(1, (secret + b'.') * 5000)\n"
    )
    (shell.workspace / "p.py").write_text(source)
    ends: list[Outcome] = []
    outcome = await shell.fence.run(
        shell.command("python3 p.py", scrubber=Scrubber([secret])), heard.append, ends.append
    )
    for text in (outcome.output, outcome.stdout, outcome.stderr, "".join(heard), str(ends)):
        assert "hunter2" not in text
        assert "aHVudGVyMi" not in text
    assert outcome.stderr == "a [secret removed] b"


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07x", "x"),
        ("\x1b]8;;http://evil/\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]52;c;aGk=\x07copied", "copied"),
        ("\x1bP+q544e\x1b\\x\x1b_app\x1b\\y\x1b^pm\x1b\\z", "xyz"),
        ("\x1b(Bx\x1b=y\x1bcz", "xyz"),
        ("\x9b31mx\x9d0;t\x9cy", "xy"),
        ("10%\r50%\r100%\n", "100%\n"),
        ("10%\r100%\r", "100%"),
        ("windows\r\nlines\r\n", "windows\nlines\n"),
        ("a\x08\x00\x07b\x7f", "ab"),
        ("evil\u202egnp.exe\u2066\u200b\ufeff", "evilgnp.exe"),
        ("tab\tstays", "tab\tstays"),
        ("grüße 漢字 🌍", "grüße 漢字 🌍"),
        ("\U000e0041tag\u2028", "tag"),
        ("\x1b[" + "9" * 10_000 + "mx", None),
        ("\x1b]" + "9" * 10_000, "9" * 2000),
    ],
)
def test_cleaning(raw: str, clean: str | None) -> None:
    text = clean_text(raw)
    assert "\x1b" not in text
    if clean is not None:
        assert text == clean or (len(raw) > 10_000 and len(text) < 2100)


def test_long_lines_are_cut_in_the_middle() -> None:
    assert clean_text("a" * 3000 + "b" * 3000, 100) == "a" * 50 + "[... 5900 characters ...]" + "b" * 50
    assert clean_text("x" * 2000) == "x" * 2000


@given(st.text(st.characters(codec=None), max_size=300))
def test_cleaning_leaves_nothing_invisible(raw: str) -> None:
    text = clean_text(raw)
    assert all(char in "\n\t" or char.isprintable() or not char.isascii() for char in text)
    assert not {"\x1b", "\r", "\u202e", "\x9b", "\u200b"} & set(text)
    assert clean_text(text) == text
    text.encode()


@given(st.lists(st.binary(max_size=50), max_size=30), st.integers(0, 60), st.integers(1, 60))
def test_head_and_tail(pieces: list[bytes], head: int, tail: int) -> None:
    whole = b"".join(pieces)
    kept = HeadTail(head, tail)
    for piece in pieces:
        kept.feed(piece)
    assert kept.total == len(whole)
    assert kept.omitted == max(0, len(whole) - head - tail)
    if not kept.omitted:
        assert kept.raw_text() == whole.decode("utf-8", "replace")
    else:
        assert kept.raw_text().startswith(whole[:head].decode("utf-8", "replace"))
        assert kept.raw_text().endswith(whole[-tail:].decode("utf-8", "replace"))


@given(st.text(max_size=40), st.integers(0, 160))
def test_whole_characters(text: str, cut: int) -> None:
    data = text.encode("utf-8", "replace")[:cut]
    whole = whole_characters(data)
    data[:whole].decode()
    assert len(data) - whole < 4


@given(st.text(max_size=60), st.lists(st.integers(0, 200), max_size=8))
def test_the_collector_gives_the_same_wherever_the_stream_is_cut(text: str, cuts: list[int]) -> None:
    data = text.encode("utf-8", "replace")
    places = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    collector, live = Collector(None), []
    for start, end in itertools.pairwise(places):
        collector.feed(0, data[start:end])
        live.append(collector.take_live())
    collector.finish()
    live.append(collector.take_live())
    assert collector.both.text() == collector.streams[0].text() == clean_text(data.decode())
    if not {"\r", "\x1b", "\x9b", "\x9d"} & set(text) and not any(0x80 <= ord(char) < 0xA0 for char in text):
        assert "".join(live) == clean_text(data.decode())


def test_a_sequence_cut_between_two_pieces_of_live_text() -> None:
    collector, live = Collector(None), []
    for piece in (b"a\x1b", b"[3", b"1mred\x1b]0;ti", b"tle\x07 b"):
        collector.feed(0, piece)
        live.append(collector.take_live())
    assert live == ["a", "", "red", " b"]
    assert unfinished("x\x1b[31m") == 0
    assert unfinished("x\x1b]" + "a" * 5000) == 0


def test_the_log_is_addressed_by_position() -> None:
    log = Log()
    log.feed(b"one\n")
    position = log.end
    log.feed(b"two\n")
    texts = [log.read(since).text for since in (0, position, log.end, 99)]
    assert texts == ["one\ntwo\n", "two\n", "", ""]
    log.feed(b"x\n" * LOG_BYTES)
    assert log.end == 8 + 2 * LOG_BYTES
    assert len(log.read(0).text) == LOG_BYTES
    assert len(log.read(log.end - 4).text) == 4


def test_constant_memory() -> None:
    kept = HeadTail(10, 10)
    for _ in range(1000):
        kept.feed(os.urandom(1000))
    assert len(kept._tail) <= 20
