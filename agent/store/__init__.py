"""Where sessions are kept: one database, and a folder of handed-over files."""

from agent.store.store import Found, Kept, Store, Summary

__all__ = ["Found", "Kept", "Store", "Summary"]
