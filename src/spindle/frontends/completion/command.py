"""`spindle completion [SHELL]`: the script on stdout. Nothing of Spindle runs when Tab is pressed."""

from __future__ import annotations

import sys

from spindle.errors import UsageError
from spindle.frontends.completion import bash, elvish, fish, powershell, zsh
from spindle.frontends.options import Parsed, nearest
from spindle.frontends.setup_commands import SHELLS

SCRIPTS = {
    "bash": bash.script,
    "zsh": zsh.script,
    "fish": fish.script,
    "powershell": powershell.script,
    "elvish": elvish.script,
}


def run(parsed: Parsed, words: list[str]) -> int:
    shell = words[0] if words else "bash"
    if shell not in SCRIPTS:
        near = nearest(shell, SHELLS)
        hint = f"did you mean `{near}`?" if near else f"use one of {', '.join(SHELLS)}"
        raise UsageError(f"no completion for the shell {shell!r}; {hint}")
    sys.stdout.write(SCRIPTS[shell]())
    return 0
