"""Does a path match a pattern such as `*.py` or `src/**/test_*.py`?

Knows patterns and paths as text. Refuses to touch a disk.
"""

from __future__ import annotations

from fnmatch import fnmatchcase


def matches(path: str, pattern: str) -> bool:
    """A pattern without '/' is held against the last name, at any depth; `**` stands for any number of folders.

    Name by name and without a regular expression over the whole path, so that no pattern is slow.
    """
    names, wanted = path.split("/"), pattern.removeprefix("./").rstrip("/").split("/")
    if len(wanted) == 1 and wanted != ["**"]:
        return fnmatchcase(names[-1], wanted[0])
    # fits[i]: the pattern so far covers exactly the first i names
    fits = [True] + [False] * len(names)
    for part in wanted:
        if part == "**":
            first = fits.index(True) if True in fits else len(fits)
            fits = [i >= first for i in range(len(fits))]
        else:
            fits = [False] + [fits[i] and fnmatchcase(names[i], part) for i in range(len(names))]
    return fits[-1]
