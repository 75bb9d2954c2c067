"""Sub-agents as a client sees them: `collabAgentToolCall` items. Pure."""

from __future__ import annotations

from typing import Any

from spindle.frontends.agent_lines import tool_call_line
from spindle.frontends.app_server.items import camel
from spindle.frontends.app_server.objects import CollabAgentItem
from spindle.protocol.events import Msg


def agent_item(msg: Msg) -> CollabAgentItem | None:
    """The call of a sub-agent tool, begun or finished; None for what sub-agents do themselves."""
    line = tool_call_line(msg, str)
    if line is None:
        return None
    item: dict[str, Any] = line["item"]
    return CollabAgentItem(
        id=item["id"],
        tool=camel(item["tool"]),  # pyright: ignore[reportArgumentType]
        sender_thread_id=item["sender_thread_id"],
        receiver_thread_ids=item["receiver_thread_ids"],
        prompt=item["prompt"],
        agents_states={
            agent_id: {**state, "status": camel(state["status"])} for agent_id, state in item["agents_states"].items()
        },
        status=camel(item["status"]),  # pyright: ignore[reportArgumentType]
    )
