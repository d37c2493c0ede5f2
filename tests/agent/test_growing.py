"""Chunks that hold all of the text so far, and chunks that only look like it."""

import pytest

from agent.llm.growing import Growing


def read(*chunks: str) -> str:
    growing = Growing()
    return "".join([growing.feed(chunk) for chunk in chunks]) + growing.close()


@pytest.mark.parametrize(
    "chunks",
    [
        ("H", "He", "Hello", "Hello, how", "Hello, how are you?"),
        ("Hello", "Hello, how are", "Hello, how are you?", "Hello, how are you?"),  # the last one twice
        ("Hello, how are you?",),
        ("Hello, how are", "Hello, how are you?"),
        ("", "Hello", "Hello,", "", "Hello, how are", "Hello, how", "Hello, how are you?"),  # one of them is late
    ],
)
def test_what_grows_is_said_once(chunks: tuple[str, ...]) -> None:
    assert read(*chunks) == "Hello, how are you?"


@pytest.mark.parametrize(
    "chunks",
    [
        ("1", "10", "100", "\n", "1000"),
        ("ha", "haha", "hahaha!", " he said"),
        ("no", "no"),
        ("no", "nope"),
        ("The cat", " The cat sat", " The cat sat on"),
        ("a", "ab", "c", "abcd"),
        ("a line of text\n", "a line of text\n", "a line of text\nand more"),
    ],
)
def test_what_only_looks_like_it_is_left_alone(chunks: tuple[str, ...]) -> None:
    assert read(*chunks) == "".join(chunks)


def test_what_is_new_comes_as_soon_as_it_is_certain() -> None:
    growing = Growing()
    given = [growing.feed(chunk) for chunk in ("Once", "Once upon", "Once upon a time", "Once upon a time there")]
    assert given == ["Once", "", " upon a time", " there"]
