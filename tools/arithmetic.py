"""calculator: arithmetic with numbers, and nothing else.

Knows which operations there are and how large a number may grow. The expression is walked by simpleeval over a parsed
tree, never by Python's `eval`; what is not arithmetic (attributes, texts, lists, indexing) is taken out of its
vocabulary.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import Field
from simpleeval import InvalidExpression, OperatorNotDefined, SimpleEval  # type: ignore[import-untyped]

from agent.errors import ToolError
from agent.tool import Effect, ToolContext, ToolResult, tool

MAX_EXPRESSION_CHARS = 500
MAX_BITS = 10_000
"""Of a whole number: some 3,000 digits. Larger ones cost time and tell a model nothing."""
_MAX_FACTORIAL = 1_000

Number = int | float
_WRITTEN_AS = str.maketrans(
    {"×": "*", "÷": "/", "−": "-", "·": "*", "（": "(", "）": ")", "，": ",", "＋": "+", "＝": "="}
)


@tool(Effect.READ, speaks="app")
def calculator(
    context: ToolContext,
    expression: Annotated[
        str, Field(description="Such as (3 + 4) * 2 ** 10, sqrt(2), 17 / 100 * 240.", max_length=MAX_EXPRESSION_CHARS)
    ],
) -> ToolResult:
    """Calculate an expression: + - * / // % ** ( ), comparisons, and functions.

    Whole numbers are exact up to about 3,000 digits, others have 15 digits. Functions: abs, round, floor, ceil,
    trunc, min, max, pow, sqrt, cbrt, isqrt, exp, log, log2, log10, sin, cos, tan, asin, acos, atan, atan2, sinh, cosh,
    tanh, hypot, degrees, radians, gcd, lcm, comb, perm, factorial. Names: pi, e, tau. Angles are in radians.
    """
    value = _calculate(expression.translate(_WRITTEN_AS).strip())
    return ToolResult(value, details={"value": value if len(value) <= 100 else f"{value[:40]}...{value[-40:]}"})


def _calculate(expression: str) -> str:
    try:
        tree = ast.parse(expression, mode="eval")
        return _written(_Arithmetic().eval(expression, previously_parsed=tree.body))
    except SyntaxError:
        raise ToolError(f"{expression!r} is not an expression. Write for example (3 + 4) * 2 ** 10") from None
    except (RecursionError, MemoryError):
        raise ToolError("the expression is nested too deeply") from None
    except ZeroDivisionError:
        raise ToolError("division by zero") from None
    except OverflowError:
        raise ToolError("the result is too large") from None
    except OperatorNotDefined:
        raise ToolError("this operator is not arithmetic. A power is written **") from None
    except (InvalidExpression, ValueError, TypeError) as error:
        raise ToolError(f"cannot calculate this: {error}") from None


class _Arithmetic(SimpleEval):  # type: ignore[misc]
    """simpleeval with numbers as its only values."""

    def __init__(self) -> None:
        super().__init__(
            operators=_OPERATORS, functions=_FUNCTIONS, names={"pi": math.pi, "e": math.e, "tau": math.tau}
        )
        for node in (ast.Attribute, ast.Subscript, ast.JoinedStr, ast.FormattedValue):
            self.nodes.pop(node, None)


def _number(value: Any) -> Number:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} is not a number" if not isinstance(value, complex) else "the result is not real")
    if isinstance(value, float) and math.isnan(value):
        raise ValueError("the result is not defined")
    if (value.bit_length() > MAX_BITS) if isinstance(value, int) else math.isinf(value):
        raise OverflowError
    return value


def _of_numbers(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function for numbers only, with a number of bounded size as its result."""

    def checked(*arguments: Any) -> Any:
        result = function(*map(_number, arguments))
        return result if isinstance(result, bool) else _number(result)

    return checked


def _power(base: Number, exponent: Number) -> Any:
    if isinstance(base, int) and isinstance(exponent, int) and (base.bit_length() - 1) * exponent >= MAX_BITS:
        raise OverflowError  # before the time is spent: the result has at least so many bits
    return base**exponent


def _round(value: Number, digits: int = 0) -> Number:
    if not -300 <= digits <= 300:
        raise ValueError("round takes -300 to 300 digits")
    return round(value, digits) if digits else round(value)


def _small(function: Callable[..., int]) -> Callable[..., int]:
    def checked(*arguments: Any) -> int:
        if any(abs(argument) > _MAX_FACTORIAL for argument in arguments):
            raise ValueError(f"factorial, comb and perm take numbers up to {_MAX_FACTORIAL}")
        return function(*arguments)

    return checked


_OPERATORS = {
    ast.Add: _of_numbers(operator.add),
    ast.Sub: _of_numbers(operator.sub),
    ast.Mult: _of_numbers(operator.mul),
    ast.Div: _of_numbers(operator.truediv),
    ast.FloorDiv: _of_numbers(operator.floordiv),
    ast.Mod: _of_numbers(operator.mod),
    ast.Pow: _of_numbers(_power),
    ast.UAdd: _of_numbers(operator.pos),
    ast.USub: _of_numbers(operator.neg),
    ast.Eq: _of_numbers(operator.eq),
    ast.NotEq: _of_numbers(operator.ne),
    ast.Lt: _of_numbers(operator.lt),
    ast.LtE: _of_numbers(operator.le),
    ast.Gt: _of_numbers(operator.gt),
    ast.GtE: _of_numbers(operator.ge),
}

_OF_MATH = (
    *("floor", "ceil", "trunc", "sqrt", "isqrt", "exp", "log", "log2", "log10", "gcd", "lcm", "hypot"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "degrees", "radians"),
)
_OWN = {
    "abs": abs,
    "min": min,
    "max": max,
    "round": _round,
    "pow": _power,
    "cbrt": lambda x: math.copysign(abs(x) ** (1 / 3), x),
    "comb": _small(math.comb),
    "perm": _small(math.perm),
    "factorial": _small(math.factorial),
}
_FUNCTIONS = {
    name: _of_numbers(function)
    for name, function in {**_OWN, **{name: getattr(math, name) for name in _OF_MATH}}.items()
}


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    number = _number(value)
    return str(number) if isinstance(number, int) else f"{number:.15g}"
