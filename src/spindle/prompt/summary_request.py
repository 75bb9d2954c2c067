"""The request for a summary: the one that would continue the thread, with other items and without calls. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from spindle.protocol.items import Item
from spindle.protocol.request import Request, VisibleItem

_NO_TOOLS = b"[]"


def for_summary(request: Request, *, keeps_tools: bool) -> Request:
    """The same request as the beginning of one that asks for a summary: nothing may be called."""
    return msgspec.structs.replace(
        request,
        parallel_tool_calls=False,
        tool_choice="none" if keeps_tools else request.tool_choice,
        tools=request.tools if keeps_tools else _NO_TOOLS,
    )


def showing(request: Request, items: Sequence[Item]) -> Request:
    """The request with these items. Those that it shows already stay as they are, for the provider's cache."""
    shown = {id(visible.item): visible for visible in request.items}
    return msgspec.structs.replace(request, items=[shown.get(id(item)) or VisibleItem.of(item) for item in items])
