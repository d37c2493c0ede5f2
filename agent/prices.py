"""What tokens cost: a small table that people edit, `prices.json` in the data folder, else the one beside `app.py`.

    {"currency": "USD", "models": {"gpt-5-mini": {"input": 0.25, "cached": 0.025, "output": 2.0}}}

Prices are for a million tokens; `cached` is left out where reading from the cache costs the same. A model that is not
in the table has no price: nothing is guessed. Knows names and numbers. Refuses to know how much was used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agent.errors import SettingsError
from agent.events import Usage

FILE = "prices.json"

_VERSION = re.compile(r"(?:-\d{4}-\d\d-\d\d|-\d{4,8}|-latest|-preview|[@:][^@:]*)$")
"""What a name may have behind the one in the table: a date or a version of the same model. `-mini` is another one."""


class Price(BaseModel):
    """Of a million tokens."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    input: float = Field(ge=0)
    output: float = Field(ge=0)
    cached: float | None = Field(default=None, ge=0)

    def of(self, usage: Usage) -> float:
        cached = min(usage.cached_tokens, usage.input_tokens)
        price_cached = self.input if self.cached is None else self.cached
        fresh = usage.input_tokens - cached
        return (fresh * self.input + cached * price_cached + usage.output_tokens * self.output) / 1_000_000


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid")
    note: str = ""
    currency: str = Field(default="USD", max_length=8)
    models: dict[str, Price]


@dataclass(frozen=True)
class Prices:
    """The table."""

    models: Mapping[str, Price] = field(default_factory=dict)
    currency: str = "USD"

    def of(self, model: str) -> Price | None:
        """The price of a model, whatever gateway's name stands before its own; None where it is not known."""
        name = model.strip().lower()
        for candidate in (name, name.rpartition("/")[2]):
            while candidate:
                if candidate in self.models:
                    return self.models[candidate]
                shorter = _VERSION.sub("", candidate)
                if shorter == candidate:
                    break
                candidate = shorter
        return None


def load_prices(*folders: Path) -> Prices:
    """The table from the first of the folders that has one. Raises SettingsError for a file that is none."""
    for folder in folders:
        path = folder / FILE
        if not path.is_file():
            continue
        try:
            table = _Table.model_validate(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, ValidationError) as error:
            raise SettingsError(f"{path}: this is no table of prices. {error}") from None
        return Prices({name.lower(): price for name, price in table.models.items()}, table.currency)
    return Prices()
