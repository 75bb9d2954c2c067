"""Patches hidden in shell commands.

Models call `apply_patch` as if it were a program. Exactly these forms are recognised; anything more is left to the
shell, because only a whole understanding of the command may replace running it:

    apply_patch <<'WORD'                  as a script; also <<WORD, <<"WORD", <<\\WORD, <<-WORD, or spelt applypatch
    cd FOLDER && apply_patch <<'WORD'     FOLDER being one literal word
    ["apply_patch", PATCH]                as an argument list

The last line may be missing, or have blanks around it: models forget, and the patch has an end of its own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from spindle.errors import PatchError
from spindle.patch.parse import END, parse_patch

BARE_PATCH_HINT = (
    "the command is a patch without a program to run it; call the apply_patch tool, "
    'or run ["apply_patch", PATCH] with the patch as the only argument'
)

_NAMES = ("apply_patch", "applypatch")
_SHELLS = ("bash", "zsh", "sh", "dash")
_FIRST_LINE = r"""
    \s*
    (?:cd[ \t]+(?:'(?P<single>[^'\n]+)'|"(?P<double>[^"$`\\\n]+)"|(?P<plain>[\w./@%+,:][\w./@%+,:=-]*))[ \t]*&&\s*)?
    (?:[A-Za-z_]\w*=[\w./-]*[ \t]+)*
    (?:apply_patch|applypatch)[ \t]*
    <<(?P<tabs>-?)[ \t]*(?:(?P<quote>['"]?)|\\)(?P<word>[\w.-]+)(?(quote)(?P=quote))[ \t]*\r?\n
"""


def find_patch(command: Sequence[str] | str) -> tuple[str, str | None] | None:
    """The patch text in a command (an argument list, or a shell script as a string), and the folder it changes into."""
    if isinstance(command, str):
        return _find_in_script(command)
    if len(command) == 2 and command[0] in _NAMES:
        return command[1], None
    script = _script_of(command)
    return None if script is None else _find_in_script(script)


def is_bare_patch(command: Sequence[str] | str) -> bool:
    """True when the whole command is a patch. Refuse it with BARE_PATCH_HINT: a shell would run its lines."""
    if not isinstance(command, str):
        script = command[0] if len(command) == 1 else _script_of(command)
        if script is None:
            return False
        command = script
    try:
        parse_patch(command)
    except PatchError:
        return False
    return True


def _script_of(argv: Sequence[str]) -> str | None:
    if len(argv) == 3 and os.path.basename(argv[0]) in _SHELLS and argv[1] in ("-lc", "-c"):
        return argv[2]
    return None


def _find_in_script(script: str) -> tuple[str, str | None] | None:
    if not any(name in script for name in _NAMES):
        return None
    start = re.match(_FIRST_LINE, script, re.VERBOSE)
    if start is None:
        return None
    folder = start["single"] or start["double"] or start["plain"]
    if folder is not None and folder.startswith("-"):
        return None
    body = [line.removesuffix("\r") for line in script[start.end() :].split("\n")]
    if start["tabs"]:
        body = [line.lstrip("\t") for line in body]
    if start["word"] not in body:
        patch = _without_end(body, start["word"])
        return None if patch is None else (patch, folder)
    end = body.index(start["word"])
    if any(line.strip() for line in body[end + 1 :]):
        return None
    return "\n".join(body[:end]) + "\n", folder


def _without_end(body: list[str], word: str) -> str | None:
    """The patch of a here-document whose last line is missing or not exact; None when it does not end as patches do."""
    lines = "\n".join(body).strip().split("\n")
    if lines[-1].strip() == word:
        del lines[-1]
    return "\n".join(lines) + "\n" if lines and lines[-1].strip() == END else None
