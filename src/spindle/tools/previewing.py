"""What the model gets of an output that was put aside."""

from __future__ import annotations

from spindle.context.truncate import BYTES_PER_TOKEN, truncate_text
from spindle.thread.offload import Handle


def preview(text: str, handle: Handle, mode: str, limit: int) -> str:
    """Head and tail of `text`, then the handle; `mode` and `limit` as for any output."""
    line = len(handle.line.encode()) + 1
    room = limit - (-(-line // BYTES_PER_TOKEN) if mode == "tokens" else line)
    return f"{truncate_text(text, mode, max(0, room))[0]}\n{handle.line}"
