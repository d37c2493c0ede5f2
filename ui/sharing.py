"""Sharing: a public address that leads to the page on this machine, through gradio's tunnel.

It needs the outside network, and once downloads a small program. Where it cannot be had the page goes on without it,
and what is said tells why. Knows how a tunnel is asked for and how it fails. Refuses to know who may do what on the
page: an app that is started to be shared keeps the rules for strangers from its first moment on.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx
from gradio.exceptions import ChecksumMismatchError, ShareCertificateWriteError
from gradio.networking import setup_tunnel

Tunnel = Callable[[str, int, str], str]
"""Takes host and port on this machine and a random token; gives the public address. May take a minute."""

logger = logging.getLogger(__name__)


def gradio_tunnel(host: str, port: int, token: str) -> str:
    """See `Tunnel`. Raises what `why` has words for."""
    return str(setup_tunnel(host, port, token, None, None))


@dataclass(frozen=True)
class Share:
    """What to do about sharing."""

    opened: Callable[[str], None]
    """Told the public address. Called in a thread, as `failed` is."""
    failed: Callable[[str], None]
    """Told the code of `why`."""
    tunnel: Tunnel = gradio_tunnel

    def begin(self, host: str, port: int, names: set[str]) -> threading.Thread:
        """Open the tunnel beside everything else; its host joins the names under which the page answers."""
        opening = threading.Thread(target=self._open, args=(host, port, names), name="share", daemon=True)
        opening.start()
        return opening

    def _open(self, host: str, port: int, names: set[str]) -> None:
        try:
            address = self.tunnel(host, port, secrets.token_urlsafe(32))
            name = urlsplit(address).hostname
            if not name:
                raise ValueError("no address came")
        except (OSError, RuntimeError, ValueError, httpx.HTTPError, ChecksumMismatchError) as error:
            logger.info("the tunnel was not opened: %r", error)
            self.failed(why(error))
            return
        names.add(name)
        self.opened(address)


def why(error: BaseException) -> str:
    """One of `offline`, `damaged`, `folder`, `refused`."""
    if isinstance(error, ChecksumMismatchError):
        return "damaged"
    if isinstance(error, (PermissionError, ShareCertificateWriteError)):
        return "folder"
    if isinstance(error, ValueError):
        return "refused"
    return "offline"
