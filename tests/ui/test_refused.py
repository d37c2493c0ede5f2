"""What the engine refuses has words in both languages."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.errors import NotKept, Refused
from ui.refused import why
from ui.texts import TEXTS

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [*(ROOT / "agent").rglob("*.py"), *(ROOT / "ui").glob("*.py"), *(ROOT / "tools").glob("*.py")]
SOURCES += (ROOT / "tools" / "checkpoint").glob("*.py")
MESSAGE = {Refused.__name__: 0, NotKept.__name__: 1}
"""Which argument is the sentence."""


def said(node: ast.expr, constants: dict[str, str]) -> str | None:
    """The sentence, something in the place of each value; None where it is somebody else's."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.Name):
        return constants.get(node.id)
    if isinstance(node, ast.JoinedStr):
        return "".join(str(one.value) if isinstance(one, ast.Constant) else "<7>" for one in node.values)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "strip":
        return said(node.func.value, constants)
    return None


def refusals() -> Iterator[tuple[str, str]]:
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in SOURCES}
    constants = {
        target.id: text
        for tree in trees.values()
        for node in tree.body
        if isinstance(node, ast.Assign) and (text := said(node.value, {})) is not None
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in MESSAGE:
                sentence = said(node.args[MESSAGE[node.func.id]], constants)
                if sentence is not None:
                    yield f"{path.name}:{node.lineno}", sentence


def test_every_refusal_can_be_said_in_chinese() -> None:
    found = dict(refusals())
    assert len(found) > 50 and "a turn is running; stop it first" in found.values()
    for where, sentence in found.items():
        chinese = why(TEXTS["zh"], sentence)
        assert re.search(r"[\u4e00-\u9fff]", chinese), f"{where}: no words in ui/words/refusals.py for: {sentence}"
        assert why(TEXTS["en"], sentence) == sentence.rstrip("."), where


@pytest.mark.parametrize(
    ("sentence", "chinese"),
    [
        ("a turn is running; stop it first", "正在运行中，请先停止"),
        ("line 12 is too long", "第 12 行太长"),
        ("the rules in r.json cannot be read: Permission denied", "无法读取 r.json 里的规则：Permission denied"),
        ("The database does not answer as it should.", "数据库没有正常响应"),
        ("the changed arguments do not fit: {0} {path}\nand more.", "修改后的参数不合要求：{0} {path}\nand more"),
        ("no checkpoint could be taken (EIO), so nothing was undone", "无法建立检查点（EIO），所以什么都没有撤销"),
        ("something nobody knows", "something nobody knows"),
    ],
)
def test_what_a_sentence_names_stays_in_it(sentence: str, chinese: str) -> None:
    assert why(TEXTS["zh"], Refused(sentence)) == chinese
