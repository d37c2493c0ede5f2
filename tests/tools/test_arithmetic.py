"""calculator: arithmetic, and nothing else."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.errors import ToolError
from tests.tools.calling import call
from tools.arithmetic import calculator


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("(3 + 4) * 2 ** 10", "7168"),
        ("0.1 + 0.2", "0.3"),
        ("17 / 100 * 240", "40.8"),
        ("2 ** 200", str(2**200)),
        ("2 ** 9999 % 1000", str(2**9999 % 1000)),
        ("7 // 2 + -7 % 3", "5"),
        ("sqrt(2) ** 2", "2"),
        ("cbrt(27) + cbrt(-8)", "1"),
        ("round(2.567, 2)", "2.57"),
        ("round(2.5) + floor(2.9) + ceil(2.1)", "7"),
        ("factorial(20)", "2432902008176640000"),
        ("max(1, 2.5, gcd(12, 18)) + min(3, 4)", "9"),
        ("sin(pi / 6)", "0.5"),
        ("log(e)", "1"),
        ("1 / 3", "0.333333333333333"),
        ("10 / 2", "5"),
        ("（3＋4）× 2 ÷ 7", "2"),
        ("1e3", "1000"),
        ("(-1) ** (10 ** 20) + 1 ** (10 ** 20) + 0 ** (10 ** 20)", "2"),
        ("3 > 2", "true"),
        ("1 if 2 > 3 else 4", "4"),
    ],
)
def test_arithmetic(tmp_path: Path, expression: str, value: str) -> None:
    result = call(calculator, tmp_path, expression=expression)
    assert (result.text, result.details["value"]) == (value, value)


@pytest.mark.parametrize(
    "expression",
    [
        # too large, in every way
        "9 ** 9 ** 9", "10 ** 10000", "factorial(100000)", "factorial(-1)", "comb(10 ** 9, 10 ** 8)",
        "2 ** 9000 * 2 ** 9000", "round(1, 10 ** 9)", "round(1, -10 ** 9)", "exp(10 ** 6)", "1e308 * 10", "1e999",
        "perm(5000, 5000)", "pow(9, 9 ** 9)", "lcm(2 ** 9000, 3 ** 6000)",
        # not numbers
        "'a' * 10", "'a' + 'b'", "[1, 2]", "(1, 2)", "{1: 2}", "f'{1}'", "True + 1", "None", "1j", "(-8) ** 0.5",
        "1, 2", "'a'", "b'a'", "...",
        # not arithmetic
        "__import__('os').system('true')", "().__class__", "(1).real", "open('x')", "x = 1", "lambda: 1",
        "[x for x in 'a']", "pi.real", "sqrt", "abs.__self__", "1; 2", "import os", "eval('1')", "rand()", "randint(5)",
        "x", "1 << 5", "~5", "2 ^ 3", "(x := 1)", "sqrt(x=2)", "max()", "max(1)", "round('a')",
        "1 in [1]", "'a' == 'a'",
        # not an expression
        "", "   ", "1 +", "(1", "1 2", "\0", "-" * 499 + "1", "1,234.5 +", "17%", "5 / 0",
        "5 % 0", "0 ** -1", "sqrt(-1)", "log(0)",
    ],
)  # fmt: skip
def test_everything_else_is_refused(tmp_path: Path, expression: str) -> None:
    with pytest.raises(ToolError):
        value = call(calculator, tmp_path, expression=expression)
        raise AssertionError(value.text)


def test_a_long_expression_is_refused_by_the_schema(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="500"):
        call(calculator, tmp_path, expression="1+" * 300 + "1")


@settings(deadline=None)
@given(st.text(alphabet="0123456789+-*/%().,e abs<>=!", max_size=40))
def test_no_expression_raises_anything_else(tmp_path_factory: pytest.TempPathFactory, expression: str) -> None:
    with suppress(ToolError):
        call(calculator, tmp_path_factory.getbasetemp(), expression=expression)
