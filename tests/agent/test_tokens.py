"""How many tokens a text is: the estimate, the server's count, and how much a model reads."""

from __future__ import annotations

import pytest

from agent.events import Compacted, Replied, TurnStarted, Usage
from agent.llm.model import Request, Window
from agent.llm.windows import window_by_name, window_in_list
from agent.messages import AssistantMessage, Message, UserMessage
from agent.tokens import Counts, estimate

WINDOW = Window(10_000, "setting")


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        # as published with the tokenizer of GPT-4o
        ("你好,我的名字是GPT-4o。我是一种新型的语言模型,很高兴见到你!", 24),
        ("Hello, my name is GPT-4o. I'm a new type of language model, it's nice to meet you!", 24),
        ("こんにちわ、私の名前はGPT−4oです。私は新しいタイプの言語モデルです。初めまして", 26),
        ("안녕하세요, 제 이름은 GPT-4o입니다. 저는 새로운 유형의 언어 모델입니다, 만나서 반갑습니다!", 27),
        # counted with the published vocabulary of Qwen
        ("你好，我的名字是小明，今天天气很好，我们一起去公园散步吧。", 18),
        (
            "人工智能是计算机科学的一个分支，它企图了解智能的实质，并生产出一种新的能以人类智能相似的方式做出反应的智能机器。",
            30,
        ),
        ("请把 data.csv 里的销售额按月份汇总，画一张柱状图，保存为 report.png，并用三句话说明趋势。", 28),
        ("床前明月光，疑是地上霜。举头望明月，低头思故乡。", 21),
        ("The quick brown fox jumps over the lazy dog, and then it goes home to sleep until morning.", 20),
        ('def add(a: int, b: int) -> int:\n    """Add two numbers."""\n    return a + b\n', 25),
        ('{"path": "src/main.py", "lines": [1, 2, 3], "ok": true, "name": "report"}', 31),
    ],
)
def test_the_estimate_is_within_a_quarter(text: str, tokens: int) -> None:
    assert estimate(text) == pytest.approx(tokens, rel=0.25)


def request(*messages: Message) -> Request:
    return Request("You are kind.", messages)


QUESTION, ANSWER = UserMessage("word " * 1_000), AssistantMessage("so " * 100)


def counts(usage: Usage | None) -> Counts:
    counts = Counts()
    counts.add(TurnStarted(1, QUESTION))
    counts.add(Replied(ANSWER, "stop", usage))
    return counts


def test_the_server_s_count_is_taken_and_puts_the_estimate_right() -> None:
    told = counts(Usage(1_500, 120, reasoning_tokens=20))
    filling = told.fill(request(QUESTION, ANSWER), [1], WINDOW)
    assert filling.counted and filling.used == 1_600 and filling.share == 0.16
    more = told.fill(request(QUESTION, ANSWER, UserMessage("word " * 100)), [1, 2], WINDOW)
    assert more.counted and more.used == pytest.approx(1_600 + 100 * 1.5, abs=15)
    told.add(Compacted(1_600, 100))
    shown = told.fill(request(UserMessage("word " * 100)), [1, 2], WINDOW)
    assert not shown.counted and shown.used == pytest.approx((100 + 12) * 1.5, abs=15)  # in the server's tokens still


@pytest.mark.parametrize("usage", [None, Usage(), Usage(10, 5), Usage(40_000, 5)])
def test_a_count_that_cannot_be_of_this_request_is_not_believed(usage: Usage | None) -> None:
    filling = counts(usage).fill(request(QUESTION, ANSWER), [1], WINDOW)
    assert not filling.counted and filling.used == pytest.approx(1_120, rel=0.1)


@pytest.mark.parametrize(
    ("name", "tokens"),
    [
        ("gpt-4o-mini", 128_000),
        ("openai/gpt-4.1", 1_047_576),
        ("gpt-4", 8_192),
        ("moonshot-v1-32k", 32_000),
        ("Qwen/Qwen2.5-7B-Instruct", 32_768),
        ("deepseek-chat", 128_000),
        ("llama3.1:8b", 128_000),
        ("something-7b", 32_768),
    ],
)
def test_what_is_known_by_name(name: str, tokens: int) -> None:
    assert window_by_name(name).tokens == tokens
    assert window_by_name(name, is_local=True).tokens <= 32_768


@pytest.mark.parametrize(
    ("listed", "tokens"),
    [
        ({"data": [{"id": "other", "context_length": 1_024}, {"id": "m", "context_length": 65_536}]}, 65_536),
        ({"data": [{"id": "m", "max_model_len": 4_096}]}, 4_096),
        ({"data": [{"id": "m", "context_length": 9_000, "top_provider": {"context_length": 8_000}}]}, 8_000),
        ({"models": [{"name": "m", "context_window": "large"}]}, None),
        ({"data": [{"id": "m"}]}, None),
        (["m"], None),
        ("no list", None),
    ],
)
def test_what_a_server_says_in_its_list(listed: object, tokens: int | None) -> None:
    assert window_in_list(listed, "m") == tokens
