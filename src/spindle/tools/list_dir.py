"""`list_dir` shows what is in a folder, page by page.

Sorted by path and made on demand: a page costs what it shows, however large the tree.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Generator
from contextlib import closing
from itertools import islice

import msgspec

from spindle.errors import ToolError
from spindle.patch.apply import reason_of
from spindle.tools.ignore_rules import Ignores
from spindle.tools.looking import cut_bytes, may_read, place, shown_name
from spindle.tools.safe_files import open_folder
from spindle.tools.specs import LIST_DEPTH, LIST_ENTRIES
from spindle.tools.tool import ToolCall, ToolContext, ToolResult, parse_arguments

NAME_BYTES = 500
_INDENT = "  "
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DEEPEST = 64
"""Each level holds an open folder."""


class ListDirArgs(msgspec.Struct, frozen=True):
    dir_path: str
    offset: int = 1
    limit: int = LIST_ENTRIES
    depth: int = LIST_DEPTH


async def run(call: ToolCall, ctx: ToolContext) -> ToolResult:
    args = parse_arguments(call, ListDirArgs)
    return ToolResult(output=await asyncio.to_thread(_answer, args, ctx))


def _answer(args: ListDirArgs, ctx: ToolContext) -> str:
    true = place(args.dir_path, "dir_path", ctx)
    return list_folder(
        true,
        shown=os.path.normpath(args.dir_path),
        offset=args.offset,
        limit=args.limit,
        depth=args.depth,
        budget=ctx.output.truncation.byte_limit,
        may_read=lambda path: may_read(path, ctx),
    )


def list_folder(
    true: str,
    *,
    shown: str | None = None,
    offset: int = 1,
    limit: int = LIST_ENTRIES,
    depth: int = LIST_DEPTH,
    budget: int = 40_000,
    may_read: Callable[[str], bool] = lambda _: True,
) -> str:
    """One page of the folder at a true path: a line with its path, then its entries, children below their folder.

    What is in ignored folders, in `.git` and in folders that may not be read is left out; the folders themselves are
    there. `budget` bounds the text in bytes. Raises ToolError.
    """
    if offset < 1:
        raise ToolError("offset must be a 1-indexed entry number")
    if limit < 1:
        raise ToolError("limit must be greater than zero")
    if depth < 1:
        raise ToolError("depth must be greater than zero")
    path = shown_name(shown or true)
    lines = [f"Absolute path: {path}"]
    size = len(path.encode()) + 64
    try:
        with (
            open_folder(true) as folder,
            closing(_entries(folder, true, Ignores.at(true), min(depth, _DEEPEST), may_read)) as entries,
        ):
            skipped = sum(1 for _ in islice(entries, offset - 1))
            for level, name in entries:
                line = _INDENT * level + name
                size += len(line.encode()) + 1
                if len(lines) > limit or (size > budget and len(lines) > 1):
                    lines.append(f"More than {len(lines) - 1} entries found")
                    break
                lines.append(line)
    except OSError as error:
        if error.errno == errno.ENOTDIR and os.path.exists(true):
            raise ToolError(f"{path} is not a folder") from error
        raise ToolError(f"failed to read directory {path}: {reason_of(error)}") from error
    if len(lines) == 1 and offset > 1:
        raise ToolError(f"offset exceeds directory entry count: there are {skipped} entries")
    return "\n".join(lines)


def _entries(
    folder: int, path: str, ignores: Ignores, depth: int, may_read: Callable[[str], bool]
) -> Generator[tuple[int, str], None, None]:
    """Level and shown name of every entry, in order, nothing read before it is asked for."""
    with os.scandir(folder) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        is_folder = entry.is_dir(follow_symlinks=False)
        yield 0, cut_bytes(shown_name(entry.name), NAME_BYTES) + _suffix(entry, is_folder)
        if not is_folder or depth == 1 or entry.name == ".git" or ignores.hides(entry.name, True):
            continue
        inner_path = f"{path.rstrip('/')}/{entry.name}"
        if not may_read(inner_path):
            continue
        try:
            inner = os.open(entry.name, _FOLDER, dir_fd=folder)
        except OSError:
            continue  # gone, exchanged, or not ours to look into
        try:
            below = _entries(inner, inner_path, ignores.below(entry.name, inner), depth - 1, may_read)
            yield from ((level + 1, name) for level, name in below)
        finally:
            os.close(inner)


def _suffix(entry: os.DirEntry[str], is_folder: bool) -> str:
    if is_folder:
        return "/"
    if entry.is_symlink():
        return "@"
    return "" if entry.is_file(follow_symlinks=False) else "?"
