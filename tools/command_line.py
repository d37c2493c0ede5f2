"""What a shell command does, as atoms: the words of every simple command in it, so that a rule can cover it.

    git diff HEAD | head -5        git diff HEAD,  head -5
    cd src && ls > ../list         None: cannot be told

The line is parsed (tree-sitter), never searched, and every doubt ends in None: a call of which the atoms are not known
is covered by no rule of words, a person is asked. It is None for

- what the parser does not understand, and every construct that is not named in `_STRUCTURE`: substitutions, variables,
  assignments (PATH=, LD_PRELOAD=, GIT_PAGER=, ... the dangerous names have no end), here-documents, loops, conditions,
  functions, arithmetic (an index in it can run a command);
- words that the shell still has to work out: an expansion can become an option, a file name can begin with a dash;
- characters that shell and parser may read differently: control characters, spaces other than the plain one;
- files that are written to outside the folder the command starts in (a redirection inside is an atom of its own);
- programs that are not in the table of `tools/programs.py`, and those of their options that it refuses.

What a rule of words cannot know, even so: what the program named `git` is (the fence fixes the PATH, a rule does not);
what lies in the files it reads (`git diff` runs what `.git/config` names, `pytest` runs the tests, whoever wrote them);
where a path leads, through a link or from `/` (the fence holds that, a rule does not); and what the same words will
mean after other commands have run. It saves a person from being asked the same again. It is no boundary.

Knows the shell's grammar. Refuses to know any program, to run anything, and to know what a rule is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from agent.tool import Atom
from tools.programs import PROGRAMS

MAX_LINE_CHARS = 10_000
"""A person who allows what such a line begins with has not read it to its end."""


_STRUCTURE = frozenset({"program", "list", "pipeline", "subshell", "compound_statement", "negated_command"})
"""What only holds simple commands together. Which of them run, and when, does not matter: all must be covered."""
_OPERATORS = frozenset({";", "&", "&&", "||", "|", "|&", "(", ")", "\n"})

_GLOB = re.compile(r"[*?\[\]]")
_BEFORE_GLOB = re.compile(r"[A-Za-z0-9_./]")
_UNSURE = re.compile(r"[\s{}$`!()<>|&;#]|(?<![A-Za-z0-9^])~")
"""What is, or may be, more than itself in a word. A tilde is only itself after a letter (`HEAD~1`)."""


class _Doubt(Exception):
    """What this does cannot be told."""


@dataclass(frozen=True)
class _Word:
    text: str
    as_written: bool
    """Plain, without quotes and escapes: the words that a rule names must be, so that a person can read them."""
    fixed: bool
    """False where the shell may put file names in its place."""


def atoms(arguments: Mapping[str, Any]) -> tuple[Atom, ...] | None:
    """All that a call of a shell tool does, by its `command` and the `cwd` it starts in; None where it cannot be told.

    Never raises. Always None on Windows, whose shell this is not the grammar of.
    """
    command = arguments.get("command")
    if os.name != "posix" or not isinstance(command, str) or len(command) > MAX_LINE_CHARS:
        return None
    if not all(char.isprintable() or char in "\n\t" for char in command) or "\\\n" in command:
        return None
    source = command.encode()
    root = _parser().parse(source).root_node
    try:
        if root.has_error or not _is_all_seen(root, source):
            return None
        found = tuple(_atoms(root))
    except (_Doubt, RecursionError):
        return None
    moves = any(atom.words[0] == "cd" for atom in found) or arguments.get("cwd", ".") not in (".", "")
    if moves and any(atom.words[0] == ">" for atom in found):
        return None
    return found or None


@cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_bash.language()))


def _is_all_seen(root: Node, source: bytes) -> bool:
    """Did the parser make something of every character but the space between words?"""
    rest = bytearray(source)
    for leaf in _leaves(root):
        rest[leaf.start_byte : leaf.end_byte] = b" " * (leaf.end_byte - leaf.start_byte)
    return not rest.strip()


def _leaves(node: Node) -> Iterator[Node]:
    if not node.children or node.type in ("word", "raw_string", "string_content"):
        yield node
    for child in node.children:
        yield from _leaves(child)


# ---------------------------------------------------------------------- the grammar


def _atoms(node: Node) -> Iterator[Atom]:
    """The atoms of a statement. Raises _Doubt for whatever is not known to be harmless."""
    if node.type in _STRUCTURE:
        for child in _parts(node):
            yield from _atoms(child)
    elif node.type == "command":
        yield from _command(node)
    elif node.type == "redirected_statement":
        for child in _parts(node):
            yield from _redirect(child) if child.type == "file_redirect" else _atoms(child)
    elif node.type != "comment":
        raise _Doubt


def _parts(node: Node) -> Iterator[Node]:
    """The node's named children. Raises _Doubt where two parts touch, for the shell may read them as one."""
    before = None
    for part in node.children:
        if before and before.end_byte == part.start_byte and not _OPERATORS & {before.type, part.type}:
            raise _Doubt
        if part.is_named:
            yield part
        elif part.type not in _OPERATORS and part.type not in ("{", "}", "!"):
            raise _Doubt
        before = part


def _command(node: Node) -> Iterator[Atom]:
    words: list[_Word] = []
    for child in _parts(node):
        if child.type == "file_redirect":
            yield from _redirect(child)
        elif child.type == "command_name":
            (name,) = child.named_children
            words.append(_word(name))
        else:
            words.append(_word(child))
    yield _simple(words)


def _redirect(node: Node) -> Iterator[Atom]:
    """A file that is written to is an atom; one that is read, a descriptor and /dev/null are none."""
    destination = node.child_by_field_name("destination")
    if destination is None or len(node.children_by_field_name("destination")) != 1:
        raise _Doubt
    descriptor = node.child_by_field_name("descriptor")
    if descriptor is not None and not (descriptor.text or b"").isdigit():
        raise _Doubt
    sign = next((child.type for child in node.children if not child.is_named), "")
    target = _word(destination)
    if not target.fixed or not target.as_written:
        raise _Doubt
    if sign in (">&", "<&") and target.text.isdigit():
        return
    if target.text == "/dev/null" and sign in (">", ">>", "&>", "&>>", "<"):
        return
    if not _is_inside(target.text):
        raise _Doubt
    if sign in (">", ">>", "&>", "&>>", ">|"):
        yield Atom((">", target.text), 2)
    elif sign != "<":
        raise _Doubt


def _is_inside(path: str) -> bool:
    parts = path.split("/")
    return bool(path) and not path.startswith(("/", "-")) and ".." not in parts


# ---------------------------------------------------------------------- words


def _word(node: Node) -> _Word:
    """A word as the program will get it."""
    text = (node.text or b"").decode()
    if node.type in ("word", "number") and not node.named_children:
        return _unquoted(text)
    if node.type == "raw_string":
        return _Word(text[1:-1], as_written=False, fixed=True)
    if node.type == "string" and all(child.type in ('"', "string_content") for child in node.children):
        return _Word(re.sub(r'\\([$`"\\])', r"\1", text[1:-1]), as_written=False, fixed=True)
    if node.type == "concatenation":
        if b"".join(child.text or b"" for child in node.named_children) != node.text:
            raise _Doubt  # there is something between its parts
        return _joined([_word(child) for child in node.named_children])
    raise _Doubt


def _unquoted(text: str) -> _Word:
    bare = re.sub(r"\\.", "", text)
    if _UNSURE.search(bare):
        raise _Doubt
    return _Word(re.sub(r"\\(.)", r"\1", text), as_written="\\" not in text, fixed=not _GLOB.search(bare))


def _joined(parts: list[_Word]) -> _Word:
    text = "".join(part.text for part in parts)
    return _Word(text, all(part.as_written for part in parts), all(part.fixed for part in parts))


# ---------------------------------------------------------------------- programs


def _simple(words: list[_Word]) -> Atom:
    """The atom of a simple command. Raises _Doubt where its program, or what follows it, is not known."""
    texts = tuple(word.text for word in words)
    program = PROGRAMS.get(texts[0]) if texts else None
    stem = program.stem(texts) if program else 0
    if program is None or not stem or not all(word.as_written and word.fixed for word in words[:stem]):
        raise _Doubt
    for word in words[stem:]:
        if program.refuses(word.text) or (program.refused and not (word.fixed or _BEFORE_GLOB.match(word.text))):
            raise _Doubt
    return Atom(texts, stem)
