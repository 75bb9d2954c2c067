"""The draft in an editor of the person's choice ($VISUAL, else $EDITOR)."""

from __future__ import annotations

import asyncio
import os
import shlex
import tempfile
from collections.abc import Callable, Mapping

from spindle.errors import SpindleError


def chosen_editor(environment: Mapping[str, str]) -> list[str]:
    """The words of the editor's command line. Raises SpindleError when none is set."""
    for name in ("VISUAL", "EDITOR"):
        if given := environment.get(name, "").strip():
            try:
                return shlex.split(given)
            except ValueError as error:
                raise SpindleError(f"{name} is {given!r}, which is no command line ({error}).") from error
    raise SpindleError("No editor is set; set VISUAL or EDITOR, for example: export EDITOR=vim")


async def edit(text: str, suspend: Callable[[], None], resume: Callable[[], None]) -> str:
    """Let the person edit a text; what they saved, without the line end that editors add.

    `suspend` gives the terminal away, `resume` takes it back. The file is readable for its owner only. Raises
    SpindleError when there is no editor, or it fails; the text is then to stay as it is.
    """
    words = chosen_editor(os.environ)
    fd, path = tempfile.mkstemp(prefix="spindle-draft-", suffix=".md")
    try:
        with os.fdopen(fd, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
            file.write(text)
        suspend()
        try:
            process = await asyncio.create_subprocess_exec(*words, path)
            code = await process.wait()
        except OSError as error:
            raise SpindleError(f"The editor {words[0]!r} cannot be started: {error.strerror}.") from error
        finally:
            resume()
        if code != 0:
            raise SpindleError(f"The editor {words[0]!r} ended with exit code {code}; the draft is as it was.")
        with open(path, encoding="utf-8", errors="replace", newline="") as file:
            edited = file.read()
    except OSError as error:
        raise SpindleError(f"The draft cannot be handed to the editor: {error.strerror}.") from error
    finally:
        try:
            os.unlink(path)
        except OSError:
            pass
    return edited if edited == text else edited.removesuffix("\n").removesuffix("\r")
