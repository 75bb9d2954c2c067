"""The draft in an editor of the person's choice ($VISUAL, else $EDITOR)."""

from __future__ import annotations

import asyncio
import os
import shlex
import tempfile
from collections.abc import Callable, Mapping

from spindle.errors import SpindleError
from spindle.process.lookup import find_installed
from spindle.thread.private_files import unlink_if_possible


def chosen_editor(environment: Mapping[str, str]) -> list[str]:
    """The words of the editor's command line. Raises SpindleError when none is set."""
    for name in ("VISUAL", "EDITOR"):
        if given := environment.get(name, "").strip():
            try:
                return shlex.split(given)
            except ValueError as error:
                raise SpindleError(f"{name} is {given!r}, which is not a command line ({error}).") from error
    raise SpindleError("No editor is set; set VISUAL or EDITOR, for example: export EDITOR=vim")


async def edit(text: str, suspend: Callable[[], None], resume: Callable[[], None]) -> str:
    """Let the person edit a text; what they saved, without the line end that editors add.

    `suspend` gives the terminal away, `resume` takes it back. The file is readable for its owner only. Raises
    SpindleError when there is no editor, or it fails; the text is then to stay as it is.
    """
    words = chosen_editor(os.environ)
    try:
        fd, path = tempfile.mkstemp(prefix="spindle-draft-", suffix=".md")
    except OSError as error:
        raise _not_handed(error) from error
    try:
        with os.fdopen(fd, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
            file.write(text)
        suspend()
        try:
            await _run([*words, path])
        finally:
            resume()
        with open(path, encoding="utf-8", errors="replace", newline="") as file:
            edited = file.read()
    except OSError as error:
        raise _not_handed(error) from error
    finally:
        unlink_if_possible(path)
    return text if edited == text else edited.removesuffix("\n").removesuffix("\r")


async def _run(words: list[str]) -> None:
    program = words[0] if "/" in words[0] else find_installed(words[0])
    if program is None:  # a name alone would be looked for in the project too
        raise SpindleError(f"The editor {words[0]!r} cannot be started: No such file or directory.")
    try:
        process = await asyncio.create_subprocess_exec(program, *words[1:])
    except OSError as error:
        raise SpindleError(f"The editor {words[0]!r} cannot be started: {error.strerror}.") from error
    try:
        code = await process.wait()
    finally:
        if process.returncode is None:  # we are leaving: it must not go on with a terminal that the shell has
            process.terminate()
            await process.wait()
    if code:
        raise SpindleError(f"The editor {words[0]!r} ended with exit code {code}; the draft is as it was.")


def _not_handed(error: OSError) -> SpindleError:
    return SpindleError(f"The draft cannot be handed to the editor: {error.strerror}.")
