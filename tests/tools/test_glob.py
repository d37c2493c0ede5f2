"""Patterns against paths."""

from __future__ import annotations

import pytest

from tools.glob import matches


@pytest.mark.parametrize(
    ("path", "pattern", "fits"),
    [
        ("a.py", "*.py", True),
        ("src/deep/a.py", "*.py", True),
        ("src/a.pyc", "*.py", False),
        ("src/a.py", "src/*.py", True),
        ("src/deep/a.py", "src/*.py", False),
        ("src/a.py", "src/**/*.py", True),
        ("src/deep/er/a.py", "src/**/*.py", True),
        ("other/a.py", "src/**/*.py", False),
        ("a.py", "**/*.py", True),
        ("a/b/c", "**", True),
        ("src/a/b", "src/**", True),
        ("src/a.py", "./src/*.py", True),
        ("src/a1.py", "src/a[0-9].py", True),
        ("A.PY", "*.py", False),
        ("a/b", "**/**/**/b", True),
        ("a/b", "**/x/**", False),
    ],
)
def test_patterns(path: str, pattern: str, fits: bool) -> None:
    assert matches(path, pattern) is fits


def test_no_pattern_is_slow() -> None:
    """A backtracking matcher would not come back from these."""
    assert not matches("/".join("a" * 32), "/".join(["**", "*a*"] * 16) + "/b")
    assert not matches("a" * 255, "*a" * 100 + "b")
