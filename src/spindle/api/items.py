"""Events → items, the things a person sees of a turn: in the form of `exec --json`. Pure: no I/O, no clock.

The one place where this is done: `exec` prints these items as lines, and the Python API shows them as objects (it adds
the kinds that `exec` does not print, see `thread_items`).
"""

from __future__ import annotations

from typing import Any

import msgspec

from spindle.protocol.events import (
    ExecCommandBegin,
    ExecCommandEnd,
    ItemCompleted,
    Msg,
    PatchApplyBegin,
    PatchApplyEnd,
    PlanUpdate,
    TaskComplete,
    Warning,
    WebSearchBegin,
    WebSearchEnd,
)
from spindle.protocol.quote import shell_join

Item = dict[str, Any]
"""`id`, `type`, and the fields of its type."""
Step = tuple[str, Item]
"""What became of an item: "item.started", "item.updated" or "item.completed", and the item as it is now."""


class ItemTranslator:
    """Keeps what was shown so far: the numbers of items, the open to-do list, commands that still run."""

    def __init__(self, *, hide_reasoning: bool = False, first_number: int = 0) -> None:
        self._hide_reasoning = hide_reasoning
        self._ids: dict[str, str] = {}
        self.next_number = first_number
        self._open_commands: dict[str, Item] = {}
        self._todo: Item | None = None
        self._review: Item | None = None
        """What a review found, which stands behind the message that tells it."""

    def steps(self, msg: Msg) -> list[Step]:
        """What an event says about items; most events say nothing."""
        match msg:
            case ItemCompleted(item={"type": "AgentMessage", "content": content} as shown):
                text = "".join(part["text"] for part in content)
                return [_completed({"id": self._id_of_shown(shown), "type": "agent_message", "text": text})]
            case ItemCompleted(item={"type": "Reasoning", "summary_text": summary} as shown):
                if self._hide_reasoning or not any(summary):
                    return []
                text = "\n\n".join(summary)
                return [_completed({"id": self._id_of_shown(shown), "type": "reasoning", "text": text})]
            case ExecCommandBegin():
                item = _command_item(self._id(msg.call_id), msg.command, "", None, "in_progress")
                self._open_commands[msg.call_id] = item
                return [("item.started", item)]
            case ExecCommandEnd():
                self._open_commands.pop(msg.call_id, None)
                status = "completed" if msg.exit_code == 0 else "failed"
                item = _command_item(self._id(msg.call_id), msg.command, msg.aggregated_output, msg.exit_code, status)
                return [_completed(item)]
            case PatchApplyBegin():
                return [("item.started", self._file_change(msg.call_id, msg.changes, "in_progress"))]
            case PatchApplyEnd():
                status = "completed" if msg.success else "failed"
                return [_completed(self._file_change(msg.call_id, msg.changes, status))]
            case PlanUpdate(plan=plan):
                return [self._todo_list(plan)]
            case WebSearchBegin(call_id=call_id):
                item = {"id": self._id(call_id), "type": "web_search", "call_id": call_id, "query": ""}
                return [("item.started", {**item, "action": {"type": "other"}})]
            case WebSearchEnd(call_id=call_id, query=query, action=action):
                item = {"id": self._id(call_id), "type": "web_search", "call_id": call_id, "query": query}
                return [_completed({**item, "action": action})]
            case Warning(message=message):
                return [_completed({"id": self.new_id(), "type": "error", "message": message})]
            case TaskComplete():
                return self.close_open()
            case _:
                return self._of_others(msg)

    def _of_others(self, msg: Msg) -> list[Step]:
        """Sub-agents and MCP servers, whose events are loaded with them."""
        tag = str(msg.__struct_config__.tag)
        if tag in ("mcp_tool_call_begin", "mcp_tool_call_end"):
            from spindle.api.tool_items import server_call_step  # with the first call to a server

            return [server_call_step(msg, self._id)]
        if tag == "exited_review_mode":
            self._review = msgspec.to_builtins(msg)["review_output"]
            return []
        if not tag.startswith("collab_"):
            return []
        from spindle.api.tool_items import agent_call_step  # with the first sub-agent

        step = agent_call_step(msg, self._id)
        return [step] if step is not None else []

    def close_open(self) -> list[Step]:
        """The turn is over: commands it left running and the to-do list are shown as they stand."""
        steps = [_completed({**item, "status": "completed"}) for item in self._open_commands.values()]
        self._open_commands = {}
        if self._todo is not None:
            steps.append(_completed(self._todo))
            self._todo = None
        if self._review is not None:
            steps.append(_completed({"id": self.new_id(), "type": "review", "review": self._review}))
            self._review = None
        return steps

    def _todo_list(self, plan: list[dict[str, str]]) -> Step:
        items = [{"text": step["step"], "completed": step["status"] == "completed"} for step in plan]
        event = "item.started" if self._todo is None else "item.updated"
        number = self.new_id() if self._todo is None else self._todo["id"]
        self._todo = {"id": number, "type": "todo_list", "items": items}
        return event, self._todo

    def _file_change(self, call_id: str, changes: dict[str, Any], status: str) -> Item:
        shown = [{"path": path, "kind": change["type"]} for path, change in changes.items()]
        return {"id": self._id(call_id), "type": "file_change", "changes": shown, "status": status}

    def _id_of_shown(self, shown: dict[str, Any]) -> str:
        """The number of a message or of reasoning, which is first seen when it is complete."""
        return self.new_id()

    def _id(self, call_id: str) -> str:
        """The number of the item that `call_id` belongs to, given at its first appearance."""
        if call_id not in self._ids:
            self._ids[call_id] = self.new_id()
        return self._ids[call_id]

    def new_id(self) -> str:
        self.next_number += 1
        return f"item_{self.next_number - 1}"


def _completed(item: Item) -> Step:
    return "item.completed", item


def _command_item(item_id: str, command: list[str], output: str, exit_code: int | None, status: str) -> Item:
    return {
        "id": item_id,
        "type": "command_execution",
        "command": shell_join(command),
        "aggregated_output": output,
        "exit_code": exit_code,
        "status": status,
    }
