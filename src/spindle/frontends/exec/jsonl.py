"""Events → the JSON lines that today's Codex SDKs parse. Pure: no I/O, no clock."""

from __future__ import annotations

from typing import Any

from spindle.protocol.events import (
    Error,
    ExecCommandBegin,
    ExecCommandEnd,
    ItemCompleted,
    Msg,
    PatchApplyBegin,
    PatchApplyEnd,
    PlanUpdate,
    SessionConfigured,
    StreamError,
    TaskComplete,
    TaskStarted,
    TokenCount,
    Warning,
    WebSearchBegin,
    WebSearchEnd,
)
from spindle.protocol.items import encode_payload
from spindle.protocol.quote import shell_join

USAGE_KEYS = (
    "input_tokens",
    "cached_input_tokens",
    "cache_write_input_tokens",
    "output_tokens",
    "reasoning_output_tokens",
)

Line = dict[str, Any]


class JsonlTranslator:
    """Keeps what one process has shown so far: item numbers, the open to-do list, commands still running, usage."""

    def __init__(self, *, hide_reasoning: bool = False) -> None:
        self._hide_reasoning = hide_reasoning
        self._ids: dict[str, str] = {}
        self._count = 0
        self._open_commands: dict[str, Line] = {}
        self._todo: Line | None = None
        self._usage = dict.fromkeys(USAGE_KEYS, 0)
        self._failure: str | None = None

    def translate(self, msg: Msg) -> list[Line]:
        """The lines for one event; most events have none."""
        match msg:
            case SessionConfigured(session_id=thread_id):
                return [{"type": "thread.started", "thread_id": thread_id}]
            case TaskStarted():
                return [{"type": "turn.started"}]
            case ItemCompleted(item={"type": "AgentMessage", "content": content}):
                text = "".join(part["text"] for part in content)
                return [self._completed({"id": self._new_id(), "type": "agent_message", "text": text})]
            case ItemCompleted(item={"type": "Reasoning", "summary_text": summary}):
                if self._hide_reasoning or not any(summary):
                    return []
                return [self._completed({"id": self._new_id(), "type": "reasoning", "text": "\n\n".join(summary)})]
            case ExecCommandBegin():
                item = _command_item(self._id(msg.call_id), msg.command, "", None, "in_progress")
                self._open_commands[msg.call_id] = item
                return [{"type": "item.started", "item": item}]
            case ExecCommandEnd():
                self._open_commands.pop(msg.call_id, None)
                status = "completed" if msg.exit_code == 0 else "failed"
                item = _command_item(self._id(msg.call_id), msg.command, msg.aggregated_output, msg.exit_code, status)
                return [self._completed(item)]
            case PatchApplyBegin():
                return [{"type": "item.started", "item": self._file_change(msg.call_id, msg.changes, "in_progress")}]
            case PatchApplyEnd():
                status = "completed" if msg.success else "failed"
                return [self._completed(self._file_change(msg.call_id, msg.changes, status))]
            case PlanUpdate(plan=plan):
                return [self._todo_list(plan)]
            case WebSearchBegin(call_id=call_id):
                item = {"id": self._id(call_id), "type": "web_search", "call_id": call_id, "query": ""}
                return [{"type": "item.started", "item": {**item, "action": {"type": "other"}}}]
            case WebSearchEnd(call_id=call_id, query=query, action=action):
                item = {"id": self._id(call_id), "type": "web_search", "call_id": call_id, "query": query}
                return [self._completed({**item, "action": action})]
            case Warning(message=message):
                return [self._completed({"id": self._new_id(), "type": "error", "message": message})]
            case StreamError(message=message):
                return [{"type": "error", "message": message}]
            case Error(message=message):
                self._failure = message
                return [{"type": "error", "message": message}]
            case TokenCount(info=info) if info is not None:
                self.set_usage(info["total_token_usage"])
                return []
            case TaskComplete():
                return self._end()
            case _:
                return self._of_others(msg)

    def _of_others(self, msg: Msg) -> list[Line]:
        """Sub-agents and MCP servers, whose events are loaded with them."""
        tag = str(msg.__struct_config__.tag)
        if tag.startswith("mcp_tool_call_"):
            from spindle.frontends.tool_servers import tool_call_item  # with the first call to a server

            item, is_over = tool_call_item(msg, self._id)
            return [self._completed(item)] if is_over else [{"type": "item.started", "item": item}]
        if not tag.startswith("collab_"):
            return []
        from spindle.frontends.agent_lines import tool_call_line  # with the first sub-agent

        line = tool_call_line(msg, self._id)
        return [line] if line is not None else []

    def set_usage(self, total: dict[str, int]) -> None:
        """The thread's total so far; a resumed thread starts with what it cost before."""
        self._usage = {key: total.get(key, 0) for key in USAGE_KEYS}

    def _end(self) -> list[Line]:
        lines = [self._completed({**item, "status": "completed"}) for item in self._open_commands.values()]
        self._open_commands = {}
        if self._todo is not None:
            lines.append(self._completed(self._todo))
            self._todo = None
        if self._failure is not None:
            return [*lines, {"type": "turn.failed", "error": {"message": self._failure}}]
        return [*lines, {"type": "turn.completed", "usage": self._usage}]

    def _todo_list(self, plan: list[dict[str, str]]) -> Line:
        items = [{"text": step["step"], "completed": step["status"] == "completed"} for step in plan]
        event = "item.started" if self._todo is None else "item.updated"
        number = self._new_id() if self._todo is None else self._todo["id"]
        self._todo = {"id": number, "type": "todo_list", "items": items}
        return {"type": event, "item": self._todo}

    def _file_change(self, call_id: str, changes: dict[str, Any], status: str) -> Line:
        shown = [{"path": path, "kind": change["type"]} for path, change in changes.items()]
        return {"id": self._id(call_id), "type": "file_change", "changes": shown, "status": status}

    def _completed(self, item: Line) -> Line:
        return {"type": "item.completed", "item": item}

    def _id(self, call_id: str) -> str:
        """The number of the item that `call_id` belongs to, given at its first appearance."""
        if call_id not in self._ids:
            self._ids[call_id] = self._new_id()
        return self._ids[call_id]

    def _new_id(self) -> str:
        self._count += 1
        return f"item_{self._count - 1}"


def _command_item(item_id: str, command: list[str], output: str, exit_code: int | None, status: str) -> Line:
    return {
        "id": item_id,
        "type": "command_execution",
        "command": shell_join(command),
        "aggregated_output": output,
        "exit_code": exit_code,
        "status": status,
    }


def encode_line(line: Line) -> bytes:
    """One line with its newline. U+2028 and U+2029 are escaped: some readers take them for line ends."""
    data = encode_payload(line)
    if b"\xe2\x80\xa8" in data or b"\xe2\x80\xa9" in data:
        data = data.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")
    return data + b"\n"
