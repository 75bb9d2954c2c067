"""What every document of an exported thread says, in words: its title, its facts, its items as blocks of text."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Literal

import msgspec

from spindle.frontends.app_server.objects import (
    AgentMessageItem,
    CollabAgentItem,
    CommandItem,
    ContextCompactionItem,
    DynamicToolCallItem,
    FileChangeItem,
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
from spindle.frontends.plain_text import printable
from spindle.protocol.items import encode_payload
from spindle.protocol.quote import visible

_MOST_TITLE = 100
_STATUS = {"completed": "", "inProgress": "unfinished"}
_CHANGED = {"add": "Added", "delete": "Deleted", "update": "Changed"}

Kind = Literal["prompt", "answer", "aside", "console", "diff", "text", "note"]
"""What somebody wrote (a prompt, an answer, reasoning); a command with its output, a diff, other text as it is; a
sentence of ours that stands alone."""


class Block(msgspec.Struct, frozen=True):
    """A part of a document: a heading of ours, and text of others below it."""

    kind: Kind
    heading: str
    text: str = ""


def title_of(thread: Thread) -> str:
    title = " ".join(printable(thread.name or thread.preview).split()) or thread.id
    return title if len(title) <= _MOST_TITLE else title[: _MOST_TITLE - 1] + "…"


def facts_of(thread: Thread) -> list[tuple[str, str]]:
    facts = [("Thread", thread.id), ("Folder", thread.cwd), ("Model", thread.model or "")]
    for name, seconds in (("Begun", thread.created_at), ("Last used", thread.updated_at)):
        facts.append((name, _time(seconds)))
    if thread.forked_from_id:
        facts.append(("Fork of", thread.forked_from_id))
    return [(name, visible(value)) for name, value in facts if value]


def _time(seconds: int) -> str:
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        return ""


def turn_title(number: int, turn: Turn) -> str:
    status = _STATUS.get(turn.status, turn.status)
    return f"Turn {number}" + (f" ({status})" if status else "")


def blocks_of(turn: Turn) -> Iterator[Block]:
    for item in turn.items:
        yield from _blocks(item)
    if turn.error is not None:
        yield Block("text", "Error", turn.error.message)


def _blocks(item: ThreadItem) -> Iterator[Block]:
    match item:
        case UserMessageItem(content=content):
            yield Block("prompt", "Prompt", "\n".join(map(_input_text, content)))
        case AgentMessageItem(text=text):
            yield Block("answer", "Answer", text)
        case PlanItem(text=text):
            yield Block("answer", "Plan", text)
        case ReasoningItem(summary=summary, content=content):
            if thought := "\n\n".join(summary or content):
                yield Block("aside", "Reasoning", thought)
        case CommandItem():
            yield _command(item)
        case FileChangeItem(changes=changes, status=status):
            failed = "" if status == "completed" else f" ({status})"
            for change in changes:
                where = f"{_CHANGED[change.kind.type]}{failed}: {visible(change.path)}"
                yield Block("text" if change.kind.type == "add" else "diff", where, change.diff)
        case ImageViewItem(path=path):
            yield Block("note", f"Looked at the picture {visible(path)}")
        case WebSearchItem(query=query):
            yield Block("note", f"Searched the web: {visible(query)}")
        case ContextCompactionItem():
            yield Block("note", "The conversation so far was summarised.")
        case McpToolCallItem(server=server, tool=tool):
            yield _tool_call(f"{server}.{tool}", item.arguments, item.result)
        case DynamicToolCallItem(tool=tool):
            yield _tool_call(tool, item.arguments, item.content_items)
        case CollabAgentItem(tool=tool, prompt=prompt):
            yield Block("text", f"Sub-agents: {visible(tool)}", prompt or "")


def _command(item: CommandItem) -> Block:
    who = "Command of yours" if item.source == "userShell" else "Command"
    ended = f"exit code {item.exit_code}" if item.exit_code is not None else item.status
    output = (item.aggregated_output or "").rstrip("\n")
    return Block("console", f"{who} ({ended})", f"$ {item.command}" + (f"\n{output}" if output else ""))


def _tool_call(name: str, arguments: object, result: object) -> Block:
    given = encode_payload(arguments).decode()
    return Block("text", f"Tool: {visible(name)}", f"{given}\n{_result_text(result)}".rstrip("\n"))


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
