"""How a program that a person named is started: from which folder, with which environment, and whether confined.

MCP servers and `notify` run outside the sandbox, because a person said so. The word was given to a program, not to what
a repository has lying around, nor to what the agent makes of it:

- In a folder that is not trusted they start in a neutral one, where no module or `node_modules` of the repository is
  found. So do programs that look for code in their folder, such as `npx` and `python -m`, wherever the agent may write.
- The environment leads to no folder that the agent may write, nor to whatever folder the program is in.
- What the agent could have written is told (`found`): it runs inside the sandbox, unless its contents are pinned.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import msgspec

from spindle.policy.reach import NEUTRAL_FOLDER, Found, Reach, absolute_folders

LOADED_APART = "PYTHONPYCACHEPREFIX"
"""Python reads compiled modules from beside their sources unless this says otherwise; they could be anything."""


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """A program of a person's, ready to be started."""

    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: str
    found: Found | None
    """What of it the agent could have written."""


def prepare(
    reach: Reach, argv: Sequence[str], env: Mapping[str, str], *, cwd: str, own_cwd: str | None, is_trusted: bool
) -> Prepared:
    """`cwd` is the working folder; `own_cwd` is the one that the person set for this very program."""
    given = {**env, "PATH": absolute_folders(env.get("PATH", os.defpath))}
    folder, words = own_cwd or cwd, tuple(argv)
    if own_cwd is None and not is_trusted:
        folder, words = NEUTRAL_FOLDER, _anchored(words, cwd)
    # Its own program is looked for where the person's search path says; what it starts is not found in reach.
    kept = reach.without_reach(given, cwd=folder)
    found = _found(reach, words, folder, given, kept)
    if found is not None and found.is_by_folder and own_cwd is None and folder != NEUTRAL_FOLDER:
        folder, words = NEUTRAL_FOLDER, _anchored(words, cwd)
        found = _found(reach, words, folder, given, kept)
    return Prepared(argv=words, env=kept if found is None else given, cwd=folder, found=found)


def _found(
    reach: Reach, argv: tuple[str, ...], cwd: str, given: Mapping[str, str], kept: Mapping[str, str]
) -> Found | None:
    program = reach.program(argv[0], cwd=cwd, path=given["PATH"])
    return Found(what=program) if program is not None else reach.command(argv, cwd=cwd, env=kept)


def _anchored(argv: tuple[str, ...], cwd: str) -> tuple[str, ...]:
    """The same words for another folder: `.` and `./…` go on meaning what they meant in `cwd`."""

    def anchored(word: str) -> str:
        is_relative = word in (".", "..") or word.startswith(("./", "../"))
        return os.path.normpath(f"{cwd}/{word}") if is_relative else word

    return (argv[0], *map(anchored, argv[1:]))
