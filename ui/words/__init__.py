"""Every word the page shows, in English and Chinese: one file for each part of the page.

Each holds `EN` and `ZH` with the same keys; `ui/texts.py` puts them together.
"""
