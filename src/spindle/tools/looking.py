"""What the tools that only look at files have in common: which paths they may open, and how much they may say."""

from __future__ import annotations

import os

from spindle.errors import ToolError
from spindle.thread.offload import is_offloaded
from spindle.tools.safe_files import true_path
from spindle.tools.tool import ToolContext

_PROCESSES = "/proc"


def place(written: str, field: str, ctx: ToolContext) -> str:
    """The true path of what an argument names, if this call may read it."""
    if "\0" in written:
        raise ToolError(f"{field} must not contain a null character")
    if not os.path.isabs(written):
        whole = os.path.normpath(f"{ctx.settings.cwd}/{written}")
        raise ToolError(f"{field} must be an absolute path; from the working directory that would be {whole}")
    return readable_path(written, ctx)


def readable_path(path: str, ctx: ToolContext) -> str:
    """The true path of `path`, which may be relative to the working directory. Raises when it may not be read."""
    true = true_path(path, ctx.settings.cwd)
    if is_of_processes(true):
        raise ToolError(f"{path} belongs to the system's processes, which only commands may look at")
    if not may_read(true, ctx):
        raise ToolError(f"reading {path} is denied by the user's settings")
    return true


def may_read(true: str, ctx: ToolContext) -> bool:
    """The turn's boundary, and what was put aside for this very thread: the model has seen a part of that already."""
    return ctx.boundary.may_read(true) or is_offloaded(true, ctx.boundary.homes, ctx.thread_id)


def is_of_processes(true: str) -> bool:
    """Below /proc, where the agent's own environment and memory can be read: no command of the model sees those."""
    if true == _PROCESSES or true.startswith(_PROCESSES + "/"):
        return True
    try:
        return os.stat(true).st_dev == os.stat(_PROCESSES).st_dev
    except OSError:
        return False


def shown_name(name: str) -> str:
    """A file's name as text, in one line. Bytes that are no text are replaced, control characters escaped."""
    if name.isascii() and name.isprintable():
        return name
    text = os.fsencode(name).decode("utf-8", "replace")
    return "".join(char if char.isprintable() else f"\\u{{{ord(char):X}}}" for char in text)


def cut_bytes(text: str, most: int) -> str:
    """The beginning of `text`, at most this many bytes of it, whole characters only."""
    if len(text) * 4 <= most:
        return text
    return text.encode("utf-8", "replace")[:most].decode("utf-8", "ignore")
