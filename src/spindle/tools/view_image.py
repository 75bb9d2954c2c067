"""`view_image` lets the model look at an image file."""

from __future__ import annotations

import asyncio
import os

import msgspec

from spindle.errors import ToolError
from spindle.protocol.events import ViewImageToolCall, Warning
from spindle.tools.images import ImageError, read_image
from spindle.tools.safe_files import true_path
from spindle.tools.tool import ToolCall, ToolContext, ToolResult, parse_arguments

ATTACHED = "attached local image path"


class ViewImageArgs(msgspec.Struct, frozen=True):
    path: str


async def run(call: ToolCall, ctx: ToolContext) -> ToolResult:
    if not ctx.output.accepts_images:
        raise ToolError("view_image cannot be used here: the model of this session reads text only")
    args = parse_arguments(call, ViewImageArgs)
    path = os.path.normpath(f"{ctx.settings.cwd}/{args.path}") if not os.path.isabs(args.path) else args.path
    if not os.path.exists(path):
        raise ToolError(f"unable to locate image at `{path}`: {_why_missing(path)}")
    if not os.path.isfile(path):
        raise ToolError(f"image path `{path}` is not a file")
    true = true_path(path, ctx.settings.cwd)
    if not ctx.boundary.may_read(true):
        raise ToolError(f"unable to read image at `{path}`: reading it is denied by the user's settings")
    try:
        # In a thread: scaling a large picture takes long enough to hold up the stream.
        image = await asyncio.to_thread(read_image, true, is_true=True)
    except ImageError as error:
        raise ToolError(f"unable to read image at `{path}`: {error}") from error
    if image.warning:
        ctx.emit(Warning(message=image.warning))
    ctx.emit(ViewImageToolCall(call_id=ctx.call_id, path=path))
    part = {"type": "input_image", "image_url": image.url}
    if ctx.output.image_as_message:
        message = {"type": "message", "role": "user", "content": [part]}
        return ToolResult(output=ATTACHED, follow_up=[message])
    return ToolResult(output=[part])


def _why_missing(path: str) -> str:
    try:
        os.stat(path)
    except (OSError, ValueError) as error:
        return getattr(error, "strerror", None) or str(error)
    return "it appeared only now"
