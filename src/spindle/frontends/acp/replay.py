"""A recorded conversation as updates: what was said, thought and done, in its order. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from spindle.api.recorded_calls import call_item
from spindle.context.external import shown_text
from spindle.frontends.acp.tool_calls import (
    Update,
    other_call,
    output_content,
    patch_call,
    plan_entries,
    proposed_entries,
    script_of,
    text_content,
    title_of,
)
from spindle.frontends.acp.updates import chunk
from spindle.protocol.items import call_id_of, name_of_external
from spindle.thread.entry import Record
from spindle.thread.view import transcript

_OVER = ("completed", "failed")


def replay(records: Iterable[Record], cwd: str) -> Iterator[Update]:
    """Everything that was shown, turn by turn; calls are finished."""
    for turn in transcript(records, with_calls=True):
        for item in turn.items:
            yield from _updates(item, cwd)


def _updates(item: dict[str, Any], cwd: str) -> Iterator[Update]:
    item_id = str(item.get("id") or "")
    match item["type"]:
        case "UserMessage":
            yield from _said(item, item_id)
        case "FunctionCallOutput" if isinstance(item.get("name"), str):
            call = other_call(item_id, f"Message from {name_of_external(item)}", None, "completed")
            yield from _finished(call, output_content(shown_text(item)))
        case "AgentMessage":
            text = "".join(str(part.get("text") or "") for part in item.get("content") or () if isinstance(part, dict))
            if text:
                yield chunk("agent_message_chunk", text, item_id)
        case "Reasoning":
            if text := "\n\n".join(map(str, item.get("summary_text") or ())):
                yield chunk("agent_thought_chunk", text, item_id)
        case "Plan":
            text = str(item.get("text") or "")
            yield chunk("agent_message_chunk", text, item_id)
            yield {"sessionUpdate": "plan", "entries": proposed_entries(text)}
        case "Call":
            shown = call_item(item, cwd)
            if shown is not None:
                yield from _call(call_id_of(item["call"]) or item_id, shown)
        case "CommandExecution":
            command = item.get("command") or ""
            words = script_of([str(word) for word in command]) if isinstance(command, list) else str(command)
            yield from _call(item_id, {**item, "type": "command_execution", "command": words})
        case "FileChange":
            yield from _call(item_id, {**item, "type": "file_change"})
        case "WebSearch":
            title = f"Searched the web: {item.get('query') or ''}"
            yield from _finished(other_call(item_id, title, {"query": item.get("query")}, "completed", "fetch"))
        case _:
            return


def _said(item: dict[str, Any], item_id: str) -> Iterator[Update]:
    """A message of the person, with the pictures that were attached to it."""
    for part in item.get("content") or ():
        if not isinstance(part, dict):
            continue
        url = part.get("image_url") or part.get("url")
        if part.get("type") == "text" and part.get("text"):
            yield chunk("user_message_chunk", str(part["text"]), item_id)
        elif part.get("type") == "image" and isinstance(url, str) and url.startswith("data:") and "," in url:
            head, _, data = url.partition(",")
            kind = head.removeprefix("data:").split(";")[0]
            content = {"type": "image", "data": data, "mimeType": kind}
            yield {"sessionUpdate": "user_message_chunk", "content": content, "messageId": item_id}


def _call(call_id: str, shown: dict[str, Any]) -> Iterator[Update]:
    """An item of a call, as `exec --json` knows it."""
    status = shown.get("status")
    status = status if status in _OVER else "failed"  # what nobody saw the end of was cut off
    match shown["type"]:
        case "command_execution":
            command = str(shown.get("command") or "")
            call = other_call(call_id, command or "(a command)", {"command": command}, status, "execute")
            yield from _finished(call, output_content(str(shown.get("aggregated_output") or "")))
        case "file_change":
            changes = shown.get("changes")
            if isinstance(changes, list):
                changes = {str(one.get("path")): {"type": one.get("kind")} for one in changes if isinstance(one, dict)}
            yield from _finished(patch_call(call_id, changes if isinstance(changes, dict) else {}, [], status))
        case "todo_list":
            steps = [
                {"step": step["text"], "status": "completed" if step["completed"] else "pending"}
                for step in shown["items"]
            ]
            yield {"sessionUpdate": "plan", "entries": plan_entries(steps)}
        case "mcp_tool_call":
            title = f"{shown.get('server')}/{shown.get('tool')}"
            yield from _finished(other_call(call_id, title, shown.get("arguments"), status))
        case _:
            title = str(shown.get("tool") or shown["type"])
            result = shown.get("result")
            said = [text_content(result)] if isinstance(result, str) and result else []
            yield from _finished(other_call(call_id, title_of(title), shown.get("arguments"), status), said)


def _finished(call: Update, content: list[dict[str, Any]] | None = None) -> Iterator[Update]:
    """A call that began and ended: two updates, as if it had been seen."""
    yield {"sessionUpdate": "tool_call", **call, "status": "in_progress"}
    end: Update = {"sessionUpdate": "tool_call_update", "toolCallId": call["toolCallId"], "status": call["status"]}
    yield {**end, "content": content} if content else end
