"""Models: the only room that knows how a provider speaks, and the only importer of `openai`."""
