"""Weights for the model inside this process. The engine itself is tried by hand: see docs/json-protocol.md."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from agent.errors import SettingsError
from agent.llm.local import LocalModel, check_hash, choose_file, find_weights
from tests.agent.llm.serving import TOOLS, says, serving


def test_a_path_is_taken_as_it_is(tmp_path: Path) -> None:
    weights = tmp_path / "m.gguf"
    weights.write_bytes(b"GGUF")
    assert find_weights(str(weights)) == weights
    with pytest.raises(SettingsError):
        find_weights(str(tmp_path / "other.gguf"))


def test_of_many_files_the_usual_bargain_is_chosen() -> None:
    files = ["m-Q8_0.gguf", "m-q4_k_m.gguf", "m-Q2_K.gguf", "m-Q4_K_M-00001-of-00002.gguf"]
    assert choose_file(files) == "m-q4_k_m.gguf"
    assert choose_file(["m-00001-of-00002.gguf"]) is None and choose_file(["odd.gguf"]) == "odd.gguf"


def test_a_file_that_differs_from_its_hash_is_refused(tmp_path: Path) -> None:
    weights = tmp_path / "m.gguf"
    weights.write_bytes(b"GGUF")
    check_hash(weights, hashlib.sha256(b"GGUF").hexdigest())
    with pytest.raises(SettingsError, match="differs"):
        check_hash(weights, "0" * 64)


async def test_warming_up_reads_the_prompt_for_decisions_and_no_more(tmp_path: Path) -> None:
    none = says('{"tool": "none"}')
    async with serving(
        tmp_path, says('{"', finish="length"), none, says("Yes."), provider="local", protocol="json"
    ) as served:
        model = LocalModel(object(), served.model.server)
        await model.warm_up(TOOLS)
        await model.close()
        [body] = served.bodies
        assert body["max_tokens"] == 1 and body["temperature"] == 0
        assert all(tool.name in body["messages"][0]["content"] for tool in TOOLS)
        await served.ask("Is it open?")
        first, asked = served.bodies[:2]
        assert asked["messages"][0] == first["messages"][0], "the same beginning, so the cache holds it"
        assert asked["response_format"] == first["response_format"]
