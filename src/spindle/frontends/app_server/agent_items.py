"""Sub-agents as a client sees them: `collabAgentToolCall` items. Pure."""

from __future__ import annotations

from spindle.api.tool_items import agent_call_step
from spindle.frontends.app_server.items import camel
from spindle.frontends.app_server.objects import CollabAgentItem
from spindle.protocol.events import Msg


def agent_item(msg: Msg) -> CollabAgentItem | None:
    """The call of a sub-agent tool, begun or finished; None for what sub-agents do themselves."""
    step = agent_call_step(msg, str)
    if step is None:
        return None
    _, item = step
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
