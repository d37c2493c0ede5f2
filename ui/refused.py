"""Why something was refused, in the page's language.

Knows how a sentence of the engine is found again among the words. Refuses to know the sentences: they stand in
`ui/words/refusals.py`.
"""

from __future__ import annotations

import re
import string

from ui.texts import Words
from ui.words.refusals import EN, PREFIX


def why(words: Words, error: object) -> str:
    """The reason without a full stop at its end; as the engine says it where there are no words for it.

    What a sentence names may be a sentence itself.
    """
    said = str(error).strip().rstrip(".")
    for sentence, pattern in _PATTERNS.items():
        if found := pattern.fullmatch(said):
            named = {name: why(words, text) for name, text in found.groupdict().items()}
            return words[PREFIX + sentence].format(**named)
    return said


def _pattern(sentence: str) -> re.Pattern[str]:
    pieces = string.Formatter().parse(sentence)
    return re.compile(
        "".join(re.escape(text) + (f"(?P<{name}>.+)" if name else "") for text, name, _, _ in pieces), re.S
    )


_PATTERNS = {sentence: _pattern(sentence) for sentence in sorted(EN.values(), key=lambda sentence: sentence.count("{"))}
"""Those that name nothing come first: a sentence that begins with a name fits many others, too."""
