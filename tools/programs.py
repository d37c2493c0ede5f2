"""Programs whose calls a rule of words may cover, and the options that keep even those calls out.

The table allows by name, because what must not be covered cannot be counted. Among what is left out, each because its
arguments are a program, so that a rule for its name would be a rule for everything:

    run their arguments    sudo doas su env nice nohup setsid stdbuf timeout time watch flock xargs parallel script
    have a language        sh bash dash zsh python perl ruby node php lua awk sed ed vim less man sqlite3 gdb
    change the shell       eval exec source . command builtin trap alias export declare read printf -v, test -v
    options that run       find -exec, sort --compress-program, git -c, git --ext-diff, rg --pre, tar --to-command
    run what others say    make npm npx cargo docker ssh curl wget, pip install
    destroy                rm mv cp dd tee ln chmod, git checkout: each call deserves a question of its own

Knows programs. Refuses to know the shell's grammar: `tools/command_line.py` asks with the words of one simple command.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Program:
    """What may follow a program's name for its calls to be covered by a rule."""

    heads: tuple[str, ...] = ("",)
    """What the words after the name must begin with; a rule must name it too. A head may be several words."""
    refused: tuple[str, ...] = ()
    """Options that run a program or write a file of their own: `-x` also inside a group of letters, `--long` also cut
    short, others (`-exec`) as they stand."""

    def stem(self, words: tuple[str, ...]) -> int:
        """How many words a rule for this command must at least name, the program's name among them; 0: none can."""
        for head in self.heads:
            named = tuple(head.split())
            if words[1 : 1 + len(named)] == named:
                return 1 + len(named)
        return 0

    def refuses(self, word: str) -> bool:
        """Is this word one of the refused options, or might the program read it as one?"""
        return any(_may_be(word, option) for option in self.refused)


def _may_be(word: str, option: str) -> bool:
    if option.startswith("--"):
        name = word.partition("=")[0]
        return len(name) > 2 and option.startswith(name)
    if len(option) == 2:
        return word.startswith("-") and not word.startswith("--") and option[1] in word
    return word == option


_GIT = "status diff log show blame shortlog describe rev-parse rev-list ls-files ls-tree cat-file grep add commit"
_GIT_REFUSED = (
    *("--ext-diff", "--textconv", "--filters", "--open-files-in-pager", "--output", "--output-directory"),
    *("--exec", "--upload-pack", "--receive-pack", "--config", "--edit", "--edit-description", "--gpg-sign", "--sign"),
    *("--show-signature", "--verify-signatures", "--help", "--paginate", "--trailer", "--template", "-O", "-S", "-e"),
)
_READERS = (
    "basename cat cd cmp comm cut df dirname du echo egrep false fgrep fold grep head id join jq ls md5sum mkdir nl od "
    "paste pwd pytest readlink realpath rev seq sha1sum sha256sum sleep stat strings tac tail touch tr true uname wc "
    "which whoami"
)

PROGRAMS: Mapping[str, Program] = {
    **{name: Program() for name in _READERS.split()},
    "date": Program(refused=("-s", "--set")),
    "diff": Program(refused=("-l", "--paginate")),
    "file": Program(refused=("-C", "--compile")),
    "find": Program(
        refused=("-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprint0", "-fprintf", "-fls")
    ),
    "git": Program(tuple(_GIT.split()), _GIT_REFUSED),
    "pip": Program(("list", "show", "freeze", "check"), ("--python", "--log", "--proxy", "--cache-dir")),
    "python": Program(("-m pytest",)),
    "python3": Program(("-m pytest",)),
    "rg": Program(refused=("--pre", "--pre-glob", "--hostname-bin", "--search-zip", "-z")),
    "ruff": Program(("check", "format"), ("--output-file", "-o", "--config", "--cache-dir")),
    "sort": Program(refused=("-o", "--output", "-T", "--temporary-directory", "--compress-program")),
    "tree": Program(refused=("-o", "--output", "-R")),
}
