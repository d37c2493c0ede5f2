"""The certificates that servers are checked by: loaded once, for every connection of the process.

Loading them takes a tenth of a second, and each client would do it anew. Knows TLS. Refuses to know who connects.
"""

from __future__ import annotations

import ssl
from functools import lru_cache

import httpx2


@lru_cache(maxsize=1)
def certificates() -> ssl.SSLContext:
    """The machine's trusted certificates, or those that the environment names (SSL_CERT_FILE, SSL_CERT_DIR)."""
    return httpx2.create_ssl_context()
