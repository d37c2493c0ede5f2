"""What must not be remembered: texts that hold something like a key, a password, a card or an identity number.

Better to refuse a harmless sentence than to keep a secret for ever: whoever is refused can say it in other words.
Knows how secrets look. Refuses to know what else is done with a text.
"""

from __future__ import annotations

import re
import unicodedata

_KEYS = re.compile(
    r"-----BEGIN "
    r"|\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{12,}"
    r"|\b(?:gh[opsur]_|github_pat_|glpat-|hf_|npm_|dop_v1_|xox[abeprs]-)[A-Za-z0-9_-]{10,}"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{12,}|\bLTAI[A-Za-z0-9]{12,}|\bAIza[A-Za-z0-9_-]{20,}"
    r"|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"
    r"|\bbearer\s+[A-Za-z0-9._~+/=-]{16,}"
    r"|://[^\s/:@]+:[^\s/@]+@",
    re.IGNORECASE,
)
"""Beginnings by which well-known services mark their keys, and addresses with a password in them."""

_NAMED = re.compile(
    r"\b(?:pass(?:word|wd|phrase|code)|pwd|pin(?: code)?|secret(?: key)?|credential|token|api[ _-]?key|"
    r"(?:access|private|signing|encryption)[ _-]key)s?\b[^\n.;,:=]{0,30}?(?:\bis\b|\bare\b|[:=])\s*[\"'`]?"
    r"(?!(?:stored|kept|saved|in|not|required|needed|managed|never|always|rotated|from|the|a|an|via|handled)\b)[^\s\"'`]{3,}"
    r"|(?:密码|口令|密钥|私钥|令牌|验证码|通行证|パスワード)[^\n。；，,]{0,12}?(?:是|为|[:=\s])\s*[\"'“「]?[!-~]{3,}"
    r"|(?:密码|口令|密钥|验证码)[!-~]{4,}",
    re.IGNORECASE,
)
"""A value that is called a secret."""

_LONG = re.compile(r"[A-Za-z0-9+/_=]{24,}")
_CARD = re.compile(r"(?<![\dA-Za-z])\d(?:[ -]?\d){12,18}(?![\dA-Za-z])")
_IDENTITY = re.compile(r"(?<!\d)\d{17}[\dXx](?![\dA-Za-z])|(?<![\d-])\d{3}-\d{2}-\d{4}(?![\d-])")
_WEIGHTS = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
"""Of a Chinese identity number's digits (GB 11643): its last character is a check of the others."""


def what_secret(text: str) -> str:
    """What the text seems to give away, in a few English words; empty where nothing does."""
    plain = unicodedata.normalize("NFKC", text)
    if any(_is_identity(found) for found in _IDENTITY.findall(plain)):
        return "an identity number"
    if any(_is_card(re.sub(r"\D", "", found)) for found in _CARD.findall(plain)):
        return "a card number"
    if _NAMED.search(plain):
        return "a password, a key or a code"
    if _KEYS.search(plain) or any(_is_random(found) for found in _LONG.findall(plain)):
        return "a key or a token"
    return ""


def _is_card(digits: str) -> bool:
    """The check that card numbers carry (Luhn)."""
    doubled = [int(d) * (2 if i % 2 else 1) for i, d in enumerate(reversed(digits))]
    return sum(n - 9 if n > 9 else n for n in doubled) % 10 == 0


def _is_identity(found: str) -> bool:
    if len(found) != 18:
        return True
    total = sum(int(digit) * weight for digit, weight in zip(found, _WEIGHTS, strict=False))
    return "10X98765432"[total % 11] == found[-1].upper()


def _is_random(found: str) -> bool:
    """Letters and digits in no order that a person would choose; not a path and not a name_in_words."""
    longest = max(re.split(r"[/_=+]", found), key=len)
    digits = sum(char.isdigit() for char in longest)
    return len(longest) >= 20 and digits >= 3 and len(longest) - digits >= 3
