"""Known secrets leave no trace, in none of the forms in which they travel, wherever a stream is cut."""

import base64
import itertools
import re
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.sandbox import Scrubber
from tools.sandbox.scrub import MASK

SECRET = "sk-Pro/j+Aä?1234 =="


@pytest.mark.parametrize(
    "form",
    [
        SECRET,
        quote(SECRET, safe=""),
        quote(SECRET),
        quote_plus(SECRET),
        re.sub("%[0-9A-F]{2}", lambda code: code[0].lower(), quote(SECRET, safe="")),
    ],
)
def test_plain_and_url_forms(form: str) -> None:
    assert "1234" not in Scrubber([SECRET]).scrub(f"a {form} b")


@pytest.mark.parametrize("before", ["", "x", "xy", "xyz", "user:"])
@pytest.mark.parametrize("after", ["", "z", "zz"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode, base64.encodebytes])
def test_base64_at_any_place(before: str, after: str, encode: object) -> None:
    secret = "correct horse battery staple, and then some more of it to fill a second line of base64"
    encoded = encode((before + secret + after).encode()).decode()  # type: ignore[operator]
    clean = Scrubber([secret]).scrub(f"Authorization: Basic {encoded}")
    assert MASK in clean
    assert len(clean) < 60


def test_short_values_and_other_text_stay() -> None:
    scrubber = Scrubber(["short", "", "longer-than-eight"])
    assert scrubber.scrub("a short text, a longer-than-eigh text") == "a short text, a longer-than-eigh text"
    assert Scrubber([]).scrub("anything") == "anything"


def test_a_secret_within_another() -> None:
    assert Scrubber(["abcdefgh", "abcdefgh-and-more"]).scrub("abcdefgh-and-more") == MASK


@given(st.lists(st.integers(0, 120), max_size=12), st.sampled_from(["utf-8", "base64"]))
def test_a_stream_cut_anywhere(cuts: list[int], form: str) -> None:
    raw = b"hunter2-hunter3"
    secret = base64.b64encode(raw) if form == "base64" else raw
    data = b"begin " + secret + b" middle " + secret + secret[:7] + b" hunter2-end"
    stream = Scrubber([raw.decode()]).stream()
    places = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    out = b"".join(stream.feed(data[a:b]) for a, b in itertools.pairwise(places)) + stream.flush()
    assert out == Scrubber([raw.decode()]).scrub_bytes(data)
    assert b"hunter2-hunter3" not in out


def test_nothing_waits_that_cannot_become_a_secret() -> None:
    stream = Scrubber(["hunter2-hunter3"]).stream()
    assert stream.feed(b"$ prompt: ") == b"$ prompt: "
    assert stream.feed(b"x hunt") == b"x "
    assert stream.feed(b"ing\n") == b"hunting\n"


def test_text_with_lone_surrogates() -> None:
    assert Scrubber(["hunter2-hunter3"]).scrub("\udcff hunter2-hunter3") == f"\udcff {MASK}"
