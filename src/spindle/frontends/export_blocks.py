"""Threads as the app-server shows them → documents for people. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from spindle.api.documents import Block, Document
from spindle.api.exports import ENDS, command_block
from spindle.context.external import shown_text
from spindle.frontends.app_server.objects import (
    AgentMessageItem,
    CollabAgentItem,
    CommandItem,
    ContextCompactionItem,
    DynamicToolCallItem,
    EnteredReviewModeItem,
    ExitedReviewModeItem,
    FileChangeItem,
    FunctionCallOutputItem,
    ImageInput,
    ImageViewItem,
    LocalImageInput,
    McpToolCallItem,
    MentionInput,
    PlanItem,
    ReasoningItem,
    SkillInput,
    TextInput,
    Thread,
    ThreadItem,
    Turn,
    UserInput,
    UserMessageItem,
    WebSearchItem,
)
from spindle.frontends.plain_text import script_in
from spindle.protocol.clock import iso_utc
from spindle.protocol.items import encode_payload, name_of_external

_ENDS = {"inProgress": "in_progress"}
_CHANGED = {"add": "Added", "delete": "Deleted", "update": "Changed"}


def document_of(thread: Thread, turns: Iterable[Turn]) -> Document:
    """The thread for people, with everything that clients are shown of it."""
    facts = [("Thread", thread.id), ("Folder", thread.cwd), ("Model", thread.model or "")]
    facts += [("Started", iso_utc(thread.created_at)), ("Last changed", iso_utc(thread.updated_at))]
    title = thread.name or (thread.preview.strip().splitlines() or ["Thread"])[0][:100]
    blocks = [block for turn in turns for block in _turn_blocks(turn)]
    return Document(title=title, facts=[*facts, ("Fork of", thread.forked_from_id or "")], blocks=blocks)


def _turn_blocks(turn: Turn) -> Iterator[Block]:
    for item in turn.items:
        yield from _blocks(item)
    if turn.error is not None:
        yield Block("text", "Error", turn.error.message)
    if (end := ENDS.get(_ENDS.get(turn.status, turn.status))) is not None:
        yield Block("note", end)


def _blocks(item: ThreadItem) -> Iterator[Block]:
    match item:
        case UserMessageItem(content=content):
            yield Block("prose", "User", "\n".join(map(_input_text, content)))
        case FunctionCallOutputItem(name=name, namespace=namespace, output=output):
            sender = name_of_external({"name": name, "namespace": namespace})
            yield Block("text", f"Message from {sender}", shown_text({"output": output}))
        case AgentMessageItem(text=text):
            yield Block("prose", "Assistant", text)
        case PlanItem(text=text):
            yield Block("prose", "Plan", text)
        case ReasoningItem(summary=summary, content=content):
            if thought := "\n\n".join(summary or content):
                yield Block("prose", "Reasoning", thought)
        case CommandItem(command=command, aggregated_output=output, exit_code=code):
            yield command_block(script_in(command), output or "", code)
        case FileChangeItem(changes=changes, status=status):
            failed = "" if status == "completed" else f" ({status})"
            for change in changes:
                where = f"{_CHANGED[change.kind.type]}{failed}: {change.path}"
                yield Block("text" if change.kind.type == "add" else "diff", where, change.diff)
        case ImageViewItem(path=path):
            yield Block("note", f"Looked at the picture {path}")
        case WebSearchItem(query=query):
            yield Block("note", f"Searched the web: {query}")
        case EnteredReviewModeItem(review=review):
            yield Block("note", f"A review began: {review}")
        case ExitedReviewModeItem():
            yield Block("note", "The review ended.")  # what it said is the answer that follows
        case ContextCompactionItem():
            yield Block("note", "The conversation so far was summarised.")
        case EnteredReviewModeItem(review=what):
            yield Block("note", f"A review began: {what}")
        case ExitedReviewModeItem():
            yield Block("note", "The review ended.")  # its report follows as a message
        case McpToolCallItem(server=server, tool=tool):
            yield _tool_call(f"{server}.{tool}", item.arguments, item.result)
        case DynamicToolCallItem(tool=tool):
            yield _tool_call(tool, item.arguments, item.content_items)
        case CollabAgentItem(tool=tool, prompt=prompt):
            yield Block("text", f"Sub-agents: {tool}", prompt or "")


def _tool_call(name: str, arguments: object, result: object) -> Block:
    given = encode_payload(arguments).decode()
    return Block("text", f"Tool: {name}", f"{given}\n{_result_text(result)}".rstrip("\n"))


def _result_text(result: object) -> str:
    parts = result.get("content") if isinstance(result, dict) else result
    if not isinstance(parts, list):
        return "" if parts is None else encode_payload(parts).decode()
    texts = (part.get("text") for part in parts if isinstance(part, dict))
    return "\n".join(text if isinstance(text, str) else "[no text]" for text in texts)


def _input_text(part: UserInput) -> str:
    match part:
        case TextInput(text=text):
            return text
        case ImageInput(url=url):
            return "[picture]" if url.startswith("data:") else f"[picture: {url}]"
        case LocalImageInput(path=path):
            return f"[picture: {path}]"
        case SkillInput(name=name, path=path) | MentionInput(name=name, path=path):
            return f"[{name}: {path}]"
