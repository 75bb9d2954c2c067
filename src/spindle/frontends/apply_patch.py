"""apply_patch as a program: `spindle apply-patch PATCH`, or the patch on standard input.

Unlike the tool it works hunk by hunk, so a failure leaves the earlier files changed; and it has no policy of its own,
because whoever can start it can write the files anyway.
"""

from __future__ import annotations

import os
import sys
from typing import TextIO

from spindle.errors import PatchError
from spindle.frontends.options import Parsed
from spindle.patch.apply import FileChange, Plan, plan_changes, reason_of, summarise
from spindle.patch.parse import parse_patch
from spindle.policy.sandbox import agent_home
from spindle.tools.safe_files import read_file, remove_file, true_path, write_file

_USAGE = "usage: apply_patch PATCH, or the patch on standard input"


def run(parsed: Parsed, words: list[str]) -> int:
    return main(words, sys.stdin, sys.stdout, sys.stderr)


def main(argv: list[str], stdin: TextIO, stdout: TextIO, stderr: TextIO) -> int:
    """`argv` is what follows the program's name. Exit code: 0 done, 1 failure, 2 usage."""
    if len(argv) > 1:
        print(f"apply_patch takes exactly one argument ({_USAGE})", file=stderr)
        return 2
    patch = argv[0] if argv else _read_all(stdin)
    if not patch:
        print(_USAGE, file=stderr)
        return 2
    try:
        done = _apply_one_by_one(patch, _working_folder())
    except PatchError as error:
        print(error, file=stderr)
        return 1
    stdout.write(summarise(done))
    return 0


def _working_folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError as error:
        raise PatchError("The current folder no longer exists.") from error


def _read_all(stdin: TextIO) -> str:
    # The bytes, where there are any: text mode would turn carriage returns into newlines.
    binary = getattr(stdin, "buffer", None)
    return stdin.read() if binary is None else binary.read().decode(errors="surrogateescape")


def _apply_one_by_one(patch: str, cwd: str) -> list[Plan]:
    hunks = parse_patch(patch)
    if not hunks:
        raise PatchError("No files were modified.")

    def locate(path: str, is_removed: bool) -> str:
        return true_path(path, cwd, keep_last_link=is_removed)

    done: list[Plan] = []
    for hunk in hunks:
        plan = plan_changes([hunk], locate, read_file)
        for change in plan.changes:
            _write(change)
        done.append(plan)
    return done


def _write(change: FileChange) -> None:
    target = change.move_path or change.path
    try:
        if change.new is not None:
            write_file(target, change.new, home=agent_home(os.environ))
        if change.new is None or change.move_path:
            remove_file(change.path)
    except OSError as error:
        verb = "delete" if change.new is None else "write"
        raise PatchError(f"Failed to {verb} file {target}: {reason_of(error)}") from error
