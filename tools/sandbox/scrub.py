"""Takes known secrets out of text before a model, a page or a log sees it. A second net, not a boundary.

Knows the exact values and the forms in which a value usually travels: as it is, base64 (at each of the three
alignments, wrapped or not, both alphabets), and URL-encoded. Does not guess what a secret looks like, and
cannot know a secret that was reversed, compressed or spelled out.
"""

import base64
import re
from collections.abc import Iterable
from urllib.parse import quote, quote_plus

SHORTEST = 8
"""Characters. A shorter value would be found in innocent text."""
MASK = "[secret removed]"


class Scrubber:
    """Replaces each known secret by `MASK`."""

    def __init__(self, secrets: Iterable[str]) -> None:
        forms = {form for secret in secrets if len(secret) >= SHORTEST for form in _forms(secret)}
        self._forms = sorted(forms, key=len, reverse=True)
        # A longer form first: it may contain a shorter one. base64 tools break lines, so a break may stand
        # anywhere.
        self._pattern = re.compile(b"|".join(rb"[\r\n]*".join(map(re.escape, _bytes(f))) for f in self._forms))
        self._longest = 2 * max(map(len, self._forms), default=0)

    def scrub(self, text: str) -> str:
        """Give the text without the secrets. Cut text: use `stream`, half a secret is not recognised here."""
        return self.scrub_bytes(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def scrub_bytes(self, data: bytes) -> bytes:
        return self._pattern.sub(MASK.encode(), data) if self._forms else data

    def stream(self) -> "ScrubbedStream":
        """Start a stream of pieces that may be cut anywhere, in the middle of a secret too."""
        return ScrubbedStream(self)

    def open_end(self, data: bytes) -> int:
        """Give the length of the longest end of `data` with which a secret may have begun."""
        for length in range(min(len(data), self._longest), 0, -1):
            end = data[-length:].replace(b"\r", b"").replace(b"\n", b"")
            if end and any(form.startswith(end) for form in self._forms):
                return length
        return 0


class ScrubbedStream:
    """One stream of bytes. What may be the beginning of a secret waits for the next piece, nothing else
    does."""

    def __init__(self, scrubber: Scrubber) -> None:
        self._scrubber = scrubber
        self._waiting = b""

    def feed(self, data: bytes) -> bytes:
        clean = self._scrubber.scrub_bytes(self._waiting + data)
        held = self._scrubber.open_end(clean)
        self._waiting = clean[len(clean) - held :]
        return clean[: len(clean) - held]

    def flush(self) -> bytes:
        """Give what still waits: the stream has ended."""
        rest, self._waiting = self._waiting, b""
        return rest


def _forms(secret: str) -> set[bytes]:
    """All spellings of one secret that are searched for."""
    raw = secret.encode()
    forms = {raw, quote(secret).encode(), quote(secret, safe="").encode(), quote_plus(secret).encode()}
    forms |= {re.sub(rb"%[0-9A-F]{2}", lambda code: code[0].lower(), form) for form in forms}
    for shift in range(3):
        inner = base64.b64encode(bytes(shift) + raw)
        # The first characters depend on what stands before the secret, the last ones on what follows.
        start = (0, 2, 3)[shift]
        end = len(inner) if (shift + len(raw)) % 3 == 0 else (shift + len(raw)) * 8 // 6
        forms |= {inner[start:end], inner[start:end].translate(bytes.maketrans(b"+/", b"-_"))}
    return forms


def _bytes(form: bytes) -> list[bytes]:
    return [form[place : place + 1] for place in range(len(form))]
