"""Everything that is done to the output of one running command, on its way from the pipe.

Knows the order: secrets out, whole characters, then into the collectors, all in constant memory. Knows no
process and no event loop; it is used from one thread.
"""

from dataclasses import dataclass

from tools.sandbox.output import HeadTail, clean_text, unfinished, whole_characters
from tools.sandbox.scrub import Scrubber

STDOUT, STDERR = 0, 1
LIVE_HALF_BYTES = 2 * 1024
"""Of each piece of live text the first and the last so many bytes are shown."""
LOG_BYTES = 256 * 1024


class Collector:
    """The two streams of one command, apart and interleaved, for the end and live."""

    def __init__(self, scrubber: Scrubber | None) -> None:
        self.streams = (HeadTail(), HeadTail())
        self.both = HeadTail()
        self.log = Log()
        self.received = 0  # bytes from the pipes, before anything was taken out
        self._scrubbed = (scrubber or Scrubber(())).stream(), (scrubber or Scrubber(())).stream()
        self._cut = [b"", b""]  # of each stream the character that has begun and not ended
        self._live = HeadTail(LIVE_HALF_BYTES, LIVE_HALF_BYTES)
        self._held = ""  # of the live text the terminal sequence that has begun and not ended

    def feed(self, stream: int, data: bytes) -> None:
        self.received += len(data)
        self._keep(stream, self._scrubbed[stream].feed(data))

    def finish(self) -> None:
        """Take in what waited for more: no more will come."""
        for stream in (STDOUT, STDERR):
            self._keep(stream, self._scrubbed[stream].flush())
            self._spread(stream, self._cut[stream])
            self._cut[stream] = b""

    def take_live(self) -> str:
        """Give what came since the last time, cleaned and bounded; empty when nothing did."""
        if not self._live.total and not self._held:
            return ""
        text = self._held + self._live.raw_text()
        self._live = HeadTail(LIVE_HALF_BYTES, LIVE_HALF_BYTES)
        held = unfinished(text)
        self._held = text[len(text) - held :]
        return clean_text(text[: len(text) - held])

    def _keep(self, stream: int, data: bytes) -> None:
        data = self._cut[stream] + data
        whole = whole_characters(data)
        self._cut[stream] = data[whole:]
        self._spread(stream, data[:whole])

    def _spread(self, stream: int, data: bytes) -> None:
        for sink in (self.streams[stream], self.both, self.log, self._live):
            sink.feed(data)


@dataclass(frozen=True)
class Excerpt:
    """A part of a stream that goes on."""

    text: str
    """Cleaned."""
    end: int
    """The position it reaches to: where to go on."""
    missing: int = 0
    """Bytes before it that were asked for and are not kept any more."""


class Log:
    """The last `LOG_BYTES` of a stream, addressed by the position in the whole stream."""

    def __init__(self) -> None:
        # What is kept and where it ends, in one assignment: another thread may read at any moment.
        self._state = b"", 0

    @property
    def end(self) -> int:
        return self._state[1]

    def feed(self, data: bytes) -> None:
        if data:
            kept, end = self._state
            self._state = (kept + data)[-LOG_BYTES:], end + len(data)

    def read(self, since: int) -> Excerpt:
        """Clean and give what came after the first `since` bytes, as far as it is still kept."""
        kept, end = self._state
        wanted = max(0, end - since)
        text = clean_text(kept[max(0, len(kept) - wanted) :].decode("utf-8", "replace")) if wanted else ""
        return Excerpt(text, end, max(0, wanted - len(kept)))
