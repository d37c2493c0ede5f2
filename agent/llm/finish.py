"""Why an answer ended, in the words of all providers.

Knows their words. Refuses to believe them where calls say otherwise: that is the assembly's business.
"""

from __future__ import annotations

import re
from typing import Literal

Ending = Literal["stop", "length", "content_filter", "error", "overloaded"]

_WORDS: dict[Ending, frozenset[str]] = {
    "length": frozenset(
        {"length", "max_tokens", "max_output_tokens", "max_length", "model_length", "model_context_window_exceeded"}
    ),
    "content_filter": frozenset(
        {"content_filter", "content_filtered", "safety", "sensitive", "blocklist", "prohibited_content"}
        | {"recitation", "spii", "image_safety", "refusal", "guardrail_intervened", "risk"}
    ),
    "error": frozenset(
        {"error", "network_error", "server_error", "abort", "aborted", "failed", "malformed_function_call"}
        | {"unexpected_tool_call", "engine_error", "internal_error", "cancelled", "error_finish"}
    ),
    "overloaded": frozenset({"insufficient_system_resource", "engine_overloaded"}),
}
"""From the API references and bug reports of OpenAI, Azure, Gemini, Anthropic, Mistral, GLM and DeepSeek."""


def read_finish(word: object) -> Ending | None:
    """None where the server said nothing; `stop` for every word that means nothing worse."""
    if not isinstance(word, str) or not word.strip() or word.strip().lower() in ("null", "none"):
        return None
    said = set(re.split(r"[\s:;,/]+", word.strip().lower()))  # some add the cause: `content_filter: RECITATION`
    return next((ending for ending, words in _WORDS.items() if said & words), "stop")
