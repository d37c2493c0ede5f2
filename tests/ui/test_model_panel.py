"""The model panel as markup, and words for whatever can go wrong with a model."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agent.errors import FAULT_CODES, ModelError, Refused
from agent.llm import chosen, public
from agent.llm.public import BadWish
from ui.connecting import trouble
from ui.doctor import Finding
from ui.model_panel import Connection, Form, panel
from ui.texts import TEXTS, Language

CODES = {
    code
    for module in (chosen, public)
    for code in re.findall(r'BadWish\("(\w+)"', Path(str(module.__file__)).read_text(encoding="utf-8"))
}


@pytest.mark.parametrize("language", ["en", "zh"])
def test_whatever_goes_wrong_has_words(language: Language) -> None:
    words = TEXTS[language]
    assert len(CODES) >= 7
    for code in CODES:
        assert trouble(words, BadWish(code, "?")) == words[f"connect_no_{code}"]
    for code in FAULT_CODES:
        said = trouble(words, ModelError(code, "message", "the server's words"))
        assert said.endswith("the server's words") and len(said) > 20
        if f"connect_fault_{code}" in words:  # the panel has fields, and does not send people to a file
            assert ".env" not in said and "OPENAI_" not in said
    assert "odd" in trouble(words, Refused("odd"))


def test_the_panel_escapes_whatever_a_server_says_and_has_no_key() -> None:
    evil = '"><script>x</script>'
    now = Connection(
        evil, evil, names=(evil,), problem=evil, done=evil, findings=(Finding("bad", evil, evil, evil),), key_known=True
    )
    for words in TEXTS.values():
        shown = panel(words, Form(evil, evil, evil), now)
        assert "<script" not in shown
        (key,) = re.findall(r'<input type="password"[^>]*>', shown)
        assert 'value=""' in key


def test_what_may_be_kept_is_offered_only_where_it_may() -> None:
    words = TEXTS["en"]
    assert 'name="save"' in panel(words, Form(), Connection("demo", may_save=True))
    strangers = panel(words, Form(), Connection("demo", at_home=False))
    assert 'name="save"' not in strangers and "127.0.0.1" not in strangers


def test_what_a_person_wrote_goes_when_the_app_fills_the_form_anew() -> None:
    words = TEXTS["en"]
    first, second = (panel(words, Form(), Connection("demo", form_number=n)) for n in (0, 1))
    kept = re.findall(r'data-keep="([^"]+)"', first)
    assert len(kept) == 4 and not set(kept) & set(re.findall(r'data-keep="([^"]+)"', second))
