"""What a server expects of a request: one frozen value, guessed from the address, corrected by refusals.

Knows the ways in which OpenAI-compatible servers differ, and what is known of the large ones. Refuses to build
requests (`wire.py`) and to read refusals (`refusals.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal
from urllib.parse import urlsplit

from agent.errors import SettingsError


@dataclass(frozen=True)
class Profile:
    """One server's habits. The defaults suit a strict server that keeps to the documented API."""

    provider: str = "unknown"

    system_role: Literal["system", "developer", "user"] = "system"
    """Who says the system prompt; `user`: it stands at the head of the first user message."""
    content_beside_calls: Literal["null", "empty", "words"] = "null"
    """What stands for the text of an assistant message that has only calls."""
    answer_before_user: bool = False
    """Between a tool's result and a user message an assistant message must stand."""
    parallel_calls: bool = True
    """May the history show several calls in one message? If not, they are shown one after another."""
    name_in_results: bool = False
    """Tool messages must carry the tool's name."""
    id_format: Literal["as_is", "plain", "nine"] = "as_is"
    """`plain`: at most 40 of A-Z a-z 0-9 _ -; `nine`: exactly nine letters and digits."""
    images: bool = True
    """May user messages carry images?"""

    reasoning_back: bool = False
    """Must the reasoning be sent back beside the calls it led to?"""
    reasoning_always: bool = False
    """Also where there was none? Then a blank stands for it."""
    reasoning_field: str = ""
    """In which field; empty: in the one it came in."""
    extras_back: bool = True
    """Send back what we do not know, such as thought signatures, where it came from."""
    signed_calls: bool = False
    """Every call needs a thought signature, also one that another model made: then a stand-in is sent."""

    tools: bool = True
    """Does the server know `tools` at all?"""
    tool_choice_none: bool = True
    """Does `tool_choice: none` keep the model from calling? If not, the tools are left out."""
    tools_with_calls: bool = False
    """Must the tools be shown wherever the history has calls? Then a call that comes although words were asked for is
    dropped."""
    schemas: Literal["full", "plain"] = "full"
    """`plain`: only the few JSON-schema keywords that every server knows."""
    refused_keywords: frozenset[str] = frozenset()
    """Further JSON-schema keywords to leave out."""
    longest_description: int | None = None
    """Characters of a tool's description."""

    output_limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    most_output_tokens: int | None = None
    """The server's own limit, learned from a refusal."""
    refused_parameters: frozenset[str] = frozenset()
    """Top-level parameters that are never sent."""
    stream: bool = True
    json_output: Literal["schema", "object", "none"] = "schema"
    """What `response_format` may hold."""
    short_prompts: bool = False
    """A small model on this machine: every token of a prompt costs the person time."""


PROFILES: Mapping[str, Profile] = {
    "unknown": Profile(),
    "openai": Profile(provider="openai", output_limit="max_completion_tokens"),
    "azure": Profile(provider="azure", output_limit="max_completion_tokens"),
    "deepseek": Profile(provider="deepseek", reasoning_back=True, json_output="object"),
    "moonshot": Profile(provider="moonshot", reasoning_back=True),
    "zhipu": Profile(provider="zhipu", reasoning_back=True, json_output="object"),
    "minimax": Profile(provider="minimax", reasoning_back=True),
    "dashscope": Profile(provider="dashscope", content_beside_calls="empty", json_output="object"),
    "gemini": Profile(provider="gemini", schemas="plain"),
    "mistral": Profile(provider="mistral", id_format="nine", answer_before_user=True),
    "openrouter": Profile(provider="openrouter", reasoning_back=True),
    "groq": Profile(provider="groq"),
    "ollama": Profile(provider="ollama", content_beside_calls="empty"),
    "llama.cpp": Profile(provider="llama.cpp", content_beside_calls="empty"),
    "local": Profile(provider="local", content_beside_calls="empty", short_prompts=True),
}
"""From the providers' documentation and public bug reports. Wrong or outdated entries heal by the first refusal."""

_HOSTS = {
    "openai.com": "openai",
    "azure.com": "azure",
    "deepseek.com": "deepseek",
    "moonshot.cn": "moonshot",
    "moonshot.ai": "moonshot",
    "kimi.com": "moonshot",
    "bigmodel.cn": "zhipu",
    "z.ai": "zhipu",
    "minimaxi.com": "minimax",
    "minimax.io": "minimax",
    "aliyuncs.com": "dashscope",
    "googleapis.com": "gemini",
    "mistral.ai": "mistral",
    "openrouter.ai": "openrouter",
    "groq.com": "groq",
    "ollama.com": "ollama",
}
_PORTS = {11434: "ollama"}
_LOCAL = ("localhost", "127.0.0.1", "::1")


def guess_profile(base_url: str, provider: str = "auto") -> Profile:
    """By the pinned name, else by the address. Raises SettingsError for a name that is none of ours."""
    if provider != "auto":
        if provider not in PROFILES:
            names = ", ".join(PROFILES)
            raise SettingsError(f"OPENAI_PROVIDER: there is no profile {provider!r}. The profiles are: auto, {names}.")
        return PROFILES[provider]
    parts = urlsplit(base_url)
    host = parts.hostname or ""
    if host in _LOCAL:
        return PROFILES[_PORTS.get(parts.port or 0, "unknown")]
    for domain, name in _HOSTS.items():
        if host == domain or host.endswith("." + domain):
            return PROFILES[name]
    return replace(PROFILES["unknown"], provider=host or "unknown")
