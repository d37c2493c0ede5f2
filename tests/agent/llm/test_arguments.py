"""Arguments as models write them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.llm.arguments import read_arguments

OSLO = {"city": "Oslo"}

SOUND = [
    ('{"city": "Oslo"}', OSLO),
    ("", {}),
    ("null", {}),
    ("{}", {}),
    ('{"query": "the pilot\'s chart"}', {"query": "the pilot's chart"}),
]

REPAIRED = [
    ('"{\\"city\\": \\"Oslo\\"}"', OSLO),
    (json.dumps(json.dumps('{"city": "Oslo"}')), OSLO),
    ("{'city': 'Oslo', 'x': None, 'y': True}", {"city": "Oslo", "x": None, "y": True}),
    ('{"text": "a\n\tb"}', {"text": "a\n\tb"}),
    ('{"city": "Oslo"}</function>', OSLO),
    ('{"city": "Oslo"}}', OSLO),
    ('{"city": "Oslo"}<|im_end|>', OSLO),
    ('{"city": "Oslo"}{"city": "Oslo"}', OSLO),
    ('{}{"city": "Oslo"}', OSLO),
    ('```json\n{"city": "Oslo"}\n```', OSLO),
    ('[{"city": "Oslo"}]', OSLO),
    ('{"city": "Oslo",}', OSLO),
    ('{city: "Oslo"}', OSLO),
    ('{"city": "Oslo"', OSLO),
    ('Here it is: {"city": "Oslo"}', OSLO),
    ('{"path": "C:\\dir\\x"}', {"path": "C:\\dir\\x"}),
    ('{"n": NaN}', {"n": None}),
]

FAULTY = [
    '{"path": "story.md", "content": "The keeper',
    '{"path": "story.md", "content":',
    '{"path": "story.md",',
    "{",
    '{"city": "Oslo"}{"city": "Bern"}',
    "hello",
    "7",
    "[1, 2]",
    '"just text"',
    "[" * 100_000,
]


@pytest.mark.parametrize(("text", "value"), SOUND)
def test_sound_arguments_are_left_alone(text: str, value: Any) -> None:
    read = read_arguments(text)
    assert (read.value, read.repairs, read.fault) == (value, (), "")


@pytest.mark.parametrize(("text", "value"), REPAIRED)
def test_what_leaves_no_doubt_is_repaired_and_said(text: str, value: Any) -> None:
    read = read_arguments(text)
    assert read.value == value and read.repairs and not read.fault


@pytest.mark.parametrize("text", FAULTY)
def test_what_may_be_cut_off_is_never_an_instruction(text: str) -> None:
    read = read_arguments(text)
    assert read.value is None and read.fault and read.text == "{}"


def test_half_surrogates_do_not_pass() -> None:
    assert read_arguments('{"a": "x\\ud83c"}').value == {"a": "x\ufffd"}
    assert read_arguments('{"a": "\\ud83d\\ude00"}').value == {"a": "😀"}


@settings(deadline=None)
@given(st.text())
def test_any_text_gives_strict_json(text: str) -> None:
    read = read_arguments(text)
    assert isinstance(json.loads(read.text), dict)
    read.text.encode()
    assert (read.value is None) == bool(read.fault)


@settings(deadline=None, max_examples=40)
@given(
    st.dictionaries(
        st.text(min_size=1, max_size=8), st.one_of(st.text(max_size=12), st.integers(), st.none()), min_size=1
    )
)
def test_no_beginning_of_an_object_is_taken_for_another(value: dict[str, Any]) -> None:
    """Cut anywhere inside a string or before a value, it is refused; else it has the same beginning."""
    text = json.dumps(value)
    for end in range(1, len(text)):
        read = read_arguments(text[:end])
        if read.value is not None:
            assert list(read.value) == list(value)[: len(read.value)]
