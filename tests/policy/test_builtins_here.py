"""What the shells of this system make of quoted words.

Some builtins take a word for a name with an index, a list or a command, and so run what stands in it. Every builtin is
really given such words; whatever ran the canary must not count as a plain command, and a rule that forbids the canary
must hold. With SPINDLE_BUILTINS=everything all pairs of an option and a word are tried, in zsh too; else some of them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from itertools import product
from pathlib import Path

import pytest

from spindle.policy.approval import Allow, Circumstances, decide_command
from spindle.policy.commands import is_known_safe, split_command
from spindle.policy.rules import Rule, RuleSet
from spindle.protocol.settings import SandboxPolicy

EVERYTHING = os.environ.get("SPINDLE_BUILTINS") == "everything"
OPTIONS = (
    "",
    "-v",
    "-n",
    "-p",
    "-C",
    "-W",
    "-x",
    "-e",
    "-a",
    "-f",
    "-c 1 -C",
    "-A",
    "-R",
    "-d",
    "-u",
    "-t",
    "-s",
    "-F",
    "-i",
)
WORDS = ("'a[$(touch CANARY)]'", "'touch CANARY'", "'$(touch CANARY)'", "'`touch CANARY`'", "touch CANARY")
MORE = ("", " x", " EXIT")
ENDLESS = frozenset(("suspend", "logout", "exit", "return", "exec", "bye", "vared", "zle", "sched"))
SHELLS = [shell for shell in ("bash", "zsh") if shutil.which(shell) and (EVERYTHING or shell == "bash")]


def builtins(shell: str) -> list[str]:
    script = "compgen -b" if shell == "bash" else "print -l ${(k)builtins}"
    names = subprocess.run([shell, "-fc" if shell == "zsh" else "-c", script], capture_output=True, text=True).stdout
    return sorted(name for name in names.split() if name.isalpha() and name not in ENDLESS)


def candidates(name: str) -> list[str]:
    options = OPTIONS if EVERYTHING else ("", "-v", "-C", "-W", "-x", "-c 1 -C")
    more = MORE if EVERYTHING else ("",)
    words = WORDS if EVERYTHING else WORDS[:3]
    return [f"{name} {option} {word}{rest}" for option, word, rest in product(options, words, more)]


def ran(shell: str, lines: list[str], folder: Path) -> list[str]:
    """Those of the lines that ran the canary, each in a folder and a copy of the shell of its own."""
    places = [folder / str(number) for number in range(len(lines))]
    for place in places:
        place.mkdir()
        (place / "in").write_text("x\ny\n")
    run = [f"(cd {place} && a=(1 2) && {line}) < {place}/in" for place, line in zip(places, lines, strict=True)]
    subprocess.run(["timeout", "300", shell], input="\n".join(run), text=True, cwd=folder, capture_output=True)
    return [line for place, line in zip(places, lines, strict=True) if (place / "CANARY").exists()]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("shell", SHELLS)
def test_what_a_builtin_runs_from_its_words_is_no_plain_command(shell: str, tmp_path: Path) -> None:
    lines = [line for name in builtins(shell) for line in candidates(name)]
    found = ran(shell, lines, tmp_path)
    assert len(found) > 5
    here = Circumstances(policy="on-request", sandbox=SandboxPolicy(mode="workspace-write"))
    rules = RuleSet([Rule((("touch",),), "forbidden")])
    wrong = []
    for line in found:
        argv = [shell, "-c", line]
        is_hidden = isinstance(decide_command(argv, here, rules=rules), Allow)
        lets_out = False
        if (parts := split_command(argv)) is not None:
            allowed = RuleSet([Rule(((parts[0][0],),))])
            lets_out = decide_command(argv, here, rules=allowed) == Allow(sandboxed=False)
        if is_hidden or lets_out or is_known_safe(argv):
            wrong.append((line, is_hidden, lets_out))
    assert not wrong, wrong
