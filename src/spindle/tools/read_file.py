"""`read_file` gives lines of a text file, numbered: a range of them, or the block of code around one.

The file may have any size and any origin.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import BinaryIO, Literal

import msgspec

from spindle.errors import ToolError
from spindle.patch.apply import reason_of
from spindle.tools.looking import cut_bytes, place, shown_name
from spindle.tools.safe_files import open_file, read_file
from spindle.tools.specs import READ_LINES
from spindle.tools.tool import ToolCall, ToolContext, ToolResult, parse_arguments

LINE_BYTES = 500
TAB_WIDTH = 4
BLOCK_FILE_BYTES = 4 << 20
"""No larger file is looked at as a whole."""
SCAN_BYTES = 1 << 30
"""How far into a file lines are looked for: a second or two."""
_LONG_LINE = 1 << 16
_CHUNK = 1 << 20
_HEAD = 8_192
_HEADERS = ("#", "//", "--", "/*", "*", "@", ";")
_CONTINUATIONS = (
    *("}", ")", "]", "end", "else", "elif", "elsif", "except", "finally", "catch", "case", "default", "rescue"),
    *("ensure", "when", "done", "fi", "esac"),
)

Mask = Callable[[bytes], bytes]


class Indentation(msgspec.Struct, frozen=True):
    """Which block of lines around an anchor is wanted."""

    anchor_line: int | None = None
    """The offset by default."""
    max_levels: int = 0
    """How many levels of indentation above the anchor's to include; 0 = all."""
    include_siblings: bool = False
    """Blocks beside the anchor's own, on the outermost level that is included."""
    include_header: bool = True
    """Comments right above the block."""
    max_lines: int | None = None


class ReadFileArgs(msgspec.Struct, frozen=True):
    file_path: str
    offset: int = 1
    limit: int = READ_LINES
    mode: Literal["slice", "indentation"] = "slice"
    indentation: Indentation | None = None


async def run(call: ToolCall, ctx: ToolContext) -> ToolResult:
    args = parse_arguments(call, ReadFileArgs)
    text = await asyncio.to_thread(_answer, args, ctx)
    known = await asyncio.to_thread(_fingerprint, args, ctx)
    if known is not None:
        ctx.notes.read(known[0], hash=known[1])
    return ToolResult(output=text)


def _answer(args: ReadFileArgs, ctx: ToolContext) -> str:
    true = place(args.file_path, "file_path", ctx)
    secrets = ctx.processes.secrets
    return read_lines(
        true,
        shown=os.path.normpath(args.file_path),
        offset=args.offset,
        limit=args.limit,
        block=(args.indentation or Indentation()) if args.mode == "indentation" else None,
        budget=ctx.output.truncation.byte_limit,
        mask=secrets.mask_bytes if secrets is not None else None,
    )


def _fingerprint(args: ReadFileArgs, ctx: ToolContext) -> tuple[str, str] | None:
    """The path of the file that was read, and a hash of all of it; None for one that is too large to look at whole.

    It is noted in the thread's ledger, so that a model whose memory was compacted can tell whether the file changed.
    """
    from spindle.context.ledger import file_hash  # only with a file that was read

    true = place(args.file_path, "file_path", ctx)
    try:
        content = read_file(true, BLOCK_FILE_BYTES + 1)
    except OSError:
        return None
    if len(content) > BLOCK_FILE_BYTES:
        return None
    return os.path.normpath(args.file_path), file_hash(content)


def read_lines(
    true: str,
    *,
    shown: str | None = None,
    offset: int = 1,
    limit: int = READ_LINES,
    block: Indentation | None = None,
    budget: int = 40_000,
    mask: Mask | None = None,
    scan: int = SCAN_BYTES,
) -> str:
    """Lines of the file at a true path, each as `L12: text`, from `offset` on or the `block` around it.

    `budget` bounds the text in bytes; when it ends the reading, a last line says where to go on. `mask` takes secrets
    out before lines are cut. Nothing is looked for beyond `scan` bytes. Raises ToolError.
    """
    path = shown_name(shown or true)
    if offset < 1:
        raise ToolError("offset must be a 1-indexed line number")
    if limit < 1:
        raise ToolError("limit must be greater than zero")
    try:
        with open_file(true) as fd, open(fd, "rb", buffering=_CHUNK, closefd=False) as file:
            source = _text_of(file, path)
            if block is not None:
                return _render(_read_block(source, block, offset, limit, mask, path), budget)
            return _render(_read_slice(source, offset, limit, mask, budget, scan), budget)
    except OSError as error:
        if error.errno == errno.EISDIR:
            raise ToolError(f"{path} is a folder; list_dir shows what is in it") from error
        raise ToolError(f"failed to read file {path}: {reason_of(error)}") from error


def _text_of(file: BinaryIO, path: str) -> BinaryIO:
    """The file, read from its beginning. Raises for one that is no text; UTF-16 with its mark becomes UTF-8."""
    head = file.read(_HEAD)
    if b"\0" not in head:
        file.seek(0)
        return file
    size = os.fstat(file.fileno()).st_size
    if head[:2] in (b"\xff\xfe", b"\xfe\xff") and size <= BLOCK_FILE_BYTES:
        from io import BytesIO  # for the few such files

        try:
            return BytesIO((head + file.read(BLOCK_FILE_BYTES)).decode("utf-16").encode())
        except UnicodeDecodeError:
            pass
    raise ToolError(f"{path} is a binary file of {size} bytes; it has no lines to read")


Lines = list[tuple[int, str]]
"""Numbers and texts."""


def _read_slice(file: BinaryIO, offset: int, limit: int, mask: Mask | None, budget: int, scan: int) -> Lines:
    present = _skip_lines(file, offset - 1, scan)
    raw: list[bytes] = []
    size = 0
    for line in islice(_lines(file, scan), limit):
        raw.append(line)
        size += min(len(line), LINE_BYTES)
        if size > budget:
            break  # `_render` says so
    if not raw:
        raise ToolError(f"offset exceeds file length: the file has {present} lines")
    return list(enumerate(_texts(raw, mask), offset))


def _skip_lines(file: BinaryIO, count: int, scan: int) -> int:
    """Move behind the first `count` lines; how many there were. A last line without its end is one too."""
    skipped, last = 0, b"\n"
    while skipped < count:
        chunk = file.read(_CHUNK)
        if not chunk:
            return skipped + (last != b"\n")
        found = chunk.count(b"\n")
        if skipped + found < count:
            skipped, last = skipped + found, chunk[-1:]
            _require_near(file, scan)
            continue
        end = -1
        for _ in range(count - skipped):
            end = chunk.index(b"\n", end + 1)
        file.seek(end + 1 - len(chunk), os.SEEK_CUR)
        return count
    return count


def _require_near(file: BinaryIO, scan: int) -> None:
    if file.tell() > scan:
        raise ToolError(f"lines are looked for in the first {scan} bytes of a file only; use a command")


def _lines(file: BinaryIO, scan: int) -> Iterator[bytes]:
    """The lines without their ends; of an endless one only the beginning."""
    while line := file.readline(_LONG_LINE):
        if not line.endswith(b"\n"):
            rest = line
            while rest and not rest.endswith(b"\n"):
                rest = file.readline(_CHUNK)
                _require_near(file, scan)
        yield line.removesuffix(b"\n").removesuffix(b"\r")


def _texts(raw: Sequence[bytes], mask: Mask | None) -> list[str]:
    if mask is not None:
        # All lines at once: a private key has many.
        whole = b"\n".join(raw)
        masked = mask(whole)
        if masked is not whole:
            raw = masked.split(b"\n")
    return [line.decode("utf-8", "replace") for line in raw]


def _render(lines: Lines, budget: int) -> str:
    shown: list[str] = []
    size = 0
    for number, text in lines:
        line = f"L{number}: {cut_bytes(text, LINE_BYTES)}"
        size += len(line.encode()) + 1
        if size > budget and shown:
            shown.append(f"[The output limit ends this page; go on with offset {number}.]")
            break
        shown.append(line)
    return "\n".join(shown)


# ---- the block of code around a line -----------------------------------------------------------------


def _read_block(file: BinaryIO, block: Indentation, offset: int, limit: int, mask: Mask | None, path: str) -> Lines:
    anchor = offset if block.anchor_line is None else block.anchor_line
    if anchor < 1:
        raise ToolError("anchor_line must be a 1-indexed line number")
    if block.max_lines is not None and block.max_lines < 1:
        raise ToolError("max_lines must be greater than zero")
    data = file.read(BLOCK_FILE_BYTES + 1)
    if len(data) > BLOCK_FILE_BYTES:
        raise ToolError(f"{path} is too large for the indentation mode; read it in slices")
    raw = [line.removesuffix(b"\r") for line in data.removesuffix(b"\n").split(b"\n")] if data else []
    if anchor > len(raw):
        raise ToolError(f"anchor_line exceeds file length: the file has {len(raw)} lines")
    texts = _texts(raw, mask)
    anchor = min(anchor, len(texts))
    first, last = block_around(texts, anchor - 1, block, min(limit, block.max_lines or limit))
    return list(enumerate(texts[first : last + 1], first + 1))


def block_around(lines: Sequence[str], anchor: int, block: Indentation, most: int) -> tuple[int, int]:
    """The first and last index of the block around the line with index `anchor`; never more than `most` lines.

    The block grows from the anchor, upwards and downwards in turn, over lines that are indented further than the
    outermost level wanted. On that level itself it takes the line that opens the block, with comments and decorators
    above it, and those that go on with it or close it; all of them when siblings are wanted.
    """
    indents = _indents(lines)
    outermost = max(0, indents[anchor] - block.max_levels * TAB_WIDTH) if block.max_levels > 0 else 0
    has_opening = indents[anchor] == outermost
    first = last = anchor
    up = down = True
    while last - first + 1 < most and (up or down):
        if up:
            up = first > 0 and indents[first - 1] >= outermost
            if up and not block.include_siblings:
                is_header = block.include_header and lines[first - 1].lstrip().startswith(_HEADERS)
                up = not has_opening or (is_header and indents[first - 1] == outermost)
                has_opening = has_opening or indents[first - 1] == outermost
            first -= up
        if down and last - first + 1 < most:
            down = last + 1 < len(lines) and indents[last + 1] >= outermost
            if down and not block.include_siblings and indents[last + 1] == outermost:
                down = lines[last + 1].lstrip().startswith(_CONTINUATIONS)
            last += down
    while first < anchor and not lines[first].strip():
        first += 1
    while last > anchor and not lines[last].strip():
        last -= 1
    return first, last


def _indents(lines: Sequence[str]) -> list[int]:
    """How far each line is indented; a blank one counts as its neighbour that is indented further."""
    indents = [_width(line) for line in lines]
    before = [0]
    for width in indents:
        before.append(width if width >= 0 else before[-1])
    after = 0
    for at in range(len(indents) - 1, -1, -1):
        if indents[at] < 0:
            indents[at] = max(before[at], after)
        else:
            after = indents[at]
    return indents


def _width(line: str) -> int:
    """-1 for a blank line."""
    text = line.lstrip(" \t")
    return len(line[: len(line) - len(text)].replace("\t", " " * TAB_WIDTH)) if text.strip() else -1
