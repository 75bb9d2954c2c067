"""What the model gets of a command's output: both ends within the limit, and where the whole of it is."""

from __future__ import annotations

from spindle.context.truncate import truncate_text
from spindle.process.output import Taken
from spindle.tools.tool import ToolContext

_BORDER = 16
"""More bytes than a character that is cut in two has."""


def cut_for_model(output: Taken, mode: str, limit: int) -> tuple[str, bool]:
    """The text within the limit, and whether anything is missing. What the ring dropped counts as cut."""
    if output.dropped and mode == "tokens":
        output = _ends_of(output, 4 * limit + _BORDER)
    text = output.text()
    cut, truncated = truncate_text(text, mode, limit)
    if not output.dropped:
        return cut, truncated
    unit = "tokens" if mode == "tokens" else "chars"
    if not truncated:
        head, tail = output.head.decode("utf-8", "replace"), output.tail.decode("utf-8", "replace")
        missing = -(-output.dropped // 4) if mode == "tokens" else output.dropped
        return f"{head}…{missing} {unit} truncated…{tail}", True
    # The marker counts what was cut from the text at hand; add what the text had lost before.
    at = cut.rfind("…", 0, cut.rindex(f" {unit} truncated…"))
    end = cut.index(" ", at)
    removed = int(cut[at + 1 : end])
    if mode == "tokens":
        removed = -(-(output.total - 4 * limit) // 4)
    else:
        removed += output.dropped
    return f"{cut[: at + 1]}{removed}{cut[end:]}", True


def _ends_of(output: Taken, most: int) -> Taken:
    """Not more than `most` bytes of either end: what a cut text is made of."""
    if len(output.head) <= most or len(output.tail) <= most:
        return output
    head, tail = output.head[:most], output.tail[-most:]
    return Taken(head, tail, output.total, output.lines, output.total - 2 * most)


def put_aside(output: Taken, ctx: ToolContext, *, held: int = 0) -> str:
    """Store the whole of an output that the model gets a part of; gives the line that says where, or "".

    The last `held` bytes are left for the next look at it: they may be the beginning of a secret.
    """
    if ctx.output.offload_home is None:
        return ""
    if held and output.tail:
        output.tail = output.tail[:-held]
    elif held:
        output.head = output.head[:-held]
    from spindle.thread.offload import store_output  # with the first output that is too large

    handle = store_output(ctx.output.offload_home, ctx.thread_id, ctx.call_id, whole_text(output))
    return f"\n{handle.line}" if handle is not None else ""


def whole_text(taken: Taken) -> str:
    """All that was kept of an output, with a word about what was not."""
    if not taken.dropped:
        return taken.text()
    head, tail = taken.head.decode("utf-8", "replace"), taken.tail.decode("utf-8", "replace")
    # Without a sign that would make Python keep the whole of a plain text with two bytes for each character.
    return f"{head}\n[{taken.dropped} bytes are not shown]\n{tail}"
