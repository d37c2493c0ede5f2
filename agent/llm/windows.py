"""How much a model reads at once: what its server says of it, else a small table of families.

The table holds what the makers publish, for the smallest of a family where its members differ: a window that is taken
too small costs a summary, one that is taken too large costs a refused request. Knows names and lists of models. Refuses
to ask anybody (`agent/llm/client.py` does).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agent.llm.model import Window

DEFAULT_TOKENS = 32_768
"""Of a model nobody has told us about."""
LOCAL_TOKENS = 32_768
"""Of a model on this machine at most, where its server does not say: servers give it less than it could take."""

_SUFFIX = re.compile(r"(?:^|[-_:.])(\d{1,4})([km])(?:$|[-_:.])")
"""A name that says it, such as moonshot-v1-32k. Not 7b: that is how large a model is."""

_FAMILIES: tuple[tuple[str, int], ...] = (
    (r"gpt-4\.1", 1_047_576),
    (r"gpt-4o|chatgpt-4o|gpt-4-turbo|gpt-oss|o1-mini|o1-preview", 128_000),
    (r"gpt-[5-9]", 400_000),
    (r"gpt-4", 8_192),
    (r"gpt-3\.5", 16_385),
    (r"o[1345](?:$|-)", 200_000),
    (r"claude", 200_000),
    (r"gemini", 1_048_576),
    (r"grok-(?:code|[4-9])", 256_000),
    (r"grok", 131_072),
    (r"deepseek", 128_000),
    (r"qwen.?long|qwen.?turbo", 1_000_000),
    (r"qwen.?(?:plus|flash)|qwen3\.[5-9]", 131_072),
    (r"qwen.?3-(?:coder|max|next)|qwen3.*2507", 262_144),
    (r"qwen|qwq", 32_768),
    (r"kimi-k2|kimi", 131_072),
    (r"glm-(?:4\.[6-9]|[5-9])", 200_000),
    (r"glm-4", 128_000),
    (r"minimax", 200_000),
    (r"llama-?4|llama-?3\.[1-9]", 128_000),
    (r"llama-?3", 8_192),
    (r"mixtral", 32_768),
    (r"mistral|ministral|magistral|devstral|codestral|pixtral", 128_000),
    (r"gemma-?[3-9]", 128_000),
    (r"gemma", 8_192),
    (r"phi-?4", 16_384),
    (r"command", 128_000),
)

_FIELDS = ("context_length", "max_model_len", "context_window", "max_context_length", "max_input_tokens", "n_ctx")
"""What servers call it in their list of models: OpenRouter, vLLM, Groq, LM Studio and Mistral, gateways, llama.cpp."""


def window_by_name(name: str, is_local: bool = False) -> Window:
    """What is known of a model by its name."""
    plain = name.lower().rpartition("/")[2]
    if said := _SUFFIX.search(plain):
        return Window(int(said[1]) * (1_000 if said[2] == "k" else 1_000_000), "table")
    for pattern, tokens in _FAMILIES:
        if re.match(pattern, plain):
            return Window(min(tokens, LOCAL_TOKENS) if is_local else tokens, "table")
    return Window(DEFAULT_TOKENS, "default")


def window_in_list(listed: Any, name: str) -> int | None:
    """What a server's list of models says of this one; None where it says nothing that makes sense."""
    entries = listed.get("data", listed.get("models")) if isinstance(listed, Mapping) else listed
    if not isinstance(entries, list):
        return None
    for entry in entries:
        if isinstance(entry, Mapping) and name in (entry.get("id"), entry.get("name"), entry.get("model")):
            places = (entry, entry.get("top_provider"), entry.get("meta"))
            found = [place[key] for place in places if isinstance(place, Mapping) for key in _FIELDS if key in place]
            sound = [n for n in found if isinstance(n, int) and not isinstance(n, bool) and 512 <= n <= 100_000_000]
            return min(sound) if sound else None
    return None
