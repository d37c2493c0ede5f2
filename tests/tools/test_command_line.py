"""What a command line does, and above all: which lines no innocent rule may cover."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from agent.events import Rule
from agent.messages import ToolCall
from agent.rules import covering
from agent.tool import Effect, ToolContext, tool
from tests.scripted import call
from tools.command_line import MAX_LINE_CHARS, atoms
from tools.programs import PROGRAMS

pytestmark = pytest.mark.skipif(os.name != "posix", reason="only a POSIX shell's lines are understood")


@tool(Effect.EXECUTE, atoms=atoms)
async def run_command(context: ToolContext, command: str, cwd: str = ".") -> str:
    """Run a command."""
    raise AssertionError("these tests run no tool")


INNOCENT = (
    *("git diff", "git status", "git log", "git show", "git grep", "git commit", "git add", "git"),
    *("ls", "cat", "head", "echo", "grep", "find", "sort", "wc", "cd", "rg", "pytest", "python3 -m pytest", "> out"),
    *("sudo", "env", "xargs", "bash", "sh", "python3", "python", "nohup", "time", "eval", "awk", "make", "tar", "if"),
)


def words(line: str, cwd: str = ".") -> list[str] | None:
    found = atoms({"command": line, "cwd": cwd})
    return None if found is None else [" ".join(atom.words) for atom in found]


def covered(line: str, *prefixes: str) -> bool:
    rules = [Rule(p, "session", "run_command", ("execute",), tuple(p.split())) for p in prefixes]
    asked: ToolCall = call("run_command", "c1", command=line)
    return bool(covering(rules, run_command, asked, run_command.parse(asked)))


@pytest.mark.parametrize(
    ("line", "does"),
    [
        ("git diff HEAD | head -5", ["git diff HEAD", "head -5"]),
        ("git status -s && git log --oneline -n 3; ls", ["git status -s", "git log --oneline -n 3", "ls"]),
        ("ls || cat a &\ngit diff", ["ls", "cat a", "git diff"]),
        ("(cd src; ls) && { pwd; }", ["cd src", "ls", "pwd"]),
        ("! grep -q x f # only a look", ["grep -q x f"]),
        ('git diff HEAD~1 HEAD^ -- \'a b\' "c\\"d" e\\ f', ['git diff HEAD~1 HEAD^ -- a b c"d e f']),
        ("git commit -m 'rm -rf /; $(x)'", ["git commit -m rm -rf /; $(x)"]),
        ("ls *.py", ["ls *.py"]),
        ("git diff src/*.py", ["git diff src/*.py"]),
        ("pytest -q > out.txt 2>&1", ["> out.txt", "pytest -q"]),
        ("cat < notes 2> /dev/null", ["cat"]),
        ("python3 -m pytest -q", ["python3 -m pytest -q"]),
        ("echo 你好", ["echo 你好"]),
    ],
)
def test_every_simple_command_of_a_line_is_an_atom(line: str, does: list[str]) -> None:
    assert sorted(words(line) or []) == sorted(does)


def test_a_rule_covers_a_line_only_with_all_its_parts() -> None:
    assert covered("git diff HEAD", "git diff")
    assert covered("git diff HEAD | head -5", "git diff", "head")
    assert not covered("git diff HEAD | head -5", "git diff")
    assert not covered("git diff; git push", "git diff")
    assert not covered("git difftool", "git diff")
    assert not covered("git diff", "git")  # a rule must name what git does
    assert not covered("python3 -m pytest", "python3", "python3 -m")
    assert covered("python3 -m pytest -x", "python3 -m pytest")
    assert covered("ls > out", "ls", "> out")
    assert not covered("ls > other", "ls", "> out")


HOSTILE = [
    # the line is more than its beginning
    *("git diff\nevil", "git diff;evil", "git diff&evil", "git diff&&evil", "git diff||evil", "git diff|evil"),
    *("git diff |& evil", "git diff\n\n\tevil", "git diff & evil", "(git diff; evil)", "{ git diff; evil; }", "! evil"),
    *("git diff # x\nevil", "git diff \\\n; evil", "git diff\r\nevil", "git diff \x0b evil", "git diff \x00 evil"),
    # substitutions of every kind
    *("git diff $(evil)", "git diff `evil`", 'git diff "$(evil)"', 'git diff "`evil`"', "git diff <(evil)"),
    *("git diff >(evil)", "git diff ${x:-$(evil)}", "git diff $((a[$(evil)]))", "git diff ${x@P}", "echo $[$(evil)]"),
    *("git diff $'\\x24(evil)'", 'git diff $"x"', "git diff ${x", "$(evil) diff", "`evil`"),
    # here-documents
    *(
        "cat <<E\n$(evil)\nE",
        "cat <<'E'\nx\nE\nevil",
        "cat <<< $(evil)",
        "cat <<< x",
        "cat <<-E\n\tx\n\tE\n",
        "cat <<E",
    ),
    # the command itself is not what it looks like
    *(
        "$GIT diff",
        "g$x diff",
        'g"i"t diff',
        "'git' diff",
        "g\\it diff",
        "git d'i'ff",
        "git\u00a0diff",
        "git\u3000diff",
    ),
    *(
        "ｇit diff",
        "gіt diff",
        "git\u200b diff",
        "./git diff",
        "/usr/bin/git diff",
        "~/git diff",
        "g?t diff",
        "[g]it diff",
    ),
    *("{git,diff}", "git diff{,x}", "G=git; $G diff", "git=evil; git diff", "alias git=evil; git diff"),
    *("git() { evil; }; git diff", "function git { evil; }\ngit diff", "hash -p /evil git; git diff"),
    *("enable -f ./x ls; ls", "shopt -s expand_aliases\nalias ls=evil\nls", "set -x; ls", "trap evil EXIT; ls"),
    # assignments
    *(
        "PATH=. git diff",
        "PATH=.; git diff",
        "LD_PRELOAD=./x.so ls",
        "GIT_PAGER=evil git diff",
        "x=1 ls",
        "export A=b; ls",
    ),
    *(
        "declare x=1; ls",
        "readonly PATH=.; ls",
        "read PATH < x; ls",
        "printf -v PATH . ; ls",
        "printf '%n' 'a[$(evil)]'",
    ),
    # the shell's own language
    *(
        "for f in *; do git diff; done",
        "while git diff; do evil; done",
        "if git diff; then evil; fi",
        "case x in x) ls;; esac",
    ),
    *(
        "[[ -v a[$(evil)] ]]",
        "[ -v 'a[$(evil)]' ]",
        "test -v x",
        "((a[$(evil)]))",
        "let x=1",
        "select x in a; do ls; done",
    ),
    *(
        "coproc git diff",
        "time git diff",
        "until ls; do ls; done",
        "ls; exec evil",
        "eval git diff",
        ". ./x",
        "source x",
    ),
    # wrappers
    *("sudo git diff", "env git diff", "env -S 'git diff'", "xargs git diff", "ls | xargs rm", "nohup git diff &"),
    *("sh -c 'git diff'", "bash -c 'git diff'", "command git diff", "builtin cd x", "exec git diff", "nice git diff"),
    *(
        "timeout 5 git diff",
        "stdbuf -o0 ls",
        "setsid ls",
        "watch ls",
        "script -c ls",
        "busybox ls",
        "doas ls",
        "su -c ls",
    ),
    *(
        "python3 -c 'x'",
        "python3 x.py",
        "python3",
        "python3 -",
        "python3 -I -m pytest",
        "python3 -mpytest",
        "perl -e x",
    ),
    *(
        "node -e x",
        "ruby -e x",
        "php -r x",
        "awk 'BEGIN{system(\"x\")}'",
        "sed -n '1e x' f",
        "sed 's/x/y/e' f",
        "make",
        "ssh h ls",
    ),
    *(
        "find . -exec evil {} +",
        "find . -execdir x \\;",
        "find . -ok x \\;",
        "find . -delete",
        "find . -fprintf f x",
        "find . -fls f",
    ),
    *("find . -ex\\ec x", "find . '-exec' x", 'find . -"exec" x', "find . -e*"),
    # options that run programs or write files
    *("git -c core.pager=evil diff", "git -C / diff", "git --exec-path=. diff", "git --git-dir=x diff", "git -p diff"),
    *(
        "git diff --ext-diff",
        "git diff --ext-d",
        "git diff '--ext-diff'",
        "git diff --textconv",
        "git diff --output=/x",
    ),
    *("git diff --output /x", "git log --show-signature", "git grep -Oevil x", "git grep --open-files-in-pager=evil x"),
    *(
        "git grep -iOevil x",
        "git cat-file --filters x",
        "git config core.pager evil",
        "git difftool",
        "git bisect run x",
    ),
    *("git diff *", "git diff -*", "git diff [-]x", "git diff ?-ext-diff", "sort * ", "git rebase -x evil", "git push"),
    *("sort -o x f", "sort -ro x f", "sort --outp=x f", "sort --compress-program=evil f", "sort --comp evil f"),
    *("rg --pre evil x", "rg -z x", "diff -l a b", "tar --to-command=evil -xf x", "ruff check --output-file=x"),
    # files outside, and files whose place is not known
    *("ls > /etc/x", "ls > ../x", "ls > ~/x", "ls > $x", "ls > a/../../x", "ls >& x", "cat < /etc/passwd", "ls > *"),
    *(
        "ls > 'out'",
        "cd / && ls > out",
        "(cd /tmp; ls) > out",
        "ls <> out",
        "ls 1<>out",
        "ls > out -2>&1",
        "ls {fd}> out",
    ),
    # what this shell's parser and that one may read differently
    *(
        "head -n]3\n\\$ls",
        "ls 'a'\\while",
        "ls $ x",
        'ls -$"b"',
        "ls -52>&1",
        "ls x2>&1",
        "{ls; }",
        "!ls",
        "ls;;ls",
        "ls )",
    ),
    *(
        "((",
        "'",
        '"',
        "`",
        "\\",
        "",
        " ",
        "\n",
        "#",
        "ls &&",
        "| ls",
        "ls |",
        "ls | | ls",
        "ls \ud800",
        "a" * (MAX_LINE_CHARS + 1),
    ),
    "(" * 3000 + "ls" + ")" * 3000,
]


@pytest.mark.parametrize("line", HOSTILE)
def test_no_innocent_rule_covers_a_trick(line: str) -> None:
    assert not covered(line, *INNOCENT)


def test_a_redirection_counts_from_the_folder_the_command_starts_in() -> None:
    assert words("ls > out") == ["ls", "> out"]
    assert words("ls > out", cwd="src") is None
    assert words("ls", cwd="src") == ["ls"]


@pytest.mark.parametrize("arguments", [{}, {"command": None}, {"command": 5}, {"command": ["ls"]}])
def test_without_a_line_nothing_is_known(arguments: dict[str, object]) -> None:
    assert atoms(arguments) is None


# ---------------------------------------------------------------------- against a real shell

PIECES = [
    *(
        "git diff",
        "head",
        "ls",
        "echo",
        "cat x",
        "evil",
        "-5",
        "--ext-diff",
        "a=b",
        "'",
        '"',
        "`",
        "$(",
        "$x",
        "$",
        "(",
        ")",
    ),
    *(
        "{",
        "}",
        "|",
        "||",
        "&",
        "&&",
        ";",
        ";;",
        "\n",
        " ",
        "  ",
        "\t",
        "\\",
        "#",
        " # ",
        "!",
        "<",
        ">",
        ">>",
        ">&",
        "&>",
    ),
    *(
        "2>&1",
        "<<<",
        "<<E\n",
        "\nE\n",
        "<(",
        "*",
        "?",
        "[",
        "]",
        "~",
        "^",
        "=",
        "'a b'",
        '"c d"',
        "$'a'",
        '$"b"',
        "[[ ",
        "]]",
    ),
    *(
        "((",
        "))",
        "if ",
        "then ",
        "fi",
        "for ",
        "do ",
        "done",
        "time ",
        "eval ",
        "你好",
        "\u00a0",
        "|&",
        " out",
        "/dev/null",
    ),
    *(
        "{a,b}",
        "@(a)",
        '""',
        "''",
        "\\'",
        '\\"',
        "\\$",
        "\\ ",
        "|evil",
        ";evil",
        "&&evil",
        "$(evil)",
        "`evil`",
        "1",
        "x",
    ),
]
LINES = [
    *(
        "git diff HEAD | head -5",
        "git diff && ls",
        "echo 'a' \"b\" c",
        "ls > out 2>&1",
        "(ls; cat x) & echo y",
        "{ ls; }",
    ),
    *("! git diff", "echo a # b", "sort x | head -n 3\nls", "echo \"a\\\"b\" 'c'\\''d' \\\"x"),
]
SPY = """\
command_not_found_handle() { builtin printf '%s\\0' "$@" $'\\1' >> "$LOG"; }
enable -n cd echo pwd true false
"""


def spoiled(chance: random.Random) -> str:
    line = chance.choice(LINES)
    for _ in range(chance.randint(1, 3)):
        start = chance.randint(0, len(line))
        line = line[:start] + chance.choice(PIECES) + line[start + chance.choice([0, 0, 1]) :]
    return line


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_runs_nothing_but_the_atoms(tmp_path: Path) -> None:
    """Lines that were spoiled at random, and are understood all the same, in a bash that writes down what it runs."""
    chance = random.Random(20)
    understood = ran = 0
    while understood < 150:
        line = spoiled(chance)
        found = atoms({"command": line})
        if found is None:
            continue
        understood += 1
        folder, log = tmp_path / f"{understood}", tmp_path / f"{understood}.log"
        folder.mkdir()
        log.touch()
        environment = {"LOG": str(log), "PATH": "/nonexistent", "HOME": "/nonexistent"}
        bash = [str(shutil.which("bash")), "--noprofile", "--norc", "-c", SPY + line]
        subprocess.run(bash, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=20)
        commands = {tuple(entry.decode().split("\0")[:-1]) for entry in log.read_bytes().split(b"\1\0")[:-1]}
        ran += len(commands)
        assert commands <= {atom.words for atom in found}, line
        assert {(">", path.name) for path in folder.iterdir()} <= {atom.words for atom in found}, line
    assert ran > 100


def test_no_program_of_the_table_is_one_that_runs_others() -> None:
    wrappers = (
        "sudo doas su env nice nohup setsid stdbuf timeout time watch flock xargs parallel script strace sh bash dash"
    )
    wrappers += (
        " zsh perl ruby node php lua awk sed ed vim less man eval exec source command builtin trap alias export tee"
    )
    wrappers += " printf test [ make npm npx cargo docker ssh curl wget tar rm mv cp dd ln chmod busybox . declare read"
    assert not set(wrappers.split()) & set(PROGRAMS)
