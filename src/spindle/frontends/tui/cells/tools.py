"""Calls that are no commands: tools of MCP servers, searches of the web, pictures."""

from __future__ import annotations

from typing import Any

from spindle.frontends.fit import cut
from spindle.frontends.tui.cells.cell import (
    LONGEST_LINE,
    UNFOLDED_LINE,
    Look,
    Running,
    below,
    clipped,
    elapsed,
    folded,
    kept,
    one_line,
    seconds_words,
    short,
)
from spindle.frontends.tui.shown import Line, Span, line
from spindle.frontends.tui.text.clean import safe
from spindle.protocol.items import encode_payload
from spindle.protocol.tool_servers import McpToolCallBegin, McpToolCallEnd

_ARGUMENTS = 300
"""Characters of the arguments that a line shows."""


class ToolCall(Running):
    """A tool of an MCP server: asked with these arguments, answered with this."""

    __slots__ = ("arguments", "begun_s", "call_id", "duration_s", "error", "is_over", "name", "result")

    def __init__(self, msg: McpToolCallBegin | McpToolCallEnd, begun_s: float) -> None:
        self.call_id = msg.call_id
        self.name = one_line(f"{msg.invocation.get('server')}.{msg.invocation.get('tool')}")
        arguments = msg.invocation.get("arguments")
        self.arguments = "" if arguments in (None, {}) else encode_payload(arguments).decode("utf-8", "replace")
        self.begun_s = begun_s
        self.is_over = False
        self.error = self.result = ""
        self.duration_s = 0.0
        if isinstance(msg, McpToolCallEnd):
            self.end(msg)

    def end(self, msg: McpToolCallEnd) -> None:
        self.is_over = True
        self.duration_s = msg.duration.secs + msg.duration.nanos / 1e9
        answer = msg.result.get("Ok")
        if not isinstance(answer, dict):
            self.error = str(msg.result.get("Err") or "the server gave no answer")
        elif answer.get("isError") is True:
            self.error = _text_of(answer) or "the server says that it failed"
        else:
            self.result = _text_of(answer)

    def stop(self, now_s: float) -> None:
        self.is_over, self.error = True, "stopped with the turn"
        self.duration_s = max(0.0, now_s - self.begun_s)

    def live(self, look: Look, now_s: float) -> list[Line]:
        since = Span(elapsed(now_s - self.begun_s), "dim")
        room = max(12, look.width - len(since.text) - 11)
        called = cut(f"{self.name}({self.arguments})", room)
        return [look.head(Span("•", "running"), "Tool", Span("Calling", "bold"), " ", one_line(called), since)]

    def lines(self, look: Look) -> list[Line]:
        arguments = one_line(self.arguments) if look.is_whole else short(self.arguments, _ARGUMENTS)
        sign = Span("✗", "error") if self.error else Span("•", "ok")
        verdict = ("failed, " if self.error else "") + seconds_words(self.duration_s)
        note = Span(f" ({verdict})", "bold error" if self.error else "dim")
        head = look.head(sign, "Tool", Span("Called ", "bold"), f"{self.name}({arguments})", note)
        rows = safe((self.error or self.result).strip("\n")).split("\n")
        shown = [clipped(line(Span(row)), UNFOLDED_LINE if look.is_whole else LONGEST_LINE) for row in rows]
        if not (self.error or self.result).strip():
            shown = [line(Span("(no output)", "dim"))]
        return [head, *below(shown if look.is_whole else folded(shown), look)]


def _text_of(answer: dict[str, Any]) -> str:
    """What a server answered, as text; pictures and the like by their kind."""
    parts: list[str] = []
    content = answer.get("content")
    for part in content if isinstance(content, list) else ():
        if not isinstance(part, dict):
            continue
        if isinstance(part.get("text"), str):
            parts.append(part["text"])
        elif isinstance(part.get("resource"), dict) and isinstance(part["resource"].get("text"), str):
            parts.append(part["resource"]["text"])
        else:
            parts.append(f"[{part.get('type', 'content')}]")
    if not parts and answer.get("structuredContent") is not None:
        parts.append(encode_payload(answer["structuredContent"]).decode("utf-8", "replace"))
    return kept("\n".join(parts))


class WebSearch(Running):
    """A search of the web by the model's server."""

    __slots__ = ("action", "call_id", "query")

    kind = "search"

    def __init__(self, call_id: str, query: str = "", action: dict[str, Any] | None = None) -> None:
        self.call_id = call_id
        self.query = query
        self.action = action or {}

    def live(self, look: Look, now_s: float) -> list[Line]:
        return [look.head(Span("•", "running"), "Web search", Span("Searching the web", "bold"))]

    def lines(self, look: Look) -> list[Line]:
        word, what = "Searched the web: ", self.query
        match self.action:
            case {"type": "open_page", "url": str(url)}:
                word, what = "Opened ", url
            case {"type": "find_in_page", "pattern": str(pattern)}:
                word, what = "Searched a page for ", pattern
            case {"queries": [str(first), *_]} if not what:
                what = first
            case _:
                pass
        return [look.head(Span("•", "ok"), "Web search", Span(word, "bold"), short(what, 400))]
