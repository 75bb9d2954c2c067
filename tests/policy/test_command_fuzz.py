"""Generated command lines: wrapped, nested, quoted and spaced in every way, judged, and some of them really run.

The rules that must hold whatever is generated: no crash, nothing that writes is known safe, no dangerous payload is
missed behind a wrapper that is seen through, and a script that counts as split is split as bash splits it.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from spindle.policy.commands import is_dangerous, is_known_safe, parse_command, split_command
from spindle.protocol.quote import shell_quote

pytestmark = pytest.mark.slow

PAYLOADS = [
    *(
        "rm -rf x",
        "rm -f x",
        "rm -r x --force",
        "rm x -rf",
        "git reset --hard",
        "git clean -fd",
        "git push -f",
        "git rm x",
    ),
    *("git branch -D x", "dd if=y of=/dev/sda", "mkfs.ext4 /dev/sda", "shred x", "chmod -R 777 /", "kill -9 -1"),
    *("git -C x reset", "/bin/rm -rf x", "r''m -rf x", "\\rm -rf x", "sudo rm -rf x", "find . -exec rm -f {} +"),
]
PREFIXES = [
    *("env ", "env -i ", "env A=1 ", "env -u A ", "command ", "exec ", "nice ", "nice -n 5 ", "nohup ", "timeout 5 "),
    *(
        "timeout -k 1 5 ",
        "xargs ",
        "xargs -n 1 ",
        "sudo ",
        "sudo -u root ",
        "sudo -n ",
        "doas ",
        "time ",
        "stdbuf -oL ",
    ),
    *("setsid ", "A=1 ", "A=1 B='2 3' ", "! ", "ionice -c 3 ", "builtin command ", "sudo --user root "),
]
AROUND = [
    *("ls; {}", "{}; ls", "ls && {}", "{} || ls", "ls | {}", "{} | cat", "( {} )", "{{ {}; }}", "if true; then {}; fi"),
    *(
        "while {}; do ls; done",
        "for x in a; do {}; done",
        "echo $({})",
        "echo `{}`",
        'echo "$({})"',
        "{} > f",
        "{} 2>&1",
    ),
    *("{} &", "ls\n{}", "ls &\n{}", "f() {{ {}; }}; f", "case x in x) {};; esac", "cat <({})", "\t{}", "ls # x\n{}"),
    *("bash <<E\n{}\nE", "sh <<'E'\nls\n{}\nE", "cat <<E | bash\n{}\nE", "[[ -f x ]] && {}", "coproc {}", "A=$({})"),
]
NESTED = [
    "bash -c {}",
    "sh -c {}",
    "bash -lc {}",
    "/bin/bash -xc {}",
    "eval {}",
    "zsh -c {}",
    "su -c {}",
    "trap {} EXIT",
    "sh <<< {}",
    "echo {} | sh",
]


@st.composite
def wrapped(draw: st.DrawFn, payloads: list[str]) -> str:
    """A payload behind up to four layers of wrapping, at most two of them nested shells."""
    script = draw(st.sampled_from(payloads))
    is_simple, shells = True, 0
    for _ in range(draw(st.integers(0, 4))):
        layer = draw(st.integers(0, 2))
        if layer == 0 and is_simple:
            script = draw(st.sampled_from(PREFIXES)) + script
        elif layer == 1:
            script = draw(st.sampled_from(AROUND)).format(script)
            is_simple = False
        elif shells < 2:
            script = draw(st.sampled_from(NESTED)).format(shell_quote(script))
            is_simple, shells = True, shells + 1
    return script


@given(wrapped(PAYLOADS))
@settings(max_examples=400, deadline=None)
def test_a_dangerous_command_is_found_behind_any_wrapper(script: str) -> None:
    argv = ["bash", "-lc", script]
    assert not is_known_safe(argv)
    # A backquoted command inside quotes for another shell has backslashes we do not take apart.
    assume("`" not in script or script.count("`") <= 2)
    assert is_dangerous(argv)


WORDS = st.one_of(
    st.sampled_from(
        [
            *(
                "ls",
                "cat",
                "echo",
                "touch",
                "CANARY",
                "-la",
                "find",
                ".",
                "-exec",
                "-fprint",
                "rg",
                "--pre",
                "git",
                "status",
            ),
            *(
                "uniq",
                "sed",
                "-n",
                "1p",
                "w",
                "base64",
                "-o",
                "tee",
                "env",
                "bash",
                "-c",
                "sh",
                "x=1",
                "if",
                "then",
                "fi",
            ),
            *(
                "head",
                "grep",
                "true",
                "cd",
                "--output=CANARY",
                "log",
                "diff",
                "*",
                "~",
                "?",
                "[a]",
                "{a,b}",
                "!",
                "time",
            ),
        ]
    ),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=6),
)
GLUE = st.sampled_from(
    [
        *(
            " ",
            " ",
            " ",
            " ",
            " ",
            "  ",
            "\t",
            "; ",
            " && ",
            " || ",
            " | ",
            "|",
            ";",
            "&&",
            " & ",
            "\n",
            "\\\n",
            " > ",
            " >> ",
        ),
        *(
            "<",
            "$(",
            ")",
            "`",
            "'",
            '"',
            "\\",
            "$",
            "#",
            " # ",
            "\r",
            "\x0b",
            "\u00a0",
            "{",
            "}",
            "(",
            "<<E\n",
            "\nE\n",
            "=",
            "!",
        ),
    ]
)
SCRIPTS = st.lists(st.tuples(WORDS, GLUE), min_size=1, max_size=8).map(
    lambda pieces: "".join(word + glue for word, glue in pieces)
)


@given(SCRIPTS)
@settings(max_examples=400, deadline=None)
@example("echo $(touch CANARY)")
@example("uniq x CANARY")
@example("ls \u00a0; touch CANARY")
def test_no_script_breaks_the_judgement(script: str) -> None:
    argv = ["bash", "-lc", script]
    safe, dangerous = is_known_safe(argv), is_dangerous(argv)
    assert not (safe and dangerous)
    assert parse_command(argv)
    parts = split_command(argv)
    assert not safe or parts is not None
    if safe and parts is not None:
        assert all(is_known_safe(part) for part in parts)


def run_bash(script: str, folder: Path, shell: str = "bash") -> subprocess.CompletedProcess[bytes]:
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "LC_ALL": "C.UTF-8"}
    return subprocess.run(
        [shell, "-c", script], cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=20
    )


SAFE_PROGRAMS = (
    "cat cd cut echo expr false grep head id ls nl paste pwd rev seq stat tr true uname uniq wc which whoami tac"
)
WRITERS = [
    *(
        "echo x > CANARY",
        "touch CANARY",
        "cat in >CANARY",
        "uniq in CANARY",
        "find . -name in -fprint CANARY",
        "tee CANARY <in",
    ),
    *("find . -name in -exec touch CANARY ;", "echo $(touch CANARY)", "sed -n 'w CANARY' in", "sort -o CANARY in"),
    *("ls `touch CANARY`", "cp in CANARY", "x=touch; $x CANARY", "echo x | tee CANARY", "cat <(touch CANARY)"),
    *("sed -n 1p in --expression=wCANARY", "base64 in >| CANARY", "{touch,CANARY}", "eval touch CANARY", "> CANARY"),
    *("echo ${x:=$(touch CANARY)}", "ls & touch CANARY", "ls\ntouch CANARY", "ls # x\ntouch CANARY", "(touch CANARY)"),
    *(
        'echo "$(touch CANARY)"',
        "false || touch CANARY",
        "cat in | touch CANARY",
        "dd if=in of=CANARY",
        "bash -c 'touch CANARY'",
    ),
    *(
        "git init -q CANARY",
        "ln in CANARY",
        "env touch CANARY",
        "command touch CANARY",
        "printf x>CANARY",
        "ls &>CANARY",
    ),
    *(
        "xargs touch CANARY",
        "timeout 5 touch CANARY",
        "find in -fls CANARY",
        "awk 'BEGIN{print > \"CANARY\"}'",
        "mkdir CANARY",
    ),
]


@st.composite
def writing(draw: st.DrawFn) -> str:
    """A command that writes, among ones that do not."""
    plain = st.sampled_from(
        [f"{name} in" if name not in ("cd", "id", "tr") else name for name in SAFE_PROGRAMS.split()]
    )
    before = draw(st.lists(plain, max_size=2))
    after = draw(st.lists(plain, max_size=1))
    glue = draw(st.sampled_from(["; ", " || ", "\n", " | ", " ;", ";\t"]))
    return glue.join([*before, draw(st.sampled_from(WRITERS)), *after])


@given(script=writing())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_really_writes_is_never_known_safe(tmp_path_factory: pytest.TempPathFactory, script: str) -> None:
    folder = tmp_path_factory.mktemp("writes")
    (folder / "in").write_text("x\n")
    run_bash(script, folder)
    assume(os.listdir(folder) != ["in"])
    assert not is_known_safe(["bash", "-c", script])


LOOKING = st.lists(
    st.tuples(
        st.sampled_from(
            [*SAFE_PROGRAMS.split(), "find .", "find", "git status", "git log", "git diff", "sed -n", "base64"]
        ),
        st.lists(
            st.sampled_from(
                [
                    *(
                        "in",
                        "*",
                        "-c",
                        "CANARY",
                        "--output=CANARY",
                        "-o",
                        "-exec",
                        "touch",
                        "1p",
                        "wCANARY",
                        "-fprint",
                        "?*",
                    ),
                    *(
                        "'a b'",
                        '"c d"',
                        "-n",
                        "--",
                        "-",
                        "-delete",
                        ";",
                        "--out",
                        "[!a]*",
                        "~",
                        "a#b",
                        "-z",
                        "--pre",
                        "-f",
                        "1",
                    ),
                ]
            ),
            max_size=4,
        ),
    ).map(lambda pair: " ".join([pair[0], *pair[1]])),
    min_size=1,
    max_size=3,
).flatmap(lambda commands: st.sampled_from([" | ", "; ", " && ", " || "]).map(lambda glue: glue.join(commands)))


@given(script=LOOKING)
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example("uniq -c in | wc")
def test_whatever_is_known_safe_changes_nothing_when_it_is_run(
    tmp_path_factory: pytest.TempPathFactory, script: str
) -> None:
    assume(is_known_safe(["bash", "-c", script]))
    folder = tmp_path_factory.mktemp("safe")
    # Names that turn into options where a pattern is replaced by what lies around.
    for name in ("in", "-delete", "-oCANARY2", "--output=CANARY3", "-i", "wCANARY"):
        (folder / name).write_text("x\n")
    before = contents(folder)
    run_bash(script, folder)
    assert contents(folder) == before


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


INSIDE = st.one_of(
    st.characters(codec="utf-8", exclude_categories=["C", "Z"]), st.sampled_from(" \t\n;|&<>(){}#$`\\\"'!*?[]~")
)
PLAIN_WORDS = st.one_of(
    st.text("abcXYZ019_@%+=:,./-^#!*?[]é日", min_size=1, max_size=8).filter(lambda text: text[0] != "#"),
    st.text(INSIDE, max_size=8).map(lambda text: "'" + text.replace("'", "") + "'"),
    st.text(INSIDE, max_size=8).map(lambda text: '"' + re.sub(r'["$`\\]', "", text) + '"'),
)
PLAIN_SCRIPTS = st.lists(
    st.lists(st.lists(PLAIN_WORDS, min_size=1, max_size=2).map("".join), min_size=1, max_size=4), min_size=1, max_size=3
).flatmap(
    lambda commands: st.sampled_from(["; ", " && ", " || ", "|", ";", " |\t"]).map(
        lambda glue: glue.join(" ".join(["show", *words]) for words in commands)
    )
)
# A file for each process: the members of a pipe run at once, and text with a line end is written in pieces.
SHOW = """show() { local line; printf -v line '<%s>' "$@"; echo -E "$line" >> "$OUT.$BASHPID"; }; set -f;"""


@given(script=PLAIN_SCRIPTS)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example("show a#b 'c d'\"e f\"g")
@example("show \"a\nb\" 'c\td'")
def test_bash_sees_the_words_that_we_see(tmp_path_factory: pytest.TempPathFactory, script: str) -> None:
    parts = split_command(["bash", "-c", script])
    assume(parts is not None)
    assert parts is not None
    folder = tmp_path_factory.mktemp("words")
    out = folder / "out"
    done = run_bash(f"OUT={out}; {SHOW}\n{script}", folder)
    assert done.returncode == 0, done.stderr
    expected = ["".join(f"<{word}>" for word in part[1:]) or "<>" for part in parts]
    # `||` stops behind the first that succeeds, and a pipe runs all of them in any order.
    seen = "".join(path.read_text() for path in sorted(folder.glob("out.*")))
    if " || " in script and script.count(" || show") == len(parts) - 1:
        assert seen == expected[0] + "\n"
    else:
        assert len(seen) == sum(len(line) + 1 for line in expected)
        assert all(line + "\n" in seen for line in expected)
